"""The global generators, those of `random` and `numpy.random`: their states, also as JSON."""

import base64
import random
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

_ENCODED_INTS = np.dtype("<u4")  # of Mersenne Twister's state
_MOST_WORDS = 624
_NUMPY_KEYS = {"bit_generator", "state", "has_gauss", "gauss"}


@dataclass(frozen=True, slots=True)
class Generators:
    """The states of the generators at some moment; None for one that is not part of it."""

    random: tuple[Any, ...] | None
    numpy: dict[str, Any] | None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Generators):
            return NotImplemented
        return not self.differing(other)

    def differing(self, other: "Generators") -> frozenset[str]:
        """Return which of "random" and "numpy" are in another state."""
        same = {"random": self.random == other.random, "numpy": _equal(self.numpy, other.numpy)}
        return frozenset(name for name in same if not same[name])


def generators_state(with_numpy: bool = True) -> Generators:
    """Return the states of `random` and, unless told otherwise, of `numpy.random`; 60 us."""
    numpy: Any = np.random.get_state(legacy=False) if with_numpy else None
    return Generators(random.getstate(), numpy)


def set_generators(state: Generators | dict[str, Any], but: Collection[str] = ()) -> None:
    """Set the generators to a state, which may be an encoded one, but not "random" or "numpy"."""
    if not isinstance(state, Generators):
        state = _decoded(state)
    if state.random is not None and "random" not in but:
        random.setstate(state.random)
    if state.numpy is not None and "numpy" not in but:
        np.random.set_state(state.numpy)


def check_generators(state: Any) -> None:
    """Raise the error that `set_generators` would raise; change nothing."""
    before = generators_state()
    try:
        set_generators(state)
    finally:
        set_generators(before)


def encoded(state: Any) -> Any:
    """Return a nested state with the Generators inside of it as JSON's types, 7 kB of text each."""
    if isinstance(state, Generators):
        words = None
        if state.random is not None:
            version, numbers, gauss = state.random
            words = [version, _text(np.array(numbers, _ENCODED_INTS)), gauss]
        return {"random": words, "numpy": encoded(state.numpy)}
    if isinstance(state, dict):
        return {key: encoded(value) for key, value in state.items()}
    if isinstance(state, list | tuple):
        return [encoded(value) for value in state]
    if isinstance(state, np.ndarray):
        return {"dtype": state.dtype.str, "base64": _text(state)}
    return state.item() if isinstance(state, np.generic) else state


def _decoded(state: dict[str, Any]) -> Generators:
    """Return the Generators that were encoded."""
    words = state["random"]
    if words is not None:
        version, text, gauss = words
        if not (gauss is None or isinstance(gauss, float)):  # which `random` takes as it is
            raise TypeError(f"random has no number {gauss!r}")
        words = version, tuple(_array(text, _ENCODED_INTS).tolist()), gauss
    numpy = _with_arrays(state["numpy"])
    # numpy takes a state without its half of the last two normal numbers
    if numpy is not None and numpy.keys() != _NUMPY_KEYS:
        raise ValueError(f"numpy.random has the entries {_NUMPY_KEYS}, not {numpy.keys()}")
    if numpy is not None and not 0 <= numpy["state"].get("pos", 0) <= _MOST_WORDS:
        # numpy would read behind its words
        raise ValueError(f"numpy.random has no word {numpy['state']['pos']}")
    return Generators(words, numpy)


def _with_arrays(state: Any) -> Any:
    if not isinstance(state, dict):
        return state
    if "base64" in state:
        return _array(state["base64"], np.dtype(state["dtype"]))
    return {key: _with_arrays(value) for key, value in state.items()}


def _text(array: np.ndarray) -> str:
    return base64.b64encode(array.tobytes()).decode("ascii")


def _array(text: str, dtype: np.dtype) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), dtype)


def _equal(a: Any, b: Any) -> bool:
    """Whether two nested dicts with arrays are equal."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_equal(a[key], b[key]) for key in a)
    return np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b
