"""State dicts of PyTorch as values by our names, and all that does not fit."""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from ..graph.errors import DTypeError, GraphError, ShapeError
from ..graph.misfits import Misfits
from ..graph.variable import Variable
from ..layers.layer import Layer
from ..layers.loading import Loading, unfit
from .counterparts import Form
from .names import Names, Place


class Reader:
    """The values of a state dict by our names, `found`, and where they come from, `used`.

    `origins` are {name that a value would have if attributes were those of the layer: its name}.
    `loading` has what is wrong with values.
    """

    def __init__(
        self, who: str, layer: Layer, state_dict: Mapping[str, Any], origins: Mapping[str, str]
    ) -> None:
        self.loading, self.origins, self.names = Loading(who), origins, Names(layer)
        arrays = {k: self.loading.numbers(name, state_dict[name]) for k, name in origins.items()}
        self.values = {name: array for name, array in arrays.items() if array is not None}
        self.found: dict[str, np.ndarray] = {}
        self.used: dict[str, str] = {}
        forms = [form for place in self.names.places for form in place.forms]
        self.consumed = {name for form in forms for name in form.names}

    def misfits(self) -> Misfits:
        """Read all values; return PyTorch's names that do not fit."""
        absent = [(place, self._read(place)) for place in self.names.places]
        unexpected = self._read_own()
        # of a parameter that layers share, one of its names is enough
        missing = [k for place, keys in absent if not self._has(place) for k in keys]
        placed = {name for place in self.names.places for name in place.ours}
        others = [k for k in self.names.variables if k not in self.found and k not in placed]
        return Misfits([*missing, *map(self.names.theirs, others)], unexpected)

    def _has(self, place):
        return all(name in self.found for name in place.ours)

    def _read(self, place: Place) -> list[str]:
        """Read an entry in each form that is complete; return the names that are absent."""
        complete = [f for f in place.forms if all(name in self.values for name in f.names)]
        for form in complete:
            origin = " + ".join([self.origins[name] for name in form.names])
            for ours, array in zip(place.ours, self._loaded(place, form), strict=False):
                self._put(ours, array, origin)
        if complete:
            return []
        form = _form_of(place, self.origins)
        self._check_parts(place, form)
        return [name for name in form.names if name not in self.origins]

    def _put(self, ours: str, array: np.ndarray, origin: str) -> None:
        if ours in self.found:
            self.loading.check_twin(origin, array, self.used[ours], self.found[ours])
        self.found.setdefault(ours, array)
        self.used.setdefault(ours, origin)

    def _read_own(self) -> list[str]:
        """Read what has the same name in PyTorch; return the names that nothing has."""
        unexpected = []
        for name, origin in self.origins.items():
            if name in self.consumed or name in self.names.ignored:
                continue
            ours = self.names.ours(name)
            if self.names.is_unexpected(ours):
                unexpected.append(origin)
            elif name in self.values:
                array, v = self.values[name], self.names.variables.get(ours)
                if v is not None and v.dims != array.shape:
                    text = f"{origin!r} is {list(array.shape)}, {ours} takes {list(v.dims)}"
                    self.loading.add(ShapeError, text)
                self._check_dtype(v, array, origin, ours)
                self._put(ours, array, origin)
            else:  # it is no array, which is noted
                self.found.setdefault(ours, np.zeros(0))
                self.used.setdefault(ours, origin)
        return unexpected

    def _check_dtype(self, v: Variable | None, array: np.ndarray, origin: str, ours: str) -> None:
        text = "" if v is None else unfit(v, array)
        if text and v is not None:
            self.loading.add(DTypeError, f"{origin!r} has {text}, {ours} takes {v.dtype}")

    def _loaded(self, place: Place, form: Form) -> list[np.ndarray]:
        """Return the arrays of an entry in our layout; what is wrong with them is noted."""
        given = [self.values[name] for name in form.names]
        variables = [self.names.variables.get(name) for name in place.ours]
        for name, array in zip(form.names, given, strict=True):
            self._check_dtype(variables[0], array, self.origins[name], place.ours[0])
        try:
            arrays = [np.asarray(a) for a in form.load(given)]
        except GraphError as error:
            self.loading.add(GraphError, f"{self.origins[form.names[0]]!r}: {error}")
            return [np.zeros(0) for _ in place.ours]
        except (ValueError, IndexError):  # sizes that do not split or add
            arrays = []
        dims = [None if v is None else v.dims for v in variables]
        if not arrays or any(
            d is not None and d != a.shape for d, a in zip(dims, arrays, strict=False)
        ):
            self.loading.add(ShapeError, self._shape_text(form, given, place.ours, variables))
        return arrays

    def _check_parts(self, place: Place, form: Form) -> None:
        """Note what is wrong with the values of a form of which others are absent."""
        variables = [self.names.variables.get(name) for name in place.ours]
        wanted = None if None in variables else _as_theirs(form, variables)
        for k, name in enumerate(form.names):
            array = self.values.get(name)
            if array is None:
                continue
            self._check_dtype(variables[0], array, self.origins[name], place.ours[0])
            if wanted is not None and wanted[k].shape != array.shape:
                shapes = f"{list(array.shape)}, not {list(wanted[k].shape)}"
                self.loading.add(ShapeError, f"{self.origins[name]!r} is {shapes}")

    def _shape_text(self, form, given, ours, variables):
        """Return the names and shapes of both sides, ours also as PyTorch would have it."""
        pairs = zip(form.names, given, strict=True)
        theirs = ", ".join([f"{self.origins[n]!r} is {list(a.shape)}" for n, a in pairs])
        built = [(name, v) for name, v in zip(ours, variables, strict=True) if v is not None]
        if len(built) < len(ours):
            return f"{theirs}, which is no {' and '.join(ours)}"
        sizes = ", ".join(f"{name} {list(v.dims)}" for name, v in built)
        wanted = _as_theirs(form, [v for _, v in built])
        if wanted is None:
            return f"{theirs}; here are {sizes}"
        shapes = ", ".join(str(list(a.shape)) for a in wanted)
        return f"{theirs}, not {shapes}; here are {sizes}"


def _as_theirs(form, variables):
    """Return arrays of the shapes that parameters have in PyTorch; None if in another form."""
    return form.store([np.zeros(v.dims, np.float32) for v in variables])


def _form_of(place: Place, names: Collection[str]) -> Form:
    """Return the form of which some names are there, or the first one."""
    some = [form for form in place.forms if any(name in names for name in form.names)]
    return some[0] if some else place.forms[0]
