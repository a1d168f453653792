"""Programs that run again and again: results and values are those of NumPy, and nobody else's."""

import numpy as np
import pytest

import pd_core as pd

f32 = np.float32
# elements on both sides of the size up to which feeds and results stay bound
SIZES = (0, 1, 3, 4096, 4097, 5000)


@pytest.mark.parametrize("seed", range(6))
def test_runs_with_changing_sizes(seed):
    """Feeds of any size and order of memory, in a session that steps and evaluates by turns."""
    rng = np.random.default_rng(seed)
    x, y, c = pd.Variable([None]), pd.Variable([None]), pd.Variable([])
    w = pd.Variable("w", data=f32(1.0))
    two, total, none = x * 2.0 + w, pd.reduce_sum(y) * c, pd.cast(x > 1e9, "bool")
    more = pd.assign(w, w + c)
    held, expected, kept, fed = f32(1.0), [], [], []
    x_size, y_size = 3, 1
    for k in range(40):
        if rng.random() < 0.3:
            x_size, y_size = rng.choice(SIZES, 2)
        a, b, n = rng.random(2 * x_size).astype(f32), rng.random(y_size), f32(k % 5)
        a = a[::2] if rng.random() < 0.3 else a[:x_size]
        steps = rng.random() < 0.5
        found = pd.eval([two, total, none, x, *([more] if steps else [])], {x: a, y: b, c: n})
        expected.append([a * 2 + held, b.astype(f32).sum() * n, np.zeros(x_size, bool), a.copy()])
        kept.append(found[:4])
        a[:] = -1.0  # what was fed is the caller's again
        fed.append(a)
        held = held + n if steps else held
    for found, want in zip(kept, expected, strict=True):
        for one, other in zip(found, want, strict=True):
            assert one.shape == np.shape(other)
            np.testing.assert_allclose(one, other, rtol=1e-5)
    assert w.val() == held and all((a == -1.0).all() for a in fed)


def test_results_are_the_callers():
    """One that is written to changes no later one, and is not changed by it."""
    x = pd.Variable([3])
    targets = [x + 1.0, x + 1.0, x]
    before = None
    for k in range(6):
        found = pd.eval(targets, {x: np.full(3, k, f32)})
        assert [a.tolist() for a in found] == [[k + 1.0] * 3, [k + 1.0] * 3, [k] * 3]
        assert not np.shares_memory(found[0], found[1])
        if before is not None:
            assert all((a == -7.0).all() for a in before)
        for a in found:
            a[:] = -7.0
        before = found


def test_a_result_that_grows_by_its_values():
    """The shapes of the feeds stay while that of the result does not."""
    x, n = pd.Variable([4]), pd.Variable([1], dtype="int64")
    some = pd.gather(x, pd.reshape(pd.nonzero(x > 0), [-1]))
    tiled = pd.tile(x, n)
    for k in (0, 1, 4, 2, 2, 2, 3, 0, 0, 0, 1):
        a = np.where(np.arange(4) < k, 1.0, -1.0).astype(f32)
        found = pd.eval([some, tiled], {x: a, n: [k]})
        assert found[0].tolist() == [1.0] * k
        assert found[1].tolist() == a.tolist() * k


def test_a_failed_run_is_no_step_and_the_next_one_is_whole():
    x, shape = pd.Variable([1, 3]), pd.Variable([2], dtype="int64")
    w = pd.Variable("w", data=np.zeros(3, f32))
    step, total = pd.assign(w, w + pd.reduce_sum(pd.expand(x, shape), [0])), np.zeros(3)
    for k in range(8):
        a = np.arange(3, dtype=f32)[None] + k
        if k % 3 == 2:
            with pytest.raises(pd.BackendError, match=r"^Expand: (?s:.*)node   Expand, built at"):
                pd.eval([step, x * 1.0], {x: a, shape: [2, 4]})
        else:
            _, y = pd.eval([step, x * 1.0], {x: a, shape: [k, 3]})
            assert y.tolist() == a.tolist()
            total += k * a[0]
        assert w.val().tolist() == total.tolist()


def test_two_programs_write_one_variable_by_turns():
    """Each of them finds the value that the other one wrote, in whichever buffer it is."""
    x = pd.Variable([2])
    w, b = pd.Variable("w", data=np.ones(2, f32)), pd.Variable("b", data=np.ones(2, f32))
    programs = [
        ([pd.assign(w, 0.5 * w + x)], lambda w, b, a: (0.5 * w + a, b)),
        ([pd.assign(w, -b), pd.assign(b, w)], lambda w, b, a: (-b, w)),  # they swap
        ([pd.assign(b, b - x), w], lambda w, b, a: (w, b - a)),
    ]
    rng, held = np.random.default_rng(3), (np.ones(2), np.ones(2))
    for _ in range(40):
        targets, rule = programs[rng.integers(len(programs))]
        a = rng.integers(-3, 4, 2).astype(f32)
        if rng.random() < 0.2:
            held = (a, held[1])
            pd.default_session().set(w, a)
        pd.eval(targets, {x: a})
        held = rule(*held, a)
        np.testing.assert_allclose(w.val(), held[0], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(b.val(), held[1], rtol=1e-5, atol=1e-5)


def test_the_value_before_a_step_is_released_whole():
    """Steps after that write elsewhere, and count on."""
    w = pd.Variable("w", data=np.zeros(3, f32))
    step, session = pd.assign(w, w + 1.0), pd.default_session()
    released = []
    for k in range(6):
        session.eval(step)
        if k % 2:
            released.append((k, session.store.release(w)))
            assert session.store.before(w) is None
    assert w.val().tolist() == [6.0] * 3
    assert [(k, np.asarray(a).tolist()) for k, a in released] == [(k, [k] * 3) for k in (1, 3, 5)]
