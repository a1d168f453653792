"""What a user is told who builds a layer that does not fit: which layer, why, and where."""

import inspect
import re

import pytest

import pd_core as pd
import pd_v2 as paddle
from pd_v2.attr import Extra, Param
from pd_v2.topology import Topology

A, L, P, T = paddle.activation, paddle.layer, paddle.pooling, paddle.data_type


@pytest.fixture
def net():
    """Some layers by name: x [4], z [3], ids (4), im (3 x 4 x 4), p (softmax of x)."""
    x = L.data(name="x", type=T.dense_vector(4))
    return {
        "x": x,
        "z": L.data(name="z", type=T.dense_vector(3)),
        "ids": L.data(name="ids", type=T.integer_value(4)),
        "im": L.data(name="im", type=T.dense_vector(48), height=4, width=4),
        "p": L.fc(x, size=4, name="p", act=A.Softmax()),
        "w": L.fc(x, size=2, name="w", param_attr=Param(name="shared")),
    }


# Columns: what is built, the error, its first line (or more of it).
# fmt: off
MISTAKES = [
    # sizes
    (lambda x, z, **_: L.addto([x, z]), pd.ShapeError,
     r"addto layer '__addto_0__', inputs \['x', 'z'\]: 'x' is 4 wide, 'z' 3"),
    (lambda z, **_: L.fc(z, size=2, name="y", param_attr=Param(name="shared")), pd.ShapeError,
     r"fc layer 'y', inputs \['z'\]: parameter 'shared' is \[4, 2\] elsewhere, \[3, 2\] here"),
    (lambda x, **_: L.fc(x, size=0, name="y"), pd.ShapeError,
     r"fc layer 'y', .* a size is a positive integer, not in \[4, 0\]"),
    (lambda x, **_: L.fc(x, size=2.5, name="y"), pd.ShapeError,
     r"a size is a positive integer, not in \[4, 2.5\]"),
    (lambda x, z, **_: L.square_error_cost(input=x, label=z), pd.ShapeError,
     r"square_error_cost layer .*, inputs \['x', 'z'\]: 'x' is 4 wide, its label is z: float32"),
    (lambda x, ids, **_: L.square_error_cost(input=x, label=ids), pd.ShapeError,
     r"'x' is 4 wide, its label is ids: int64"),
    (lambda p, z, **_: L.cross_entropy_cost(input=p, label=z), pd.ShapeError,
     r"cross_entropy_cost layer .*: 'p' has 4 probabilities, the label 3 classes"),
    (lambda p, ids, x, **_: L.classification_cost(input=p, label=ids, weight=x), pd.ShapeError,
     r"classification_cost layer '__cost_0__', .*: the weight 'x' is 4 wide, not 1"),
    # images
    (lambda x, **_: L.img_conv(x, filter_size=3, num_filters=2), pd.ShapeError,
     r"(?s)the number of channels of 'x' is not known.*hint: give num_channels"),
    (lambda x, **_: L.img_conv(x, filter_size=1, num_filters=2, num_channels=3), pd.ShapeError,
     r"'x' is 4 wide, which is not 3 channels of 1 x 1 pixels"),
    (lambda im, **_: L.img_conv(im, filter_size=7, num_filters=2, name="y"), pd.ShapeError,
     r"img_conv layer 'y', inputs \['im'\]: conv: the window is 7 wide on axis 2"),
    (lambda im, **_: L.img_conv(im, filter_size=3, num_filters=2, groups=2), pd.ShapeError,
     "3 channels and 2 filters do not split into 2 groups"),
    (lambda im, **_: L.img_conv(im, filter_size=(3, 3, 3), num_filters=2), pd.GraphError,
     r"filter_size is one number or a pair \(x, y\), not \(3, 3, 3\)"),
    (lambda im, **_: L.img_pool(im, pool_size=7, name="y"), pd.ShapeError,
     r"img_pool layer 'y', inputs \['im'\]: the window is 7 wide, the padded image 4"),
    (lambda im, **_: L.img_conv(im, filter_size=3, num_filters=2, stride=0), pd.GraphError,
     "stride is a whole number of at least 1, not 0"),
    (lambda im, **_: L.img_conv(im, filter_size=3, num_filters=2, groups=0), pd.GraphError,
     "groups is a whole number of at least 1, not 0"),
    (lambda im, **_: L.img_pool(im, pool_size=2.5), pd.GraphError,
     "pool_size is a whole number of at least 1, not 2.5"),
    (lambda im, **_: L.img_pool(im, pool_size=2, padding=-1), pd.GraphError,
     "padding is a whole number of at least 0, not -1"),
    (lambda im, **_: L.img_pool(im, pool_size=2, padding=2), pd.ShapeError,
     "a padding of 2 leaves windows of 2 without a pixel"),
    (lambda im, **_: L.concat([im, L.img_pool(im, pool_size=2)]), pd.ShapeError,
     r"concat layer .*: images of \[\(3, 3\), \(4, 4\)\] pixels cannot stand side by side"),
    (lambda im, **_: L.batch_norm(im, num_channels=5), pd.ShapeError,
     "'im' is 48 wide, which is not 5 channels of 4 x 4 pixels"),
    (lambda **_: L.data(name="y", type=T.dense_vector(5), height=2, width=2), pd.ShapeError,
     "data layer 'y': 5 numbers are no image of 4 pixels"),
    # names
    (lambda x, z, **_: L.fc([x, z], size=2, param_attr=Param(name="w")), pd.ShapeError,
     r"inputs \['x', 'z'\]: parameter 'w' is \[4, 2\] elsewhere, \[3, 2\] here"),
    (lambda x, z, **_: L.fc([x, z], size=2, param_attr=[Param()]), pd.GraphError,
     "1 parameter attributes for 2 inputs"),
    (lambda x, **_: L.batch_norm(x, mean_var_names=["m"]), pd.GraphError,
     r"mean_var_names are two names, not \['m'\]"),
    # kinds of data
    (lambda ids, **_: L.fc(ids, size=2, name="y"), pd.DTypeError,
     r"fc layer 'y', inputs \['ids'\]: 'ids' holds ids, no rows of numbers"),
    (lambda x, ids, **_: L.concat([x, ids]), pd.DTypeError, "'ids' holds ids"),
    (lambda p, x, **_: L.cross_entropy_cost(input=p, label=x), pd.DTypeError,
     "cross_entropy: labels are integers, not float32"),
    (lambda **_: L.data(name="y", type=5), TypeError,
     "data layer 'y': type is one of paddle.data_type, not 5"),
    (lambda **_: L.data(name=None, type=T.dense_vector(5)), TypeError,
     "data layer: the name is a string, not None"),
    # costs
    (lambda x, ids, **_: L.classification_cost(input=x, label=ids), pd.GraphError,
     "classification_cost: 'x' must have a Softmax activation"),
    (lambda p, x, **_: L.classification_cost(input=p, label=p), pd.GraphError,
     "classification_cost: the label 'p' must be a data layer"),
    (lambda p, ids, **_: L.classification_cost(input=p, label=ids, evaluator=None), TypeError,
     "classification_cost: evaluator is a function or a list, not None"),
    (lambda ids, **_: L.classification_cost(input="p", label=ids), TypeError,
     "classification_cost: input and label are layers, not 'p'"),
    # arguments
    (lambda x, **_: L.fc(x), TypeError, r"fc\(\): missing a required argument: 'size'"),
    (lambda x, **_: L.fc(x, 2, units=3), TypeError,
     r"fc\(\): got an unexpected keyword argument 'units'"),
    (lambda x, **_: L.fc(x, 2, act="relu"), TypeError,
     r"layer '__fc_layer_0__': act is an activation such as Relu\(\), not 'relu'"),
    (lambda x, **_: L.fc(x, 2, act=A.Relu), TypeError, "act is an activation such as"),
    (lambda x, **_: L.fc(x, 2, param_attr=0.1), TypeError,
     "layer '__fc_layer_0__': a parameter attribute is a Param, not 0.1"),
    (lambda x, **_: L.fc(x, 2, bias_attr=3), TypeError, "a parameter attribute is a Param, not 3"),
    (lambda x, **_: L.fc(x, 2, layer_attr=0.5), TypeError, "layer_attr is an Extra, not 0.5"),
    (lambda **_: L.fc("x", 2), TypeError, "layer '__fc_layer_0__': input is a layer, not 'x'"),
    (lambda **_: L.fc([], 2), ValueError, "layer '__fc_layer_0__': input is an empty list"),
    (lambda im, **_: L.img_pool([im, im], 2), TypeError,
     "layer '__pool_0__': input is a layer, not "),
    (lambda x, **_: L.square_error_cost(input=x, label=None), TypeError,
     "label is a layer, not None"),
    (lambda im, **_: L.img_pool(im, 2, pool_type=P.Sum()), TypeError,
     "layer '__pool_0__': pool_type is one of Max, Avg, MaxWithMask, CudnnMax, CudnnAvg, not"),
    (lambda im, **_: L.img_conv(im, 3, 2, layer_type="conv"), pd.GraphError,
     "layer_type is exconv or cudnn_conv, not 'conv'"),
    # what is not supported
    (lambda x, **_: L.fc(x, 2, act=A.Softmax(), layer_attr=Extra(drop_rate=0.5)), pd.GraphError,
     r"fc layer '__fc_layer_0__', inputs \['x'\]: softmax and dropout do not go together"),
    (lambda im, **_: L.img_pool(im, 2, layer_attr=Extra(drop_rate=0.5)), NotImplementedError,
     "Layer __pool_0__ does not support drop_rate"),
    (lambda x, **_: L.batch_norm(x, epsilon=1e-7), pd.GraphError,
     "batch_norm layer .*: epsilon is at least 1e-5, not 1e-07"),
    (lambda x, **_: L.concat([x, x], bias_attr=True), pd.GraphError,
     "a concatenation of layers has no bias"),
]
# fmt: on


@pytest.mark.parametrize(("mistake", "error", "message"), MISTAKES)
def test_mistake(net, mistake, error, message):
    known = dict(paddle.build.current().parameters)
    with pytest.raises(error, match=message):
        mistake(**net)
    assert paddle.build.current().parameters == known


def test_the_line_of_the_layer_is_named(net):
    line = inspect.currentframe().f_lineno + 2
    with pytest.raises(pd.ShapeError) as caught:
        L.addto([net["x"], net["z"]], name="y")
    here = re.escape(f"{__file__}:{line}")
    assert re.search(rf"\n  layer  addto, built at {here}$", str(caught.value))


def test_an_operator_in_a_layer_has_the_line_of_the_layer(net):
    line = inspect.currentframe().f_lineno + 2
    with pytest.raises(pd.ShapeError) as caught:
        L.img_conv(net["im"], filter_size=7, num_filters=2, name="y")
    text = str(caught.value)
    assert f"node   Conv, built at {__file__}:{line}\n" in text
    assert "input  _y.w0: float32[2, 3, 7, 7]" in text


def test_the_hint_comes_last(net):
    with pytest.raises(pd.ShapeError) as caught:
        L.img_conv(net["x"], filter_size=3, num_filters=2)
    lines = str(caught.value).split("\n")
    assert [line.split()[0] for line in lines[1:]] == ["layer", "hint:"]


def test_an_extra_that_one_layer_supports_is_then_taken_anywhere(net):
    extra = Extra(drop_rate=0.5)
    L.fc(net["x"], 2, layer_attr=extra)
    assert L.img_pool(net["im"], 2, layer_attr=extra).config.drop_rate == 0.5


def test_a_network_has_one_layer_of_a_name():
    x = L.data(name="x", type=T.dense_vector(4))
    y = L.fc(x, size=2, name="x")
    message = r"two layers 'x', built at .*test_errors.py:\d+ and .*test_errors.py:\d+"
    with pytest.raises(pd.NameConflict, match=message):
        Topology(y)
    with pytest.raises(pd.NameConflict, match="the network has two layers 'x'"):
        Topology([x, L.data(name="x", type=T.dense_vector(5))])
