"""Jacobians and Hessians, and their products with vectors, from reverse-mode gradients."""

from collections.abc import Iterable, Sequence

from .. import ops
from ..graph.errors import GraphError, ShapeError
from ..graph.node import refined
from ..graph.recording import recorder
from ..graph.rewrite import substitute
from ..graph.variable import Operand, Variable, constant
from .engine import gradients


def jacobian(y: Variable, x: Variable) -> Variable:
    """Return d y / d x of every element of y in every element of x: [*y.shape, *x.shape].

    Costs one backward pass for each element of y, by `vmap`; the forward pass is computed once.
    Zeros where y does not depend on x. It can be differentiated again.

    Args:
        y: floats of any shape.
        x: a float Variable.

    Returns:
        [*y.shape, *x.shape].

    Raises:
        NoGradient: a Variable is no float, or an operator has no gradient.
        TypeError: what is given is no Variable.
    """
    _check_variables("jacobian", [y, x])
    if not y.rank:
        return _gradient(y, x, None)
    elements = ops.arange(ops.size(y))

    def row(k: Variable) -> Variable:
        seed = ops.reshape_like(ops.cast(ops.equal(elements, k), y.dtype), y)
        return _gradient(y, x, seed)

    rows = ops.vmap(row)(elements)
    if y.is_static and x.is_static:
        return ops.reshape(rows, [*y.dims, *x.dims])
    shape = ops.concat([ops.shape_of(y), ops.shape_of(x)])
    return refined(ops.reshape(rows, shape), (*y.dims, *x.dims))


def hessian(cost: Variable, x: Variable) -> Variable:
    """Return the second derivatives of a cost of one element in x, [*x.shape, *x.shape].

    Costs what `jacobian` of the gradient does: a second backward pass for each element of x.

    Args:
        cost: a float of one element.
        x: a float Variable.

    Returns:
        [*x.shape, *x.shape].

    Raises:
        NoGradient: a Variable is no float, or an operator has no gradient.
        ShapeError: the cost has several elements.
        TypeError: what is given is no Variable.
    """
    _check_cost("hessian", cost, [x])
    return jacobian(_gradient(cost, x, None), x)


def hessian_vector_product(
    cost: Variable, variables: Iterable[Variable], vectors: Sequence[Operand]
) -> list[Variable]:
    """Return the product of the Hessian of a cost with a vector for each v, of v's shape.

    Differentiates the gradient along the vectors (Pearlmutter 1994): the cost of two backward
    passes, without the Hessian.

    Args:
        cost: a float of one element.
        variables: float Variables.
        vectors: one of the shape and dtype of its variable, for each.

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
    variables = list(variables)
    _check_cost("hessian_vector_product", cost, variables)
    vectors = _vectors("hessian_vector_product", variables, vectors)
    slopes = [
        (g, v)
        for g, v in zip(gradients(cost, variables), vectors, strict=True)
        if g is not None and g.value is None  # of what is linear in a variable, it is a constant
    ]
    if not slopes:
        return [ops.zeros_like(v) for v in variables]
    products = gradients([g for g, _ in slopes], variables, [v for _, v in slopes])
    return [_or_zeros(p, v) for p, v in zip(products, variables, strict=True)]


def jvp(y: Variable, variables: Iterable[Variable], vectors: Sequence[Operand]) -> Variable:
    """Return the derivative of y along a vector for each v, of y's shape: a Jacobian times them.

    Computed by differentiating the backward pass, which is linear in what it starts from: the cost
    of two backward passes. `gradients` with `seeds` multiplies from the other side.

    Args:
        y: floats of any shape.
        variables: float Variables.
        vectors: one of the shape and dtype of its variable, for each.

    Returns:
        Floats of y's shape.

    Raises:
        DTypeError: a vector has another dtype than its variable.
        GraphError: there is another number of vectors than of variables.
        NoGradient: a Variable is no float, or an operator has no gradient.
        ShapeError: a vector does not have the shape of its variable.
        TypeError: what is given is no Variable.
    """
    variables = list(variables)
    _check_variables("jvp", [y, *variables])
    vectors = _vectors("jvp", variables, vectors)
    zeros = ops.zeros_like(y)
    seed = zeros if recorder() is not None else Variable.of(y.dims, y.dtype, "seed")
    back = [
        (g, v)
        for g, v in zip(gradients(y, variables, [seed]), vectors, strict=True)
        if g is not None
    ]
    product = gradients([g for g, _ in back], [seed], [v for _, v in back])[0] if back else None
    if product is None or seed is zeros:
        return _or_zeros(product, y)
    return substitute([product], {seed: zeros}, stop={seed})[0]


def _gradient(y: Variable, x: Variable, seed: Operand | None) -> Variable:
    return _or_zeros(gradients(y, [x], [seed])[0], x)


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


def _vectors(who: str, variables: Sequence[Variable], vectors: Sequence[Operand]) -> list[Variable]:
    """Return a vector for each variable, of its dtype."""
    vectors = list(vectors)
    if len(vectors) != len(variables):
        raise GraphError(f"{who}: {len(vectors)} vectors for {len(variables)} variables")
    return [constant(u, v.dtype) for u, v in zip(vectors, variables, strict=True)]
