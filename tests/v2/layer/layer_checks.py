"""What every row of a table of layers is put through, and small things that the tables share."""

import numpy as np
import onnxruntime

import pd_core as pd
import pd_v2 as paddle
from pd_v2.topology import Topology

from .layer_rows import L, T


def filled(layer, rng):
    """A pool for a layer with a random value in every parameter: (pool, values by name)."""
    pool, values = paddle.parameters.create(layer), {}
    for name in pool.names():
        shape = pool.get_shape(name)
        static = pool.__param_conf__[name].is_static
        values[name] = rng.uniform(0.5, 1.5, shape) if static else rng.normal(0, 0.5, shape)
        pool.set(name, values[name])
        values[name] = values[name].astype(np.float32).astype(np.float64)
    return pool, values


def seen(values, feeds):
    """What a row's formula reads: data, and parameters by the end of their names."""
    short = {name.removeprefix("_y."): value for name, value in values.items()}
    return short | {k: a.astype(np.float64) if a.dtype.kind == "f" else a for k, a in feeds.items()}


def dense(name, size, **geometry):
    return L.data(name=name, type=T.dense_vector(size), **geometry)


def image(name="im"):
    return dense(name, 3 * 6 * 4, height=6, width=4)


def gradient_of(y, x, feeds):
    (found,) = pd.gradients(y, [x])
    return pd.eval([y, found], feeds, training=True)


class LayerChecks:
    """Each of the class's `rows`: values of small batches, here and exported, and gradient."""

    def test_values(self, row, rng, tmp_path):
        y, _ = row.layers()
        pool, values = filled(y, rng)
        path = str(tmp_path / "y.onnx")
        Topology(y).export_onnx(path, pool)
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        assert [i.name for i in session.get_inputs()] == list(row.inputs)
        for n in (3, 1):
            feeds = row.feeds(rng, n)
            expected = row.formula(seen(values, feeds))
            found = pd.eval(y, feeds)
            assert expected.shape == (n, y.size)
            np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-6)
            (exported,) = session.run(["y"], feeds)
            np.testing.assert_allclose(exported, found, rtol=1e-5, atol=1e-6)
        assert pd.eval(y, row.feeds(rng, 0)).shape == (0, y.size)

    def test_gradient(self, row, rng):
        y, data = row.layers()
        pool, values = filled(y, rng)
        feeds = row.feeds(rng, 3)
        fed = {data[name]: array for name, array in feeds.items()}
        known = seen(values, feeds)
        learned = {
            name.removeprefix("_y."): pd.get_variable(name)
            for name in pool.names()
            if not pool.__param_conf__[name].is_static
        }
        fixed = ("label", "weight", "indices", "rois")
        learned |= {k: v for k, v in data.items() if feeds[k].dtype.kind == "f" and k not in fixed}
        seed = rng.standard_normal((3, y.size)).astype(np.float32)
        formula = row.training or row.formula

        def projected(step):
            moved = {k: known[k] + step * way for k, way in ways.items()}
            return np.sum(formula({**known, **moved}) * seed)

        found = pd.gradients(y, list(learned.values()), seeds=[pd.constant(seed)])
        arrays = pd.eval(found, fed, training=True)
        ways = {k: rng.standard_normal(known[k].shape) for k in learned}
        slope = sum(
            np.sum(g.reshape(ways[k].shape) * ways[k]) for k, g in zip(learned, arrays, strict=True)
        )
        expected = row.coeff * (projected(1e-6) - projected(-1e-6)) / 2e-6
        np.testing.assert_allclose(slope, expected, rtol=2e-4, atol=1e-5)
