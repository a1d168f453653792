"""History: the numbers of each epoch of a training."""

from collections.abc import Iterator, Mapping
from math import nan
from typing import Any

from ...graph.shown import html_table, rich_table
from ...run.states import by_name, each, entries, number
from .. import RunnerContext, RunnerItem, TestResult
from ..item import Following

_SHOWN = 5  # epochs at each end of a table


class History(Mapping[str, list[float]]):
    """Numbers of each epoch by name: `cost`, metrics, `val_cost` and `val_...` of validations.

    `cost` and metrics are those of the training steps: in training mode, before the updates. A
    number that an epoch of a resumed training did not have is NaN there.
    """

    def __init__(self, numbers: Mapping[str, list[float]] | None = None):
        self._numbers = {name: list(values) for name, values in (numbers or {}).items()}

    @property
    def cost(self) -> list[float]:
        """The mean cost of each epoch."""
        return self["cost"]

    @property
    def epochs(self) -> int:
        """The number of epochs, those before a resumed training included."""
        return len(self._numbers.get("cost", ()))

    def __getitem__(self, name: str) -> list[float]:
        if name not in self._numbers:
            raise KeyError(f"there is no {name!r}, but {', '.join(self) or 'no epoch'}")
        return self._numbers[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)

    def __repr__(self) -> str:
        last = [f"{name}={values[-1]:.4g}" for name, values in self.items()]
        return f"History({', '.join([f'epochs={self.epochs}', *last])})"

    def _repr_html_(self) -> str:
        rows, notes = self._rows()
        return html_table(("epoch", *self), rows, notes, numbers=len(self))

    def __rich__(self) -> Any:
        rows, notes = self._rows()
        return rich_table(("epoch", *self), rows, notes, numbers=len(self))

    def _rows(self):
        """The rows of a table, those in the middle left out, and the notes below it."""
        rows = [
            (str(k + 1), *(f"{values[k]:.4g}" for values in self.values()))
            for k in range(self.epochs)
        ]
        left_out = max(len(rows) - 2 * _SHOWN, 0)
        if left_out:
            rows[_SHOWN:-_SHOWN] = [("…",) * (1 + len(self))]
        notes = [f"{left_out} epochs are left out"] if left_out else []
        return rows, notes


class Recorder(RunnerItem):
    """Records the numbers of each pass in a History."""

    def __init__(self) -> None:
        self.history = History()
        self._validation: dict[str, float] = {}

    def validated(self, context: RunnerContext, result: TestResult) -> None:
        """Take the result of a validation, as the `on_result` of a TestEvery."""
        self._validation = {"cost": result.cost, **result.metrics}

    def on_pass_end(self, following: Following) -> None:
        following()
        self.context.after(self._record)  # when the items around have added their numbers

    def _record(self):
        numbers = dict(self.context.pass_metrics)
        numbers.update((f"val_{name}", value) for name, value in self._validation.items())
        # a resumed training may validate as the one before did not, or the other way round
        none = [nan] * self.history.epochs
        names = dict.fromkeys([*self.history, *numbers])
        self.history = History(
            {name: [*self.history.get(name, none), numbers.get(name, nan)] for name in names}
        )

    def state(self) -> dict[str, Any]:
        return dict(self.history)

    def check(self, state: Mapping[str, Any]) -> None:
        _numbers(state)

    def restore(self, state: Mapping[str, Any]) -> None:
        self.history = History(_numbers(state))


def _numbers(state):
    """The numbers of a state, lists of floats by name, as long as there were epochs."""
    found = entries("History", {"numbers": state}, {"numbers": by_name(each(number))})["numbers"]
    for name, values in found.items():
        if len(values) != len(found.get("cost", ())):
            raise ValueError(
                f"History: {name!r} has {len(values)} epochs, another number than cost"
            )
    return found
