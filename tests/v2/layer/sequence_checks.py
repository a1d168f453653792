"""What every row of a table of sequence layers is put through, and small things for other tests."""

import numpy as np
import onnxruntime

import pd_core as pd
from pd_v2.topology import Topology

from .layer_checks import filled
from .sequence_rows import BATCHES, flat, nested


class SequenceChecks:
    """Each of the class's `rows`, on every batch: values, levels, the export, and gradient."""

    def test_values(self, row, rng, tmp_path):
        """One file for every batch: it takes rows and lengths."""
        y, data = row.layers()
        pool, values = filled(y, rng)
        assert len(y.levels) == row.levels
        path = str(tmp_path / "y.onnx")
        Topology(y).export_onnx(path, pool)
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        names = [i.name for i in session.get_inputs()]
        for label, batch in BATCHES.items():
            drawn = row.draw(rng, batch)
            rows, lengths = flat(row.formula(seen(values, drawn)), row.levels)
            fed = feeds(data, drawn)
            found, *levels = pd.eval([y, *(s.lengths for s in y.levels)], fed)
            assert found.shape == (len(rows), *y.dims[1:]), label
            close(found, rows.reshape(found.shape), label)
            for have, want in zip(levels, lengths, strict=True):
                np.testing.assert_array_equal(have, want, label)
            by_name = {v.name: array for v, array in fed.items()}
            (exported,) = session.run(["y"], {name: by_name[name] for name in names})
            close(exported, found, label)

    def test_gradient(self, row, rng):
        y, data = row.layers()
        pool, values = filled(y, rng)
        learned = {name.removeprefix("_y."): pd.get_variable(name) for name in pool.names()}
        learned |= {k: v for k, v in data.items() if v.dtype.kind == "f"}
        if not row.smooth:
            assert not any(pd.gradients(pd.cast(y, "float32"), list(learned.values())))
            return
        above = pd.Variable([None, y.dims[1]])
        found = pd.gradients(y, list(learned.values()), seeds=[above])
        found = {k: g for k, g in zip(learned, found, strict=True) if g is not None}
        assert found
        for label, batch in BATCHES.items():
            drawn = row.draw(rng, batch)
            slopes = Slopes(row, values, drawn, rng, list(found), y.dims[1])
            arrays = pd.eval(found, {**feeds(data, drawn), above: slopes.above}, training=True)
            close(slopes.along(arrays), slopes.expected(), label, 5e-4)


class Slopes:
    """The slope of a formula in a random direction, projected on random weights `above`."""

    def __init__(self, row, values, drawn, rng, names, width):
        self.row, self.values, self.drawn = row, values, drawn
        rows, _ = flat(row.formula(seen(values, drawn)), row.levels)
        self.ways = {k: rng.standard_normal(self._start(k).shape) for k in names}
        self.above = rng.standard_normal((len(rows), width)).astype("f")

    def _start(self, name):
        return self.drawn[name][0] if name in self.drawn else self.values[self._full(name)]

    def _full(self, name):
        return name if name in self.values else f"_y.{name}"

    def along(self, arrays):
        """The slope by these gradients."""
        return sum(np.sum(a.reshape(self.ways[k].shape) * self.ways[k]) for k, a in arrays.items())

    def expected(self, step=1e-6):
        """The slope by central differences."""
        return (self._projected(step) - self._projected(-step)) / (2 * step)

    def _projected(self, step):
        drawn, values = dict(self.drawn), dict(self.values)
        for k, way in self.ways.items():
            moved = self._start(k).astype(np.float64) + step * way
            if k in drawn:
                drawn[k] = moved, drawn[k][1]
            else:
                values[self._full(k)] = moved
        rows, _ = flat(self.row.formula(seen(values, drawn)), self.row.levels)
        return np.sum(rows.reshape(self.above.shape) * self.above)


def close(found, expected, label, rtol=2e-5):
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=2e-6 + rtol / 20, err_msg=label)


def feeds(data, drawn):
    """{Variable: array} for the rows and lengths of some data layers."""
    found = {}
    for name, (rows, levels) in drawn.items():
        found.update(zip(data[name].inputs, [rows, *levels], strict=True))
    return found


def seen(values, drawn):
    """What a row's formula reads."""
    found = {name.removeprefix("_y."): value for name, value in values.items()}
    for name, (rows, levels) in drawn.items():
        wide = rows.astype(np.float64) if rows.dtype.kind == "f" else rows
        found[name] = nested(wide, levels)
    return found
