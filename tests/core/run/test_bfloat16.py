"""Arrays of bfloat16, by the package ml_dtypes, on a CPU: fed, fetched, stored, saved."""

import ml_dtypes
import numpy as np
import pytest

import pd_core as pd

B = np.dtype(ml_dtypes.bfloat16)
A = (np.arange(6).reshape(2, 3) / 3).astype(B)


def slot(dtype=B, shape=(None, 3)):
    return pd.Variable(shape=list(shape), dtype=dtype)


@pytest.mark.parametrize("device", ["cpu", "reference"])
@pytest.mark.parametrize("rows", [0, 1, 2, 9000])
def test_feeds_and_fetches(device, rows):
    x = slot()
    targets = [pd.concat([x, x]), pd.cast(x, "float32"), pd.cast(pd.cast(x, "float32"), B)]
    with pd.Session(device) as session:
        for k in range(4):  # small arrays stay bound from the second run on
            array = (np.ones((rows, 3)) * (k + 1) / 3).astype(B)
            twice, wide, back = session.eval(targets, {x: array})
            assert twice.dtype == back.dtype == B and wide.dtype == np.float32
            np.testing.assert_array_equal(twice, np.concatenate([array, array]))
            np.testing.assert_array_equal(wide, array.astype(np.float32))
            np.testing.assert_array_equal(back, array)


def test_a_fetch_is_no_view_of_the_next_one():
    x = slot()
    y = pd.reshape(x, [-1])
    results = [pd.eval(y, {x: A * B.type(k)}) for k in range(5)]
    for k, result in enumerate(results):
        np.testing.assert_array_equal(result, (A * B.type(k)).reshape(-1))


def test_scalars_and_special_values():
    x = slot(shape=())
    for v in (0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 3e38):
        got = pd.eval(pd.reshape(x, [1]), {x: B.type(v)})
        assert got.view(np.uint16)[0] == np.array(v).astype(B).view(np.uint16)


def test_other_floats_are_rounded_and_integers_take_none():
    x, wide, whole = slot(), slot("float32"), slot("int64")
    assert pd.eval(pd.reshape(x, [-1]), {x: A.astype("float32") + 1e-4}).dtype == B
    np.testing.assert_array_equal(pd.eval(wide * 1.0, {wide: A}), A.astype("float32"))
    with pytest.raises(pd.FeedError, match="cannot take bfloat16 values where int64 is needed"):
        pd.eval(whole * 2, {whole: A})
    with pytest.raises(pd.FeedError, match="cannot take floats"):
        pd.eval(whole * 2, {whole: np.ones((2, 3), B)})


def test_arrays_are_constants_inside_and_outside_of_a_guard():
    np.testing.assert_array_equal(pd.eval(pd.cast(A, "float32")), A.astype("float32"))
    with pd.guard():
        y = pd.cast(pd.cast(A, "float32") * 2.0, B)
        np.testing.assert_array_equal(y.numpy(), A * B.type(2))


def test_state_is_updated_restored_and_saved(tmp_path):
    w, x = pd.Variable(A, name="w"), slot("float32", (2, 3))
    step = pd.assign(w, pd.cast(pd.cast(w, "float32") + x, B))
    want, session = A, pd.default_session()
    for _ in range(4):
        pd.eval(step, {x: np.ones((2, 3))})
        want = (want.astype("float32") + 1).astype(B)
    np.testing.assert_array_equal(w.val(), want)
    state = session.state()
    pd.save(tmp_path / "w.safetensors", [w])
    for restore in (
        lambda: session.restore(state),
        lambda: pd.load(tmp_path / "w.safetensors", [w]),
    ):
        session.load_values({w: A})
        np.testing.assert_array_equal(pd.eval(w), A)
        restore()
        assert w.val().dtype == B
        np.testing.assert_array_equal(w.val(), want)


def test_draws_of_initializers_are_rounded():
    w = pd.Variable([50, 40], name="w", dtype=B, initializer=pd.uniform_initializer(-1.0, 1.0))
    assert w.val().dtype == B and 0.4 < np.abs(w.val().astype("float32")).mean() < 0.6
