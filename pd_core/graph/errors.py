"""Errors of the core, each a subclass of the builtin that a user would catch."""

import zipfile
import zlib
from collections.abc import Callable
from functools import wraps
from tokenize import TokenError
from typing import ParamSpec, TypeVar

from .site import Site, site_text, without_own_frames

P = ParamSpec("P")
R = TypeVar("R")


class GraphError(ValueError):
    """A mistake in a graph, reported at the line that built it.

    `op` is the name of the op function that the user called; the message begins with it.
    """

    op: str | None = None
    _named = False  # a call outside of our packages: those around it are of other ops

    def __str__(self) -> str:
        text = super().__str__()
        named = self.op is None or text.startswith(f"{self.op}: ")
        return text if named else f"{self.op}: {text}"

    def pass_op(self, name: str, by_user: bool) -> None:
        """Leave an op; the one that a user called gives its name."""
        if not self._named:
            self.op, self._named = name, by_user


class ShapeError(GraphError):
    """Sizes that do not fit together, or a value whose shape is not the declared one."""


class DTypeError(GraphError, TypeError):
    """An element type that an operator or a variable does not take."""


class NameConflict(GraphError):
    """A name that another variable has already; `hint` says what helps."""

    hint = ""

    def __init__(self, text: str, hint: str = "") -> None:
        super().__init__(text)
        self.hint = hint

    def __str__(self) -> str:
        text = super().__str__()
        return f"{text}\n  hint: {self.hint}" if self.hint else text


class NoGradient(GraphError):
    """A gradient of an operator that has none, or with respect to something that is no float."""


class FeedError(ValueError):
    """A feed that does not fit its variable."""


class MissingFeed(FeedError):
    """A feed slot that the targets need and that was not fed."""


class NotComputed(RuntimeError):
    """`val()` of a variable that no evaluation has fetched yet."""


class NotInitialized(RuntimeError):
    """A read of a persistent variable that has neither a value nor an initializer."""


class PlaceError(RuntimeError):
    """A device that this machine does not have."""


class CompilerError(RuntimeError):
    """A C compiler that is not there or that failed, where kernels are to be fused."""

    explained = True


class BackendError(RuntimeError):
    """An error of the runtime; the message names the line that built the node.

    `operator` is the name of the node that failed, `site` its line and `place` its position in the
    program (stage, index); None where the runtime does not report it.
    """

    def __init__(
        self,
        text: str,
        operator: str | None = None,
        site: Site | None = None,
        place: tuple[int, int] | None = None,
    ) -> None:
        where = f"\n  node   {operator}, built at {site_text(site)}" if operator else ""
        super().__init__(f"{text}{where}")
        self.text, self.operator, self.site, self.place = text, operator, site, place


class OutOfRange(BackendError, IndexError):
    """An id, a label or another index in the data that is outside of what it chooses from."""

    explained = True


class NumericError(FloatingPointError, RuntimeError):
    """A NaN or an infinity in an evaluation that is checked, see `check_numerics`.

    `operator` is the type of the operator whose output holds it and `site` the line that built it;
    None where a value that is fed or stored holds it.
    """

    def __init__(self, text: str, operator: str | None = None, site: Site | None = None) -> None:
        super().__init__(text)
        self.operator, self.site = operator, site


class ExportError(ValueError):
    """A model that cannot be exported as requested."""


class DamagedFile(ValueError):
    """A file that violates its format; the message names the file and the position in it."""


# What NumPy raises for a damaged .npy or .npz file.
ARRAY_ERRORS = (
    *(ValueError, TypeError, OSError, EOFError, LookupError, RecursionError, NotImplementedError),
    *(RuntimeError, SyntaxError, TokenError, zipfile.BadZipFile, zlib.error),
)


class LoadWarning(UserWarning):
    """A value in a file, or one that the file lacks, that does not fit what it is loaded into."""


class ModelError(ValueError):
    """A file that is no model, or a model that cannot be imported."""


class DamagedModel(ModelError, DamagedFile):
    """An ONNX file that contradicts itself or ONNX; the message names the file and the node."""


def is_explained(error: BaseException) -> bool:
    """Check whether an error is a mistake in a program or its data that the message explains.

    Others may set `error.explained = True`.
    """
    return isinstance(error, (GraphError, FeedError)) or getattr(error, "explained", False)


def concise(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function: tracebacks of explained errors end at its call.

    What our packages did below it would bury the message.
    """

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            if is_explained(error):
                error.__traceback__ = without_own_frames(error.__traceback__)
            raise

    return call
