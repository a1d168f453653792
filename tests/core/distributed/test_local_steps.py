"""Steps of each rank alone, and their means: against local SGD in NumPy."""

import numpy as np
import pytest

import pd_core as pd
from tests.core.distributed.in_process import run

f32 = np.float32
STEPS, ROWS = 7, 6
RNG = np.random.default_rng(0)
FEATURES = RNG.standard_normal((STEPS, ROWS, 3)).astype(f32)
TARGETS = RNG.standard_normal((STEPS, ROWS, 1)).astype(f32)


def linear(optimizer):
    pd.reset(seed=3)
    x, y = pd.Variable([None, 3]), pd.Variable([None, 1])
    w = pd.Variable("w", data=np.zeros((3, 1)))
    return x, y, w, optimizer.minimize(pd.reduce_mean(pd.square(x @ w - y)))


def rows_of(rank, size):
    return slice(rank * ROWS // size, (rank + 1) * ROWS // size)


def trained(size, optimizer, steps=STEPS, samples=None, features=FEATURES, **options):
    x, y, w, step = linear(optimizer)

    def program(rank, session, exchange):
        rows, seen = rows_of(rank, size), []
        if samples is not None:
            exchange.samples = samples[rank]
        for k in range(steps):
            session.eval(step, {x: features[k, rows], y: TARGETS[k, rows]})
            seen.append(session.get(w))
        states = [session.get(v) for v in step.variables() if v.dtype.kind == "f"]
        return seen, states, exchange.world.comm.messages

    return run(size, program, **options)


def averaged(size, every, rate, momentum, weights=None):
    """The parameters of each rank after each step, in float64."""
    w, m = np.zeros((2, size, 3, 1))
    weights = np.ones(size) if weights is None else np.array(weights)
    seen = []
    for k in range(STEPS):
        for r in range(size):
            xs, ys = (a[k, rows_of(r, size)].astype(np.float64) for a in (FEATURES, TARGETS))
            gradient = 2 * xs.T @ (xs @ w[r] - ys) / len(xs)
            m[r] = momentum * m[r] + gradient
            w[r] = w[r] - rate * m[r]
        if (k + 1) % every == 0:
            w[:] = np.average(w, 0, weights)
            m[:] = np.average(m, 0, weights)
        seen.append(w.copy())
    return np.array(seen)


@pytest.mark.parametrize("size, every", [(2, 2), (3, 3), (2, 5)])
def test_parameters_and_momentum_are_averaged(size, every):
    expected = averaged(size, every, 0.05, 0.9)
    results = trained(size, pd.MomentumOptimizer(0.05, 0.9), local_steps=every)
    for rank, (seen, _, _) in enumerate(results):
        np.testing.assert_allclose(seen, expected[:, rank], rtol=1e-4, atol=1e-6)
    last = STEPS // every * every - 1  # the last one of a round
    assert len({seen[last].tobytes() for seen, _, _ in results}) == 1


def test_means_are_weighted_by_samples():
    expected = averaged(2, 2, 0.05, 0.9, [3, 1])
    results = trained(2, pd.MomentumOptimizer(0.05, 0.9), samples=[3, 1], local_steps=2)
    for rank, (seen, _, _) in enumerate(results):
        np.testing.assert_allclose(seen, expected[:, rank], rtol=1e-4, atol=1e-6)


def test_affine_gradients_give_the_steps_of_all_rows():
    """With the same Hessian on all ranks the mean follows data-parallel SGD."""
    same = np.concatenate([FEATURES[:, :3]] * 2, 1)
    for reduce in ("mean", "sum"):
        whole = trained(2, pd.MomentumOptimizer(0.02), 6, features=same, reduce=reduce)
        local = trained(
            2, pd.MomentumOptimizer(0.02), 6, features=same, reduce=reduce, local_steps=3
        )
        for (one, slots, _), (other, others, _) in zip(whole, local, strict=True):
            np.testing.assert_allclose(one[5], other[5], rtol=1e-5, atol=1e-6)
            for a, b in zip(slots, others, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_counters_of_adam_are_those_of_the_steps():
    results = trained(3, pd.AdamOptimizer(0.05), 6, local_steps=2)
    alone = trained(1, pd.AdamOptimizer(0.05), 6)
    scalars = [[s for s in states if s.ndim == 0] for _, states, _ in results]
    for own in scalars:
        assert own == [s for s in alone[0][1] if s.ndim == 0]


def test_ranks_meet_after_every_so_many_steps():
    often, seldom = (trained(2, pd.SGDOptimizer(0.05), 6, local_steps=k)[0][2] for k in (2, 6))
    always = trained(2, pd.SGDOptimizer(0.05), 6)[0][2]
    assert seldom < often < always


def test_accumulated_gradients_are_those_of_a_local_step():
    x, y, w, step = linear(pd.SGDOptimizer(0.1))

    def program(rank, session, exchange):
        feeds = [{x: FEATURES[k, rank : rank + 1], y: TARGETS[k, rank : rank + 1]} for k in (0, 1)]
        with exchange.no_sync():
            session.eval(step, feeds[0])
        session.eval(step, feeds[1])
        return session.get(w)

    for rank, found in enumerate(run(2, program, local_steps=5)):
        xs, ys = FEATURES[:2, rank], TARGETS[:2, rank]
        expected = 0.2 * xs.T @ ys  # of zeros, the sum of two gradients
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_average_parameters_ends_a_round():
    x, y, w, step = linear(pd.SGDOptimizer(0.1))

    def program(rank, session, exchange):
        session.eval(step, {x: FEATURES[0, rank : rank + 1], y: TARGETS[0, rank : rank + 1]})
        before = session.get(w)
        part = exchange.of(session)
        assert part.local.count == 1
        part.average()
        return before, session.get(w), part.local.count

    results = run(2, program, local_steps=5)
    mean = (results[0][0] + results[1][0]) / 2
    for before, after, count in results:
        assert (after == mean).all() and (before != after).any() and count == 0


def test_a_second_program_begins_with_the_same_values():
    x, y, w, step = linear(pd.MomentumOptimizer(0.1))
    other = pd.SGDOptimizer(0.1).minimize(pd.reduce_mean(pd.abs(x @ w - y)))

    def program(rank, session, exchange):
        feeds = {x: FEATURES[0, rank : rank + 1], y: TARGETS[0, rank : rank + 1]}
        for update in (step, other, step):
            session.eval(update, feeds)
        return session.get(w).tobytes(), exchange.part(session).local.count

    results = run(2, program, local_steps=5)
    assert results[0][0] != results[1][0]  # in the middle of a round
    assert [count for _, count in results] == [2, 2]


def test_batch_sizes_on_some_ranks_only():
    with pytest.raises(pd.GraphError, match=r"some have a set_batch_size\(\) in local steps"):
        trained(2, pd.SGDOptimizer(0.05), samples=[3, None], local_steps=2)


@pytest.mark.parametrize(
    "options, words",
    [
        ({"local_steps": 0}, "local_steps 0 are positive"),
        ({"top_k": 0.0}, r"the part of the numbers that travel, in \(0, 1\], not 0.0"),
        ({"compression": "topk"}, "compression is 'top_k' or 'int8', not 'topk'"),
        ({"local_steps": 2, "compression": "int8"}, "local_steps=2 and compression='int8' exclude"),
        ({"local_steps": 2, "wire_dtype": "float16"}, "local_steps=2 and wire_dtype exclude"),
        ({"local_steps": 2, "sync_batch_norm": True}, "local_steps=2 and sync_batch_norm exclude"),
        ({"local_steps": 2, "divisions": 2}, "local_steps=2 and divisions exclude each other"),
        ({"local_steps": 2, "reproducible": True}, "reproducible=True and local_steps=2 exclude"),
        ({"compression": "int8", "reproducible": True}, "depends on the number of ranks"),
        ({"compression": "int8", "wire_dtype": "float16"}, "each says how gradients travel"),
        ({"compression": "top_k", "divisions": 2}, "all its numbers travel in one message"),
        ({"wire_dtype": "float16", "reproducible": True}, "exact sums are of the numbers"),
    ],
)
def test_options_that_make_no_sense(options, words):
    with pytest.raises(ValueError, match=f"init: .*{words}"):
        pd.distributed.init(**options)
    assert not pd.distributed.is_initialized()
