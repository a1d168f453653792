"""Arrays in the other order of bytes, as big-endian files have them, and masked ones."""

import numpy as np
import pytest

import pd_core as pd

NATIVE = np.arange(12).reshape(4, 3) + 1


class Linear(pd.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = pd.nn.FC(1)

    def forward(self, x):
        return self.fc(x)


def swapped(array):
    return array.astype(array.dtype.newbyteorder("S"))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "uint8", "int16", "int64"])
def test_values_are_those_of_native_arrays(dtype):
    """Constants, states, feeds, values at hand, casts and slots take big-endian arrays."""
    native = NATIVE.astype(dtype)
    other = swapped(native)
    x = pd.Variable([None, 3], dtype=other.dtype)
    assert x.dtype.isnative and x.dtype == native.dtype
    state = pd.Variable(data=native, dtype=dtype)
    pd.default_session().set(state, other)
    targets = [pd.identity(a) for a in (x, pd.constant(other), pd.Variable(data=other), state)]
    targets.append(pd.cast(pd.constant(native), other.dtype))
    for array in pd.eval(targets, {x: other}):
        np.testing.assert_array_equal(array, native)
        assert array.dtype.isnative
    with pd.guard():
        np.testing.assert_array_equal((pd.to_variable(other) + 0).numpy(), native)
        np.testing.assert_array_equal(pd.identity(other).numpy(), native)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_trainings_are_those_of_native_arrays(dtype):
    """Whether arrays are given or batches; they were read as if they were native."""
    x = NATIVE.astype(dtype)
    y = x[:, :1]
    net = Linear()
    options = {"optimizer": pd.SGDOptimizer(0.0), "loss": "mse", "epochs": 1}
    expected = net.fit(x, y, batch_size=4, shuffle=False, **options).cost
    other = swapped(x), swapped(y)
    assert net.fit(*other, batch_size=4, shuffle=False, **options).cost == expected
    assert net.fit(lambda: iter([other]), **options).cost == expected
    assert net.evaluate(*other) == net.evaluate(x, y)
    np.testing.assert_array_equal(net.predict(other[0]), net.predict(x))


def test_masked_elements_are_refused_by_trainings():
    """They were read as if there were no mask."""
    x = NATIVE.astype(np.float32)
    masked, net = np.ma.masked_greater(x, 5), Linear()
    with pytest.raises(pd.DTypeError, match=r"^fit: x: cannot take masked elements"):
        net.fit(masked, x[:, :1], loss="mse", optimizer="sgd")
    with pytest.raises(pd.DTypeError, match=r"^fit: y: cannot take masked elements"):
        net.fit(x, masked, loss="mse", optimizer="sgd")
    whole = np.ma.masked_array(x)  # nothing is masked
    net.fit(whole, x[:, :1], loss="mse", optimizer="sgd")


def test_types_are_the_objects_of_numpy():
    """Arrays of a Variable's own type are fed as they are, told by the object that its type is."""
    for name in ("float32", "float64", "int64", "bool", "float16"):
        for spelled in (name, np.dtype(name), ">" + np.dtype(name).str[1:]):
            assert pd.Variable([2], dtype=spelled).dtype is np.dtype(name)
