"""Conversion of a minibatch, a list of samples, to one packed array per data layer."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from struct import error as struct_error
from struct import pack, pack_into

import numpy as np

from pd_core.training.stacking import Columns, joined, packed
from pd_v2.arguments import Arguments, Matrix, SparseMatrix
from pd_v2.data_type import DataType, InputType, SequenceType
from pd_v2.feeds import other_size
from pd_v2.warning import warn

__all__ = ["DataFeeder", "Slot", "default_feeding_map"]

_LEVEL_NAMES = {
    SequenceType.NO_SEQUENCE: (),
    SequenceType.SEQUENCE: ("step",),
    SequenceType.SUB_SEQUENCE: ("sub-sequence", "step"),
}


_TUPLES = {tuple, list}
_DENSE, _INDEX = int(DataType.Dense), int(DataType.Index)  # comparisons of plain ints take less
_LARGEST_ID = np.iinfo(np.int64).max


class MissingColumn(KeyError):
    """Raised for a data layer that `feeding` does not mention."""

    def __str__(self):
        return self.args[0]


@dataclass(frozen=True, slots=True, eq=False)
class Slot:
    """The rows of one data layer in a minibatch, packed: without padding, back to back.

    value is float32 [rows, dim] or, for ids, int64 [rows]. For sparse rows it is the column indices
    of the nonzeros, int64 [N]; counts is the number of nonzeros of each row, numbers their values,
    or None if all are 1, and width the number of columns. lengths holds an int64 array per level of
    sequence, the outermost first: steps per sample; or sub-sequences per sample and steps per
    sub-sequence. image_size is (height, width) where samples were images of 2 or 3 axes.
    """

    value: np.ndarray
    lengths: tuple[np.ndarray, ...] = ()
    image_size: tuple[int, int] | None = None
    counts: np.ndarray | None = None
    numbers: np.ndarray | None = None
    width: int | None = None

    @property
    def matrix(self):
        """The rows as a Matrix; None if they are ids."""
        if self.counts is not None:
            return SparseMatrix(self.value, self.counts, self.numbers, self.width)
        return None if self.value.ndim == 1 else Matrix(self.value)

    @property
    def ids(self):
        """The ids, int64 [rows]; None if the rows are not ids."""
        return self.value if self.value.ndim == 1 and self.counts is None else None

    @property
    def arrays(self):
        """The arrays to feed, in the order of a data layer's `inputs`."""
        sparse = [a for a in (self.counts, self.numbers) if a is not None]
        return [self.value, *sparse, *self.lengths]


class DataFeeder:
    """Converter of minibatches for data layers, given as (name, InputType) pairs.

    feeding maps layers to fields of a sample: a list of names in the order of the fields, or a dict
    {name: field number}; by default the fields are in the order of data_types. A number below 0
    counts from the end. Of samples that are dicts the numbers are keys, which may be anything.
    """

    def __init__(self, data_types, feeding=None):
        data_types = [_checked_data_type(entry) for entry in data_types]
        numbers = _field_numbers(feeding, data_types)
        self._columns = [_Column(name, numbers[name], type_) for name, type_ in data_types]

    def with_id_ranges(self, absent, classes):
        """Take -1 as the id of no word in the layers `absent`; return the feeder.

        `classes` are {name: number of classes} of labels, which may be more than were declared.
        """
        self._columns = [
            replace(c, least=-1 if c.name in absent else 0, classes=classes.get(c.name, 0))
            for c in self._columns
        ]
        return self

    def with_images(self, read_as):
        """Tell images of other sizes than declared; return the feeder.

        `read_as` are {name: the sizes (height, width) that the layers of the network take it for}.
        """
        self._columns = [replace(c, read_as=read_as.get(c.name)) for c in self._columns]
        return self

    def with_loops(self, loops):
        """Convert by a `pd_core.training.stacking.Columns` what it takes; return the feeder."""
        self._columns = [replace(c, loops=loops) for c in self._columns]
        return self

    def __len__(self):
        return len(self._columns)

    def places(self):
        """Return (name, number of the field, levels of sequence, width of dense rows or None)."""
        return [
            (
                c.name,
                c.number,
                c.type.seq_type,
                c.type.dim if c.type.type == DataType.Dense else None,
            )
            for c in self._columns
        ]

    def __call__(self, dat, argument=None):
        return self.convert(dat, argument)

    def convert(self, dat, argument=None):
        """Convert a list of samples to Arguments, {data layer name: Slot}.

        `argument`, if given, is filled and returned.
        """
        batch, fields = self._fields(dat)
        slots = Arguments() if argument is None else argument
        for column in self._columns:
            slots[column.name] = column.convert(column.of(fields, batch))
        return slots

    def arrays(self, dat, sizes=None):
        """Convert a list of samples to a list of the arrays to feed, in the order of data_types.

        These are the `arrays` of each column's Slot. `sizes` gets the `other_size` of each data
        layer whose images have one.
        """
        batch, fields = dat if isinstance(dat, list) else list(dat), None
        arrays = []
        for column in self._columns:
            array = None if column.loops is None else column.array(batch)
            if array is not None:
                arrays.append(array)
                continue
            if fields is None:
                batch, fields = self._fields(batch)
            number = column.number
            is_field = type(number) is int and 0 <= number < len(fields)
            items = fields[number] if is_field else column.of(fields, batch)
            if column.read_as is not None and sizes is not None:
                slot = column.convert(items)
                size = other_size(slot, column.type.dim, column.read_as)
                if size is not None:
                    sizes[column.name] = size
                arrays += slot.arrays
            else:
                arrays += column.arrays(items)
        return arrays

    def _fields(self, dat):
        """Return the samples as a list, and their fields if they have numbers, else none."""
        batch = dat if isinstance(dat, list) else list(dat)
        others = {*map(type, batch)} - _TUPLES
        if others:
            kinds = [kind for kind in others if not issubclass(kind, (tuple, list))]
            if kinds:
                batch = _as_indexable(batch)
            if any(issubclass(kind, Mapping) for kind in kinds):
                return batch, []
        return batch, list(zip(*batch, strict=False))  # as many as the shortest sample has

    def fields_of(self, sample):
        """Return the fields of a sample that are fed, in the order of data_types."""
        return [column.of((), [sample])[0] for column in self._columns]


def default_feeding_map(data_types):
    """Return {name: field number} for fields in the order of data_types."""
    return {name: number for number, (name, _) in enumerate(data_types)}


def _checked_data_type(entry):
    well_formed = isinstance(entry, tuple | list) and len(entry) == 2
    if not (well_formed and isinstance(entry[0], str) and isinstance(entry[1], InputType)):
        raise TypeError(f"DataFeeder: data_types holds (name, InputType) pairs, got {entry!r}")
    return entry


def _field_numbers(feeding, data_types):
    if feeding is None:
        return default_feeding_map(data_types)
    if isinstance(feeding, list | tuple):
        feeding = {name: number for number, name in enumerate(feeding)}
    if not isinstance(feeding, dict):
        raise TypeError(
            "DataFeeder: feeding is a list of names or a dict {name: field number}, "
            f"got {type(feeding).__name__}"
        )
    for name, _ in data_types:
        if name not in feeding:
            raise MissingColumn(
                f"DataFeeder: feeding has no entry for data layer {name!r}, "
                f"only for {', '.join(map(repr, feeding)) or 'none'}"
            )
    return feeding


def _as_indexable(batch):
    """Return the samples as tuples, lists or dicts.

    2017 indexed samples, so an array works too: its elements are the fields.
    """
    for number, sample in enumerate(batch):
        is_array = isinstance(sample, np.ndarray) and sample.ndim
        if not (is_array or isinstance(sample, tuple | list | Mapping)):
            raise _not_a_tuple(number, sample)
    if not any(isinstance(sample, np.ndarray) for sample in batch):
        return batch
    warn(
        "DataFeeder: a sample is an array, whose elements are its fields\n"
        "  hint: a reader of a single column yields (x,), not x"
    )
    return [tuple(s) if isinstance(s, np.ndarray) else s for s in batch]


def _not_a_tuple(number, sample):
    return TypeError(
        f"DataFeeder: a sample is a tuple with one field per column, "
        f"sample {number} is of type {type(sample).__name__}\n"
        "  hint: a reader of a single column yields (x,), not x"
    )


@dataclass(frozen=True)
class _Column:
    """A data layer and the field of a sample that it receives."""

    name: str
    number: int  # or the key in samples that are dicts
    type: InputType
    least: int = 0  # the smallest id
    classes: int = 0  # of a label, which may be more than its type has
    loops: Columns | None = None  # which are compiled
    read_as: set | None = None  # sizes of images, where those of a batch may be others

    def of(self, fields, batch):
        """Return this column's field of each sample; ValueError if a sample lacks it."""
        if not batch:
            return ()
        if isinstance(self.number, int) and 0 <= self.number < len(fields or ()):
            return fields[self.number]
        return [self._field(i, sample) for i, sample in enumerate(batch)]

    def _field(self, number, sample):
        """Return this column's field of one sample."""
        try:
            return sample[self.number]
        except IndexError:
            problem = f"the sample has only {len(sample)} fields"
        except KeyError:
            problem = f"the sample has the fields {', '.join(map(repr, sample)) or 'none'}"
        except TypeError:
            problem = f"the sample is a {type(sample).__name__}, and feeding gives no number for it"
        raise self.error(f"sample {number}", problem)

    def convert(self, items):
        """Convert this column's field of each sample to a Slot."""
        rows, lengths = self._unpack(items)
        if self.type.type == DataType.Index:
            return Slot(self._ids(rows, lengths), lengths)
        if self.type.type != DataType.Dense:
            return self._sparse(rows, lengths)
        value, image_size = self._dense(rows, lengths)
        return Slot(value, lengths, image_size)

    def array(self, batch):
        """Convert samples that are no sequences by its loops, all at once; None for others.

        A loop reads the fields where they are.
        """
        if not batch or not self._is_plain:
            return None
        if self.read_as is not None and _is_image(self.of(None, batch[:1])[0]):
            return None
        if self.type.type == _DENSE:
            return self.loops.rows(batch, self.type.dim, self.number)
        return self.loops.ids(batch, self._limit, self.number)

    @cached_property
    def _is_plain(self):
        """Whether a sample has one row or id in a field with a number from 0 on."""
        is_field = type(self.number) is int and self.number >= 0
        return is_field and not self.type.seq_type and self.type.type in (_DENSE, _INDEX)

    @cached_property
    def _limit(self):
        """The end of the range of ids."""
        # scripts of 2017 write integer_value(1) for positions, whose range they do not know
        return max(self.type.dim, self.classes) if self.type.dim > 1 else _LARGEST_ID

    def arrays(self, items):
        """Convert this column's field of each sample to the arrays to feed.

        Those of samples that are no sequences take no Slot.
        """
        if not self.type.seq_type:
            if self.type.type == _INDEX:
                return (self._ids(items, ()),)
            if self.type.type == _DENSE:
                return (self._dense(items, ())[0],)
        return self.convert(items).arrays

    def error(self, place, problem):
        """Return the ValueError for a problem at a place in a minibatch."""
        text = f"data layer {self.name!r} (column {self.number!r}), {place}: {problem}"
        error = ValueError(text)
        error.explained = True
        return error

    def _unpack(self, items):
        """Flatten the levels of sequence; return the rows and the lengths of each level."""
        lengths = ()
        for _ in range(self.type.seq_type):
            items = [self._elements(i, item, lengths) for i, item in enumerate(items)]
            lengths += (np.array([len(item) for item in items], np.int64),)
            items = list(itertools.chain.from_iterable(items))
        return items, lengths

    def _elements(self, index, item, lengths):
        try:
            return item if isinstance(item, list | tuple) else list(item)
        except TypeError:
            level = _LEVEL_NAMES[self.type.seq_type][len(lengths)]
            problem = f"expected a sequence with a {level} per element, got {_shown(item)}"
            raise self.error(self._place(index, lengths), problem) from None

    def _dense(self, rows, lengths):
        """Return rows as float32 [rows, dim], and (height, width) if they are images."""
        if not rows:
            return np.zeros((0, self.type.dim), np.float32), None
        block = None if self.loops is None else self.loops.rows(rows, self.type.dim)
        if block is not None:
            shape = np.shape(rows[0]) if isinstance(rows[0], np.ndarray) else ()
            if len(shape) > 1 and any(np.shape(row) != shape for row in rows):
                raise self._row_error(rows, lengths, _vector_problem)
            return block, shape[-2:] if len(shape) > 1 else None
        pack = joined if isinstance(rows[0], np.ndarray) else packed
        block = pack(rows, self.type.dim)
        if block is not None:
            return block, None
        self._refuse_masked(rows, lengths)
        block = _numbers(rows, 2)
        if block is not None and block.shape == (len(rows), self.type.dim):
            return np.ascontiguousarray(block, np.float32), None
        if block is None or block.shape[1:] in ((), (1,)):
            block = _broadcast(rows, block, self.type.dim)
        if block is None or _vector_problem(block[0], self.type.dim):
            raise self._row_error(rows, lengths, _vector_problem)
        value = np.ascontiguousarray(block.reshape(len(rows), -1), np.float32)
        return value, block.shape[-2:] if block.ndim > 2 else None

    def _refuse_masked(self, rows, lengths):
        """Raise ValueError for the first row with a masked element, which has no value."""
        for index, row in enumerate(rows):
            if _is_masked(row):
                problem = "the array has masked elements\n  hint: filled() gives them a value"
                raise self.error(self._place(index, lengths), problem)

    def _sparse(self, rows, lengths):
        """Return the Slot of sparse rows: lists of columns, or of (column, value) pairs."""
        if any(isinstance(row, np.ma.MaskedArray) for row in rows):
            self._refuse_masked(rows, lengths)
        rows = [self._entries(i, row, lengths) for i, row in enumerate(rows)]
        counts = np.array([len(row) for row in rows], np.int64)
        entries = list(itertools.chain.from_iterable(rows))
        numbers, has_values = None, self.type.type == DataType.SparseValue
        if entries:
            found = (self._pairs if has_values else self._plain_ids)(entries, self.type.dim)
            if found is not None:
                block, numbers = found if has_values else (found, None)
                return Slot(block, lengths, None, counts, numbers, self.type.dim)
        problem = _column_problem
        if has_values:
            problem = _pair_problem
            pairs = _stacked(entries) if entries else np.zeros((0, 2))
            if pairs is None or pairs.ndim != 2 or pairs.shape[1] != 2:
                raise self._entry_error(rows, lengths, problem)
            entries, numbers = pairs[:, 0], np.ascontiguousarray(pairs[:, 1], np.float32)
        block = _stacked(entries) if len(entries) else np.zeros(0, np.int64)
        if block is None or block.ndim != 1 or (block != np.floor(block)).any():
            raise self._entry_error(rows, lengths, problem)
        if ((block < 0) | (block >= self.type.dim)).any():
            raise self._entry_error(rows, lengths, problem)
        return Slot(block.astype(np.int64), lengths, None, counts, numbers, self.type.dim)

    def _entries(self, index, row, lengths):
        try:
            return row if isinstance(row, list | tuple) else list(row)
        except TypeError:
            problem = f"expected the columns of a sparse row, got {_shown(row)}"
            raise self.error(self._place(index, lengths), problem) from None

    def _entry_error(self, rows, lengths, problem_of):
        """Return the error for the first invalid entry of a sparse row."""
        for index, row in enumerate(rows):
            for number, entry in enumerate(row):
                problem = problem_of(entry, self.type.dim)
                if problem:
                    place = f"{self._place(index, lengths)}, entry {number}"
                    return self.error(place, problem)
        return self.error("all samples", "the entries have no common type")

    def _ids(self, rows, lengths):
        """Return ids as int64 [rows], each in range(dim), or -1 where that is no word."""
        if not rows:
            return np.zeros(0, np.int64)
        limit = self._limit
        ids = self._plain_ids(rows, limit)
        if ids is not None:
            return ids
        self._refuse_masked(rows, lengths)
        block, problem_of = _stacked(rows), partial(_id_problem, least=self.least)
        if block is None or block.ndim != 1 or block.dtype.kind == "f":
            raise self._row_error(rows, lengths, problem_of, limit)
        outside = (block < self.least) | (block >= limit)
        if outside.any():
            raise self._row_error(rows, lengths, problem_of, limit)
        return block.astype(np.int64)

    def _plain_ids(self, rows, limit):
        """Return integers in range(limit) as int64 [rows]; None if any is something else."""
        ids = None if self.loops is None else self.loops.ids(rows, limit)
        if ids is not None:
            return ids
        data = bytearray(8 * len(rows))
        try:
            pack_into(f"{len(rows)}q", data, 0, *rows)
        except (struct_error, TypeError, OverflowError):
            return None
        ids = np.frombuffer(data, np.int64)
        # negative ids are huge as uint64
        return ids if np.maximum.reduce(ids.view(np.uint64)) < limit else None

    def _pairs(self, entries, limit):
        """Return pairs of a column and a float as (int64, float32); None for anything else."""
        found = None if self.loops is None else self.loops.pairs(entries, limit)
        if found is not None:
            return found
        if not {*map(type, entries)} <= _TUPLES or {*map(len, entries)} != {2}:
            return None
        flat = list(itertools.chain.from_iterable(entries))
        columns, numbers = self._plain_ids(flat[::2], limit), flat[1::2]
        if columns is None or {*map(type, numbers)} != {float}:
            return None
        return columns, np.frombuffer(pack(f"{len(numbers)}d", *numbers)).astype(np.float32)

    def _row_error(self, rows, lengths, problem_of, limit=None):
        """Return the error for the first row that is invalid or shaped unlike row 0."""
        for index, row in enumerate(rows):
            problem = problem_of(row, self.type.dim if limit is None else limit)
            if problem is None and _unlike(row, rows[0]):
                first = f"{np.shape(rows[0])} as in {self._place(0, lengths)}"
                problem = f"expected shape {first}, got {np.shape(row)}"
            if problem:
                return self.error(self._place(index, lengths), problem)
        return self.error("all samples", "the values have no common type")

    def _place(self, index, lengths):
        """Return the place of a row as text: 'sample 3, sub-sequence 1, step 0'."""
        steps = []
        for level in reversed(lengths):
            ends = np.cumsum(level)
            owner = int(np.searchsorted(ends, index, side="right"))
            steps.append(int(index - ends[owner] + level[owner]))
            index = owner
        names = _LEVEL_NAMES[self.type.seq_type]
        levels = [f", {name} {step}" for name, step in zip(names, reversed(steps), strict=False)]
        return f"sample {index}{''.join(levels)}"


def _stacked(rows):
    """Stack rows to one array of numbers; None if they are ragged or not numbers."""
    try:
        block = np.asarray(rows)
    except ValueError:
        return None
    return block if block.dtype.kind in "biuf" else None


def _numbers(rows, rank):
    """Stack dense rows to one array of numbers, or one row with `rank` 1; None if they are none.

    In 2017 numpy put the rows into an array of float32, which reads text as numbers.
    """
    block = _stacked(rows)
    if block is None:
        try:
            block = np.asarray(rows)
            is_text = block.ndim >= rank and block.dtype.kind in "SU"
            block = block.astype(np.float32) if is_text else None
        except ValueError:
            return None
    return block


def _broadcast(rows, block, dim):
    """Return rows of dim numbers, or of one for all columns, as float32 [rows, dim].

    `block` is the stacked rows, if they have one shape. None if any row is something else.
    """
    if block is not None:
        return np.broadcast_to(np.reshape(block, (-1, 1)), (len(rows), dim)).astype(np.float32)
    block = np.empty((len(rows), dim), np.float32)
    for target, row in zip(block, rows, strict=True):
        numbers = _numbers(row, 1)
        if numbers is None or numbers.ndim > 1 or numbers.size not in (1, dim):
            return None
        target[:] = numbers
    return block


def _unlike(row, other):
    """Return whether the shapes of two valid rows differ where one is an image."""
    return max(np.ndim(row), np.ndim(other)) > 1 and np.shape(row) != np.shape(other)


def _is_image(row):
    """Whether a dense row has two axes or more."""
    if isinstance(row, np.ndarray):
        return row.ndim > 1
    return isinstance(row, list | tuple) and bool(row) and isinstance(row[0], list | np.ndarray)


def _is_masked(value):
    """Return whether an array, or one in nested lists, has masked elements."""
    if isinstance(value, np.ma.MaskedArray):
        return bool(np.ma.is_masked(value))
    if not isinstance(value, list | tuple):
        return False
    kinds = set(map(type, value))
    nested = any(issubclass(kind, list | tuple | np.ma.MaskedArray) for kind in kinds)
    return nested and any(map(_is_masked, value))


def _vector_problem(row, dim):
    """Return what is wrong with a dense row, or None."""
    block = _numbers(row, 1)
    if block is None:
        return f"expected {dim} numbers, got {_shown(row)}"
    if block.ndim > 3 or (block.ndim > 1 and not block.size):
        return f"expected a vector or an image of 2 or 3 axes, got shape {block.shape}"
    if block.ndim == 1 and len(block) not in (1, dim):
        return f"expected {dim} numbers, got {len(block)}"
    return None


def _id_problem(row, dim, least=0):
    """Return what is wrong with an id, or None."""
    block = np.asarray(row) if np.isscalar(row) else _stacked(row)
    if block is None or block.ndim or block.dtype.kind not in "biuO" or not least <= row < dim:
        return f"expected an integer from {least} to {dim - 1}, got {_shown(row)}"
    return None


def _column_problem(entry, dim):
    """Return what is wrong with a column index of a sparse row, or None."""
    problem = _id_problem(entry, dim)
    return problem and problem.replace("an integer", "a column")


def _pair_problem(entry, dim):
    """Return what is wrong with a (column, value) pair, or None."""
    pair = _stacked(entry)
    if pair is None or pair.shape != (2,):
        return f"expected a pair (column, value), got {_shown(entry)}"
    return _column_problem(int(pair[0]) if pair[0] == np.floor(pair[0]) < dim else entry[0], dim)


def _shown(value):
    """Return a value as text for an error: type and shape, or a few characters."""
    if isinstance(value, np.ndarray) and value.ndim:
        return f"an array of {value.dtype}{list(value.shape)}"
    text = repr(value)
    return f"{text if len(text) <= 60 else text[:57] + '...'} ({type(value).__name__})"
