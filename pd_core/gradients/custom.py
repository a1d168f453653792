"""Derivatives of one's own: functions that are differentiated by a formula that the user gives."""

from collections.abc import Callable
from functools import update_wrapper
from itertools import count
from types import CodeType, FunctionType, ModuleType
from typing import Any, overload
from weakref import WeakKeyDictionary

import numpy as np

from .. import ops
from ..graph.arrays import is_float
from ..graph.checks import differ
from ..graph.errors import GraphError, ShapeError
from ..graph.nested import mapped, variables_in
from ..graph.node import Node, ancestors, composite, latest_serial
from ..graph.variable import Variable, constant, describe
from .registry import Gradients, gradient

_Vjp = Callable[..., Any]


@overload
def custom_gradient(function: Callable[..., Any], vjp: _Vjp) -> Callable[..., Any]: ...
@overload
def custom_gradient(
    function: None = None, *, vjp: _Vjp
) -> Callable[[Callable[..., Any]], Callable[..., Any]]: ...
def custom_gradient(
    function: Callable[..., Any] | None = None, vjp: _Vjp | None = None
) -> Callable[..., Any]:
    """Return a function that computes `function` and is differentiated by `vjp`.

    `function(*inputs, **options)` takes Variables or arrays and returns a Variable, or a list,
    tuple or dict of them. `vjp(*inputs, *outputs, *output_gradients, **options)` gives the
    gradient of each input, of its shape and dtype, or None for no gradient: alone if there is one
    input, else as a list. It calls op functions, so second derivatives go through it; output
    gradients are zeros for outputs that no cost depends on. `torch.autograd.Function` and
    `jax.custom_vjp` elsewhere. As a decorator: `@pd.custom_gradient(vjp=...)`. Exported models have
    the operators of `function` only.

    Gradients go to the inputs alone. GraphError if the function reads a trainable parameter, or
    what was computed outside, that is not one of its inputs, or if it returns no float; in the
    backward pass if `vjp` gives another number of gradients, ShapeError if one does not fit.

    Args:
        function: a function of Variables.
        vjp: a function of inputs, outputs and output gradients that gives input gradients.

    Returns:
        A function.

    Raises:
        TypeError: `function` or `vjp` is no function.
    """
    if vjp is None or not callable(vjp):
        raise TypeError(
            "custom_gradient: vjp is a function of inputs, outputs and output gradients, "
            f"not {vjp!r}\n  hint: as a decorator it is @pd.custom_gradient(vjp=...)"
        )
    if function is None:
        return lambda decorated: custom_gradient(decorated, vjp)
    if not callable(function):
        raise TypeError(f"custom_gradient: takes a function, not {function!r}")
    return update_wrapper(_Custom(function, vjp), function, updated=())


class _Custom:
    """A function with its vector-Jacobian product."""

    def __init__(self, function: Callable[..., Any], vjp: _Vjp) -> None:
        self.function, self.vjp = function, vjp

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        who = f"custom_gradient: {_name(self.function)}"
        given = [constant(x) for x in inputs]
        before = latest_serial()
        result = self.function(*given, **options)
        outputs = list(dict.fromkeys(v for v in variables_in(result) if is_float(v.dtype)))
        if not outputs:
            raise GraphError(f"{who} returned no float")
        _check_captured(who, outputs, given, before)
        marked = composite(
            "CustomGradient",
            *outputs,
            *given,
            types=[(y.dims, y.dtype) for y in outputs],
            rule=_Rule(self.vjp, options, who),
        )
        marked = (marked,) if len(outputs) == 1 else marked
        new = dict(zip(outputs, marked, strict=True))
        return mapped(lambda v: new.get(v, v), result)


def _check_captured(who, outputs, given, before):
    """Refuse what a gradient would have to reach beside the inputs."""
    known = set(given)
    order = ancestors(outputs, known, lambda node: node.inputs if node.serial > before else ())
    inner = [node for node in order if node.serial > before]
    computed = {y for node in inner for y in node.outputs} | known
    read = [x for n in inner if n.op_type != "StopGradient" for x in n.inputs if x is not None]
    for x in dict.fromkeys([*read, *outputs]):
        owner = x if x.source is None else x.source
        if x in computed or owner in known or x.value is not None or not is_float(x.dtype):
            continue
        if x.node is not None or owner.trainable:
            raise GraphError(
                f"{who} reads {x.name} ({describe(x)}), which is none of its inputs, so that its "
                "gradient would be lost\n"
                "  hint: pass it as an input, or read pd.stop_gradient(...) of it"
            )


class _Rule:
    """The formula of a node: an attribute, equal for equal code with equal constants."""

    def __init__(self, vjp: _Vjp, options: dict[str, Any], who: str) -> None:
        self.vjp, self.options, self.who = vjp, options, who

    def SerializeToString(self, deterministic: bool = True) -> bytes:
        """Return what tells formulas apart, as messages of attributes do."""
        return repr((_identity(self.vjp), _identity(self.options))).encode()

    def __call__(self, inputs, outputs, dys):
        return self.vjp(*inputs, *outputs, *dys, **self.options)


_codes: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
_numbers = count()


def _identity(value: Any) -> Any:
    """Return what is equal for equal code and equal constants only.

    A function that is written in a loop is another object each time; its code is not.
    """
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        return type(value).__name__, value
    if isinstance(value, (np.ndarray, np.generic)):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, (tuple, list)):
        return type(value).__name__, [_identity(v) for v in value]
    if isinstance(value, dict):
        return "dict", [(k, _identity(v)) for k, v in value.items()]
    if isinstance(value, FunctionType):
        cells = [c.cell_contents for c in value.__closure__ or ()]
        return _number(value.__code__), [
            _identity(v) for v in (*cells, value.__defaults__, value.__kwdefaults__)
        ]
    return _number(value)


def _number(value: CodeType | ModuleType | Any) -> int:
    """Return a number of an object, which no other one gets later."""
    try:
        return _codes.setdefault(value, next(_numbers))
    except TypeError:  # it is no key, or cannot be referred to weakly
        return next(_numbers)


def _name(function):
    return getattr(function, "__name__", repr(function))


@gradient("CustomGradient")
def custom_gradients(node: Node, *dys: Variable | None) -> Gradients:
    """Apply the formula of the user to inputs, outputs and output gradients."""
    rule, outputs = node.attributes["rule"], node.outputs
    inputs = node.inputs[len(outputs) :]
    present = [ops.zeros_like(y) if dy is None else dy for y, dy in zip(outputs, dys, strict=True)]
    result = rule(inputs, outputs, present)
    parts = list(result) if isinstance(result, (list, tuple)) else [result]
    if len(parts) != len(inputs):
        raise GraphError(
            f"{rule.who}: its vjp gave {len(parts)} gradients for {len(inputs)} inputs"
        )
    checked = [_checked(g, x, rule.who) for g, x in zip(parts, inputs, strict=True)]
    return [*[None] * len(outputs), *checked]


def _checked(g: Any, x: Variable | None, who: str) -> Variable | None:
    """A gradient that fits its input."""
    if g is None or x is None or not is_float(x.dtype):
        return None
    g = constant(g, x.dtype) if not isinstance(g, Variable) else g
    if differ(g, x) or g.dtype != x.dtype:
        raise ShapeError(f"{who}: its vjp gave {describe(g)} for the input {x.name}: {describe(x)}")
    return g
