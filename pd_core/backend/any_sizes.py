"""A model for all sizes that a program may have: programs of different sizes share its session.

To open a session takes ONNX Runtime 40 µs for each operator. Sizes that nothing has read while a
program was compiled (`graph/size_reads.py`) have names in the model, as the size of a batch has,
and the constants that they are in are inputs. A session with such names runs as fast as one for
fixed sizes: it plans the memory of a run for the shapes of the inputs of each.
"""

import zlib
from collections.abc import Mapping
from itertools import chain
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

from ..graph.size_reads import SizeReads, filled_array
from ..graph.variable import Dim, Dims
from .ort_arrays import ort_value

_KEY = "sizes"


class AnySizes:
    """A model without the sizes that are not among those that `reads` has fixed.

    It is made of a model for certain sizes, which is changed. `model` are its bytes, `sessions`
    those that it is open in, with a plan of the memory or without one.
    """

    def __init__(self, model: ModelProto, reads: SizeReads):
        graph = model.graph
        declared = [v.type.tensor_type.shape.dim for v in (*graph.input, *graph.output)]
        dims = [*chain.from_iterable(declared)]
        prefix = _free("=", lambda name: any(d.dim_param.startswith(name) for d in dims))
        self.sizes = sorted({d.dim_value for d in dims if d.dim_value > 1} - reads.fixed)
        for d in dims:
            if d.dim_value in self.sizes:
                d.dim_param = f"{prefix}{d.dim_value}"
        self.filled: dict[str, tuple[Dims, Any, np.dtype]] = {}
        tensors = [t for t in graph.initializer if t.name in reads.filled]
        for tensor in tensors:
            (dims_, value), dtype = reads.filled[tensor.name], numpy_helper.to_array(tensor).dtype
            self.filled[tensor.name] = dims_, value, dtype
            shape = [len(dims_)] if value is None else self._named(dims_, prefix)
            graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, shape))
            graph.initializer.remove(tensor)
        # ONNX Runtime finds the plan of a run's memory by all sizes of its inputs, xor-ed: width
        # that two inputs have does not count, and the plan for others would be in its place.
        taken = {name for node in graph.node for name in (*node.input, *node.output)}
        taken.update(v.name for v in (*graph.input, *graph.output))
        self.key = _free(_KEY, taken.__contains__)
        graph.input.append(
            helper.make_tensor_value_info(self.key, TensorProto.INT8, [f"{prefix}key", 0])
        )
        self.model = model.SerializeToString()
        self.sessions: WeakValueDictionary[bool, Any] = WeakValueDictionary()

    def _named(self, dims, prefix):
        return [f"{prefix}{d}" if d in self.sizes else d for d in dims]

    def constants(self, renamed: Mapping[Dim, Dim]) -> list[tuple[str, Any]]:
        """Return (name, OrtValue) of the inputs for other sizes in the place of those it had."""
        key = zlib.crc32(np.array([renamed.get(d, d) for d in self.sizes], np.int64).tobytes())
        arrays = {self.key: np.empty((key, 0), np.int8)}
        for name, (dims, value, dtype) in self.filled.items():
            arrays[name] = filled_array(tuple([renamed.get(d, d) for d in dims]), value, dtype)
        return [(name, ort_value(array)) for name, array in arrays.items()]


def _free(name, is_taken):
    while is_taken(name):
        name += "_"
    return name
