"""Namespaces: `with` scopes that prefix names, and the variables under a prefix."""

from typing import Any, Self

from numpy.typing import ArrayLike, DTypeLike

from .arrays import as_array
from .errors import DTypeError, NameConflict, ShapeError
from .names import close_prefix, current_namespace, names, open_prefix
from .variable import Shape, Variable


class Namespace:
    """A prefix for names, `g.name == "g/"`; `g.W` is the variable `g/W`.

    A `with` on it prefixes the names made inside; it may nest and be entered again, and another
    thread does not see it.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Namespace) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"namespace({self.name!r})"

    def __enter__(self) -> Self:
        open_prefix(self.name)
        return self

    def __exit__(self, *exc: object) -> None:
        close_prefix()

    def __getattr__(self, name: str) -> Variable:
        try:
            return names().variables[self.name + name]
        except KeyError:
            raise AttributeError(f"namespace {self.name!r} owns no variable {name!r}") from None

    def variables(self) -> list[Variable]:
        """Return the persistent variables under this prefix, frozen or not."""
        return persistent_variables(self.name)


def namespace(name: str | Namespace | None = None) -> Namespace:
    """Prefix the names made inside a `with` by `name/`, below the prefix in force.

    Affects names only, never visibility. Without a name an automatic one is used; a Namespace is
    returned unchanged, so that it can be entered again under any other prefix.

    Args:
        name: a text; automatic if None.

    Returns:
        A Namespace for `with`.

    Raises:
        TypeError: the name is no text.
    """
    if isinstance(name, Namespace):
        return name
    if name is not None and not isinstance(name, str):
        raise TypeError(f"the name of a namespace is a str, not {name!r}")
    stem = name.strip("/") if name else ""
    return Namespace(f"{current_namespace() + stem if stem else names().next('ns-')}/")


def get_variable(
    name: str,
    shape: Shape | None = None,
    *,
    data: ArrayLike | None = None,
    dtype: DTypeLike | None = None,
    reuse: bool | None = None,
    **attributes: Any,
) -> Variable:
    """Return the variable `name` of the current namespace, created if it is missing.

    `reuse=False` insists on a new one. An existing one must agree in shape and dtype; a missing one
    needs a shape or data.

    Args:
        name: a name below the namespace.
        shape: the sizes of a new variable.
        data: its initial value.
        dtype: its dtype.
        reuse: False for a new one only.
        attributes: those of `Variable`.

    Returns:
        A persistent Variable.

    Raises:
        DTypeError: the variable exists in another dtype.
        KeyError: it does not exist, and there is neither shape nor data.
        NameConflict: it exists, and `reuse` is False.
        ShapeError: it exists in another shape.
    """
    full, scope = current_namespace() + name, names()
    with scope.lock:
        existing = scope.variables.get(full)
        if existing is None:
            if shape is None and data is None:
                raise KeyError(f"no variable {full!r}, and neither shape nor data to create it")
            created = Variable(name, shape=shape, data=data, dtype=dtype, **attributes)
            scope.variables.keep(created)
            return created
    if reuse is False:
        raise NameConflict(
            f"variable {full!r} exists already as {existing!r}, and reuse is False",
            "reuse=None, or another name",
        )
    if shape is None and data is not None:
        shape = as_array(data, dtype, f"variable {full!r}").shape
    if shape is not None and tuple(shape) != existing.shape:
        raise ShapeError(f"variable {full!r} is {existing.shape} elsewhere, {tuple(shape)} here")
    if dtype is not None and existing.dtype != dtype:
        raise DTypeError(f"variable {full!r} is {existing.dtype} elsewhere, {dtype} here")
    return existing


def persistent_variables(prefix: str | Namespace = "") -> list[Variable]:
    """Return the variables that keep a value under a prefix (`'g/'`), in creation order.

    Args:
        prefix: a namespace, or its name with a `/`.

    Returns:
        A list of Variables.
    """
    prefix = prefix.name if isinstance(prefix, Namespace) else prefix
    registered = names().variables.items()
    return [v for name, v in registered if name.startswith(prefix) and v.is_persistent]


def trainable_variables(prefix: str | Namespace = "") -> list[Variable]:
    """Return the trainable variables under a prefix (`'g/'`), in creation order.

    Args:
        prefix: a namespace, or its name with a `/`.

    Returns:
        A list of Variables.
    """
    return [v for v in persistent_variables(prefix) if v.trainable]
