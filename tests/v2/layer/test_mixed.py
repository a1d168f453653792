"""Mixed layers and their projections against their formulas; what they refuse."""

import numpy as np
import pytest

import pd_core as pd
import pd_v2 as paddle
from pd_v2.attr import Extra, Param
from pd_v2.config_base import AddToSealedMixedLayerException, Layer, MixedLayerType

from ..test_golden import layer_facts
from . import layer_checks as layers
from . import reference_layers as naive
from .layer_rows import IM, A, Dense, Ids, L, Row, T, X, Z, filters, flat, im, per_channel

WORDS = Ids(5)


def in_blocks(x, z):
    with L.mixed(size=3, name="y", act=A.Tanh(), bias_attr=True) as m:
        m += L.full_matrix_projection(x)
        m += L.identity_projection(z)
    return m


def conv_of(image):
    return L.img_conv(image, filter_size=1, num_filters=4, name="h", act=A.Linear())


def convolved(v):
    kernel = v["_h.w0"].reshape(4, 2, 1, 1)
    return naive.conv(im(v), kernel) + v["_h.wbias"].reshape(1, -1, 1, 1)


ROWS = [
    Row(
        "full-matrix",
        {"x": X},
        lambda x: L.mixed(size=3, input=L.full_matrix_projection(x), name="y"),
        lambda v: v["x"] @ v["w0"],
    ),
    Row(
        "full-matrix-own-size",
        {"x": X, "z": Z},
        lambda x, z: L.mixed(
            input=[L.full_matrix_projection(x, size=3), L.full_matrix_projection(z)],
            name="y",
            act=A.Sigmoid(),
            bias_attr=True,
        ),
        lambda v: 1 / (1 + np.exp(-(v["x"] @ v["w0"] + v["z"] @ v["w1"] + v["wbias"]))),
    ),
    Row(
        "transposed-matrix",
        {"x": X},
        lambda x: L.mixed(size=3, input=L.trans_full_matrix_projection(x), name="y"),
        lambda v: v["x"] @ v["w0"].T,
    ),
    Row(
        "tied-matrices",
        {"x": X},
        lambda x: L.mixed(
            input=L.trans_full_matrix_projection(
                L.fc(x, size=3, name="h", param_attr=Param(name="w"), bias_attr=False),
                size=4,
                param_attr=Param(name="w"),
            ),
            name="y",
        ),
        lambda v: np.tanh(v["x"] @ v["w"]) @ v["w"].T,
    ),
    Row(
        "table",
        {"words": WORDS},
        lambda words: L.mixed(size=3, input=L.table_projection(words), name="y"),
        lambda v: v["w0"][v["words"]],
    ),
    Row(
        "embedding",
        {"words": WORDS},
        lambda words: L.embedding(input=words, size=3, name="y"),
        lambda v: v["w0"][v["words"]],
    ),
    Row(
        "identity-offset",
        {"x": X},
        lambda x: L.mixed(size=2, input=L.identity_projection(x, offset=1), name="y"),
        lambda v: v["x"][:, 1:3],
    ),
    Row(
        "scaling-and-dotmul",
        {"x": X, "z": X},
        lambda x, z: L.mixed(
            input=[L.scaling_projection(x), L.dotmul_projection(z)], name="y", bias_attr=Param()
        ),
        lambda v: v["w0"] * v["x"] + v["w1"] * v["z"] + v["wbias"],
    ),
    Row(
        "channel-slices",
        {"im": IM},
        lambda im: L.mixed(
            input=L.slice_projection(conv_of(im), slices=[(0, 1), (2, 4)]), name="y"
        ),
        lambda v: convolved(v)[:, [0, 2, 3]].reshape(-1, 90),
    ),
    Row(
        "operator",
        {"x": X, "z": X},
        lambda x, z: L.mixed(input=L.dotmul_operator(a=x, b=z, scale=-2.5), name="y"),
        lambda v: -2.5 * v["x"] * v["z"],
    ),
    Row(
        "operator-between-projections",
        {"x": X, "z": X},
        lambda x, z: L.mixed(
            input=[
                L.full_matrix_projection(x),
                L.dotmul_operator(x=x, y=z),
                L.dotmul_operator(z, z),
                L.full_matrix_projection(z),
            ],
            name="y",
        ),
        lambda v: v["x"] @ v["w0"] + v["x"] * v["z"] + v["z"] ** 2 + v["z"] @ v["w3"],
    ),
    Row(
        "with-block",
        {"x": X, "z": Z},
        in_blocks,
        lambda v: np.tanh(v["x"] @ v["w0"] + v["z"] + v["wbias"]),
    ),
    Row(
        "concat-projections",
        {"x": X, "z": Z, "words": WORDS},
        lambda x, z, words: L.concat(
            [
                L.full_matrix_projection(x, size=2),
                L.identity_projection(z),
                L.table_projection(words, size=2),
            ],
            name="y",
            act=A.Tanh(),
            bias_attr=Param(),
        ),
        lambda v: np.tanh(
            np.concatenate([v["x"] @ v["w0"], v["z"], v["w2"][v["words"]]], 1) + v["wbias"]
        ),
    ),
    Row(
        "gated-unit",
        {"x": X},
        lambda x: L.dropout(L.gated_unit(x, size=3, name="g", act=A.Tanh()), 0.0, name="y"),
        lambda v: (
            np.tanh(v["x"] @ v["_g_input_proj.w0"] + v["_g_input_proj.wbias"])
            / (1 + np.exp(-(v["x"] @ v["_g_gate.w0"] + v["_g_gate.wbias"])))
        ),
    ),
]


def projected(**options):
    """Two projections of the image, side by side, with a bias for each filter."""

    def build(im):
        parts = [
            L.conv_projection(im, filter_size=(2, 3), num_filters=k, **options) for k in (4, 2)
        ]
        return L.concat(parts, name="y", bias_attr=Param())

    return build


def two_convolutions(v, convolve):
    parts = [convolve(im(v), v[f"w{k}"].reshape(-1), n) for k, n in enumerate((4, 2))]
    return (np.concatenate(parts, 1) + per_channel(v)).reshape(len(v["im"]), -1)


def transposed(x, w, stride, pad, groups=1):
    """The transpose of a convolution: every pixel adds its filter; pairs are (y, x)."""
    (n, channels, height, width), (_, filters, kh, kw) = x.shape, w.shape
    sizes = [(height - 1) * stride[0] + kh, (width - 1) * stride[1] + kw]
    y = np.zeros((n, filters * groups, *sizes))
    for c, i, j, f in np.ndindex(channels, height, width, filters):
        group = c // (channels // groups)
        rows = slice(i * stride[0], i * stride[0] + kh)
        columns = slice(j * stride[1], j * stride[1] + kw)
        y[:, group * filters + f, rows, columns] += x[:, c, i, j, None, None] * w[c, f]
    return y[:, :, pad[0] : sizes[0] - pad[0], pad[1] : sizes[1] - pad[1]]


def own_filters(v, convolve, shape):
    kernels = v["f"].reshape(-1, *shape)
    rows = [convolve(x[None], w) for x, w in zip(im(v), kernels, strict=True)]
    return np.concatenate(rows).reshape(len(kernels), -1)


ROWS += [
    Row(
        "conv-projections",
        {"im": IM},
        projected(groups=2, stride=(1, 2), padding=(0, 1)),
        lambda v: two_convolutions(
            v,
            lambda x, w, n: naive.conv(x, w.reshape(n, 1, 3, 2), (2, 1), (1, 0), groups=2),
        ),
    ),
    Row(
        "transposed-conv-projections",
        {"im": IM},
        projected(groups=2, stride=(1, 2), padding=(0, 1), trans=True),
        lambda v: two_convolutions(
            v,
            lambda x, w, n: transposed(x, w.reshape(2, n // 2, 3, 2), (2, 1), (1, 0), groups=2),
        ),
    ),
    Row(
        "conv-projection-and-bias",
        {"im": IM},
        lambda im: L.mixed(
            input=L.conv_projection(im, filter_size=3, num_filters=3), name="y", bias_attr=True
        ),
        lambda v: flat(naive.conv(im(v), filters(v, 3, 2, 3, 3)) + per_channel(v)),
    ),
    Row(
        "conv-operator",
        {"im": IM, "f": Dense(36)},
        lambda im, f: L.mixed(
            input=L.conv_operator(
                im, f, filter_size=2, filter_size_y=3, num_filters=3, stride=2, padding=1
            ),
            name="y",
        ),
        lambda v: own_filters(v, lambda x, w: naive.conv(x, w, (2, 2), (1, 1)), shape=(3, 2, 3, 2)),
    ),
    Row(
        "transposed-conv-operator",
        {"im": IM, "f": Dense(36)},
        lambda im, f: L.mixed(
            input=L.conv_operator(
                im, f, filter_size=(2, 3), num_filters=3, stride=(1, 2), padding=1, trans=True
            ),
            name="y",
        ),
        lambda v: own_filters(v, lambda x, w: transposed(x, w, (2, 1), (1, 1)), shape=(2, 3, 3, 2)),
    ),
]


class TestRows(layers.LayerChecks):
    """Projections and operators, each against its formula."""

    rows = ROWS


# ---- tables


def test_an_id_of_minus_one_is_a_row_of_zeros():
    words = L.data(name="words", type=T.integer_value(5))
    y = L.embedding(words, size=2, name="y")
    w = pd.get_variable("_y.w0")
    (slope,) = pd.gradients(y, [w])
    value, slope = pd.eval([y, slope], {words: np.array([-1, 4])})
    np.testing.assert_array_equal(value, [[0, 0], w.val()[4]])
    np.testing.assert_array_equal(slope, [[0, 0]] * 4 + [[1, 1]])


def test_names_and_starts():
    words = L.data(name="words", type=T.integer_value(100))
    first = L.embedding(words, size=4)
    second = L.embedding(words, size=4, param_attr=Param(name="table", initial_std=0.5))
    conf = paddle.parameters.create([first, second]).__param_conf__
    assert (first.name, second.name) == ("__embedding_0__", "__embedding_1__")
    assert list(conf["___embedding_0__.w0"].dims) == [100, 4]
    assert conf["___embedding_0__.w0"].initial_std == pytest.approx(0.1)
    assert conf["table"].initial_std == 0.5


# ---- the layer in the making


def test_a_layer_in_the_making():
    x = layers.dense("x", 4)
    with L.mixed(name="m") as m:
        assert isinstance(m, MixedLayerType) and m.size == 0
        m += L.identity_projection(x)
    assert isinstance(m, Layer) and L.get_layer("m") is m
    assert (m.size, m.layer_type, m.parents, m.shape) == (4, "mixed", [x], (None, 4))
    y = L.fc(m, size=2)
    assert y.parents == [m]
    value = np.arange(4, dtype=np.float32)[None]
    np.testing.assert_array_equal(pd.eval(m, {x: value}), value)


def test_a_layer_is_the_output_of_its_node():
    x = layers.dense("x", 4)
    with L.mixed(name="m") as m:
        m += L.full_matrix_projection(x, size=3)
    assert m.node.outputs == (m,) and m.node.op_type == "Identity"
    y = L.mixed(input=L.identity_projection(m))
    assert type(y) is Layer and y.node.outputs == (y,)
    assert set(paddle.build.current().layers.values()) == {x, m, y}


def test_a_complete_mixed_layer_takes_no_more():
    x = layers.dense("x", 4)
    with L.mixed(name="m") as m:
        m += L.identity_projection(x)
    with pytest.raises(AddToSealedMixedLayerException, match="mixed layer 'm' is complete"):
        m += L.identity_projection(x)


def test_a_mixed_layer_counts_once_its_block_ends():
    x = layers.dense("x", 4)
    with pytest.raises(KeyError), L.mixed(name="m") as m:
        m += L.identity_projection(x)
        raise KeyError
    assert L.get_layer("m") is None
    with pytest.raises(pd.GraphError, match="'m' is used before its with block ends\n  hint: `w"):
        L.fc(m, size=2)


def test_extra_attributes():
    x = layers.dense("x", 4)
    extra = Extra(drop_rate=0.5, error_clipping_threshold=2.0)
    config = L.mixed(input=L.identity_projection(x), layer_attr=extra).config
    assert (config.drop_rate, config.error_clipping_threshold) == (0.5, 2.0)


def test_a_concatenation_ignores_a_bias_that_is_no_param():
    x = layers.dense("x", 4)
    y = L.concat([L.identity_projection(x)], bias_attr=True)
    assert y.config.bias_parameter_name == ""


@pytest.fixture
def net():
    """Layers by name: x [4], z [3], ids (4), conv (2 channels of 2 x 2)."""
    image = layers.dense("im", 4, height=2, width=2)
    return {
        "x": layers.dense("x", 4),
        "z": layers.dense("z", 3),
        "ids": L.data(name="ids", type=T.integer_value(4)),
        "conv": L.img_conv(image, filter_size=1, num_filters=2, name="conv"),
    }


# fmt: off
MISTAKES = [
    (lambda **_: L.mixed(input=[], name="y"), pd.GraphError,
     "mixed layer 'y': there is no projection in it"),
    (lambda x, **_: L.mixed(input=x, name="y"), TypeError,
     "layer 'y': an input is a projection or operator, not x: float32"),
    (lambda x, z, **_: L.concat([L.identity_projection(x), z]), TypeError,
     "layer '__concat_0__': an input is a projection, not z: float32"),
    (lambda x, **_: L.mixed(input=L.full_matrix_projection(x), name="y"), pd.ShapeError,
     r"mixed layer 'y', inputs \['x'\]: no input says how wide the layer is\n.*\n  hint: give s"),
    (lambda x, z, **_: L.mixed(input=[L.identity_projection(x), L.identity_projection(z)]),
     pd.ShapeError, "the layer is 4 wide, a projection 3"),
    (lambda x, **_: L.mixed(size=3, input=L.dotmul_operator(x, x)), pd.ShapeError,
     "the layer is 3 wide, a projection 4"),
    (lambda ids, **_: L.mixed(size=3, input=L.full_matrix_projection(ids)), pd.DTypeError,
     "'ids' holds ids, no rows of numbers"),
    (lambda ids, **_: L.mixed(input=L.dotmul_operator(ids, ids)), pd.DTypeError,
     "'ids' holds ids, no rows of numbers"),
    (lambda x, **_: L.embedding(x, size=3), pd.DTypeError,
     "'x' holds rows of numbers, no ids"),
    (lambda x, **_: L.identity_projection(x, offset=3, size=2), pd.ShapeError,
     "identity_projection: columns 3 to 5 of 'x', 4 wide"),
    (lambda x, **_: L.mixed(size=3, input=L.identity_projection(x, offset=2)), pd.ShapeError,
     "'x' has 2 columns from 2, not 3"),
    (lambda x, **_: L.slice_projection(x, slices=[(0, 1)]), pd.GraphError,
     "slice_projection: 'x' is no convolution"),
    (lambda conv, **_: L.slice_projection(conv, slices=[(1, 2), (0, 1)]), pd.GraphError,
     "ascending within the 2 channels of 'conv', not"),
    (lambda conv, **_: L.slice_projection(conv, slices=[(1, 3)]), pd.GraphError,
     r"within the 2 channels of 'conv', not \[\(1, 3\)\]"),
    (lambda x, z, **_: L.dotmul_operator(x, z), pd.ShapeError,
     "dotmul_operator: 'x' is 4 wide, 'z' is 3"),
    (lambda x, **_: L.dotmul_operator(x, x, scales=2), TypeError,
     r"dotmul_operator\(\) has no argument scales"),
    (lambda **_: L.full_matrix_projection(3), TypeError, "a projection is of a layer, not of 3"),
    (lambda conv, **_: L.conv_projection(conv, filter_size=1, num_filters=3, groups=2),
     pd.ShapeError, "2 channels and 3 filters do not split into 2 groups"),
    (lambda conv, **_: L.conv_projection(conv, filter_size=3, num_filters=3), pd.ShapeError,
     "the window is 3 wide, the padded image 2"),
    (lambda x, **_: L.conv_projection(x, filter_size=1, num_filters=1), pd.ShapeError,
     "the number of channels of 'x' is not known"),
    (lambda **_: L.conv_projection(1, filter_size=1, num_filters=1), TypeError,
     "conv_projection: the image is a layer, not 1"),
    (lambda conv, z, **_: L.conv_operator(conv, z, filter_size=1, num_filters=2), pd.ShapeError,
     "conv_operator: 'z' is 3 wide, the filters have 2 x 2 x 1 x 1 numbers"),
    (lambda conv, **_: L.conv_operator(conv, 3, filter_size=1, num_filters=2), TypeError,
     "conv_operator: filter is a layer, not 3"),
    (lambda conv, x, **_: L.concat([L.conv_projection(conv, filter_size=1, num_filters=1),
                                    L.identity_projection(x)]), pd.GraphError,
     "a convolution stands side by side with convolutions only"),
    (lambda conv, **_: L.mixed(input=[L.conv_projection(conv, filter_size=2, num_filters=4),
                                      L.conv_projection(conv, filter_size=1, num_filters=1)],
                               bias_attr=True), pd.ShapeError, "4 columns do not split into 5"),
    (lambda x, **_: L.concat([L.full_matrix_projection(x)]), pd.ShapeError,
     "the projection of 'x' needs a size"),
]
# fmt: on


@pytest.mark.parametrize(("mistake", "error", "message"), MISTAKES)
def test_mistake(net, mistake, error, message):
    known = set(paddle.build.current().layers)
    with pytest.raises(error, match=message):
        mistake(**net)
    assert set(paddle.build.current().layers) == known


# ---- what 2017 recorded for convolutions


@pytest.mark.parametrize(
    ("trans", "options", "kind", "size", "conv"),
    [
        (False, {}, "conv", 57600, {"filter_channels": 1, "img_size": 32, "output_x": 30}),
        (
            True,
            {"stride": 2, "padding": 1},
            "convt",
            254016,
            {"filter_channels": 64, "img_size": 63, "output_x": 32, "stride": 2, "padding": 1},
        ),
    ],
)
def test_records_of_convolutions(trans, options, kind, size, conv):
    image, kernel = layers.dense("img", 1024, height=32, width=32), layers.dense("filter", 576)
    options = {"filter_size": 3, "num_filters": 64, "num_channels": 1, "trans": trans} | options
    made = L.mixed(
        name="m",
        bias_attr=False,
        input=[
            L.conv_operator(img=image, filter=kernel, **options),
            L.conv_projection(image, **options),
        ],
    )
    conv = {"filter_size": 3, "channels": 1, "stride": 1, "padding": 0, "groups": 1} | conv
    conv |= {"caffe_mode": True, "output_y": conv["output_x"], "img_size_y": conv["img_size"]}
    conv |= {f"{k}_y": conv[k] for k in ("filter_size", "padding", "stride")}
    sizes = {"output_size": size, "conv_conf": conv, "num_filters": 64}
    projection = {"type": kind, "name": "_m.w1", "input_size": 1024, **sizes}
    operator = {"type": kind, "input_indices": [0, 2], "input_sizes": [1024, 576], **sizes}
    facts = layer_facts(made.config)
    assert facts["inputs"] == ["img", "img", "filter"]
    assert facts["input_params"] == [None, "_m.w1", None]
    assert facts["input_conf"] == [{}, {"proj_conf": projection}, {}]
    assert facts["attrs"] == {"operator_confs": [operator]}
    config = paddle.parameters.create(made).__param_conf__["_m.w1"]
    assert (config.size, list(config.dims), config.initial_std) == (576, [], np.sqrt(2 / 9))
