"""The errors of the core: each is a subclass of the builtin a user would catch."""

from .site import site_text


class GraphError(ValueError):
    """A mistake in a graph, reported at the line that built it.

    `op` is the name of the op function that refused, with which the text begins.
    """

    op: str | None = None

    def __str__(self) -> str:
        text = super().__str__()
        named = self.op is None or text.startswith(f"{self.op}: ")
        return text if named else f"{self.op}: {text}"


class ShapeError(GraphError):
    """Sizes that do not fit together, or a value whose shape is not the declared one."""


class DTypeError(GraphError, TypeError):
    """An element type that an operator or a variable does not take."""


class NameConflict(GraphError):
    """A second variable under a name that is taken."""


class NoGradient(GraphError):
    """A gradient was asked of an operator that has none, or of something that is no float."""


class FeedError(ValueError):
    """A feed that does not fit its slot."""


class MissingFeed(FeedError):
    """A slot that the targets need was not fed."""


class NotComputed(RuntimeError):
    """`val()` of a variable that no evaluation has fetched yet."""


class NotInitialized(RuntimeError):
    """A persistent variable was read that has neither a value nor an initializer."""


class PlaceError(RuntimeError):
    """A device that is not there."""


class BackendError(RuntimeError):
    """The runtime refused or failed; the message names the line that built the node.

    `operator` is the name of the node that failed, `site` its line and `place` where it stands in
    the program; None where the runtime does not say.
    """

    def __init__(self, text: str, operator=None, site=None, place=None):
        where = f"\n  node   {operator}, built at {site_text(site)}" if operator else ""
        super().__init__(f"{text}{where}")
        self.text, self.operator, self.site, self.place = text, operator, site, place


class ExportError(ValueError):
    """A model that cannot be written as asked."""


class DamagedFile(ValueError):
    """A file that is not what its format says; the message names the file and the place in it."""


class ModelError(ValueError):
    """A file that is no model, or that holds what cannot be imported."""


class DamagedModel(ModelError, DamagedFile):
    """An ONNX file that contradicts itself or ONNX; the message names the file and the node."""
