"""Normal distributions of vectors whose elements depend on each other."""

import math

from ...graph.broadcast import broadcast_dims
from ...graph.errors import ShapeError
from ...graph.variable import Operand, Variable, constant, describe
from .. import math as m
from ..copies import diagonal
from ..factor import cholesky, factor_of_inverse, solve_triangular
from ..matrix import matmul
from ..promotion import as_dtype
from ..random import gaussian_random
from ..reduce import reduce_sum
from ..shape import matrix_transpose, squeeze, unsqueeze, zeros_like
from ..sizes import TargetShape
from .base import Distribution, drawn, floats_of, value_like


class MultivariateNormal(Distribution):
    """Normal distributions of vectors [..., n], with one of three matrices [..., n, n].

    Covariances and precisions are symmetric and positive definite. Their Cholesky factors are
    computed in n steps, and are NaN of another matrix.

    Args:
        loc: means, floats [..., n].
        covariance_matrix: floats [..., n, n].
        precision_matrix: the inverses of covariances.
        scale_tril: lower triangular Cholesky factors of covariances, with a positive diagonal.

    Raises:
        DTypeError: the parameters have several float dtypes.
        ShapeError: the matrices are not [..., n, n] for the n of `loc`, which has to be known.
        TypeError: several matrices are given, or none.
    """

    parameters = ("loc", "scale_tril")
    event_rank = 1

    def __init__(
        self,
        loc: Operand,
        covariance_matrix: Operand | None = None,
        precision_matrix: Operand | None = None,
        scale_tril: Operand | None = None,
    ) -> None:
        given = {
            "covariance_matrix": (covariance_matrix, cholesky),
            "precision_matrix": (precision_matrix, factor_of_inverse),
            "scale_tril": (scale_tril, lambda factor: factor),
        }
        chosen = [(k, v, f) for k, (v, f) in given.items() if v is not None]
        if len(chosen) != 1:
            raise TypeError(
                "MultivariateNormal: takes covariance_matrix, precision_matrix or scale_tril"
            )
        name, value, factor = chosen[0]
        matrix, mean = _of_one_dtype(name, value, loc)
        n = mean.shape[-1] if mean.rank else None
        if not isinstance(n, int) or matrix.shape[-2:] != (n, n):
            raise ShapeError(
                f"MultivariateNormal: loc is [..., n] and {name} [..., n, n], not "
                f"{describe(mean)} and {describe(matrix)}"
            )
        if broadcast_dims(mean.dims[:-1], matrix.dims[:-2]) is None:
            raise ShapeError(
                f"MultivariateNormal: {describe(mean)} and {describe(matrix)} do not broadcast"
            )
        self.scale_tril = factor(matrix)
        self.loc = mean + reduce_sum(zeros_like(matrix), -1)

    @property
    def covariance_matrix(self) -> Variable:
        """The covariances [..., n, n]."""
        return matmul(self.scale_tril, matrix_transpose(self.scale_tril))

    @property
    def mean(self) -> Variable:
        """The means."""
        return self.loc

    @property
    def variance(self) -> Variable:
        """The variances of the elements."""
        return reduce_sum(m.square(self.scale_tril), -1) + zeros_like(self.loc)

    def log_prob(self, value: Operand) -> Variable:
        """Return -(z^2 + n ln(2 pi)) / 2 - ln |L| for L z = x - loc."""
        away = value_like(value, self.loc) - self.loc
        z = squeeze(solve_triangular(self.scale_tril, unsqueeze(away, -1)), -1)
        return -0.5 * (reduce_sum(m.square(z), -1) + self._size()) - self._log_det()

    def entropy(self) -> Variable:
        """Return n (1 + ln(2 pi)) / 2 + ln |L|, in nats."""
        n = self.loc.shape[-1]
        return 0.5 * (n + self._size()) + self._log_det() + reduce_sum(zeros_like(self.loc), -1)

    def rsample(self, sizes: TargetShape = ()) -> Variable:
        """Return draws [*sizes, ..., n], whose gradient reaches the parameters."""
        noise = unsqueeze(drawn(gaussian_random, sizes, self.loc), -1)
        return self.loc + squeeze(matmul(self.scale_tril, noise), -1)

    def _size(self):
        return self.loc.shape[-1] * math.log(2.0 * math.pi)

    def _log_det(self):
        return reduce_sum(m.log(diagonal(self.scale_tril)), -1)


def _of_one_dtype(name, matrix, loc):
    """Return the matrix and the means as floats of one dtype."""
    if isinstance(matrix, Variable) and not isinstance(loc, Variable):
        loc = as_dtype(loc, matrix.dtype)
    elif isinstance(loc, Variable) and not isinstance(matrix, Variable):
        matrix = as_dtype(matrix, loc.dtype)
    matrix, loc = (floats_of("MultivariateNormal", x=v)[0] for v in (matrix, loc))
    floats_of("MultivariateNormal", loc=_number(loc), **{name: _number(matrix)})
    return matrix, loc


def _number(x):
    """Return a scalar of the dtype, for the check of dtypes alone."""
    return reduce_sum(x) if x.rank else constant(x)
