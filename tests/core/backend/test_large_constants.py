"""Constants of a megabyte and more: a file has the filling of those that are equal everywhere."""

import numpy as np
import onnx
import pytest

import pd_core as pd
from pd_core.backend import program
from pd_core.backend.lowering import lower

SHAPE = (600, 700)  # 1.7 MB of float32


def constants():
    spotted, spotted_late = np.zeros(SHAPE, np.float32), np.zeros(SHAPE, np.float32)
    spotted[3, 4], spotted_late[-1, -1] = 1, -0.0
    return {
        "zeros": (np.zeros(SHAPE, np.float32), True),
        "minus zeros": (np.full(SHAPE, -0.0, np.float32), True),
        "NaN": (np.full(SHAPE, np.nan, np.float32), True),
        "sevens": (np.full(SHAPE, 7, np.int64), True),
        "doubles": (np.full(SHAPE, 0.1), True),
        "true": (np.full((1 << 20,), True), True),
        "spotted": (spotted, False),
        "a zero of the other sign": (spotted_late, False),
        "numbers": (np.arange(600 * 700, dtype=np.float32).reshape(SHAPE), False),
    }


@pytest.mark.parametrize("name", constants())
def test_a_uniform_constant_is_one_number_in_the_file(name):
    array, is_short = constants()[name]
    large = pd.constant(array, array.dtype)
    x = pd.Variable([None], dtype="int64")
    y = pd.gather(large, x)
    index = np.array([0, 5, len(array) - 1])
    for device in ("cpu", "reference"):
        with pd.Session(device) as session:
            found = session.eval(y, {x: index})
        assert found.tobytes() == array[index].tobytes()
    model = lower(program.build([y], [], [x], False, {})).model
    onnx.checker.check_model(model, full_check=True)
    assert (len(model.SerializeToString()) < 10_000) == is_short


def test_the_body_of_a_loop_reads_it_too():
    large = pd.constant(np.full((700, 700), 0.5, np.float32))
    x = pd.Variable([None, 700])
    final, _ = pd.scan(lambda state, row: (state @ large + row, state), np.zeros(700, "f4"), x)
    with pd.Session() as session:
        found = session.eval(final, {x: np.ones((3, 700), np.float32)})
    assert np.array_equal(found, np.full(700, 1 + 350 + 350 * 350.0))
