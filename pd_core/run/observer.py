"""The interface of what takes part in evaluations besides their programs."""

from collections.abc import Mapping
from typing import Any

from ..graph.variable import Variable
from .program import Program
from .request import Request


class Observer:
    """What takes part in one evaluation of a session."""

    def __init__(self, session: Any, request: Request):
        self.session, self.request = session, request

    @staticmethod
    def takes_part(session: Any, request: Request) -> bool:
        """Return whether there is one of this kind for a request."""
        return True

    def start(self) -> None:
        """Change what is evaluated, before there is a program."""

    def before(self, program: Program, fed: Mapping[Variable, Any]) -> None:
        """See what runs next; all stored values that it reads are there."""

    def after(self, results: list[Any] | None) -> None:
        """See the fetches; None if the evaluation raised."""
