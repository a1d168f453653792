"""What layers take, show and refuse."""

import numpy as np
import pytest

import pd_core as pd
from pd_core import nn


def ones(*shape):
    return np.ones(shape, np.float32)


IMAGES = (2, 4, 5, 6)


@pytest.mark.parametrize(
    ("layer", "text"),
    [
        (nn.FC(4), "FC(4)"),
        (nn.FC(4, act=pd.relu, bias=False), "FC(4, act=relu, bias=False)"),
        (nn.Embedding(5, 2, padding_id=0), "Embedding(5, 2, padding_id=0)"),
        (nn.Conv2d(4, kernel=3), "Conv2d(4, kernel=3)"),
        (nn.Conv1d(4, 3, stride=2, act="relu"), "Conv1d(4, kernel=3, stride=2, act=relu)"),
        (
            nn.Conv2d(4, 3, padding=(1, 0), dilation=2, groups=4),
            "padding=(1, 0), dilation=2, groups=4)",
        ),
        (
            nn.ConvTranspose2d(4, 3, stride=2, output_padding=1),
            "(4, kernel=3, stride=2, output_padding=1)",
        ),
        (nn.Conv2d(4, 3, padding_mode="wrap"), "Conv2d(4, kernel=3, padding_mode=wrap)"),
        (nn.MaxPool2d(2), "MaxPool2d(2)"),
        (nn.MaxPool2d(2, dilation=3), "MaxPool2d(2, dilation=3)"),
        (nn.LayerNorm(bias=False), "LayerNorm(bias=False)"),
        (nn.Lambda(pd.identity), "Lambda(identity)"),
        (nn.MaxPool1d(3, 2, 1, ceil_mode=True), "(3, stride=2, padding=1, ceil_mode=True)"),
        (nn.AvgPool2d((2, 3), include_pad=True), "AvgPool2d((2, 3), include_pad=True)"),
        (nn.AdaptiveAvgPool2d(7), "AdaptiveAvgPool2d(7)"),
        (nn.AdaptiveMaxPool2d((1, 2)), "AdaptiveMaxPool2d((1, 2))"),
        (nn.GlobalAvgPool2d(), "GlobalAvgPool2d()"),
        (nn.BatchNorm2d(momentum=0.8, affine=False), "BatchNorm2d(affine=False, momentum=0.8)"),
        (nn.LayerNorm(axis=1, epsilon=1e-3), "LayerNorm(epsilon=0.001, axis=1)"),
        (nn.RMSNorm(), "RMSNorm()"),
        (nn.GroupNorm(2, epsilon=0.1), "GroupNorm(2, epsilon=0.1)"),
        (nn.InstanceNorm2d(affine=True), "InstanceNorm2d(affine=True)"),
        (nn.Dropout(0.1), "Dropout(0.1)"),
        (nn.StochasticDepth(0.1, "batch"), "StochasticDepth(0.1, mode=batch)"),
        (nn.Unfold((2, 1), padding=1), "Unfold((2, 1), padding=1)"),
        (nn.Fold((4, 4), 2, stride=2), "Fold((4, 4), 2, stride=2)"),
        (nn.WeightNorm(nn.FC(2), axis=0), "WeightNorm(\n  axis=0\n  (layer): FC(2)\n)"),
        (
            nn.SpectralNorm(nn.RNN(2), "R_l0", 2),
            "parameter=R_l0, iterations=2\n  (layer): RNN(2, num_layers=1)\n)",
        ),
        (nn.LeakyReLU(0.2), "LeakyReLU(0.2)"),
        (nn.PReLU(per_channel=True), "PReLU(per_channel=True)"),
        (nn.ELU(0.5), "ELU(alpha=0.5)"),
        (nn.GLU(1), "GLU(axis=1)"),
        (nn.GELU(True), "GELU(approximate=True)"),
        (nn.Softmax(1), "Softmax(axis=1)"),
        (nn.LogSoftmax(), "LogSoftmax()"),
        (nn.Flatten(2), "Flatten(axis=2)"),
    ],
)
def test_layers_show_what_is_not_the_default(layer, text):
    assert repr(layer).endswith(text)


@pytest.mark.parametrize(
    ("layer", "shape", "want"),
    [
        (nn.Conv2d(4, kernel=3), (None, 1, 8, 8), (None, 4, 6, 6)),
        (nn.Conv2d(4, 3, stride=2, padding=1), (None, 1, None, 9), (None, 4, None, 5)),
        (nn.ConvTranspose2d(4, 2, stride=2), (None, 3, 4, 5), (None, 4, 8, 10)),
        (
            nn.ConvTranspose1d(4, 3, stride=2, padding=1, output_padding=1),
            (None, 3, None),
            (None, 4, None),
        ),
        (nn.ConvTranspose3d(4, 2, stride=2), (None, 3, 4, 5, 1), (None, 4, 8, 10, 2)),
        (nn.Conv2d(4, (2, 3), padding="same"), (None, 1, None, 9), (None, 4, None, 9)),
        (nn.PReLU(per_channel=True), (None, 2, None), (None, 2, None)),
        (nn.MaxPool2d(3, 2), (None, 2, 7, 8), (None, 2, 3, 3)),
        (nn.AdaptiveAvgPool2d(1), (None, 2, None, None), (None, 2, 1, 1)),
        (nn.GlobalMaxPool2d(), (None, 2, None, None), (None, 2)),
        (nn.BatchNorm2d(), (None, 2, None, 5), (None, 2, None, 5)),
        (nn.Flatten(), (None, 2, 3, 4), (None, 24)),
    ],
    ids=repr,
)
def test_shapes(layer, shape, want):
    assert layer.infer_shape(shape) == want
    assert pd.stats()["operators"] == 0


@pytest.mark.parametrize("layer", [nn.FC, lambda size, **k: nn.Conv1d(size, 2, **k)])
def test_initial_values_by_name_or_function(layer):
    built = layer(400, kernel_init="xavier_uniform", bias_init="ones")
    built(ones(1, 30, 30))
    w = built.W.val()
    inputs, outputs = (30, 400) if w.ndim == 2 else (60, 800)
    bound = np.sqrt(6 / (inputs + outputs))
    assert 0.99 * bound < np.abs(w).max() <= bound
    assert (built.B.val() == 1.0).all()
    constant = layer(4, kernel_init=pd.constant_initializer(3.0))
    constant(ones(1, 30, 30))
    assert (constant.W.val() == 3.0).all() and (constant.B.val() == 0.0).all()


def test_embeddings_by_initializer():
    table = nn.Embedding(4, 2, kernel_init="ones")
    assert (pd.eval(table(np.array([[1, 3]]))) == ones(1, 2, 2)).all()


def test_parameters_of_normalisation():
    norm = nn.BatchNorm2d(name="n")
    norm(ones(*IMAGES))
    assert list(norm.state_dict()) == ["scale", "bias", "mean", "variance"]
    assert [v.trainable for v in norm.parameters() + norm.buffers()] == [True, True, False, False]
    assert [v.val()[0] for v in (norm.scale, norm.bias, norm.mean, norm.variance)] == [1, 0, 0, 1]


@pytest.mark.parametrize(
    ("error", "message", "build"),
    [
        (pd.ShapeError, "FC: a size is positive, not 0", lambda: nn.FC(0)),
        (pd.GraphError, "there is no activation 'rely'", lambda: nn.FC(1, act="rely")),
        (pd.GraphError, "there is no activation 'rely'", lambda: nn.Conv2d(1, 2, act="rely")),
        (pd.GraphError, "there is no initializer 'he'", lambda: nn.FC(1, kernel_init="he")),
        (pd.GraphError, "there is no initializer 'x'", lambda: nn.Conv1d(1, 2, bias_init="x")),
        (ValueError, "Embedding: padding_id 5 is no id of 5", lambda: nn.Embedding(5, 2, 5)),
        (ValueError, r"Depth: the rate is within \[0, 1\), not 1", lambda: nn.StochasticDepth(1)),
        (ValueError, "the mode is .row. or .batch., not 'x'", lambda: nn.StochasticDepth(0, "x")),
        (ValueError, r"Dropout: the rate is within \[0, 1\), not 1", lambda: nn.Dropout(1)),
        (
            pd.ShapeError,
            r"conv3d: takes volumes \[N, C, D, H, W\] with known C",
            lambda: nn.Conv3d(1, 1)(ones(*IMAGES)),
        ),
        (
            pd.ShapeError,
            "conv_transpose2d: 3 filters do not split into 2",
            lambda: nn.ConvTranspose2d(3, 1, groups=2)(ones(*IMAGES)),
        ),
        (
            pd.ShapeError,
            r"MaxPool1d: takes sequences \[N, C, L\], not const: float32\[2, 4, 5, 6\]",
            lambda: nn.MaxPool1d(2)(ones(*IMAGES)),
        ),
        (
            pd.ShapeError,
            r"AdaptiveAvgPool2d: takes images",
            lambda: nn.AdaptiveAvgPool2d(2)(ones(2, 3)),
        ),
        (
            pd.ShapeError,
            r"BatchNorm1d: takes rows \[N, C\] or",
            lambda: nn.BatchNorm1d()(ones(*IMAGES)),
        ),
        (
            pd.ShapeError,
            r"InstanceNorm2d: takes images",
            lambda: nn.InstanceNorm2d()(ones(2, 3, 4)),
        ),
        (
            pd.ShapeError,
            r"InstanceNorm1d: takes sequences \[N, C, L\]",
            lambda: nn.InstanceNorm1d()(ones(2, 3)),
        ),
        (
            pd.ShapeError,
            r"BatchNorm3d: takes volumes \[N, C, D, H, W\]",
            lambda: nn.BatchNorm3d()(ones(*IMAGES)),
        ),
        (
            pd.ShapeError,
            "group_norm: 4 channels do not split into 3 groups",
            lambda: nn.GroupNorm(3)(ones(*IMAGES)),
        ),
        (
            pd.ShapeError,
            "layer_norm: normalises over axes of known sizes",
            lambda: nn.LayerNorm()(pd.Variable([2, None])),
        ),
    ],
)
def test_mistakes_are_found_before_parameters_are_made(error, message, build):
    with pytest.raises(error, match=message):
        build()
    assert pd.persistent_variables() == []
