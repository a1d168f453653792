"""Operators of groups that have equal steps: what is generated for one of them serves all.

Deep networks repeat their layers, and groups of a graph are tried several times.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from .groups import Library, Made, make
from .sizes import Values
from .steps import Join, Map, Product, Step, Unfit, read_by


class Operators:
    """The operators of groups of a model, which are added to a library.

    `sources` are values of the model's inputs by the names of sizes that they have.
    """

    def __init__(self, values: Values, library: Library, sources: Mapping[str, str]):
        self.values, self.library, self.sources = values, library, sources
        self._known: dict[object, tuple[Made, Library, list[str]] | Unfit] = {}
        self._scalars: dict[str, object] = {}

    def made(
        self, steps: Sequence[Step], wanted: Collection[str], states: Mapping[str, str]
    ) -> Made:
        """Return steps as an operator that makes the wanted values, as `make` does.

        Unfit is raised if there is none.
        """
        key, names = self._numbered(steps, wanted, states)
        found = self._known.get(key)
        if found is None:
            own = Library()
            try:
                made = make(steps, wanted, self.values, own, self.sources, None, states)
                found = made, own, names
            except Unfit as why:
                found = why
            self._known[key] = found
        if isinstance(found, Unfit):
            raise found
        made, own, first = found
        now = dict(zip(first, names, strict=True))
        inputs = [now.get(x, x) for x in made.inputs]  # a source of a size may be in no step
        groups = made.outputs, made.written, made.checks
        outputs, written, checks = ([now[y] for y in names] for names in groups)
        name = self.library.add(own)
        return replace(
            made, name=name, inputs=inputs, outputs=outputs, written=written, checks=checks
        )

    def _numbered(self, steps, wanted, states):
        """(all that decides what becomes of steps, with numbers for names, the names in order)."""
        numbers: dict[str, int] = {}
        rows: list[Any] = []
        for step in steps:
            own = (step.y, *read_by(step))
            rows.append((*[numbers.setdefault(x, len(numbers)) for x in own], *_rest(step)))
        made = {step.y for step in steps}
        types = [
            (self.values.kind(x), self.values.dims(x), None if x in made else self._scalar(x))
            for x in numbers
        ]
        results = [numbers[step.y] for step in steps if step.y in wanted]
        pairs = [(numbers[y], numbers.get(x)) for y, x in states.items()]
        return (tuple(rows), tuple(types), tuple(results), tuple(pairs)), [*numbers]

    def _scalar(self, x):
        """The bits of a constant's single value, which is written into the code."""
        if x not in self._scalars:
            value = self.values.scalar(x)
            self._scalars[x] = None if value is None else (value.dtype.str, value.tobytes())
        return self._scalars[x]


def _rest(step: Step) -> tuple[object, ...]:
    """Return the kind of a step and its fields, less the names of values."""
    if isinstance(step, Map):
        return Map, step.text, len(step.inputs), step.number, step.axis, step.is_plain, step.at
    if isinstance(step, Join):
        return Join, len(step.inputs), step.axis
    if isinstance(step, Product):
        return Product, step.transposed, step.alpha.hex()
    rest = [tuple(v) if isinstance(v, list) else v for k, v in vars(step).items() if k not in "xy"]
    return type(step), *rest
