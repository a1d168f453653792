"""What a part of the campaign is told, and what it reports."""

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

BAD = ("crash", "hang", "memory", "wrong error", "silent difference", "lost", "torn", "failed")


@dataclass(frozen=True)
class Plan:
    """How long to search, and from which seed: equal plans try the same things.

    `quick` is the slice of CI: seconds for each part, in place of minutes.
    """

    seed: int = 0
    quick: bool = False

    def rng(self, *names: str) -> np.random.Generator:
        """Return a generator for the trials of one subject."""
        words = [self.seed, *("/".join(names).encode())]
        return np.random.default_rng(words)

    def count(self, quick: int, full: int) -> int:
        """Return how many trials to make."""
        return quick if self.quick else full


@dataclass
class Row:
    """The outcomes of the trials of one subject.

    `outcomes` counts them in words; those of BAD are defects, and each has a line in `defects`
    that says how to see it again. `figures` is what was measured, a text for the table.
    """

    part: str
    subject: str
    outcomes: Counter[str] = field(default_factory=Counter)
    defects: list[str] = field(default_factory=list)
    figures: str = ""

    def add(self, outcome: str, defect: str = "") -> None:
        """Count a trial; `defect` is how to see it again if it went wrong."""
        self.outcomes[outcome] += 1
        if outcome in BAD:
            self.defects.append(f"{outcome}: {defect}")

    @property
    def trials(self) -> int:
        """The number of trials."""
        return self.outcomes.total()

    def as_json(self) -> dict:
        """Return the row for a JSON file."""
        return {**vars(self), "trials": self.trials}


def table(rows: list[Row]) -> str:
    """Return the rows as a Markdown table."""
    columns = ("part", "subject", "trials", "outcomes", "measured")
    lines = [f"| {' | '.join(columns)} |", "| --- | --- | ---: | --- | --- |"]
    for row in rows:
        outcomes = ", ".join(f"{n:,} {what}" for what, n in row.outcomes.most_common())
        lines.append(
            f"| {row.part} | {row.subject} | {row.trials:,} | {outcomes} | {row.figures} |"
        )
    return "\n".join(lines)
