"""Settings: numbers that graphs read and that may change between evaluations."""

from typing import Any
from weakref import WeakSet, ref

import numpy as np
from numpy.typing import DTypeLike

from .recording import not_recording
from .roles import Storage
from .variable import Variable, constant


class Setting:
    """A number such as a learning rate, which a scalar Variable stands for in graphs.

    Until it changes for the first time it is a constant of the programs that read it, which are
    faster so: passes merge it with other operators. From then on every session stores it, and no
    change compiles anything. In exported models it is always a constant.
    """

    def __init__(self, value: float, is_constant: bool = True):
        self.value, self.is_constant = value, is_constant
        # steps whose programs have it as a constant, and sessions that store it
        self.steps: WeakSet[Any] = WeakSet()
        self.sessions: WeakSet[Any] = WeakSet()
        self._variable: Any = None

    def variable(self, name: str, dtype: DTypeLike) -> Variable:
        """Return the Variable that stands for it, of which there is one."""
        v = Variable.of((), dtype, name, initial=self, storage=Storage(setting=self))
        self._variable = ref(v)
        return v

    def __call__(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        """Return the number, as the initial value of its Variable."""
        return np.array(self.value)

    def change(self, value: float) -> None:
        """Set the number for all evaluations from now on."""
        if value == self.value:
            return
        self.value = value
        if self.is_constant:
            self.is_constant = False
            for step in list(self.steps):
                step.is_outdated = True
        for session in list(self.sessions):
            session.store_setting(self._variable(), np.array(value))


def setting_constant(v: Variable) -> Variable:
    """Return a constant with the number that the Variable of a Setting stands for now."""
    with not_recording():  # inside `pd.guard()` it would be a leaf
        return constant(np.array(v.storage.setting.value), v.dtype)
