"""Batches for `Module.fit`: of arrays, readers and iterables."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from ...graph.errors import ShapeError
from ..batches import ArrayReader, close, reader_of, tested_batches
from ..generators import generators_state, set_generators
from .arrays import checked, columns, is_array


class Batch(tuple[np.ndarray, ...]):
    """The arrays of a batch: inputs, targets, and the weights of samples if any."""


class Source:
    """Batches as flat tuples of arrays: inputs, targets, and the weights of samples if any.

    A batch of the reader is such a tuple if the `names` of its arrays are given, and they were
    checked before; else it is what a user writes: (x, y), (x, y, weights) if it `is_weighted`, or
    x alone without `is_labelled`. x and y are arrays, or tuples or lists of several of them.
    `class_weight` is multiplied into the weights.
    """

    def __init__(
        self,
        who: str,
        reader: Callable[[], Iterable[Any]],
        names: list[str] | None = None,
        is_labelled: bool = True,
        is_weighted: bool = False,
        class_weight: Mapping[int, float] | None = None,
    ):
        self.who, self.reader, self.is_checked = who, reader, names is not None
        self.is_labelled, self.is_weighted = is_labelled, is_weighted
        self.class_weight = None if class_weight is None else _checked_weights(who, class_weight)
        self._read: list[str] = names or []  # the names of the arrays that are read

    @property
    def names(self) -> list[str]:
        """The names of the arrays of a batch in errors, such as x, x[1], weight; empty at first."""
        is_added = self.class_weight is not None and "weight" not in self._read
        return [*self._read, "weight"] if is_added else self._read

    @property
    def inputs(self) -> slice:
        """The places of the inputs in a batch."""
        return slice(0, sum(name[0] == "x" for name in self._read))

    @property
    def targets(self) -> slice:
        """The places of the targets in a batch."""
        return slice(self.inputs.stop, sum(name != "weight" for name in self._read))

    def __iter__(self) -> Iterator[Batch]:
        """Yield the batches of a pass of an evaluation; the reader is then as it was before."""
        return map(self.batch, tested_batches(self.reader))

    def first(self) -> Batch:
        """Return the first batch; ValueError if there is none.

        Of arrays no pass is begun, and global random generators go on as if nothing had been read.
        """
        if isinstance(self.reader, ArrayReader):
            rows = slice(0, self.reader.batch_size)
            return self.batch([a[rows] for a in self.reader.arrays])
        generators, items = generators_state(), iter(self.reader())
        try:
            for raw in items:
                return self.batch(raw)
        finally:
            close(items)
            set_generators(generators)
        raise ValueError(f"{self.who}: the reader gives no batches")

    def batch(self, raw: Any) -> Batch:
        """Return a batch of the reader, checked, with the weights of classes."""
        batch = Batch(raw if self.is_checked else self._parsed(raw))
        if self.class_weight is None:
            return batch
        end = self.targets.stop
        weight = self._class_weights(self.class_weight, batch[self.targets], batch[end:])
        return Batch((*batch[:end], weight))

    def _parsed(self, raw):
        """The arrays of a batch as a user writes it."""
        parts = dict(zip(("x", "y", "weight"), self._parts(raw), strict=False))
        arrays = checked(self.who, parts)
        names = list(arrays)
        if self._read and names != self._read:
            raise TypeError(
                f"{self.who}: a batch of {', '.join(names)}, those before were of "
                f"{', '.join(self._read)}"
            )
        self._read = names
        return arrays.values()

    def _parts(self, raw):
        if not self.is_labelled:
            return [raw]
        forms = "(x, y) or (x, y, weights)" if self.is_weighted else "(x, y)"
        size = len(raw) if isinstance(raw, (tuple, list)) else None
        if size == 2 or (size == 3 and self.is_weighted):
            return raw
        what = type(raw).__name__ + ("" if size is None else f" of {size}")
        hint = "a reader of samples is to be batched, and their columns stacked"
        if isinstance(raw, Mapping) and len(raw) > 1:
            (x, *_, y), what = raw, f"{what} of {', '.join(map(str, raw))}"
            hint = f"lambda: ((b[{x!r}], b[{y!r}]) for b in batches), with the names of x and y"
        raise TypeError(
            f"{self.who}: a batch is {forms}, of arrays with the samples along the first axis, not "
            f"{what}\n  hint: {hint}"
        )

    def _class_weights(self, classes, targets, weights):
        """The weight of each label's class, times the weight of its sample."""
        if len(targets) > 1:
            raise TypeError(f"{self.who}: class_weight is for one y, there are {len(targets)}")
        (y,) = targets
        is_column = y.ndim == 1 or y.shape[1:] == (1,)
        if y.dtype.kind == "f" and not (is_column and (y == np.round(y)).all()):
            raise ValueError(
                f"{self.who}: class_weight is for labels that are numbers of classes, "
                f"y is {y.dtype} {y.shape}"
            )
        weight = np.ones(y.shape, np.float32)
        for label, value in classes.items():
            weight[y == label] = value
        for w in weights:
            if w.shape != y.shape[: w.ndim]:
                raise ShapeError(f"{self.who}: weight {w.shape} for samples with y {y.shape}")
            weight *= w.reshape(w.shape + (1,) * (y.ndim - w.ndim))
        return weight


def source_of(who: str, x: Any, y: Any = None, **options: Any) -> Source:
    """Return the batches of arrays x and y, or of a reader x of batches (x, y).

    The options are those of `array_source`; a reader takes `class_weight` and `is_weighted`, and
    what is for arrays alone is a TypeError with it, unless it is None.
    """
    is_weighted, class_weight = options.pop("is_weighted", False), options.get("class_weight")
    if y is not None:
        if callable(x):
            raise TypeError(f"{who}: x is a reader of batches (x, y), y is given too")
        return array_source(who, x, y, **options)
    if is_array(x):
        shapes = ", ".join(str(np.shape(a)) for a in columns(x))
        raise TypeError(f"{who}: y is missing, x has the shape {shapes}")
    if options.get("sample_weight") is not None:
        raise TypeError(f"{who}: sample_weight is for arrays, a reader gives (x, y, weights)")
    _check_none_for_arrays(who, options)
    return Source(who, reader_of(x), is_weighted=is_weighted, class_weight=class_weight)


def _check_none_for_arrays(who, options):
    """Raise a TypeError if an option of ArrayReader is given with a reader."""
    for name in ("batch_size", "shuffle", "seed"):
        # a reader that is not to be shuffled is none
        if options.get(name) is not None and options[name] is not False:
            raise TypeError(
                f"{who}: {name}={options[name]!r} is for arrays, a reader has batches and an order "
                "of its own"
            )


def array_source(
    who: str,
    x: Any,
    y: Any = None,
    sample_weight: Any = None,
    class_weight: Mapping[int, float] | None = None,
    rows: slice = slice(None),
    **options: Any,
) -> Source:
    """Return the batches of some rows of arrays; the other options are those of ArrayReader.

    One that is None is left out.
    """
    options = {name: value for name, value in options.items() if value is not None}
    parts = {"x": x, "y": y, "weight": sample_weight}
    arrays = checked(who, {name: part for name, part in parts.items() if part is not None})
    reader = ArrayReader(*[a[rows] for a in arrays.values()], **options)
    return Source(who, reader, list(arrays), class_weight=class_weight)


def reader_source(who: str, x: Any, **options: Any) -> Source:
    """Return the batches of a reader of inputs alone; options are those of `source_of`."""
    _check_none_for_arrays(who, options)
    return Source(who, reader_of(x), is_labelled=False)


def _checked_weights(who, class_weight):
    if not isinstance(class_weight, Mapping):
        raise TypeError(f"{who}: class_weight is a dict {{class: weight}}, not {class_weight!r}")
    for label, weight in class_weight.items():
        if not isinstance(label, (int, np.integer)) or not weight >= 0:
            raise ValueError(
                f"{who}: class_weight has weights of 0 or more by class, not {label!r}: {weight!r}"
            )
    return class_weight
