"""A function as a layer."""

from collections.abc import Callable
from typing import Any

from .layer import Layer


class Lambda(Layer):
    """A function of Variables as a layer, such as `pd.nn.Lambda(pd.identity)`.

    It has no parameters: a layer that creates some is a subclass of `Layer`. `Sequential` takes
    functions as they are. Layers with a function of a module, or a `functools.partial` of one, are
    pickled; those with a lambda are not.
    """

    def __init__(self, function: Callable[..., Any], name: str | None = None) -> None:
        super().__init__(name)
        if not callable(function) or isinstance(function, (type, Layer)):
            raise TypeError(f"Lambda takes a function, not {function!r}")
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        """Return the function of the inputs."""
        return self.function(*inputs)

    def _may_repeat(self):
        # another function may read what changes from call to call
        inner = getattr(self.function, "func", self.function)
        return super()._may_repeat() and _module(inner).startswith("pd_core.ops.")

    def extra(self) -> str:
        """Return the name of the function, with the arguments of a partial."""
        function: Any = self.function
        inner = getattr(function, "func", function)
        given = [repr(v) for v in getattr(function, "args", ())]
        given += [f"{k}={v!r}" for k, v in getattr(function, "keywords", {}).items()]
        return ", ".join([getattr(inner, "__name__", type(inner).__name__), *given])


def _module(function):
    return getattr(function, "__module__", None) or ""
