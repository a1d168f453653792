"""The names of a layer and of all below it, ours beside those of PyTorch."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..layers.layer import Layer
from ..layers.structure import (
    layers_below,
    may_have,
    variables_at_all_places,
    variables_of,
)
from .counterparts import AROUND, Counterpart, Entry, Form, counterpart


@dataclass(frozen=True)
class Place:
    """An entry of a layer at its place: whole names. Forms of all places come one after another."""

    entry: Entry
    ours: tuple[str, ...]
    forms: tuple[Form, ...]
    ignored: Mapping[str, np.ndarray]


class Names:
    """The names of a layer and of all below it, ours beside those of PyTorch."""

    def __init__(self, layer: Layer) -> None:
        self.layer = layer
        self.variables = dict([*layer.named_parameters(), *layer.named_buffers()])
        first = {v: name for name, v in self.variables.items()}
        every = variables_at_all_places(layer)
        self._canonical = {name: first[v] for name, v in every}
        self.layers: list[tuple[str, str, Layer]] = []  # (our path, PyTorch's, layer)
        self._known: dict[int, Counterpart | None] = {}
        self._add(layer, "", "", (), ())
        self._first: dict[int, str] = {}  # our path of a layer, the first of several
        for ours, _, one in self.layers:
            self._first.setdefault(id(one), ours)
        self.places: list[Place] = []
        self.ignored: set[str] = set()
        for key, ours in self._first.items():
            paths = [theirs for _, theirs, one in self.layers if id(one) == key]
            self.places += self._merged(self._known[key], ours, paths)
            for path in paths:
                self.ignored |= {path + name for name in getattr(self._known[key], "ignored", ())}
        # (our path, name, place) of what has the same name in PyTorch; it may be in a place, too
        self.own: list[tuple[str, str, Place | None]] = []
        self._add_own()

    def _add_own(self) -> None:
        """Add variables that are attributes of layers, and their names to places that have them."""
        alone = {place.ours: k for k, place in enumerate(self.places) if len(place.ours) == 1}
        for ours, theirs, one in self.layers:
            known = self._known[id(one)] or Counterpart()
            placed = {name for entry in known.entries for name in entry.ours}
            for name in variables_of(one):
                if name in placed:
                    continue
                k = alone.get((self.canonical(ours + name),))
                place = None
                if k is not None and len(self.places[k].forms[0].names) == 1:
                    form = self.places[k].forms[0]
                    twin = Form((theirs + name,), form.load, form.store)
                    place = replace(self.places[k], forms=(twin,))
                    self.places[k] = replace(self.places[k], forms=(*self.places[k].forms, twin))
                self.own.append((ours, name, place))

    def canonical(self, name: str) -> str:
        """Return the first of our names of a variable."""
        return self._canonical.get(name, name)

    def _add(
        self, layer: Layer, ours: str, theirs: str, computed: Sequence[str], above: tuple
    ) -> None:
        """Add a layer and all below it, at all their places."""
        if layer in above:
            return
        self.layers.append((ours, theirs, layer))
        known = self._known.setdefault(id(layer), counterpart(layer, computed)) or Counterpart()
        renames = {v: k for k, v in known.layers.items()}
        for name, child in layers_below(layer).items():
            if name in known.merged:
                continue
            # what is around a layer to compute a parameter is no module in PyTorch
            path, of = f"{theirs}{renames.get(name, name)}.", list[str]()
            if isinstance(layer, AROUND) and name == "layer":
                path, of = theirs, [*computed, layer.of]
            self._add(child, f"{ours}{name}.", path, of, (*above, layer))

    def _merged(self, known: Counterpart | None, ours: str, paths: list[str]) -> Iterator[Place]:
        """Yield the entries of a layer, with the forms of all of its places."""
        for entry in () if known is None else known.entries:
            forms = [
                Form(tuple([path + name for name in form.names]), form.load, form.store)
                for path in paths
                for form in entry.forms
            ]
            whole = tuple([self.canonical(ours + name) for name in entry.ours])
            yield Place(entry, whole, tuple(forms), {})

    def of(self, layer: Layer, path: str) -> list[Place]:
        """Return the entries of a layer at one of its places."""
        known = self._known[id(layer)]
        ignored = {} if known is None else {path + k: v for k, v in known.ignored.items()}
        places = self._merged(known, self._first[id(layer)], [path])
        return [Place(p.entry, p.ours, p.forms, ignored) for p in places]

    def ours(self, name: str) -> str:
        """Return our name of what has the same one in PyTorch, but for the layers it is in."""
        inside = [(t, self._first[id(one)]) for _, t, one in self.layers if name.startswith(t)]
        theirs, ours = max(inside, key=lambda pair: len(pair[0]))
        return self.canonical(ours + name.removeprefix(theirs))

    def theirs(self, name: str) -> str:
        """Return PyTorch's name of what has the same one here, but for the layers it is in."""
        inside = [(o, t) for o, t, one in self.layers if name.startswith(o)]
        ours, theirs = max(inside, key=lambda pair: len(pair[0]))
        return theirs + name.removeprefix(ours)

    def is_unexpected(self, ours: str) -> bool:
        """Return whether nothing has a name, nor will have it."""
        if ours in self.variables:
            return False
        inside = [(path, one) for path, _, one in self.layers if ours.startswith(path)]
        owner = max(inside, key=lambda pair: len(pair[0]))[1]
        is_known = self._known[id(owner)] is not None  # one of ours has no other parameters
        is_ours = type(owner).__module__.startswith("pd_core.")
        return (is_known and is_ours) or not may_have(self.layer, ours)
