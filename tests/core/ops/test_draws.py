"""Random integers, classes and orders: frequencies, reproducibility, export, mistakes."""

import numpy as np
import onnxruntime
import pytest

import pd_core as pd

WEIGHTS = np.array([[1.0, 2.0, 0.0, 5.0]], "float32")


def test_frequencies():
    p = pd.Variable([None, 4])
    pd.reset(seed=1)
    each, rest, integers, times = pd.eval(
        [
            pd.multinomial(p, 20000, replacement=True),
            pd.multinomial(np.repeat(WEIGHTS, 4000, 0), 3, replacement=False),
            pd.randint([20000], -1, 3),
            pd.exponential_random([20000], 0.5),
        ],
        feeds={p: WEIGHTS},
    )
    np.testing.assert_allclose(
        np.bincount(each[0], minlength=4) / 20000, WEIGHTS[0] / 8, atol=0.015
    )
    assert not (rest == 2).any()
    assert (np.sort(rest) == [0, 1, 3]).all()
    # the first of 0, 1, 3, then the second among those that are left
    second = (1 / 8) * (5 / 7) + (2 / 8) * (5 / 6)
    assert (rest[:, 0] == 3).mean() == pytest.approx(5 / 8, abs=0.03)
    assert (rest[:, 1] == 3).mean() == pytest.approx(second, abs=0.03)
    np.testing.assert_allclose(np.bincount(integers + 1) / 20000, [0.25] * 4, atol=0.015)
    assert (times.mean(), times.std()) == pytest.approx((0.5, 0.5), abs=0.02)


def test_categorical_never_draws_a_masked_class():
    pd.reset(seed=1)
    logits = np.tile(np.float32([0.0, -np.inf, np.log(3.0)]), (4000, 1))
    counts = np.bincount(pd.eval(pd.categorical(logits)), minlength=3)
    assert counts[1] == 0
    assert counts[2] / 4000 == pytest.approx(0.75, abs=0.03)


def test_draws_follow_the_seed():
    def draws():
        pd.reset(seed=7)
        return pd.eval(
            [
                pd.permutation(20),
                pd.multinomial(WEIGHTS, 20, replacement=True),
                pd.randint([20], 0, 99),
            ]
        )

    first, second = draws(), draws()
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)
    assert (np.sort(first[0]) == np.arange(20)).all()
    assert (first[0] != np.arange(20)).any()


def test_exported_draws_are_those_of_the_session(tmp_path):
    p = pd.Variable([None, 4], name="p")
    drawn = pd.multinomial(p, 3, replacement=False)
    pd.export_onnx(str(tmp_path / "draw.onnx"), [drawn], [p])
    model = onnxruntime.InferenceSession(str(tmp_path / "draw.onnx"))
    rest = {i.name: np.zeros([d or 1 for d in i.shape], "int64") for i in model.get_inputs()[1:]}
    (value,) = model.run(None, {"p": WEIGHTS, **rest})
    assert set(value[0]) == {0, 1, 3}


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: pd.randint([2], 3, 3), ValueError, "randint: 3 … 3 are not 1 to 16777216"),
        (
            lambda: pd.multinomial(WEIGHTS, 0, replacement=True),
            ValueError,
            "multinomial: draws 1 class or more",
        ),
        (
            lambda: pd.multinomial(WEIGHTS, 5, replacement=False),
            pd.ShapeError,
            "5 different classes of",
        ),
        (lambda: pd.categorical(np.zeros(3, "int64")), pd.DTypeError, "takes floats, not int64"),
        (lambda: pd.categorical(1.0), pd.ShapeError, "takes distributions"),
    ],
)
def test_mistakes(build, error, message):
    with pytest.raises(error, match=message):
        build()
