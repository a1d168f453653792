"""Jacobians and Hessians, and their products with vectors, from reverse-mode gradients."""

from collections.abc import Iterable, Sequence
from typing import Any, overload

from .. import ops
from ..graph.checks import differ
from ..graph.errors import DTypeError, GraphError, ShapeError
from ..graph.node import refined
from ..graph.recording import recorder
from ..graph.rewrite import substitute
from ..graph.variable import Operand, Variable, constant, describe
from .engine import gradients


@overload
def jacobian(y: Variable, x: Variable) -> Variable: ...
@overload
def jacobian(y: Variable, x: Sequence[Variable]) -> list[Variable]: ...
def jacobian(y: Variable, x: Variable | Sequence[Variable]) -> Variable | list[Variable]:
    """Return d y / d x of every element of y in every element of x: [*y.shape, *x.shape].

    Costs one backward pass for each element of y, by `vmap`; the forward pass is computed once.
    Zeros where y does not depend on x. It can be differentiated again.

    Args:
        y: floats of any shape.
        x: a float Variable, or several.

    Returns:
        [*y.shape, *x.shape]; a list of these for a list.

    Raises:
        NoGradient: a Variable is no float, or an operator has no gradient.
        TypeError: what is given is no Variable.
    """
    xs: list[Any] = list(x) if isinstance(x, (list, tuple)) else [x]
    _check_variables("jacobian", [y, *xs])
    found = _jacobians(y, xs)
    return found[0] if xs and x is xs[0] else found


def _jacobians(y: Variable, xs: list[Variable]) -> list[Variable]:
    """Return d y / d x for each x."""
    if not y.rank:
        return _gradients(y, xs, None)
    elements = ops.arange(ops.size(y))

    def row(k: Variable) -> list[Variable]:
        seed = ops.reshape_like(ops.cast(ops.equal(elements, k), y.dtype), y)
        return _gradients(y, xs, seed)

    each = zip(ops.vmap(row)(elements), xs, strict=True)
    return [_shaped(rows, y, x) for rows, x in each]


def _shaped(rows: Variable, y: Variable, x: Variable) -> Variable:
    """Return rows of gradients of x as an array of the shapes of y and x."""
    if y.is_static and x.is_static:
        return ops.reshape(rows, [*y.dims, *x.dims])
    shape = ops.concat([ops.shape_of(y), ops.shape_of(x)])
    return refined(ops.reshape(rows, shape), (*y.dims, *x.dims))


@overload
def hessian(cost: Variable, x: Variable) -> Variable: ...
@overload
def hessian(cost: Variable, x: Sequence[Variable]) -> list[list[Variable]]: ...
def hessian(cost: Variable, x: Variable | Sequence[Variable]) -> Variable | list[list[Variable]]:
    """Return the second derivatives of a cost of one element in x, [*x.shape, *x.shape].

    Costs what `jacobian` of the gradient does: a second backward pass for each element of x.

    Args:
        cost: a float of one element.
        x: a float Variable, or several.

    Returns:
        [*x.shape, *x.shape]; for a list, at [i][j] the derivatives in the i-th and j-th of them,
        [*x_i.shape, *x_j.shape].

    Raises:
        NoGradient: a Variable is no float, or an operator has no gradient.
        ShapeError: the cost has several elements.
        TypeError: what is given is no Variable.
    """
    xs: list[Any] = list(x) if isinstance(x, (list, tuple)) else [x]
    _check_cost("hessian", cost, xs)
    rows = [_jacobians(g, xs) for g in _gradients(cost, xs, None)]
    return rows[0][0] if xs and x is xs[0] else rows


def hessian_vector_product(
    cost: Variable, variables: Iterable[Variable], vectors: Sequence[Operand | None]
) -> list[Variable]:
    """Return the product of the Hessian of a cost with a vector for each v, of v's shape.

    Differentiates the gradient along the vectors (Pearlmutter 1994): the cost of two backward
    passes, without the Hessian.

    Args:
        cost: a float of one element.
        variables: float Variables.
        vectors: one of the shape and dtype of its variable for each, or None for zeros.

    Returns:
        A list of Variables.

    Raises:
        DTypeError: a vector has another dtype than its variable.
        GraphError: there is another number of vectors than of variables.
        NoGradient: a Variable is no float, or an operator has no gradient.
        ShapeError: the cost has several elements, or a vector does not have the shape of its
            variable.
        TypeError: what is given is no Variable.
    """
    variables = _listed("hessian_vector_product", variables)
    _check_cost("hessian_vector_product", cost, variables)
    vectors = _vectors("hessian_vector_product", variables, vectors)
    slopes = [
        (g, v)
        for g, v in zip(gradients(cost, variables), vectors, strict=True)
        if v is not None
        and g is not None
        and g.value is None  # of what is linear in a variable, it is a constant
    ]
    if not slopes:
        return [ops.zeros_like(v) for v in variables]
    products = gradients([g for g, _ in slopes], variables, [v for _, v in slopes])
    return [_or_zeros(p, v) for p, v in zip(products, variables, strict=True)]


@overload
def jvp(
    y: Variable, variables: Iterable[Variable], vectors: Sequence[Operand | None]
) -> Variable: ...
@overload
def jvp(
    y: Sequence[Variable], variables: Iterable[Variable], vectors: Sequence[Operand | None]
) -> list[Variable]: ...
def jvp(
    y: Variable | Sequence[Variable],
    variables: Iterable[Variable],
    vectors: Sequence[Operand | None],
) -> Variable | list[Variable]:
    """Return the derivative of y along a vector for each v, of y's shape: a Jacobian times them.

    Computed by differentiating the backward pass, which is linear in what it starts from: the cost
    of two backward passes for each y. `gradients` with `seeds` multiplies from the other side.

    Args:
        y: floats of any shape, or several Variables of these.
        variables: float Variables.
        vectors: one of the shape and dtype of its variable for each, or None for zeros.

    Returns:
        Floats of y's shape; a list of them for a list.

    Raises:
        DTypeError: a vector has another dtype than its variable.
        GraphError: there is another number of vectors than of variables.
        NoGradient: a Variable is no float, or an operator has no gradient.
        ShapeError: a vector does not have the shape of its variable.
        TypeError: what is given is no Variable.
    """
    variables = _listed("jvp", variables)
    ys: list[Any] = list(y) if isinstance(y, (list, tuple)) else [y]
    _check_variables("jvp", [*ys, *variables])
    pairs = zip(variables, _vectors("jvp", variables, vectors), strict=True)
    moved = [(v, u) for v, u in pairs if u is not None]
    found = [_derivative_along(each, moved) for each in ys]
    return found[0] if ys and y is ys[0] else found


def _derivative_along(y: Variable, moved: Sequence[tuple[Variable, Variable]]) -> Variable:
    """Return the derivative of y where each v moves along its vector."""
    zeros = ops.zeros_like(y)
    seed = _seed(y, zeros)
    back = zip(gradients(y, [v for v, _ in moved], [seed]), moved, strict=True)
    linear = [(g, u) for g, (_, u) in back if g is not None]
    product = None
    if linear:
        product = gradients([g for g, _ in linear], [seed], [u for _, u in linear])[0]
    if product is None or recorder() is not None:
        return _or_zeros(product, y)
    return substitute([product], {seed: zeros}, stop={seed})[0]


def _seed(y: Variable, zeros: Variable) -> Variable:
    """Return what a backward pass starts from, to be differentiated in.

    Where values are at hand it is zeros through which gradients flow: the graph goes on behind
    them, also where the next op computes a value.
    """
    if recorder() is None:
        return Variable.of(y.dims, y.dtype, "seed")
    if zeros.value is not None:  # a constant may be that of others, too
        return Variable.of(y.dims, y.dtype, "seed", eager_value=zeros.value, tracked=True)
    zeros.stop_gradient = False
    return zeros


def _gradients(y: Variable, xs: Sequence[Variable], seed: Operand | None) -> list[Variable]:
    return [_or_zeros(g, x) for g, x in zip(gradients(y, xs, [seed]), xs, strict=True)]


def _or_zeros(g: Variable | None, x: Variable) -> Variable:
    return ops.zeros_like(x) if g is None else g


def _check_variables(who: str, variables: Iterable[Variable]) -> None:
    for v in variables:
        if not isinstance(v, Variable):
            raise TypeError(f"{who}: takes Variables, not {v!r}")


def _check_cost(who: str, cost: Variable, variables: Iterable[Variable]) -> None:
    _check_variables(who, [cost, *variables])
    if any(d != 1 for d in cost.dims):
        raise ShapeError(f"{who}: the cost has one element, unlike {cost!r}")


def _listed(who: str, variables: Iterable[Variable]) -> list[Variable]:
    """Return variables as a list; TypeError for a single one, whose rows the list would be."""
    if isinstance(variables, Variable):
        raise TypeError(f"{who}: takes a list of Variables, not {variables!r}")
    return list(variables)


def _vectors(
    who: str, variables: Sequence[Variable], vectors: Sequence[Operand | None]
) -> list[Variable | None]:
    """Return a vector for each variable, of its shape and dtype, or None."""
    if isinstance(vectors, Variable):
        raise TypeError(f"{who}: takes a list of vectors, not {vectors!r}")
    vectors = list(vectors)
    if len(vectors) != len(variables):
        raise GraphError(f"{who}: {len(vectors)} vectors for {len(variables)} variables")
    pairs = zip(vectors, variables, strict=True)
    found = [None if u is None else constant(u, v.dtype) for u, v in pairs]
    for k, (u, v) in enumerate(zip(found, variables, strict=True)):
        if u is None:
            continue
        if differ(u, v):
            raise ShapeError(f"{who}: vector {k} is {describe(u)} for {v.name}: {describe(v)}")
        if u.dtype != v.dtype:
            raise DTypeError(f"{who}: vector {k} is {describe(u)} for {v.name}: {describe(v)}")
    return found
