"""Text inside of a model: which words there are is known while the file is read.

A value of text is a list of words, and for each element the index of its word. Operators that move
elements move indices; those that give numbers for words are tables that indices look up.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from onnx import TensorProto, numpy_helper

from ... import ops
from ...graph.errors import DamagedModel, ModelError
from ...graph.inference import attribute
from ...graph.variable import Variable, constant
from .evaluation import by_runtime, one_node_model
from .protocol import GraphReader, Value
from .versions import Operator, array_of, stored

CLASSICAL = "ai.onnx.ml"
_MOST = 1 << 16  # words of a value
_NO_MATCH = "_Unused"  # what ai.onnx.ml gives for a number without a word


@dataclass(frozen=True, eq=False)
class Text:
    """Text of any shape: `words` without repetition, and the `index` of each element's, int64."""

    words: tuple[str, ...]
    index: Variable

    @property
    def array(self) -> np.ndarray | None:
        """The text of a constant, an array of str; None for text that is computed."""
        if self.index.value is None:
            return None
        return np.array(self.words, object)[self.index.value]


def constant_text(array: np.ndarray) -> Text:
    """Return an array of str as text."""
    flat = [_as_str(x) for x in np.asarray(array, object).reshape(-1)]
    places = {word: k for k, word in enumerate(dict.fromkeys(flat))}
    index = np.array([places[word] for word in flat], np.int64).reshape(np.shape(array))
    return Text(tuple(places) or ("",), constant(index))


def stored_text(tensor: TensorProto) -> Text:
    """Return a tensor of text of a file; DamagedModel for bytes that are no text."""
    if any(n < 0 for n in tensor.dims) or int(np.prod(tensor.dims)) != len(tensor.string_data):
        raise DamagedModel(f"tensor {tensor.name!r} is damaged: its sizes are {list(tensor.dims)}")
    return constant_text(np.array([*tensor.string_data], object).reshape(tuple(tensor.dims)))


def stored_value(tensor: TensorProto, folder: str | None = None) -> Value:
    """Return a tensor of a file as text or as a constant, which has its name."""
    return stored_text(tensor) if is_text(tensor) else stored(tensor, folder)


def text_of(op: Operator) -> Text | None:
    """Return the text of a Constant; None for any other operator, and for numbers."""
    if op.op_type != "Constant" or not op.attributes:
        return None
    (name, value), *_ = op.attributes.items()
    if name in ("value_string", "value_strings"):
        return constant_text(np.array(value, object))
    return stored_text(value) if name == "value" and is_text(value) else None


def is_text(tensor: TensorProto) -> bool:
    """Return whether a tensor of a file holds text."""
    return tensor.data_type == TensorProto.STRING


def _as_str(x):
    return x.decode() if isinstance(x, bytes) else str(x)


def on_text(reader: GraphReader, op: Operator) -> Sequence[Value]:
    """Build an operator of ONNX's own of which an input is text; return its outputs."""
    if op.op_type in _MOVED:
        return _move(reader, op)
    if op.op_type in ("Loop", "Scan"):
        raise ModelError("a state that is text is not imported")
    if op.op_type in _BUILDERS:
        return _BUILDERS[op.op_type](reader, op)
    return _of_constants(op)


def on_labels(reader: GraphReader, op: Operator) -> Sequence[Value]:
    """Build an operator of ai.onnx.ml that gives numbers or text for numbers or text."""
    return _LABELS[op.op_type](reader, op)


# ---- operators that move elements: the inputs whose elements they move

_MOVED: dict[str, Sequence[int]] = {
    **dict.fromkeys(("Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze"), (0,)),
    **dict.fromkeys(("Transpose", "Expand", "Tile", "Slice", "Gather", "GatherElements"), (0,)),
    **dict.fromkeys(("GatherND", "Split", "Compress", "ReverseSequence", "Shape", "Size"), (0,)),
    **dict.fromkeys(("ScatterElements", "ScatterND", "Scatter"), (0, 2)),
    "Concat": range(1 << 16),
    "Where": (1, 2),
}
_MEASURED = ("Shape", "Size")  # their outputs are numbers


def _move(reader, op):
    moved = [k for k, x in enumerate(op.inputs) if k in _MOVED[op.op_type] and x is not None]
    texts = [op.inputs[k] for k in moved]
    if not all(isinstance(x, Text) for x in texts):
        raise ModelError("it takes text and numbers at once")
    words, indices = merged(texts)
    inputs = list(op.inputs)
    for k, index in zip(moved, indices, strict=True):
        inputs[k] = index
    outputs = reader.built(replace(op, inputs=inputs))
    return outputs if op.op_type in _MEASURED else [Text(words, y) for y in outputs]


def merged(texts: Sequence[Text]) -> tuple[tuple[str, ...], list[Variable]]:
    """Return the words of several values together, and the index of each value into these."""
    words = tuple(dict.fromkeys(word for x in texts for word in x.words))
    if len(words) > _MOST:
        raise ModelError(f"there are {len(words)} words; up to {_MOST} are imported")
    places = {word: k for k, word in enumerate(words)}
    return words, [_looked_up(x, [places[w] for w in x.words], np.int64) for x in texts]


def _looked_up(x: Text, values: Any, dtype: Any) -> Variable:
    """Return the value of each element's word."""
    table = np.asarray(values, dtype)
    if x.index.value is not None:
        return constant(table[x.index.value], table.dtype)
    return ops.gather(constant(table, table.dtype), x.index)


def _renamed(x: Text, words: Iterable[str]) -> Text:
    """Return the text with another word for each word."""
    new = list(words)
    places = {word: k for k, word in enumerate(dict.fromkeys(new))}
    return Text(tuple(places), _looked_up(x, [places[w] for w in new], np.int64))


# ---- operators on words


def _equal(reader, op):
    if not all(isinstance(x, Text) for x in op.inputs):
        raise ModelError("it compares text and numbers")
    _, indices = merged(op.inputs)
    return reader.built(replace(op, inputs=indices, version=max(op.version, 13)))


def _joined(reader, op):
    """Words of a pair are those of the first before those of the second."""
    first, second = op.inputs
    count = len(first.words) * len(second.words)
    if count > _MOST:
        raise ModelError(f"there are {count} words; up to {_MOST} are imported")
    pairs = [a + b for a, b in product(first.words, second.words)]
    index = first.index * np.int64(len(second.words)) + second.index
    places = {word: k for k, word in enumerate(dict.fromkeys(pairs))}
    both = Text(tuple(range(count)), index)  # type: ignore[arg-type]  # of places of pairs
    return [Text(tuple(places), _looked_up(both, [places[w] for w in pairs], np.int64))]


def _normalized(reader, op):
    """Other letters; words that are left out need text that is a constant, as sizes change."""
    a = op.attributes
    change = {"LOWER": _lower, "UPPER": _upper}.get(a.get("case_change_action", "NONE"))
    stopped = list(a.get("stopwords") or ())
    x = op.inputs[0]
    if stopped:
        array = x.array
        if array is None:
            raise ModelError("which of its words are left out is not known before it runs")
        fold = (lambda word: word) if a.get("is_case_sensitive", 0) else _lower
        left_out = set(map(fold, stopped))
        kept = [word for word in array.reshape(-1) if fold(word) not in left_out] or [""]
        shape = (-1,) if array.ndim == 1 else (1, -1)
        x = constant_text(np.array(kept, object).reshape(shape))
    return [x if change is None else _renamed(x, map(change, x.words))]


def _lower(word):
    """Return a word in small letters, letter by letter, as C++ has it."""
    return "".join(c.lower() if len(c.lower()) == 1 else c for c in word)


def _upper(word):
    return "".join(c.upper() if len(c.upper()) == 1 else c for c in word)


def _cast(reader, op):
    """Numbers that words spell."""
    if op.attributes["to"] == TensorProto.STRING:
        return [op.inputs[0]]
    return [_table_of(op, op.inputs[0])]


def _matched(reader, op):
    return [_table_of(op, op.inputs[0])]


def _table_of(op, x):
    """Return what an operator gives for each word, computed by the runtime while a file is read."""
    found = _computed(op, [np.array(x.words, object)])
    return _looked_up(x, found[0], found[0].dtype)


def _computed(op, arrays):
    attributes = [attribute(k, v) for k, v in op.attributes.items()]
    model = one_node_model(op.op_type, arrays, attributes, op.outputs, opset=op.version)
    found = by_runtime(model)
    if found is None:
        raise ModelError("ONNX Runtime does not compute it for the text that it is given")
    return found


def _of_constants(op):
    """Compute any other operator of text, if all of its inputs are constants."""
    arrays = [_array(x) for x in op.inputs]
    if any(a is None and x is not None for a, x in zip(arrays, op.inputs, strict=True)):
        raise ModelError("it takes text only if all of its inputs are constants")
    return [_as_value(np.asarray(y)) for y in _computed(op, arrays)]


def _array(x):
    if isinstance(x, Text):
        return x.array
    return x.value if isinstance(x, Variable) else None


def _as_value(array):
    return constant_text(array) if array.dtype.kind in "OUS" else constant(array, array.dtype)


_BUILDERS: dict[str, Callable[[GraphReader, Operator], Sequence[Value]]] = {
    "Equal": _equal,
    "StringConcat": _joined,
    "StringNormalizer": _normalized,
    "Cast": _cast,
    "RegexFullMatch": _matched,
}


# ---- ai.onnx.ml

_KINDS = (("strings", str), ("int64s", np.int64), ("floats", np.float32))


def _encoded(reader, op):
    """LabelEncoder: the value of a key, or the default."""
    a, x = op.attributes, op.inputs[0]
    if "classes_strings" in a:  # of version 1
        return _mapped_words(a["classes_strings"], range(len(a["classes_strings"])), op)
    keys, values = _listed(a, "keys"), _listed(a, "values")
    if keys is None or values is None or len(keys) != len(values):
        raise DamagedModel("its keys and values are missing, or of other numbers")
    return [_chosen(x, keys, values, _default_of(a, values))]


def _listed(a, name):
    """Return keys or values as an array, whichever attribute has them."""
    tensor = a.get(f"{name}_tensor")
    if tensor is not None:
        if is_text(tensor):
            return np.array([_as_str(b) for b in tensor.string_data], object)
        return array_of(tensor).reshape(-1)
    for kind, dtype in _KINDS:
        if a.get(f"{name}_{kind}"):
            return np.array(a[f"{name}_{kind}"], object if dtype is str else dtype)
    return None


def _default_of(a, values):
    tensor = a.get("default_tensor")
    if tensor is not None:
        found = numpy_helper.to_array(tensor).reshape(-1)
        return found[0] if found.size else _NO_MATCH
    if values.dtype.kind == "O":
        return a.get("default_string", _NO_MATCH)
    name = "default_int64" if values.dtype.kind == "i" else "default_float"
    return a.get(name, -1 if values.dtype.kind == "i" else -0.0)


def _chosen(x, keys, values, default):
    """Return the value of the first key that equals each element, or the default."""
    if (keys.dtype.kind == "O") != isinstance(x, Text):
        raise ModelError("its keys are of another type than its input")
    table = [*values, default]
    if isinstance(x, Text):
        places = {_as_str(key): k for k, key in reversed(list(enumerate(keys)))}
        position = _looked_up(x, [places.get(w, len(keys)) for w in x.words], np.int64)
    else:
        position = _position(x, keys)
    if values.dtype.kind != "O":
        array = np.array(table, values.dtype)
        if position.value is not None:
            return constant(array[position.value], array.dtype)
        return ops.gather(constant(array, array.dtype), position)
    words = [_as_str(w) for w in table]
    unique = tuple(dict.fromkeys(words))
    each = Text(tuple(words), position)  # with repetitions
    return Text(unique, _looked_up(each, [unique.index(w) for w in words], np.int64))


def _position(x, keys):
    """Return the index of the first key that equals each number, their count where none does."""
    if not len(keys):
        return ops.zeros_like(ops.cast(x, np.int64))
    row = constant(np.asarray(keys, x.dtype), x.dtype)
    wide = ops.unsqueeze(x, [x.rank])
    hit = ops.equal(wide, row)
    if x.dtype.kind == "f" and np.isnan(keys).any():  # a key that is NaN is that of every NaN
        hit = ops.logical_or(hit, ops.logical_and(ops.is_nan(wide), ops.is_nan(row)))
    numbers = ops.where(hit, np.arange(len(keys), dtype=np.int64), np.int64(len(keys)))
    return ops.reduce_min(numbers, [x.rank])


def _category(reader, op):
    """CategoryMapper: numbers for text, or text for numbers."""
    a = op.attributes
    return _mapped_words(a.get("cats_strings") or [], a.get("cats_int64s") or [], op)


def _mapped_words(words, numbers, op):
    words, numbers = np.array(list(words), object), np.array(list(numbers), np.int64)
    if len(words) != len(numbers):
        raise DamagedModel("it has other numbers of words and of integers")
    x, a = op.inputs[0], op.attributes
    if isinstance(x, Text):
        return [_chosen(x, words, numbers, a.get("default_int64", -1))]
    return [_chosen(x, numbers, words, a.get("default_string", _NO_MATCH))]


def _one_hot(reader, op):
    """OneHotEncoder: a column for each category; zeros, or an error, for what is none of them."""
    a, x = op.attributes, op.inputs[0]
    words = a.get("cats_strings")
    keys = np.array(words, object) if words else np.array(a.get("cats_int64s") or [], np.int64)
    if not a.get("zeros", 1):
        raise ModelError("zeros=0, an error for what is no category, is not imported")
    if not isinstance(x, Text) and x.dtype.kind == "f":
        x = ops.cast(x, np.int64)
    position = _chosen(x, keys, np.arange(len(keys)), len(keys))
    columns = np.arange(len(keys), dtype=np.int64)
    return [ops.cast(ops.equal(ops.unsqueeze(position, [position.rank]), columns), np.float32)]


def _extracted(reader, op):
    """ArrayFeatureExtractor: some columns."""
    x, y = op.inputs
    rank = x.index.rank if isinstance(x, Text) else x.rank
    y = ops.reshape(y, [-1])
    if rank == 1:
        x = reader.built(Operator("Unsqueeze", [x, constant(np.array([0]))], {}, 1, op.version))[0]
    return reader.built(Operator("Gather", [x, y], {"axis": -1}, 1, max(op.version, 13)))


_LABELS = {
    "LabelEncoder": _encoded,
    "CategoryMapper": _category,
    "OneHotEncoder": _one_hot,
    "ArrayFeatureExtractor": _extracted,
}
LABELS = frozenset(_LABELS)


def refused_output(name: str, x: Text) -> ModelError:
    """Return the error for an output that is text."""
    some = ", ".join(map(repr, x.words[:4])) + (", …" if len(x.words) > 4 else "")
    return ModelError(
        f"{name!r} is text ({some}), and Variables hold numbers\n"
        "  hint: output= names the outputs that are numbers"
    )
