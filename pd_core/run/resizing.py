"""Programs of a structure that was compiled for other sizes before: the same with these sizes.

The passes of a training step are the larger part of its first evaluation. What they read of sizes
is recorded (`graph/size_reads`) while a program is compiled; where the same would be read of
others, the model is the same (`backend/any_sizes`), and so is its session while it is open.
"""

from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from copy import copy
from dataclasses import replace
from math import prod
from threading import Lock
from typing import Any

from ..backend.base import Backend
from ..graph.node import ancestors
from ..graph.recording import not_recording
from ..graph.rewrite import substitute
from ..graph.size_reads import SizeReads
from ..graph.variable import Dim, Variable
from .structure import Key, Structure

_MOST_BYTES = 1 << 20  # of a model that is kept


class Recording:
    """The compilation of a source whose reads of sizes are recorded.

    `source` is the same with Variables in the place of the persistent ones that record what is read
    of them.
    """

    def __init__(self, source: Any):
        self.reads = SizeReads()
        with self.reads, not_recording():
            self.source = self._recorded(source)

    def _recorded(self, source: Any) -> Any:
        structure, fed = source.structure, source.fed
        own = {v: self.reads.stand_in(v) for v in structure.leaves if v not in fed}
        values = [new for _, new in source.updates]
        targets = substitute([*source.fetches, *values], own, stop={*fed, *own})
        self._fix(targets, {*fed, *own.values()})
        for v in structure.constants.values():
            self.reads.fix_constant(v.value)
        recorded = copy(structure)
        recorded.leaves = [own.get(v, v) for v in structure.leaves]
        count = len(source.fetches)
        updated = [own.get(v, v) for v, _ in source.updates]
        updates = list(zip(updated, targets[count:], strict=True))
        return replace(source, structure=recorded, fetches=targets[:count], updates=updates)

    def _fix(self, targets: Sequence[Variable], leaves: Collection[Variable]) -> None:
        """Note constants, and the sizes of what is computed from them alone."""
        reached, order = set(leaves), ancestors(targets, leaves)
        read = [x for node in order for x in node.inputs]
        for x in dict.fromkeys([*read, *targets]):
            if x is not None and x.value is not None:
                self.reads.fix_constant(x.value)
        for node in order:
            if reached.isdisjoint(node.inputs):
                for y in node.outputs:
                    self.reads.fix(y.symbolic_dims)
            else:
                reached.update(node.outputs)


class Template:
    """A program, and what is known of it for other sizes."""

    def __init__(
        self, compiled: Any, reads: SizeReads, sizes: Sequence[int], hints: Mapping[str, int]
    ):
        self.compiled, self.reads, self.sizes, self.hints = copy(compiled), reads, sizes, hints
        self.compiled.graph = compiled.graph.without_sessions()

    def resized(self, sizes: list[int]) -> Any:
        """Return the program for other sizes in the place of `self.sizes`; None if there is none.

        It is a Compiled.
        """
        renamed = self.reads.renamed(self.sizes, sizes)
        if renamed is None:
            return None
        new = copy(self.compiled)
        new.is_resized = True
        new.equal = [tuple((renamed.get(d, d), k) for d, k in pair) for pair in new.equal]
        new.bytes = sum(
            count * size * prod(self._number(renamed.get(d, d)) for d in dims)
            for (dims, size), count in self.reads.results.items()
        )
        new.graph = self.compiled.graph.resized(renamed, new.bytes)
        return new

    def _number(self, d: Dim) -> int:
        return d if isinstance(d, int) else self.hints.get(d, 1)


class Templates:
    """The last programs of a device that others may be made of.

    Up to `each` for one structure: where passes choose by sizes, there are as many forms of it.
    """

    def __init__(self, limit: int = 32, each: int = 4):
        self.limit, self.each = limit, each
        self._templates: OrderedDict[tuple, list[Template]] = OrderedDict()
        self._lock = Lock()

    def compiled(self, backend: Backend, source: Any, make: Any) -> Any:
        """Return a Compiled of a source: one of another of its sizes, or what `make` returns."""
        if not _may_be_resized(backend, source):
            return make(backend, source)
        key, sizes = source.structure.with_slots()
        hints = source.hints()
        key = Key((key, *[hints.get(d) for d in source.structure.sizes]))
        with self._lock:
            templates = list(self._templates.get(key, ()))
            if templates:
                self._templates.move_to_end(key)
        for template in templates:
            found = template.resized(sizes)
            if found is not None:
                return found
        recording = Recording(source)
        reads = recording.reads
        with reads:
            compiled = make(backend, recording.source)
        model = compiled.graph and compiled.graph.any_sizes
        if model is not None and len(model.model) <= _MOST_BYTES:
            template = Template(compiled, reads, sizes, hints)
            with self._lock:
                self._templates[key] = [template, *self._templates.get(key, ())[: self.each - 1]]
                if len(self._templates) > self.limit:
                    self._templates.popitem(last=False)
        return compiled

    def clear(self) -> None:
        """Forget them."""
        with self._lock:
            self._templates.clear()


def _may_be_resized(backend: Backend, source: Any) -> bool:
    """Whether all that passes read of a source can be recorded: a step of one part, no bodies."""
    structure = source.structure
    return bool(
        getattr(backend, "can_resize", False)
        and source.updates
        and not source.seam
        and type(structure) is Structure
        and not structure.reads
        and not structure.has_blocks
        and all(_is_plain(v) for v in structure.leaves)
    )


def _is_plain(v: Variable) -> bool:
    """Whether a Variable is of a graph that nothing has recorded, and has no rows elsewhere."""
    is_static = v.eager_value is None and v.source is None and not v.is_recorded
    return type(v) is Variable and is_static and v.storage.table is None
