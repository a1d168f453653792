"""Error messages: who, what is wrong with both numbers, the user's line, the inputs."""

import re

import numpy as np
import pytest

import pd_core as pd

f32 = np.float32


def ones(*shape):
    return np.ones(shape, f32)


def line_of(function):
    """The pattern of the second line of a function of this file."""
    return rf"{re.escape(__file__)}:{function.__code__.co_firstlineno + 1}\b"


def test_the_form_of_an_error():
    x, w = pd.Variable("x", shape=[None, 4]), pd.Variable("w", shape=[7, 2])
    with pytest.raises(pd.ShapeError) as caught:
        pd.matmul(x, w)
    lines = str(caught.value).split("\n")
    assert lines[0] == "matmul: inner sizes differ, 4 against 7"
    assert re.fullmatch(rf"  node   MatMul, built at {re.escape(__file__)}:\d+", lines[1])
    assert lines[2:] == ["  input  x: float32[?, 4]", "  input  w: float32[7, 2]"]


def test_attributes_and_hints():
    x = pd.Variable("x", shape=[None, 3, 8, 8])
    with pytest.raises(
        pd.ShapeError, match=r"^conv: .* 3 channels, the filters take 4\n"
    ) as caught:
        pd.conv(x, ones(2, 4, 3, 3), strides=2)
    assert re.search(r"\n  with   strides=\[2, 2\], pads=\[0, 0, 0, 0\]", str(caught.value))
    n = pd.Variable("n", data=[1])
    with pytest.raises(pd.DTypeError, match=r"(?s)element types differ, .*\n  hint: cast\(\)"):
        n + pd.Variable("v", data=ones(1))


def test_the_line_is_the_users():
    def build(x):
        return pd.fc(x, 3, W=pd.Variable("w", shape=[4, 3]), B="b")

    def wrong(x):
        return build(x) + ones(5)

    x = pd.Variable("x", shape=[None, 4])
    with pytest.raises(pd.ShapeError, match=r"^add: sizes .* do not broadcast\n  node   Add,") as e:
        wrong(x)
    assert re.search(line_of(wrong), str(e.value))


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_a_failure_of_the_runtime_names_the_line(device):
    def reshaped(x, shape):
        return pd.reshape(x, shape)

    x, shape = pd.Variable("x", shape=[None]), pd.Variable("shape", shape=[2], dtype="int64")
    y = pd.exp(reshaped(x, shape)) * 2.0
    with pytest.raises(pd.BackendError) as caught:
        pd.Session(device).eval(y, feeds={x: ones(5), shape: [2, 3]})
    if device == "cpu":
        assert re.search(rf"\n  node   Reshape, built at {line_of(reshaped)}", str(caught.value))
    else:
        assert str(caught.value).startswith("reference: ")


def test_a_failure_in_a_gradient_names_the_line_of_its_operator():
    def lookup(x, ids):
        return pd.gather(x, ids)

    x, ids = pd.Variable("x", shape=[3, 2]), pd.Variable("ids", shape=[None], dtype="int64")
    step = pd.SGDOptimizer(0.1).minimize(pd.reduce_sum(lookup(x, ids)))
    with pytest.raises(pd.BackendError, match=line_of(lookup)):
        pd.eval([step, lookup(x, ids)], feeds={ids: [1, 7]})


def test_what_a_rewriting_replaces_keeps_the_lines_of_the_rest():
    def reshaped(x):
        return pd.reshape(x, [-1, 1, 4, 4])

    x = pd.Variable("x", shape=[None])
    h = pd.relu(pd.conv(reshaped(x), pd.Variable("w", data=ones(1, 1, 1, 1))))
    step = pd.SGDOptimizer(0.1).minimize(pd.reduce_sum(pd.max_pool(h, 2, 2)))
    with pytest.raises(pd.BackendError, match=line_of(reshaped)):
        pd.eval(step, feeds={x: ones(5)})


def test_the_function_that_was_called_comes_first():
    x = pd.Variable("x", shape=[None, 3])
    with pytest.raises(pd.ShapeError, match=r"^concat: ranks differ, 2 against 1"):
        pd.concat([x, ones(3)])
    with pytest.raises(pd.ShapeError, match=r"^gather: "):
        pd.gather(x, [0], axis=7)


ERRORS = {
    "ShapeError": ValueError,
    "DTypeError": (ValueError, TypeError),
    "NameConflict": ValueError,
    "NoGradient": ValueError,
    "GraphError": ValueError,
    "FeedError": ValueError,
    "MissingFeed": (ValueError, pd.FeedError),
    "NotComputed": RuntimeError,
    "NotInitialized": RuntimeError,
    "PlaceError": RuntimeError,
    "CompilerError": RuntimeError,
    "BackendError": RuntimeError,
    "ExportError": ValueError,
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_builtins_too(name):
    expected = ERRORS[name] if isinstance(ERRORS[name], tuple) else (ERRORS[name],)
    assert all(issubclass(getattr(pd, name), kind) for kind in expected)
