"""What updates read of an optimizer: numbers that may change between steps, and the rest."""

import gc
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any
from weakref import WeakValueDictionary, ref

import numpy as np
from numpy.typing import DTypeLike

from ..graph.method import provide
from ..graph.setting import Setting
from ..graph.variable import Variable
from .groups import Group, group_of
from .regularizers import L1, L2, ClipElements, ClipGlobalNorm, ClipNorm

Place = tuple[Any, ...]  # where a number is: ("learning_rate",), ("groups", 0, "learning_rate")

_PENALTIES: dict[type, str] = {L1: "rate", L2: "rate"}
_CLIPS: dict[type, str] = {ClipElements: "limit", ClipNorm: "limit", ClipGlobalNorm: "limit"}
_WITH_NUMBER = _PENALTIES | _CLIPS


def is_number(value: Any) -> bool:
    """Return whether a setting is a number of Python or NumPy."""
    is_real = isinstance(value, (int, float, np.integer, np.floating))
    return is_real and not isinstance(value, bool)


def _number(value):
    """The number in a setting, which is one or has one; None where it is left out of a step."""
    if is_number(value):
        return float(value)
    field = _WITH_NUMBER.get(type(value))
    number: Any = None if field is None else getattr(value, field)
    return None if not is_number(number) or _is_nothing(value) else float(number)


def _is_nothing(value):
    """Whether a setting adds nothing to a step: None, or a penalty of 0."""
    return value is None or (type(value) in _PENALTIES and value.rate == 0)


def _form(value):
    """A setting without its number: what a graph is built from."""
    if _number(value) is not None:
        return float if is_number(value) else type(value)
    return None if _is_nothing(value) else value


class Use:
    """A static graph's update by an optimizer: what it was built from, and its state.

    It holds nothing of the graph: `is_alive` tells whether that is still there. `variables` are the
    state of the update, None if it is that of the steps inside `pd.guard()`.
    """

    def __init__(
        self,
        optimizer: Any,
        pairs: Sequence[tuple[Variable, Any]],
        values: Iterable[Variable],
        variables: Mapping[tuple[Variable | None, str], Variable] | None,
    ):
        who, groups, live = type(optimizer).__name__, optimizer.groups, live_names(optimizer)
        self.values = [ref(v) for v in values]
        self.built = {name: _form(v) if name in live else v for name, v in _public(optimizer)}
        self.groups = [_group_forms(g) for g in groups]
        self.members = [(ref(w), _index(groups, group_of(who, groups, w))) for w, _ in pairs]
        self.has_state = variables is not None
        self._variables = [
            (None if w is None else ref(w), name, ref(v))
            for (w, name), v in (variables or {}).items()
        ]

    @property
    def is_alive(self) -> bool:
        """Whether the graph is still there."""
        return any(v() is not None for v in self.values)

    def variables(self) -> dict[tuple[Variable | None, str], Variable]:
        """Return the state by parameter, None for a scalar of all, and name."""
        every = [(None if w is None else w(), name, v()) for w, name, v in self._variables]
        return {(w, name): v for w, name, v in every if v is not None}

    def takes(self, name: str, value: Any, is_live: bool) -> bool:
        """Return whether a setting may be changed to a value."""
        if name not in self.built:
            return False
        old, new = self.built[name], _form(value) if is_live else value
        if is_live and new is None and old in _PENALTIES:
            return True  # a rate of 0
        return old is new or (type(old) is type(new) and bool(old == new))

    def takes_groups(self, who: str, groups: Sequence[Group]) -> bool:
        """Return whether groups have the same members, with the same kinds of settings."""
        if [_group_forms(g) for g in groups] != self.groups:
            return False
        members = [(w(), k) for w, k in self.members]
        return all(w is None or _index(groups, group_of(who, groups, w)) == k for w, k in members)


def _public(optimizer):
    """The (name, value) pairs of settings, without the groups."""
    return [(name, v) for name, v in vars(optimizer).items() if not name.startswith("_")]


def _group_forms(group):
    return {name: _form(value) for name, value in group.settings}


def _index(groups, group):
    return next((k for k, g in enumerate(groups) if g is group), None)


class Settings:
    """What the graphs of an optimizer read of it.

    An optimizer and its variants inside this package share one.
    """

    def __init__(self) -> None:
        self._variables: WeakValueDictionary[tuple, Variable] = WeakValueDictionary()
        self._uses: list[Use] = []
        self._is_used = False
        self.set_before: set[Place] = set()  # numbers that were set since the first step was built
        self._changes: dict[Place, int] = {}  # when each was set last, among all changes

    # ---- numbers

    def number(
        self, place: Place, value: float, dtype: DTypeLike, prefix: str, times: float = 1.0
    ) -> Variable:
        """Return the Variable of a number that may change, times a factor that does not."""
        self._is_used = True
        dtype = np.dtype(dtype)
        key = place, dtype.num, times
        v = self._variables.get(key)
        if v is None:
            setting = Setting(value * times, self.is_constant(place))
            name = "/".join([prefix, *map(str, place)])
            v = self._variables[key] = setting.variable(name, dtype)
        elif v.storage.setting.value != value * times:
            v.storage.setting.change(value * times)
        return v

    def live(self, place: Place, value: Any, dtype: DTypeLike, prefix: str) -> Any:
        """Return a setting with a Variable for its number, if it has one."""
        number = _number(value)
        if number is None:
            return value
        v = self.number(place, number, dtype, prefix)
        return _with_number(value, v)

    def variables(self) -> list[Variable]:
        """Return the Variables of numbers that some graph reads."""
        return list(self._variables.values())

    def is_constant(self, place: Place) -> bool:
        """Return whether the number of a place has not changed yet."""
        every = [v for (p, *_), v in list(self._variables.items()) if p == place]
        return all(v.storage.setting.is_constant for v in every)

    def change(self, place: Place, value: Any) -> None:
        """Change the number of a place to that of a setting, in all graphs that read it."""
        number = _number(value)
        self._changes[place] = next(_moments)
        if self._is_used:
            self.set_before.add(place)
        for (p, _, times), v in list(self._variables.items()):
            if p == place:
                v.storage.setting.change(0.0 if number is None else number * times)

    def numbers_set(self, optimizer: Any) -> dict[str, float]:
        """Return the numbers that were set since the first step was built, by name."""
        places = {_place_name(p): _number_or_off(p, _at(optimizer, p)) for p in self.set_before}
        return {name: places[name] for name in sorted(places) if places[name] is not None}

    def has(self, optimizer: Any, name: str, number: float) -> bool:
        """Return whether an optimizer can have a number of a name, as `numbers_set` gives them."""
        place = _place(name)
        value = _at(optimizer, place)
        return _number(value) is not None or _off(place) == number == _number_or_off(place, value)

    def changed_at(self, name: str) -> int:
        """Return when the number of a name was set last, to be compared with `latest_change`."""
        return self._changes.get(_place(name), -1)

    def set_number(self, optimizer: Any, name: str, number: float) -> None:
        """Set the number of a name."""
        place = _place(name)
        self._is_used = True
        value = None if number == _off(place) else _with_number(_at(optimizer, place), number)
        if len(place) == 1:
            setattr(optimizer, place[0], value)
            return
        _, k, setting = place
        groups = list(optimizer.groups)
        settings = tuple([(n, value if n == setting else v) for n, v in groups[k].settings])
        groups[k] = replace(groups[k], settings=settings)
        optimizer.groups = groups

    def undoing(self, optimizer: Any) -> Callable[[], None]:
        """Return a function that sets all numbers back to what they are now."""
        now = {name: getattr(optimizer, name) for name in (*live_names(optimizer), "groups")}
        before = set(self.set_before)

        def undo():
            for name, value in now.items():
                setattr(optimizer, name, value)
            self.set_before = before

        return undo

    # ---- updates

    def add(self, use: Use) -> None:
        """Note an update of a static graph."""
        self._uses = [*self.uses(), use]

    def uses(self) -> list[Use]:
        """Return the updates that are still there."""
        self._uses = [use for use in self._uses if use.is_alive]
        return self._uses

    def check(self, optimizer: Any, name: str, value: Any) -> None:
        """Raise an AttributeError if a setting cannot change behind an update that is in use."""
        who, is_live = type(optimizer).__name__, name in live_names(optimizer)

        def fits(use):
            if name == "groups":
                return use.takes_groups(who, value)
            return use.takes(name, value, is_live)

        if all(map(fits, self.uses())):
            return
        gc.collect()  # graphs are cycles: this one may have been dropped
        if all(map(fits, self.uses())):
            return
        live = ", ".join(live_names(optimizer))
        raise AttributeError(
            f"{who}: {_why(optimizer, name, is_live)}\n"
            f"  hint: numbers of {live} and of groups may change at any time; for anything else "
            "make a new optimizer, and minimize() again"
        )

    def key(self, optimizer: Any) -> tuple:
        """Return what an update inside a guard depends on besides its parameters."""
        live = live_names(optimizer)
        own = [
            self._key((name,), value) if name in live else (name, _hashable(value))
            for name, value in _public(optimizer)
        ]
        groups = [
            (g.params, *[self._key(("groups", k, name), value) for name, value in g.settings])
            for k, g in enumerate(optimizer.groups)
        ]
        return (*own, *groups)

    def _key(self, place, value):
        number = _number(value) if self.is_constant(place) else None
        return place, _form(value), number


_moments = count()  # of all changes of settings


def latest_change() -> int:
    """Return a number that those of later changes of settings are above."""
    return next(_moments)


def _off(place):
    """The number that stands for a penalty or a clip that was taken away; None for others."""
    return {"regularizer": 0.0, "clip": math.inf}.get(place[-1])


def _number_or_off(place, value):
    """The number of a setting in the state of an optimizer."""
    return _off(place) if _is_nothing(value) else _number(value)


def _place_name(place):
    return "/".join(map(str, place))


def _place(name):
    parts = name.split("/")
    is_group = len(parts) == 3 and parts[0] == "groups" and parts[1].isdecimal()
    return ("groups", int(parts[1]), parts[2]) if is_group else (name,)


def _at(optimizer, place):
    """The setting at a place, None if there is none."""
    if len(place) == 1:
        return getattr(optimizer, place[0]) if place[0] in live_names(optimizer) else None
    _, k, name = place
    return dict(optimizer.groups[k].settings).get(name) if k < len(optimizer.groups) else None


def _with_number(value, number):
    return number if is_number(value) else replace(value, **{_WITH_NUMBER[type(value)]: number})


def _hashable(value):
    return tuple(value.items()) if type(value) is dict else value


def live_names(optimizer: Any) -> tuple[str, ...]:
    """Return the names of settings whose numbers may change between steps."""
    return ("learning_rate", *optimizer.adjustable, "regularizer", "clip")


def _why(optimizer, name, is_live):
    if name == "groups":
        return "the update that minimize() built has other groups: other members, or settings"
    known = dict(_public(optimizer))
    if name not in known:
        return f"there is no setting {name!r}, but {', '.join(known)}"
    if is_live:
        return (
            f"{name} is {known[name]!r} in the update that minimize() built, where another number "
            "may take its place only"
        )
    return f"{name}={known[name]!r} is a part of the update that minimize() built"


class Built:
    """Base of what graphs are built from: public attributes cannot change behind one in use."""

    def __setattr__(self, name: str, value: Any) -> None:
        is_known = name in vars(self) and not name.startswith("_")
        if is_known and value != vars(self)[name] and self._is_in_use():
            raise AttributeError(
                f"{type(self).__name__}: {name} is a part of a graph that was built with it\n"
                "  hint: set it before, or make a new one"
            )
        object.__setattr__(self, name, value)

    def note(self, values: Iterable[Variable]) -> None:
        """Note values of a graph that was built with the attributes."""
        vars(self)["_built"] = [*vars(self).get("_built", ()), *map(ref, values)]

    def _is_in_use(self):
        if any(v() is not None for v in vars(self).get("_built", ())):
            gc.collect()
        vars(self)["_built"] = [v for v in vars(self).get("_built", ()) if v() is not None]
        return bool(vars(self)["_built"])


def _check_unused(w: Variable, name: str) -> None:
    """Refuse to change a setting of a parameter that an update in use was built with."""
    gc.collect()
    w.options = replace(w.options, uses=[use for use in w.options.uses if use.is_alive])
    if w.options.uses:
        raise AttributeError(
            f"{w!r}: {name} is a part of what minimize() built\n"
            "  hint: change it before that, or use groups, whose numbers may change at any time"
        )


provide(check_unused=_check_unused)
