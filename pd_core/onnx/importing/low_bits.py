"""Operators of ONNX Runtime on weights of few bits, written in those of ONNX."""

from typing import Any

import numpy as np
from ml_dtypes import uint4
from onnx import ModelProto, NodeProto, helper, numpy_helper

from ...graph.errors import DamagedModel, ModelError

MICROSOFT = "com.microsoft"
_BLOCKS_SINCE = 21  # DequantizeLinear with a scale for each block
_TYPES = {4: uint4, 8: np.uint8}


def with_standard_low_bits(model: ModelProto, opset: int, folder: str | None) -> ModelProto:
    """Write MatMulNBits as a product with a DequantizeLinear in blocks.

    The integers of the file stay integers. The model itself is not changed. ModelError for an
    opset before 21, and for other widths than 4 and 8 bits.
    """
    if not any(_is_product(node) for node in model.graph.node):
        return model
    copy = ModelProto()
    copy.CopyFrom(model)
    tensors = {t.name: t for t in copy.graph.initializer}
    nodes: list[NodeProto] = []
    for node in model.graph.node:
        if _is_product(node):
            nodes += _product(node, copy.graph, tensors, opset, folder)
        else:
            nodes.append(node)
    del copy.graph.node[:]
    copy.graph.node.extend(nodes)
    read = {x for node in nodes for x in node.input}
    for name in {x for node in model.graph.node if _is_product(node) for x in node.input[1:]}:
        if name in tensors and name not in read:
            copy.graph.initializer.remove(tensors[name])
    return copy


def _is_product(node):
    return node.domain == MICROSOFT and node.op_type == "MatMulNBits"


def _product(node, graph, tensors, opset, folder):
    """Return the nodes of a product; add the tensors that they read to the graph."""
    who = f"node {node.name or node.output[0]!r}, MatMulNBits"
    a = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    count, length, width = a.get("N", 0), a.get("K", 0), a.get("bits", 4)
    block = a.get("block_size", 0)
    if opset < _BLOCKS_SINCE:
        raise ModelError(
            f"{who}: scales in blocks are of opset {_BLOCKS_SINCE}, the model has {opset}\n"
            "  hint: raise the opset of the float model before it is quantized"
        )
    if width not in _TYPES:
        raise ModelError(f"{who}: its weights have {width} bits; 4 and 8 are imported")
    x, packed, scales, zeros, groups, bias = [*node.input, "", "", "", ""][:6]
    if groups:
        raise ModelError(f"{who}: its columns are in another order, {groups!r}")
    if min(count, length, block) < 1:
        raise DamagedModel(f"{who}: N, K and block_size are {count}, {length} and {block}")
    blocks = -(-length // block)

    def stored(name):
        if name not in tensors:
            raise ModelError(f"{who}: {name!r} is no stored tensor")
        return numpy_helper.to_array(tensors[name], folder or "")

    try:
        integers = _unpacked(stored(packed).reshape(count, -1), width)[:, : blocks * block]
        integers = integers.reshape(count, blocks * block)[:, :length]
        scale = stored(scales).reshape(count, blocks)
        if zeros and stored(zeros).dtype != np.uint8:
            raise ModelError(f"{who}: zero points that are no integers are not imported")
        rows = stored(zeros).reshape(count, -1) if zeros else None
        offset = (
            np.full((count, blocks), 1 << (width - 1), np.uint8)
            if rows is None
            else _unpacked(rows, width)[:, :blocks].reshape(count, blocks)
        )
    except ValueError as error:
        raise DamagedModel(f"{who}: {error}") from None
    names = [f"{packed}.{part}" for part in ("integers", "scales", "zeros", "floats", "columns")]
    arrays = integers.astype(_TYPES[width]), scale, offset.astype(_TYPES[width])
    for name, array in zip(names[:3], arrays, strict=True):
        if name not in tensors:
            tensors[name] = numpy_helper.from_array(np.ascontiguousarray(array), name)
            graph.initializer.append(tensors[name])
    blockwise: dict[str, Any] = {"axis": 1, "block_size": block}
    product = f"{node.output[0]}.product" if bias else node.output[0]
    nodes = [
        helper.make_node("DequantizeLinear", names[:3], [names[3]], **blockwise),
        helper.make_node("Transpose", names[3:4], [names[4]], perm=[1, 0]),
        helper.make_node("MatMul", [x, names[4]], [product], name=node.name),
    ]
    if bias:
        nodes.append(helper.make_node("Add", [product, bias], node.output[:1]))
    return nodes


def _unpacked(rows: np.ndarray, width: int) -> np.ndarray:
    """Return the numbers of rows of bytes, the first one in the lowest bits."""
    if width == 8:
        return rows
    return np.stack([rows & 15, rows >> 4], -1).reshape(len(rows), -1)
