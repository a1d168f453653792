"""Conversion of operators of older opsets to the pinned opset."""

import os
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from ml_dtypes import bfloat16
from onnx import AttributeProto, TensorProto, checker, external_data_helper, helper, numpy_helper

from ... import ops
from ...graph.arrays import as_array
from ...graph.checks import whole
from ...graph.errors import DamagedModel, ModelError
from ...graph.node import apply
from ...graph.size_entries import LARGEST, settled_numbers
from ...graph.variable import Variable, constant

OLDEST = 7
PACKED = ("int4", "uint4")  # two numbers in a byte of a file


@dataclass
class Operator:
    """An operator of a file: `version` is its opset, `outputs` the number of its outputs.

    `declared` are the dims of the first output as far as the file gives them, or None.
    """

    op_type: str
    inputs: list
    attributes: dict[str, Any]
    outputs: int
    version: int
    declared: tuple[int | None, ...] | None = None

    def input(self, k: int) -> Variable | None:
        """Return an input, or None where it is left out."""
        return self.inputs[k] if k < len(self.inputs) else None


Adapter = Callable[[Operator], Variable | None]
adapters: dict[str, list[tuple[int, Adapter]]] = defaultdict(list)


def stored(tensor: TensorProto, folder: str | None = None) -> Variable:
    """Return a tensor of a file as a constant of its name; external data are in the folder.

    ModelError for text and for external data without a folder, DamagedModel for damaged data.
    """
    array, who = array_of(tensor, folder), _described(tensor)
    packed = array.dtype.name in PACKED
    if array.dtype.kind not in "fiub" and not packed:
        hint = "\n  hint: float32=True reads them as float32" if array.dtype == bfloat16 else ""
        raise ModelError(f"{who} holds {array.dtype} numbers, which are not imported{hint}")
    value = np.array(array, order="C") if packed else as_array(array, array.dtype, who)
    return Variable.of(value.shape, value.dtype, tensor.name or "const", value=value)


def array_of(tensor: TensorProto, folder: str | None = None) -> np.ndarray:
    """Return the numbers of a tensor of a file, of any type; the errors are those of `stored`."""
    who = _described(tensor)
    if tensor.data_type == TensorProto.STRING:
        raise ModelError(f"{who} holds text; only numbers are imported")
    if any(n < 0 for n in tensor.dims):
        raise DamagedModel(f"{who} is damaged: its sizes are {list(tensor.dims)}")
    if external_data_helper.uses_external_data(tensor):
        _check_place(tensor, folder, who)
    try:
        return numpy_helper.to_array(tensor, folder or "")
    except (OSError, checker.ValidationError) as error:
        raise ModelError(f"{who} is in another file: {error}") from None
    except (ValueError, TypeError, LookupError) as error:
        raise DamagedModel(f"{who} is damaged: {error}") from None


def _described(tensor):
    return f"tensor {tensor.name!r}" if tensor.name else "a constant"


def bits(dtype: np.dtype) -> int:
    """Return the bits that a number has in a file."""
    return 4 if dtype.name in PACKED else 8 * dtype.itemsize


def _check_place(tensor, folder, who):
    """Check that external data are in the model's folder or below it."""
    if folder is None:
        raise ModelError(
            f"{who} is in another file, and a model without a path has no folder\n"
            "  hint: pass the path of the model"
        )
    location = next((e.value for e in tensor.external_data if e.key == "location"), "")
    root, path = map(os.path.realpath, (folder, os.path.join(folder, location)))
    if not location or os.path.commonpath([root, path]) != root:
        raise DamagedModel(f"{who} is in {location!r}, outside of the model's folder")


def attribute_value(a: AttributeProto) -> Any:
    """Return the value of an attribute: str for bytes, a list for a repeated field."""
    value = helper.get_attribute_value(a)
    if isinstance(value, bytes):
        return value.decode()
    if a.type == AttributeProto.STRINGS:
        return [v.decode() for v in value]
    return list(value) if isinstance(value, Sequence) else value


def until(version: int, *op_types: str) -> Callable[[Adapter], Adapter]:
    """Register fn(operator) for operators of opsets before a version.

    It changes the operator in place to that version's form and returns None, or returns its output.
    Version 99 is for all opsets: an operator that pd builds from others.
    """

    def register(adapt):
        for op_type in op_types:
            adapters[op_type].append((version, adapt))
        return adapt

    return register


def adapted(op: Operator) -> Variable | None:
    """Convert an operator to the pinned opset in place, or return its output."""
    for version, adapt in adapters[op.op_type]:
        if op.version < version:
            output = adapt(op)
            if output is not None:
                return output
    return None


def _attribute_to_input(op, name, k, default=None, dtype=np.int64):
    """Turn an attribute into the k-th input."""
    value = op.attributes.pop(name, default)
    if value is None:
        return
    op.inputs += [None] * (k + 1 - len(op.inputs))
    op.inputs[k] = constant(np.array(value), dtype)


@until(13, "Squeeze", "Unsqueeze", "ReduceSum")
@until(18, "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2")
@until(18, "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare")
def _axes(op):
    _attribute_to_input(op, "axes", 1)


@until(99, "Squeeze")
def _axes_of_one(op):
    """Without axes, those that are 1 where the file declares as many sizes as are left then.

    Open sizes are not 1 there, or all of them are.
    """
    x = op.inputs[0]
    if op.input(1) is not None or op.declared is None or all(isinstance(d, int) for d in x.dims):
        return None
    ones = [k for k, d in enumerate(x.dims) if d == 1]
    either = [k for k, d in enumerate(x.dims) if d == 1 or isinstance(d, str)]
    for axes in (ones, either):
        if len(op.declared) == x.rank - len(axes):
            return ops.squeeze(x, axes) if axes else x
    return None


@until(13, "Split")
def _split(op):
    _attribute_to_input(op, "split", 1)


@until(18, "Split")
def _even_split(op):
    if op.input(1) is None:
        op.attributes["num_outputs"] = op.outputs


@until(10, "Slice")
def _slice(op):
    for k, name in enumerate(("starts", "ends", "axes"), 1):
        _attribute_to_input(op, name, k)


@until(99, "Slice")
def _backward_ends(op):
    """Write the end of a step backward so that ONNX's inference takes it for what the runtime does.

    The largest integer is the end of the axis in either direction for ONNX Runtime; for ONNX a
    backward slice up to there is empty.
    """
    if op.input(4) is None:
        return
    ends, steps = (settled_numbers(op.inputs[k]) for k in (2, 4))
    if ends.value is None or steps.value is None or ends.value.shape != steps.value.shape:
        return
    whole_axis = (steps.value < 0) & np.isin(ends.value, LARGEST)
    if whole_axis.any():
        first = np.where(whole_axis, np.iinfo(ends.dtype).min, ends.value)
        op.inputs[2] = constant(first, ends.dtype)


@until(10, "TopK")
def _top_k(op):
    _attribute_to_input(op, "k", 1)
    op.inputs[1] = constant(op.inputs[1].value.reshape(1))


@until(11, "Clip")
def _clip(op):
    for k, name in enumerate(("min", "max"), 1):
        _attribute_to_input(op, name, k, dtype=op.inputs[0].dtype)


@until(11, "Pad")
def _pad(op):
    _attribute_to_input(op, "pads", 1)
    _attribute_to_input(op, "value", 2, 0.0, op.inputs[0].dtype)


@until(12, "Dropout")
def _dropout(op):
    _attribute_to_input(op, "ratio", 1, dtype=op.inputs[0].dtype)


@until(13, "Softmax", "LogSoftmax", "Hardmax")
def _flattened_softmax(op):
    """Until opset 12 these flattened their input to a matrix at `axis`."""
    x, axis = op.inputs[0], op.attributes.pop("axis", 1)
    axis %= max(x.rank, 1)
    op.attributes["axis"] = -1
    if axis == x.rank - 1:
        return None
    return ops.reshape_like(apply(op.op_type, ops.flatten(x, axis), axis=-1), x)


@until(9, "BatchNormalization")
def _batch_norm_per_channel(op):
    if not op.attributes.pop("spatial", 1):
        raise ModelError("statistics for each pixel (spatial=0) have no operator since opset 9")


@until(14, "BatchNormalization")
def _batch_norm_in_training(op):
    """Until opset 13 training mode is marked by more outputs: running and batch statistics."""
    if op.outputs > 1:
        op.attributes["training_mode"], op.outputs = 1, min(op.outputs, 3)


@until(8, "Upsample")
def _upsample_kind(op):
    if op.attributes.get("mode") == "bilinear":
        op.attributes["mode"] = "linear"


@until(9, "Upsample")
def _upsample(op):
    _attribute_to_input(op, "scales", 1, dtype=np.float32)


@until(11, "Upsample", "Resize")
def _resize(op):
    """Until opset 10 coordinates were those of the result over the scale, "asymmetric"."""
    x, scales = op.inputs
    shrinks = scales.value is not None and (scales.value < 1).any()
    op.op_type, op.inputs = "Resize", [x, None, scales]
    op.attributes["coordinate_transformation_mode"] = "asymmetric"
    op.attributes["nearest_mode"] = "ceil" if shrinks else "floor"


@until(99, "Scatter")
def _scatter(op):
    op.op_type = "ScatterElements"


@until(16, "RoiAlign")
def _roi_align(op):
    op.attributes.setdefault("coordinate_transformation_mode", "output_half_pixel")


@until(20, "GridSample")
def _grid_sample(op):
    mode = op.attributes.get("mode", "linear")
    op.attributes["mode"] = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)


@until(20, "DFT")
def _dft(op):
    _attribute_to_input(op, "axis", 2, 1)


@until(21, "GroupNormalization")
def _group_norm(op):
    """Until opset 20 scale and shift had one element for each group."""
    x, *factors = op.inputs
    groups = op.attributes["num_groups"]
    if not isinstance(x.dims[1], int):
        raise ModelError(f"the number of channels of {x!r} is not known")
    size = x.dims[1] // groups
    op.inputs[1:] = [_repeated(v, groups, size) for v in factors]


def _repeated(v, groups, size):
    return ops.reshape(ops.expand(ops.reshape(v, [groups, 1]), [groups, size]), [groups * size])


@until(99, "MaxUnpool")
def _max_unpool(op):
    """Unpool without `output_shape`, then pad to it.

    Indices are those of the image without `output_shape`, which makes it larger; ONNX Runtime takes
    them as indices of the larger one.
    """
    x, index, target = (*op.inputs, None)[:3]
    if target is None:
        return None
    y = apply("MaxUnpool", x, index, **op.attributes)
    missing = target - ops.shape_of(y)
    return apply("Pad", y, ops.concat([np.zeros(y.rank, np.int64), missing]), known=op.declared)


@until(99, "MeanVarianceNormalization")
def _axes_of_images(op):
    """ONNX's body of the operator takes no default for an attribute that is left out."""
    op.attributes.setdefault("axes", [0, 2, 3])


@until(99, "Resize")
def _resize_by_one(op):
    """Until opset 12 what is not given is a tensor without elements, as some files still have."""
    for k in (1, 2, 3):
        if op.input(k) is not None and op.inputs[k].dims == (0,):
            op.inputs[k] = None
    if op.input(3) is None:
        _in_whole_sizes(op)
    while op.inputs[-1] is None:
        op.inputs.pop()


def _in_whole_sizes(op):
    """Give a Resize its sizes where ONNX rounds the product with scales another way.

    ONNX Runtime rounds it to float32 before it is cut to a whole number. Where coordinates are
    divided by scales that are not those of the sizes, these are kept, larger by their last bit;
    nearest pixels, which it may change, keep the scales of the file.
    """
    x, scales = op.inputs[0], op.input(2)
    axes = op.attributes.get("axes", range(x.rank))
    if scales is None or scales.value is None or scales.value.size != len(axes):
        return
    dims = [x.dims[k] for k in axes]
    if not all(isinstance(n, int) for n in dims):
        return
    rows = list(zip(dims, scales.value.reshape(-1).astype(np.float32), strict=True))
    sizes = [int(np.float32(n) * s) for n, s in rows]
    differ = [new != int(n * float(s)) for new, (n, s) in zip(sizes, rows, strict=True)]
    if not any(differ):
        return
    cropped = op.attributes.get("coordinate_transformation_mode") == "tf_crop_and_resize"
    fits = (np.float32(new) / np.float32(n) == s for new, (n, s) in zip(sizes, rows, strict=True))
    if cropped or all(fits):
        op.inputs = [*op.inputs[:2], None, constant(np.array(sizes, np.int64))]
    elif op.attributes.get("mode", "nearest") != "nearest":
        more = np.float32(np.inf)
        nudged = [np.nextafter(s, more) if d else s for d, (_, s) in zip(differ, rows, strict=True)]
        op.inputs[2] = constant(np.array(nudged, np.float32))


@until(99, "Mod")
def _mod(op):
    """Since opset 28 floats may have the remainder with the sign of the divisor, as integers do."""
    a, b = op.inputs
    if a.dtype.kind != "f" or op.attributes.get("fmod", 0):
        return None
    return ops.mod(a, b)


@until(99, "Pow")
def _pow(op):
    """ONNX Runtime has no kernel for unsigned exponents."""
    x, exponent = op.inputs
    if exponent.dtype.kind == "u":
        op.inputs[1] = ops.cast(exponent, x.dtype)


@until(99, "STFT")
def _stft(op):
    """ONNX Runtime takes signals [batch, length], which ONNX writes as [batch, length, 1]."""
    if op.inputs[0].rank == 2:
        op.inputs[0] = ops.unsqueeze(op.inputs[0], 2)


@until(99, "OptionalGetElement", "Optional")
def _present(op):
    """Return the value inside an optional."""
    if op.inputs and op.inputs[0] is not None:
        return op.inputs[0]
    raise ModelError("there is no value in this optional")


@until(99, "OptionalHasElement")
def _has_element(op):
    return constant(bool(op.inputs) and op.inputs[0] is not None)


@until(99, "Constant")
def _constant(op):
    (name, value), *_ = op.attributes.items()
    if name == "value":
        return stored(value)
    if name in ("value_int", "value_ints"):
        return whole(value)
    if name in ("value_float", "value_floats"):
        return constant(np.array(value, np.float32))
    raise ModelError(f"a constant of kind {name}")
