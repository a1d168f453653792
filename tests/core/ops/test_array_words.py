"""Lines for functions of torch, keras.ops and NumPy: each beside the function that it is for.

Values are those of PyTorch and gradients, too, where it has the function; else those of NumPy, or
of a definition.
"""

import re

import numpy as np
import pytest

import pd_core as pd
from pd_core.graph.array_words import LINES

NAN, INF = np.nan, np.inf
GAPS = np.array([[1.0, NAN, 3.0, -2.0], [0.5, 2.0, NAN, 4.0], [5.0, 6.0, -7.0, 0.0]])
REPEATED = np.array([1.0, 1.0, 2.0, 1.0])
ODD = np.array([-1.5, 0.0, 2.5, 0.7])
SORTED = np.array([-1.0, -0.2, 0.4, 1.0])
BITS = np.array([5, 17, 255])
ROWS = np.array([2, 0])
MASK = np.array([[True, False, True, False], [False, True, False, True], [True, True, False, True]])
NAN_SPECIAL = np.array([[NAN, INF, -INF, 1.0], [NAN, 2.0, 0.0, -3.0], [1.0, 1.0, NAN, 0.5]])


def operands(rng):
    """Arrays and numbers that lines name; floats of at most 2 in size."""

    def of(*shape):
        return rng.uniform(-2, 2, shape).astype("float32")

    return {
        **{n: of(3, 4) for n in "xyz"},
        **{n: of(4) for n in "vw"},
        **{n: of(4, 4) for n in "ab"},
        "index": ROWS,
        "mask": MASK,
        "value": 0.5,
        "high": 0.4,
        "low": -0.3,
        "limit": 0.2,
        "margin": 1.0,
        "scale": 0.1,
        "k": 2,
        "n": 4,
        "m": 4,
        "axis": 0,
        "start": 1,
        "length": 2,
    }


# name: (what it gives, operands of its own); torch.… and F.… with gradients, np.… without
ELEMENTS = {
    "addcdiv": "torch.addcdiv(x, y, z, value=value)",
    "addcmul": "torch.addcmul(x, y, z, value=value)",
    "rsub": "torch.rsub(x, y)",
    "divmod": "np.divmod(x, y)",
    "divide_no_nan": ("np.divide(x, y, where=y != 0, out=np.zeros_like(x))", {"y": GAPS > 0.5}),
    "float_power": ("torch.float_power(x, y)", {"x": np.abs(GAPS[2:]) + 1, "y": 3}),
    "cbrt": "np.cbrt(x)",
    "hypot": "torch.hypot(x, y)",
    "ldexp": "torch.ldexp(x, y)",
    "squareplus": ("(x + torch.sqrt(x * x + b)) / 2", {"b": 4.0}),
    "frac": "torch.frac(x)",
    "modf": "np.modf(x)",
    "clamp_max": "torch.clamp_max(x, high)",
    "clamp_min": "torch.clamp_min(x, low)",
    "fmax": ("torch.fmax(x, y)", {"x": GAPS}),
    "fmin": ("torch.fmin(x, y)", {"x": GAPS}),
    "copysign": "torch.copysign(x, y)",
    "signbit": "torch.signbit(x)",
    "heaviside": ("np.heaviside(x, y)", {"x": np.round(GAPS[2:])}),
    "deg2rad": "torch.deg2rad(x)",
    "rad2deg": "torch.rad2deg(x)",
    "exp2": "torch.exp2(x)",
    "logaddexp2": "torch.logaddexp2(x, y)",
    "logit": ("torch.logit(x)", {"x": np.array([0.01, 0.3, 0.99])}),
    "log_sigmoid": "F.logsigmoid(x)",
    "erfc": "torch.erfc(x)",
    "sinc": ("torch.sinc(x)", {"x": ODD}),
    "mvlgamma": ("torch.mvlgamma(x, 2)", {"x": np.abs(GAPS[2:]) + 1}),
    "polygamma": ("torch.polygamma(1, x)", {"x": np.abs(GAPS[2:]) + 1}),
    "ne": ("torch.ne(x, y)", {"y": GAPS}),
    "isneginf": ("torch.isneginf(x)", {"x": NAN_SPECIAL}),
    "isposinf": ("torch.isposinf(x)", {"x": NAN_SPECIAL}),
    "allclose": ("np.allclose(x, y)", {"y": GAPS}),
    "array_equal": "np.array_equal(x, x + y)",
    "isin": ("torch.isin(x, v)", {"x": GAPS, "v": REPEATED}),
    "isreal": "torch.isreal(x)",
    "angle": "torch.angle(x)",
    "bitwise_left_shift": ("torch.bitwise_left_shift(index, k)", {"index": BITS}),
    "bitwise_right_shift": ("torch.bitwise_right_shift(index, k)", {"index": -BITS}),
    "saturate_cast": ("np.clip(x, -128, 127).astype('int8')", {"x": GAPS[2] * 100}),
    "type_as": ("torch.Tensor.type_as(x, y)", {"y": BITS}),
    "byte": ("torch.Tensor.byte(x)", {"x": np.abs(GAPS[2])}),
    "char": "torch.Tensor.char(x)",
    "short": "torch.Tensor.short(x)",
    "hard_shrink": "F.hardshrink(x)",
    "soft_shrink": "F.softshrink(x)",
    "threshold": "F.threshold(x, limit, value)",
    "softmin": "F.softmin(x, -1)",
    "sparse_plus": "torch.where(x <= -1, 0.0, torch.where(x < 1, (x + 1) ** 2 / 4, x))",
    "sparse_sigmoid": "torch.clamp((x + 1) / 2, 0, 1)",
    "rnn_relu_cell": ("torch.rnn_relu_cell(x, h, W.T, R.T, b, 0 * b)", "cell"),
    "rnn_tanh_cell": ("torch.rnn_tanh_cell(x, h, W.T, R.T, b, 0 * b)", "cell"),
}
SHAPES = {
    "ndim": "np.ndim(x)",
    "ravel": "torch.ravel(x)",
    "unflatten": "torch.unflatten(x, 1, (2, 2))",
    "view": "x.view(4, 3)",
    "atleast_1d": ("torch.atleast_1d(x)", {"x": np.array(2.0)}),
    "atleast_2d": "torch.atleast_2d(v)",
    "atleast_3d": "torch.atleast_3d(x)",
    "broadcast_tensors": "torch.broadcast_tensors(x, v)",
    "sum_to_size": "x.sum_to_size(1, 4)",
    "rollaxis": ("np.rollaxis(x, axis, 0)", {"axis": 1}),
    "t": "torch.t(x)",
    "narrow": "torch.narrow(x, 1, start, length)",
    "select": ("torch.select(x, axis, k)"),
    "take": "torch.take(x, index)",
    "index": "x[index]",
    "get_item": "x[1:, 0]",
    "masked_select": "torch.masked_select(x, mask)",
    "compress": "np.compress([True, False, True], x, 0)",
    "choose": ("np.choose(index, [x, y])", {"index": MASK.astype(int)}),
    "delete": "np.delete(x, 1, 0)",
    "split_with_sizes": "torch.split_with_sizes(x, [1, 2], 0)",
    "tensor_split": "torch.tensor_split(x, 2)",
    "unsafe_chunk": "torch.unsafe_chunk(x, 3)",
    "hsplit": "torch.hsplit(x, 2)",
    "vsplit": "torch.vsplit(x, [1])",
    "dsplit": "torch.dsplit(x[None], 2)",
    "trim_zeros": ("np.trim_zeros(v)", {"v": np.array([0.0, 1.0, 0.0, 2.0, 0.0])}),
    "append": "np.append(x, y)",
    "insert": "np.insert(x, 1, v, 0)",
    "hstack": "torch.hstack([x, y])",
    "vstack": "torch.vstack([x, y])",
    "dstack": "torch.dstack([x, y])",
    "column_stack": "torch.column_stack([v, w])",
    "block": "np.block([[x, y], [z, x]])",
    "block_diag": "torch.block_diag(x, y)",
    "cartesian_prod": "torch.cartesian_prod(v, w)",
    "combinations": "torch.combinations(v)",
    "constant_pad_nd": "torch.constant_pad_nd(x, (1, 2))",
    "flipud": "torch.flipud(x)",
    "fliplr": "torch.fliplr(x)",
    "rot90": "torch.rot90(x)",
    "msort": "torch.msort(x)",
    "partition": "np.sort(x)",
    "argpartition": "np.argsort(x)",
    "lexsort": ("np.lexsort([v, w])", {"w": REPEATED}),
    "index_copy": "torch.index_copy(x, 0, index, y[:2])",
    "index_fill": "torch.index_fill(x, 0, index, value)",
    "index_put": "torch.index_put(x, [torch.tensor(1)], v)",
    "index_reduce": "torch.scatter_reduce(x, 0, index[:, None].expand(2, 4), y[:2], 'amax')",
    "scatter_reduce": (
        "torch.scatter_reduce(x, axis, index, y, 'amax')",
        {"index": MASK.astype(int)},
    ),
    "masked_scatter": ("torch.masked_scatter(x, mask, v)", {"v": np.arange(12.0)}),
    "putmask": "torch.masked_fill(x, mask, value)",
    "fill": "torch.fill(x, value)",
    "copy_": None,
    "fill_diagonal": "torch.Tensor.fill_diagonal_(x.clone(), value)",
    "diagonal_scatter": "torch.diagonal_scatter(a, v)",
    "diag": "torch.diag(v)",
    "diagflat": "torch.diagflat(x)",
    "trace": "torch.trace(x)",
    "tri": "np.tri(3, 4)",
    "tril_indices": "torch.tril_indices(3, 4)",
    "triu_indices": "torch.triu_indices(3, 4)",
    "tril_indices_from": "np.stack(np.tril_indices_from(x))",
    "triu_indices_from": "np.stack(np.triu_indices_from(x))",
    "diag_indices": "np.diag_indices(n)",
    "argwhere": ("torch.argwhere(x)", {"x": MASK * 1.0}),
    "flatnonzero": ("np.flatnonzero(x)", {"x": MASK * 1.0}),
    "nonzero_static": ("torch.nonzero_static(x, size=k)", {"x": MASK * 1.0}),
    "unravel_index": ("torch.unravel_index(index, (3, 4))", {"index": np.array([3, 7, 11])}),
    "ravel_multi_index": ("np.ravel_multi_index((index, index), (3, 4))", {}),
    "indices": "np.indices((3, 4))",
    "ix_": "x[np.ix_([2, 0], [2, 0])]",
    "convert_to_numpy": "np.array(x)",
    "empty": None,
    "empty_like": None,
    "new_ones": "x.new_ones([2, 3])",
    "new_full": "x.new_full([2, 3], value)",
    "range": "np.arange(1, 5)",
    "logspace": "torch.logspace(0, 2, 5)",
    "geomspace": "np.geomspace(1, 100, 5)",
    "vander": "np.vander(v, 3)",
    "fromfunction": "np.fromfunction(lambda i, j: i, (3, 4), dtype=int)",
    "bartlett": "np.bartlett(8)",
    "blackman": "np.blackman(8)",
    "hamming": "np.hamming(8)",
    "hann_window": "torch.hann_window(8, periodic=False, dtype=torch.float64)",
    "kaiser": "np.kaiser(8, 12.0)",
}
REDUCTIONS = {
    "dist": "torch.dist(x, y)",
    "frobenius_norm": "torch.linalg.norm(x)",
    "norm_except_dim": "torch.norm_except_dim(x)",
    "aminmax": "torch.aminmax(x)",
    "ptp": "np.ptp(x)",
    "average": "np.average(x, 1, w)",
    "std_mean": "torch.std_mean(x)",
    "var_mean": "torch.var_mean(x)",
    "moments": "np.mean(x, 0), np.var(x, 0)",
    "percentile": "np.percentile(x, 30)",
    "kthvalue": "torch.kthvalue(x, k)",
    "mode": ("torch.mode(v.detach())[0]", {"v": REPEATED}),
    "logdet": ("torch.logdet(a)", {"a": np.eye(4) * 2 + 0.1}),
    "slogdet": "torch.slogdet(a)",
    "cummax": "torch.cummax(x, 0)[0]",
    "cummin": "torch.cummin(x, 0)[0]",
    "logcumsumexp": "torch.logcumsumexp(x, 0)",
    "associative_scan": "torch.cumsum(x, 0)",
    "diff": "torch.diff(x)",
    "gradient": "torch.gradient(v)[0]",
    "trapezoid": "torch.trapezoid(x)",
    "cumulative_trapezoid": "torch.cumulative_trapezoid(x)",
    "unwrap": ("np.unwrap(v)", {"v": np.array([0.0, 3.0, 6.0, 9.5]) % 6.283 - 3}),
    "nansum": ("torch.nansum(x)", {"x": GAPS}),
    "nanprod": ("np.nanprod(x)", {"x": GAPS}),
    "nanmax": ("np.nanmax(x)", {"x": GAPS}),
    "nanmin": ("np.nanmin(x)", {"x": GAPS}),
    "nanargmax": ("np.nanargmax(x, 1)", {"x": GAPS}),
    "nanargmin": ("np.nanargmin(x, 1)", {"x": GAPS}),
    "nancumsum": ("np.nancumsum(x, 1)", {"x": GAPS}),
    "nancumprod": ("np.nancumprod(x, 1)", {"x": GAPS}),
    "nanmean": ("torch.nanmean(x)", {"x": GAPS}),
    "nanvar": ("np.nanvar(x)", {"x": GAPS}),
    "nanstd": ("np.nanstd(x)", {"x": GAPS}),
    "nanmedian": ("np.nanmedian(x)", {"x": GAPS}),
    "nanquantile": ("torch.nanquantile(x, 0.3)", {"x": GAPS}),
    "nanpercentile": ("np.nanpercentile(x, 30)", {"x": GAPS}),
    "bincount": ("torch.bincount(index)", {"index": np.array([3, 0, 3, 1])}),
    "bucketize": ("torch.bucketize(x, v, right=True)", {"v": SORTED}),
    "histc": ("torch.histc(x, 5, -1, 1)"),
    "histogram_bin_edges": "np.histogram_bin_edges(x, 5)",
    "histogram2d": (
        "np.histogram2d(v, w, 2, [[-1, 1]] * 2)[0]",
        {"v": SORTED / 2, "w": SORTED / 2},
    ),
    "unique_all": ("tuple(np.unique(v, True, True, True))", {"v": REPEATED}),
    "unique_counts": ("np.unique_counts(v)", {"v": REPEATED}),
    "unique_inverse": ("np.unique_inverse(v)", {"v": REPEATED}),
    "unique_values": ("np.unique(v)", {"v": REPEATED}),
    "unique_consecutive": ("torch.unique_consecutive(v.detach())", {"v": REPEATED}),
    "union1d": ("np.union1d(v, w)", {"v": REPEATED}),
    "intersect1d": ("np.intersect1d(v, w)", {"v": REPEATED, "w": ODD + 1.5}),
    "setdiff1d": ("np.setdiff1d(v, w)", {"v": REPEATED, "w": ODD - 0.5}),
    "setxor1d": ("np.setxor1d(v, w)", {"v": REPEATED, "w": ODD - 0.5}),
    "in_top_k": (
        "np.array([i in np.argsort(-r)[:k] for i, r in zip(index, x)])",
        {"index": BITS % 4},
    ),
    "segment_prod": (
        "np.array([x[1] * x[2], x[0]])",
        {"x": np.abs(GAPS[2, :3]), "index": [1, 0, 0], "n": 2},
    ),
    "cov": "torch.cov(x)",
    "corrcoef": "torch.corrcoef(x)",
    "psnr": "10 * torch.log10(4 / F.mse_loss(x, y))",
}
PRODUCTS = {
    "addmm": ("torch.addmm(x, a, b)", "square"),
    "addbmm": ("torch.addbmm(x, torch.stack([a, a]), torch.stack([b, b]))", "square"),
    "addmv": "torch.addmv(v, a, w)",
    "baddbmm": ("torch.baddbmm(*(torch.stack([q, q]) for q in (x, a, b)))", "square"),
    "addr": ("torch.addr(x, w, v)", "square"),
    "triangular_solve": (
        "torch.linalg.solve_triangular(a, b, upper=True)",
        {"a": np.eye(4) + np.arange(16.0).reshape(4, 4) / 9, "b": np.arange(8.0).reshape(4, 2)},
    ),
    "cholesky_solve": (
        "torch.cholesky_solve(b, torch.tril(a))",
        {"a": np.eye(4) + np.arange(16.0).reshape(4, 4) / 9, "b": np.arange(8.0).reshape(4, 2)},
    ),
    "chain_matmul": "torch.linalg.multi_dot([a, a, b])",
    "mv": "torch.mv(a, v)",
    "vecmat": "v @ a",
    "vdot": "torch.vdot(v, w)",
    "outer": "torch.outer(v, w)",
    "tensordot": "torch.tensordot(x, y, ([1], [1]))",
    "kron": "torch.kron(x, y)",
    "matrix_power": "torch.matrix_power(a, 3)",
    "polyval": "np.polyval(v[:3], x)",
    "bilinear": ("F.bilinear(x, y, W)", "bilinear"),
    "renorm": ("torch.renorm(x, 2, 0, limit)", {"limit": 1.0}),
    "convolve": "np.convolve(v, w)",
    "correlate": "np.correlate(v, w)[0]",
    "interp": ("np.interp(x, v, w)", {"x": SORTED[1:3] + 0.1, "v": SORTED}),
    "as_strided": "torch.as_strided(x, (2, 3), (1, 1))",
    "extract_sequences": "v.unfold(0, 3, 1)",
}
LAYERS = {
    "categorical_crossentropy": ("-(y * torch.log(x)).sum(-1)", {"x": np.abs(GAPS[2:]) + 0.1}),
    "ctc_decode": ("torch.unique_consecutive(v.detach())", {"v": REPEATED}),
    "multi_margin_loss": (
        "F.multi_margin_loss(x, y[:, 0], reduction='none')",
        {"y": np.array([[3], [0], [1]])},
    ),
    "soft_margin_loss": "F.soft_margin_loss(x, y.detach(), reduction='none')",
    "hinge_embedding_loss": (
        "F.hinge_embedding_loss(x, y.detach(), margin, reduction='none')",
        {"y": MASK * 2.0 - 1},
    ),
    "multilabel_soft_margin_loss": (
        "F.multilabel_soft_margin_loss(x, y.detach(), reduction='none')",
        {"y": MASK * 1.0},
    ),
    "pairwise_distance": "F.pairwise_distance(x, y)",
    "pdist": "torch.cdist(x, x)",
    "channel_shuffle": "F.channel_shuffle(x[..., None, None], 2)[..., 0, 0]",
    "multi_hot": "np.eye(4)[index].max(0)",
    "sparsemax": None,
    "piecewise": "np.piecewise(x, [x < 0], [lambda t: -t, lambda t: t])",
    "quantize_per_tensor": "torch.fake_quantize_per_tensor_affine(x, scale, 0, -128, 127)",
    "fake_quantize_per_channel_affine": (
        "torch.fake_quantize_per_channel_affine(x, w.detach(), torch.zeros(4), 1, -128, 127)",
        {"w": np.array([0.1, 0.2, 0.05, 0.3])},
    ),
    "embedding_renorm_": ("torch.renorm(x, 2, 0, limit)[index]", {"limit": 1.0}),
}
SETS = {
    "cell": {"x": (3, 4), "h": (3, 2), "W": (4, 2), "R": (2, 2), "b": (2,)},
    "square": {"x": (4, 4), "a": (4, 4), "b": (4, 4)},
    "bilinear": {"x": (3, 4), "y": (3, 2), "W": (5, 4, 2)},
}


class Row:
    """A line with its operands: what it gives here, and what the other function gives."""

    def __init__(self, name, theirs, rng):
        self.name, own = name, {}
        if isinstance(theirs, tuple):
            theirs, own = theirs
        self.theirs = theirs
        if isinstance(own, str):
            own = {n: rng.uniform(-1, 1, shape) for n, shape in SETS[own].items()}
        given = {**operands(rng), **own}
        self.arrays = {
            n: a.astype("float32") if getattr(a, "dtype", None) == np.float64 else a
            for n, a in given.items()
        }
        self.variables = {
            n: pd.Variable(data=a) if a.dtype.kind == "f" else pd.constant(a)
            for n, a in self.arrays.items()
            if isinstance(a, np.ndarray)
        }
        self.results = self.mine()
        self.want, self.slopes = self.reference()
        self.targets = list(self.results)
        if self.slopes:
            cost = sum(
                pd.reduce_sum(y * weights(np.shape(w)))
                for y, w in zip(self.results, self.want, strict=True)
                if y.dtype.kind == "f"
            )
            free = [self.variables[n] for n in self.slopes]
            self.targets += [
                pd.zeros_like(v) if g is None else g
                for v, g in zip(free, pd.gradients(cost, free), strict=True)
            ]

    def mine(self):
        expression, *rest = LINES[self.name].split("; ")
        scope = {"pd": pd, "np": np, **self.arrays, **self.variables}
        for definition in rest:
            if re.match(r"[\w, ]+ = ", definition):
                exec(definition, scope)
        return [pd.constant(y) for y in flat(eval(expression, scope))]

    def reference(self):
        if "np." in self.theirs:
            return flat(eval(self.theirs, {"np": np, **self.arrays})), {}
        torch = pytest.importorskip("torch")
        tensors = {
            n: torch.tensor(a, requires_grad=a.dtype.kind == "f") if n in self.variables else a
            for n, a in self.arrays.items()
        }
        results = flat(eval(self.theirs, {"torch": torch, "F": torch.nn.functional, **tensors}))
        floats = [y for y in results if torch.is_tensor(y) and y.requires_grad]
        free = {n: tensors[n] for n in self.variables if tensors[n].requires_grad}
        slopes = {}
        if floats:
            cost = sum((y * torch.tensor(weights(tuple(y.shape)))).sum() for y in floats)
            found = torch.autograd.grad(cost, list(free.values()), allow_unused=True)
            slopes = {n: g.numpy() for n, g in zip(free, found, strict=True) if g is not None}
        values = [y.detach().numpy() if torch.is_tensor(y) else np.asarray(y) for y in results]
        return values, slopes

    def differs(self, values):
        """What is not as there, or nothing."""
        values = [np.asarray(v) for v in values]
        if len(self.results) != len(self.want):
            return f"{self.name}: {len(self.results)} results of {len(self.want)}"
        for v, w in zip(values, [*self.want, *self.slopes.values()], strict=True):
            w = np.asarray(w)
            if v.shape != w.shape or not np.allclose(v, w, rtol=2e-4, atol=2e-5, equal_nan=True):
                return f"{self.name}: {v.tolist()}, {self.theirs} has {w.tolist()}"
        return ""


def weights(shape):
    """Weights of results, whose sum with them is differentiated."""
    return np.cos(np.arange(np.prod(shape, dtype=int))).reshape(shape).astype("float32")


def flat(results):
    """Results as a list."""
    return list(results) if isinstance(results, (tuple, list)) else [results]


TABLES = {
    "elements": ELEMENTS,
    "shapes": SHAPES,
    "reductions": REDUCTIONS,
    "products": PRODUCTS,
    "layers": LAYERS,
}


@pytest.mark.parametrize("table", TABLES)
def test_lines_give_what_the_functions_give(table, rng):
    rows = [Row(name, theirs, rng) for name, theirs in TABLES[table].items() if theirs]
    values = iter(pd.eval([y for row in rows for y in row.targets]))
    lines = [row.differs([next(values) for _ in row.targets]) for row in rows]
    assert not any(lines), "\n".join(filter(None, lines))
