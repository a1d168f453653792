"""Shapes on every line, and layers: which parameters they make, and what they compute."""

import numpy as np
import pytest

import pd_core as pd

f32 = np.float32


def ones(*shape):
    return np.ones(shape, f32)


def test_shape_known_on_every_line():
    x = pd.Variable([None, 784])
    assert x.shape == (None, 784)
    h = pd.fc(x, size=128)
    assert h.shape == (None, 128)
    i = pd.reshape(x, [-1, 1, 28, 28])
    assert i.shape == (None, 1, 28, 28)
    c = pd.conv2d(i, num_filters=20, filter_size=5)
    assert c.shape == (None, 20, 24, 24)
    c = pd.pool2d(c, pool_size=2, pool_stride=2)
    assert c.shape == (None, 20, 12, 12)
    assert pd.concat([h, h], axis=1).shape == (None, 256)
    assert pd.reduce_mean(h).shape == ()
    (g,) = pd.gradients(pd.reduce_mean(h), [x])
    assert g.shape == (None, 784)
    with pytest.raises(pd.ShapeError) as e:
        pd.matmul(h, pd.Variable(shape=[64, 10]))  # raised by this very line
    assert all(s in str(e.value) for s in ("matmul", "128", "64"))


def test_the_batch_goes_through_to_the_cost():
    x, label = pd.Variable([None, 4]), pd.Variable([None, 1], dtype="int64")
    p = pd.softmax(pd.fc(x, 8, act="relu"), size=3)
    cost = pd.cross_entropy(p, label)
    assert (p.shape, p.dtype) == ((None, 3), f32)
    assert cost.shape == (None, 1)
    assert p.dims[0] == x.dims[0]


def test_layers_create_parameters_ops_do_not():
    x = pd.Variable([None, 8])

    def n():
        return len(pd.trainable_variables())

    pd.relu(x)
    pd.softmax(x)
    assert n() == 0
    y = pd.fc(x, size=4, W="w", B="b")
    w, b = pd.get_variable("w"), pd.get_variable("b")
    assert w.shape == (8, 4)
    assert b.shape == (4,)
    assert n() == 2
    same = [pd.fc(x, size=4, W="w", B="b"), pd.fc(x, size=4, W=w, B=b)]
    assert n() == 2
    r = pd.eval([y, *same], feeds={x: ones(2, 8)})
    assert all((k == r[0]).all() for k in r)
    pd.fc(x, size=4, W="w", B=False)
    assert n() == 2
    p = pd.softmax(x, size=10)
    assert p.shape == (None, 10)  # size= makes it a layer
    assert n() == 4
    assert pd.layer.fc is pd.fc


@pytest.mark.parametrize("axis", [1, 0, -1])
def test_an_axis_is_no_number_of_classes(axis):
    x = np.arange(6, dtype="float32").reshape(2, 3)
    a, b = pd.eval([pd.softmax(x, axis), pd.softmax(x, axis=axis)])
    np.testing.assert_array_equal(a, b)
    hint = rf"softmax: size is the number .* not {axis}\n  hint: softmax\(x, axis={axis}\)"
    with pytest.raises(pd.ShapeError, match=hint):
        pd.softmax(pd.Variable([2, 3]), size=axis)
    with pytest.raises(pd.ShapeError, match=r"no axis 10 .*\n  hint: softmax\(x, size=10\)"):
        pd.softmax(pd.Variable([2, 3]), 10)


def test_a_layer_has_units():
    with pytest.raises(pd.ShapeError, match="fc: a size is positive, not 0"):
        pd.fc(pd.Variable([2, 3]), 0)


def test_the_forms_of_a_parameter():
    x = pd.Variable(data=ones(1, 2))
    y = pd.fc(x, 3, W=pd.constant_initializer(2.0), B=pd.constant_initializer(1.0))
    assert (y.eval() == 5.0).all()
    attributes = {"initializer": pd.constant_initializer(4.0), "trainable": False}
    y = pd.fc(x, 3, W={"name": "w", **attributes}, B={"learning_rate": 0.5})
    assert (y.eval() == 8.0).all()
    assert not pd.get_variable("w").trainable
    assert pd.get_variable("fc_1.B").learning_rate == 0.5
    frozen = pd.fc(x, 3, W=pd.Variable(data=ones(2, 3)) * 2.0, B=False)  # any Variable will do
    assert (frozen.eval() == 4.0).all()


def test_fc_takes_any_rank():
    x = pd.constant(np.arange(12, dtype=f32).reshape(2, 3, 2))
    y = pd.fc(x, 4)
    w, b = pd.trainable_variables()
    assert y.shape == (2, 3, 4)
    assert np.allclose(y.eval(), x.val() @ w.val() + b.val())


@pytest.mark.parametrize(
    ("act", "value"),
    [
        ("relu", np.maximum(-2.0, 0.0)),
        ("tanh", np.tanh(-2.0)),
        ("sigmoid", 1 / (1 + np.exp(2.0))),
        ("square", 4.0),
        ("exp", np.exp(-2.0)),
        ("softplus", np.log1p(np.exp(-2.0))),
        ("leaky_relu", -0.02),
        ("softmax", 1.0),
        (None, -2.0),
        (pd.abs, 2.0),
    ],
)
def test_activations(act, value):
    y = pd.fc(pd.constant([[1.0]]), 1, act=act, W=pd.constant_initializer(-2.0))
    assert np.allclose(y.eval(), value, rtol=1e-6)


def test_conv2d_is_a_convolution_with_a_bias(rng):
    x = pd.constant(rng.normal(size=(2, 4, 5, 5)))
    y = pd.conv2d(x, 6, (3, 2), stride=2, padding=(1, 0), groups=2, act="relu", B="b")
    w, b = pd.trainable_variables()
    assert w.shape == (6, 2, 3, 2)
    assert b.shape == (6,)
    pd.eval(pd.assign(b, np.arange(6, dtype=f32)))
    plain = pd.conv(x, w, strides=2, pads=(1, 0), group=2)
    assert y.shape == plain.shape == (2, 6, 3, 2)
    assert np.allclose(
        y.eval(), np.maximum(plain.eval() + np.arange(6)[:, None, None], 0), atol=1e-6
    )
    assert pd.conv2d(x, 6, 3, W="filters", B=False).shape == (2, 6, 3, 3)


def test_embedding_reads_rows():
    ids = pd.Variable([None, 1], dtype="int64")
    y = pd.embedding(ids, size=[5, 3], W="table")
    table = pd.get_variable("table")
    assert (table.shape, y.shape) == ((5, 3), (None, 3))
    rows = pd.eval(y, feeds={ids: [[4], [0], [4]]})
    assert (rows == table.val()[[4, 0, 4]]).all()
    words = pd.Variable([None, 7], dtype="int64")
    assert pd.embedding(words, size=[5, 3], W="table").shape == (None, 7, 3)
    assert pd.embedding(words, size=[5, 3], W=table).shape == (None, 7, 3)


@pytest.mark.parametrize(
    ("error", "message", "build"),
    [
        (
            pd.ShapeError,
            r"fc: takes rows whose width.*not x: float32\[\?, \?\]",
            lambda x: pd.fc(x, 3),
        ),
        (pd.ShapeError, r"fc: takes rows", lambda x: pd.fc(pd.reduce_sum(x), 3)),
        (
            ValueError,
            "^fc: there is no activation 'rely'; there is celu, elu, exp",
            lambda x: pd.fc(x, 3, "rely"),
        ),
        (
            pd.ShapeError,
            r"^fc: parameter 'w' is \[2, 2\], not \[3, 4\]",
            lambda x: pd.fc(ones(1, 3), 4, W=pd.Variable.of((2, 2), f32, "w")),
        ),
        (
            TypeError,
            "^parameter 'fc_0.W' is a name, Variable, initializer, array or dict, not 0.5",
            lambda x: pd.fc(ones(1, 3), 4, W=0.5),
        ),
        (pd.ShapeError, r"conv2d: takes images \[N, C, H, W\]", lambda x: pd.conv2d(x, 2, 3)),
        (
            pd.ShapeError,
            "conv2d: 3 channels do not split into 2 groups",
            lambda x: pd.conv2d(ones(1, 3, 8, 8), 4, 3, groups=2),
        ),
        (pd.DTypeError, "embedding: takes integer ids, not", lambda x: pd.embedding(x, [5, 3])),
    ],
)
def test_mistakes_are_found_before_parameters_are_made(error, message, build):
    x = pd.Variable("x", shape=[None, None])
    with pytest.raises(error, match=message):
        build(x)
    assert pd.persistent_variables() == []


def test_a_shared_name_must_fit():
    pd.fc(ones(1, 8), 4, W="w")
    with pytest.raises(pd.ShapeError, match=r"variable 'w' is \(8, 4\) elsewhere, \(5, 4\) here"):
        pd.fc(ones(1, 5), 4, W="w")
