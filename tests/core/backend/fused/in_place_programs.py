"""Random programs with states, whose new values may be written into the memory of the old ones.

`python -m tests.core.backend.fused.in_place_programs N SEED` tries N of them.
"""

import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

from pd_core.backend.fused.build import build
from pd_core.backend.fused.fusion import fuse
from pd_core.backend.fused.in_place import Places
from pd_core.backend.fused.writes import wait_for_all
from tests.core.backend.fused.alone import FLAGS, kinds_of, model_of, run

N = helper.make_node
SIZES = [(), (6,), (6, 6), (4, 6), (3, 6, 6)]
UNARY = ["Tanh", "Relu", "Neg", "Abs", "Identity", "Sigmoid"]
BINARY = ["Add", "Sub", "Mul", "Max", "Min"]
KINDS = "unary binary binary binary scaled sum turned product view running rows softmax nothing"
KINDS = KINDS.split()
CONSTANTS = {
    "last": np.array([-1]),
    "axis": np.int64(-1),
    "half": np.float32(0.5),
    "zero": np.float32(0),
    "whole": np.array([-1]),
    **{f"as{k}": np.array(dims, np.int64) for k, dims in enumerate(SIZES)},
}


class Drawn:
    """A random program: `model`, its `states` by the outputs that are their new values."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        rng = self.rng
        self.nodes, self.values, self.inputs = [], [], {}
        olds = [SIZES[k] for k in rng.integers(0, len(SIZES), rng.integers(2, 5))]
        for k, dims in enumerate(olds):
            self.inputs |= {f"s{k}": (TensorProto.FLOAT, dims), f"g{k}": (TensorProto.FLOAT, dims)}
            self.values += [(f"s{k}", dims), (f"g{k}", dims)]
        self.inputs["index"] = (TensorProto.INT64, (6,))
        for _ in range(rng.integers(6, 18)):
            self._step()
        self.states, taken = {}, set()
        for k, dims in enumerate(olds):
            fitting = [x for x, own in self.values if own == dims and x not in taken]
            x = fitting[-1 - min(int(rng.geometric(0.5)) - 1, len(fitting) - 1)] if fitting else ""
            if x in self.inputs or not x:
                x = self._add("Add", [f"s{k}", f"g{k}"], dims)
            taken.add(x)
            self.states[x] = f"s{k}"
        made = [x for x, _ in self.values if x not in self.inputs and x not in taken]
        fetched = list(rng.permutation(made)[: rng.integers(1, 3)]) if made else []
        copies = [self._add("Identity", ["s0"], olds[0])] if rng.random() < 0.5 else []
        order = [str(x) for x in rng.permutation([*fetched, *copies, *self.states])]
        self.model = model_of(self.nodes, self.inputs, order, CONSTANTS)

    def _add(self, op, inputs, dims, **given):
        y = f"v{len(self.nodes)}"
        self.nodes.append(N(op, inputs, [y], name=f"{op}_{y}", **given))
        self.values.append((y, tuple(dims)))
        return y

    def _any(self, test=lambda dims: True):
        fitting = [(x, dims) for x, dims in self.values if test(dims)]
        return fitting[self.rng.integers(len(fitting))] if fitting else (None, None)

    def _step(self):
        rng = self.rng
        x, dims = self._any()
        kind = rng.choice(KINDS)
        if kind == "unary":
            self._add(str(rng.choice(UNARY)), [x], dims)
        elif kind == "binary":
            other, _ = self._any(lambda own: own == dims)
            pair = [x, other] if rng.random() < 0.5 else [other, x]
            self._add(str(rng.choice(BINARY)), pair, dims)
        elif kind == "scaled":
            scale, _ = self._any(lambda own: own == ())
            self._add("Mul", [x, scale or "half"], dims)
        elif kind == "nothing":  # the runtime leaves it out
            self._add("Add", [x, "zero"], dims)
        elif kind == "sum" and dims:
            total = self._add(
                str(rng.choice(["ReduceSum", "ReduceMax"])), [x, "last"], (*dims[:-1], 1)
            )
            self._add("Sub", [x, total], dims)
        elif kind == "turned" and dims[-2:] == (6, 6):
            axes = [*range(len(dims) - 2), len(dims) - 1, len(dims) - 2]
            self._add("Transpose", [x], dims, perm=axes)
        elif kind == "product" and len(dims) > 1 and dims[-1] == 6:
            square, _ = self._any(lambda own: own == (6, 6))
            if square:
                self._add("MatMul", [x, square], dims)
        elif kind == "view" and dims and dims in SIZES:
            flat = self._add("Reshape", [x, "whole"], (int(np.prod(dims)),))
            self._add("Reshape", [flat, f"as{SIZES.index(dims)}"], dims)
        elif kind == "running" and dims:  # fits in no group
            self._add("CumSum", [x, "axis"], dims)
        elif kind == "rows" and dims[:1] == (6,):
            self._add("Gather", [x, "index"], dims)
        elif kind == "softmax" and dims:
            self._add("Softmax", [x], dims)

    def draw(self):
        """Return values of all inputs."""
        feeds = {
            x: self.rng.normal(size=dims).astype("f")
            for x, (kind, dims) in self.inputs.items()
            if kind == TensorProto.FLOAT
        }
        return feeds | {"index": self.rng.integers(-6, 6, 6)}


class Opened:
    """A program that is fused, in a session: `written` are the results in place."""

    def __init__(self, model, states, tables=(), optimized=True):
        self.model = onnx.ModelProto()
        self.model.CopyFrom(model)
        source, found = fuse(self.model, kinds_of(model), (), Places(states, tables))
        self.states, self.written = states, found.written
        if found.writer:
            wait_for_all(self.model, found.writer)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = 2
        level = onnxruntime.GraphOptimizationLevel
        kind = level.ORT_ENABLE_ALL if optimized else level.ORT_DISABLE_ALL
        options.graph_optimization_level = kind
        if source is not None:
            options.register_custom_ops_library(str(build(source, flags=FLAGS)))
        self.session = onnxruntime.InferenceSession(self.model.SerializeToString(), options)

    def run(self, feeds, in_place):
        """Return {output: value} of a run, and the values of all inputs after it."""
        values = {
            x: onnxruntime.OrtValue.ortvalue_from_numpy(np.array(a)) for x, a in feeds.items()
        }
        binding = self.session.io_binding()
        for v in self.session.get_inputs():
            binding.bind_ortvalue_input(v.name, values[v.name])
        names = [v.name for v in self.session.get_outputs()]
        for y in names:
            if in_place and y in self.written:
                binding.bind_ortvalue_output(y, values[self.states[y]])
            else:
                binding.bind_output(y, "cpu")
        error = None
        try:
            self.session.run_with_iobinding(binding)
        except Exception as e:
            error = e
        after = {x: v.numpy().copy() for x, v in values.items()}
        if error is not None:
            return error, after
        found = [v.numpy().copy() for v in binding.get_outputs()]
        return dict(zip(names, found, strict=True)), after


def check(seed):
    """Compare a program in place with itself in two buffers, bit for bit, and both with unfused.

    A run that fails leaves all states as they are. Returns (results in place, all new values).
    """
    drawn = Drawn(seed)
    feeds = drawn.draw()
    plain = run(drawn.model, feeds)
    opened = Opened(drawn.model, drawn.states, optimized=seed % 2 == 0)
    two, untouched = opened.run(feeds, in_place=False)
    one, after = opened.run(feeds, in_place=True)
    for y in plain:
        np.testing.assert_allclose(two[y], plain[y], rtol=2e-4, atol=2e-5, err_msg=f"{seed} {y}")
        np.testing.assert_array_equal(_bits(one[y]), _bits(two[y]), err_msg=f"{seed} {y}")
    for x in feeds:
        np.testing.assert_array_equal(untouched[x], feeds[x])
        y = next((y for y in opened.written if drawn.states[y] == x), None)
        expected = feeds[x] if y is None else two[y]
        np.testing.assert_array_equal(_bits(after[x]), _bits(expected), err_msg=f"{seed} {x}")
    wrong = feeds | {"index": np.array([0, 1, 7, 2, 3, 4])}
    result, after = opened.run(wrong, in_place=True)
    if isinstance(result, Exception):
        for x in wrong:
            np.testing.assert_array_equal(after[x], wrong[x], err_msg=f"{seed} {x} after an error")
    return len(opened.written), len(drawn.states)


def _bits(a):
    return np.ascontiguousarray(a).view(np.uint32)


def main():
    """Try as many programs as the command line says."""
    number, seed = int(sys.argv[1]), int(sys.argv[2])
    found = [check(seed + k) for k in range(number)]
    written, all_ = map(sum, zip(*found, strict=True))
    print(f"{number} programs, {written} of {all_} new values in place")


if __name__ == "__main__":
    main()
