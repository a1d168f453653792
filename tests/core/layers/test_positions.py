"""Arguments without a name: a line written for PyTorch means the same here, or is an error."""

import inspect

import numpy as np
import pytest

import pd_core as pd

torch = pytest.importorskip("torch")
nn = pd.nn

OURS = {  # PyTorch's words in ours
    "d_model": "width",
    "dim": "axis",
    "dim_feedforward": "hidden",
    "embed_dim": "width",
    "embedding_dim": "width",
    "hidden_size": "hidden",
    "kernel_size": "kernel",
    "negative_slope": "alpha",
    "nhead": "heads",
    "num_embeddings": "words",
    "num_groups": "groups",
    "num_heads": "heads",
    "output_size": "size",
    "p": "rate",
    "padding_idx": "padding_id",
    "start_dim": "axis",
}
TEXT = "name", "kernel_init", "act", "norm_first"  # refuse the numbers that PyTorch has there
SAME = [n for n in dir(torch.nn) if n in nn.__all__ and inspect.isclass(getattr(torch.nn, n))]


def positions(function):
    parameters = inspect.signature(function).parameters.values()
    return [p.name for p in parameters if p.kind == p.POSITIONAL_OR_KEYWORD and p.name != "self"]


@pytest.mark.parametrize("name", [n for n in SAME if "Conv" not in n and "Layer" not in n])
def test_positions_are_those_of_pytorch(name):
    ours, theirs = positions(getattr(nn, name)), positions(getattr(torch.nn, name).__init__)
    for own, other in zip(ours, theirs, strict=False):
        assert own == OURS.get(other, other) or own in TEXT, (ours, theirs)


@pytest.mark.parametrize(
    "layer, names",
    [
        (lambda: nn.Conv1d(3, 16, 3), "filters and kernel"),
        (lambda: nn.Conv2d(3, 16, 3), "filters and kernel"),
        (lambda: nn.Conv3d(3, 16, 3), "filters and kernel"),
        (lambda: nn.ConvTranspose2d(3, 16, 3), "filters and kernel"),
        (lambda: nn.LSTM(10, 20), "hidden"),
        (lambda: nn.GRU(10, 20, 2), "hidden"),
        (lambda: nn.RNN(10, 20), "hidden"),
        (lambda: nn.GroupNorm(4, 16), "groups"),
        (lambda: nn.MaxPool2d(2, 2, 0, 1), "kernel and stride and padding"),
    ],
)
def test_the_size_of_the_input_is_no_argument(layer, names):
    with pytest.raises(TypeError, match=rf"takes {names} without a name, \d given; .* first call"):
        layer()


@pytest.mark.parametrize(
    "norm",
    [
        *(nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.LayerNorm, nn.RMSNorm, nn.PReLU),
        *(nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d),
    ],
)
def test_the_number_of_channels_is_no_argument(norm):
    with pytest.raises(TypeError, match=r"takes names, 1 given; .* the first call sees"):
        norm(16)


def test_blocks_have_names():
    """PyTorch has the dilation second."""
    for call in (
        lambda: pd.unfold(np.ones((1, 1, 5, 5)), 2, 2),
        lambda: pd.fold(np.ones((1, 4, 4)), (3, 3), 2, 1),
        lambda: nn.Unfold(2, 2),
        lambda: nn.Fold((3, 3), 2, 1),
    ):
        with pytest.raises(TypeError, match=r"takes|positional"):
            call()


def test_layers_of_users_take_what_they_take():
    class Scaled(nn.BatchNorm1d):
        def __init__(self, size, factor):
            super().__init__(momentum=0.5)
            self.size, self.factor = size, factor

    assert Scaled(3, 2.0).momentum == 0.5
