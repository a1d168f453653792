"""Layers of rows on batches of nothing, of one row, and of sequences of which one is empty."""

import numpy as np
import pytest

import pd_core as pd
import pd_v2 as paddle

from .layer_rows import Ids, L, T
from .test_gradient_configurations import CONFIGURATIONS, Given, Steps, fed, multibox

BATCHES = {
    name: (inputs, build)
    for name, (inputs, build) in CONFIGURATIONS.items()
    if build is not multibox and name != "resize"
}
IN_SEQUENCES = {
    name: (inputs, build)
    for name, (inputs, build) in BATCHES.items()
    if name != "blockexpand" and not any(isinstance(k, (Steps, Given)) for k in inputs.values())
}
LENGTHS = np.array([3, 0, 1])


def described(inputs, build, layers):
    """(layer, learned parameters as arrays by name) from fixed values."""
    y = build(**layers)
    pool, rng = paddle.parameters.create(y), np.random.default_rng(3)
    learned = [n for n in pool.names() if not pool.__param_conf__[n].is_static]
    for name in learned:
        pool.set(name, rng.normal(0, 0.5, pool.get_shape(name)).astype(np.float32))
    return y, {name: pool.get_shape(name) for name in learned}


@pytest.mark.parametrize("inputs, build", BATCHES.values(), ids=BATCHES)
def test_values_and_gradients_of_few_rows(inputs, build, rng):
    layers = {name: kind.layer(name) for name, kind in inputs.items()}
    y, shapes = described(inputs, build, layers)
    _, moved = fed(inputs, layers, rng, 1)
    gradients = pd.gradients(y, [*moved, *map(pd.get_variable, shapes)])
    known = dict(zip([*(x.name for x in moved), *shapes], gradients, strict=True))
    known = {k: g for k, g in known.items() if g is not None}
    for n in (0, 1):
        few = {
            name: Steps(kind.size, (0,) * n) if isinstance(kind, Steps) else kind
            for name, kind in inputs.items()
        }
        value, found = pd.eval([y, known], fed(few, layers, rng, n)[0], True)
        nothing = not n or any(isinstance(kind, Steps) for kind in inputs.values())
        assert (value.size == 0) == nothing and np.isfinite(value).all()
        for name, gradient in found.items():
            assert np.isfinite(gradient).all()
            if name in shapes:
                assert gradient.size == np.prod(shapes[name])
            else:
                assert len(gradient) == (0 if nothing else n)
            if nothing:
                assert not gradient.any()


def in_sequences(kind, name):
    """A data layer of sequences of rows of this kind."""
    if isinstance(kind, Ids):
        return L.data(name=name, type=T.integer_value_sequence(kind.size))
    plain = kind.layer(f"{name} in rows")
    sizes = {s: getattr(plain, s) for s in ("depth", "height", "width") if getattr(plain, s)}
    return L.data(name=name, type=T.dense_vector_sequence(plain.size), **sizes)


@pytest.mark.parametrize("inputs, build", IN_SEQUENCES.values(), ids=IN_SEQUENCES)
def test_steps_of_sequences_are_rows_and_an_empty_one_has_none(inputs, build, rng):
    layers = {name: kind.layer(name) for name, kind in inputs.items()}
    y, _ = described(inputs, build, layers)
    rows = {name: kind.draw(rng, sum(LENGTHS)) for name, kind in inputs.items()}
    expected = pd.eval(y, {layers[name]: v for name, v in rows.items()}, training=True)
    with paddle.build.fresh():
        pd.reset(seed=0)
        layers = {name: in_sequences(kind, name) for name, kind in inputs.items()}
        y, _ = described(inputs, build, layers)
        feeds = {
            k: v
            for n, x in layers.items()
            for k, v in zip(x.inputs, (rows[n], LENGTHS), strict=True)
        }
        found = pd.eval([y, *(level.lengths for level in y.levels)], feeds, training=True)
    np.testing.assert_allclose(found[0], expected, rtol=1e-5, atol=1e-6)
    for lengths in found[1:]:
        np.testing.assert_array_equal(lengths, LENGTHS)
