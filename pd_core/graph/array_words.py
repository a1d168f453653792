"""The functions of torch, torch.Tensor, keras.ops and NumPy, where pd has other names or lines.

A text is a name of pd, or one expression, which a test computes beside the function that it is for;
after "; " stand definitions, `c = …`, and remarks. In expressions x, y and z are tensors of one
shape, v and w vectors, index and mask tensors of integers and bools.
"""


# fmt: off
def _each(names: str, text: str) -> dict[str, str]:
    """Entries of several names, separated by spaces."""
    return dict.fromkeys(names.split(), text)


_NOT_NAN = "pd.logical_not(pd.is_nan(x))"
_CENTRED = "c = x - pd.reduce_mean(x, 1, keep_dim=True)"

ELEMENTS = {
    # under other names
    **{f"arc{n}h": f"pd.a{n}h" for n in ("cos", "sin", "tan")},
    **_each("around rint", "pd.round"),
    **_each("bitwise_invert invert", "pd.bitwise_not"),
    "fabs": "pd.abs", "fix": "pd.trunc", "power": "pd.pow", "true_divide": "pd.div",
    "sgn": "pd.sign", "astype": "pd.cast", "swish": "pd.silu", "hard_silu": "pd.hard_swish",
    "tanh_shrink": "pd.tanhshrink", "detach": "pd.stop_gradient",
    **_each("clone copy positive", "pd.identity"),
    **_each("conj conj_physical conjugate real resolve_conj resolve_neg real_if_close",
            "pd.identity; there are no complex numbers"),
    # arithmetic
    "addcdiv": "x + value * y / z",
    "addcmul": "x + value * y * z",
    "rsub": "y - x",
    "divmod": "pd.floor_div(x, y), pd.mod(x, y)",
    "divide_no_nan": "pd.where(pd.equal(y, 0), 0.0, x / pd.where(pd.equal(y, 0), 1.0, y))",
    "float_power": "pd.cast(x, 'float64') ** y; y is a number, or of float64",
    "cbrt": "pd.sign(x) * pd.abs(x) ** (1 / 3)",
    "hypot": "pd.sqrt(x * x + y * y)",
    "ldexp": "x * 2.0 ** y",
    "squareplus": "0.5 * (x + pd.sqrt(x * x + b))",
    "frac": "x - pd.trunc(x)",
    "modf": "x - pd.trunc(x), pd.trunc(x)",
    "clamp_max": "pd.minimum(x, high)",
    "clamp_min": "pd.maximum(x, low)",
    "fmax": "pd.where(pd.is_nan(x), y, pd.where(pd.is_nan(y), x, pd.maximum(x, y)))",
    "fmin": "pd.where(pd.is_nan(x), y, pd.where(pd.is_nan(y), x, pd.minimum(x, y)))",
    "copysign": "pd.where(y < 0.0, -pd.abs(x), pd.abs(x)); -0.0 counts as 0",
    "signbit": "x < 0; -0.0 counts as 0",
    "heaviside": "pd.where(pd.equal(x, 0), y, pd.cast(x > 0, x.dtype))",
    **_each("deg2rad radians", "x * (3.141592653589793 / 180)"),
    **_each("rad2deg degrees", "x * (180 / 3.141592653589793)"),
    # exponentials and logarithms
    "exp2": "pd.exp(x * 0.6931471805599453)",
    "logaddexp2": "pd.logaddexp(x * 0.6931471805599453, y * 0.6931471805599453) * "
    "1.4426950408889634",
    "logit": "pd.log(x) - pd.log1p(-x)",
    **_each("log_sigmoid logsigmoid", "-pd.softplus(-x)"),
    "erfc": "1.0 - pd.erf(x); far from 0 it has few digits",
    "sinc": "pd.where(pd.equal(x, 0), 1.0, pd.sin(p) / p); "
    "p = 3.141592653589793 * pd.where(pd.equal(x, 0), 1.0, x)",
    "mvlgamma": "pd.lgamma(x) + pd.lgamma(x - 0.5) + 0.5723649429247001; for 2 dimensions",
    "polygamma": "pd.gradients(pd.reduce_sum(pd.digamma(x)), [x])[0]; of order 1, others in turn",
    # comparisons
    **_each("ne not_equal", "pd.logical_not(pd.equal(x, y))"),
    "isneginf": "pd.equal(x, -float('inf'))",
    "isposinf": "pd.equal(x, float('inf'))",
    **_each("allclose", "pd.reduce_all(pd.is_close(x, y))"),
    **_each("array_equal array_equiv", "pd.reduce_all(pd.equal(x, y)); shapes are known before"),
    **_each("isin", "pd.reduce_any(pd.equal(pd.unsqueeze(x, -1), v), -1)"),
    "isreal": "pd.cast(pd.ones_like(x), bool); there are no complex numbers",
    "angle": "pd.where(x < 0.0, 3.141592653589793, 0.0 * x); there are no complex numbers",
    **_each("bitwise_left_shift left_shift", "index * 2 ** k"),
    **_each("bitwise_right_shift right_shift", "index // 2 ** k"),
    "saturate_cast": "pd.cast(pd.clip(x, -128, 127), 'int8'); with the limits of the dtype",
    "type_as": "pd.cast(x, y.dtype)",
    **_each("byte", "pd.cast(x, 'uint8')"),
    **_each("char", "pd.cast(x, 'int8')"),
    **_each("short", "pd.cast(x, 'int16')"),
    # activations
    **_each("hard_shrink hardshrink", "pd.where(pd.abs(x) > 0.5, x, 0.0)"),
    **_each("soft_shrink softshrink", "pd.sign(x) * pd.relu(pd.abs(x) - 0.5)"),
    **_each("threshold", "pd.where(x > limit, x, value)"),
    "softmin": "pd.softmax(-x)",
    "sparse_plus": "pd.where(x < 1.0, 0.25 * pd.square(pd.maximum(x + 1.0, 0.0)), x)",
    "sparse_sigmoid": "pd.clip(0.5 * (x + 1.0), 0.0, 1.0)",
    "rnn_relu_cell": "pd.relu(x @ W + h @ R + b)",
    "rnn_tanh_cell": "pd.tanh(x @ W + h @ R + b)",
}

SHAPES = {
    # under other names
    "expand_dims": "pd.unsqueeze", "permute_dims": "pd.transpose", "swapdims": "pd.swap_axes",
    "reshape_as": "pd.reshape_like", "ndim": "x.rank",
    "take_along_axis": "pd.gather_elements; its index has all axes, without broadcasting",
    # sizes
    **_each("ravel", "pd.reshape(x, [-1])"),
    "unflatten": "pd.reshape(x, [3, 2, 2])",
    **_each("view", "pd.reshape(x, [4, 3])"),
    "atleast_1d": "pd.reshape(x, [1]); of a scalar, others stay",
    "atleast_2d": "pd.unsqueeze(v, 0); of a vector",
    "atleast_3d": "pd.unsqueeze(x, 2); of a matrix",
    **_each("broadcast_tensors broadcast_arrays",
            "x + pd.zeros_like(v), v + pd.zeros_like(x); operators broadcast without"),
    "sum_to_size": "pd.reduce_sum(x, 0, keep_dim=True); over the axes that it has as 1",
    "rollaxis": "pd.move_axis(x, axis, 0)",
    **_each("t adjoint mH H", "pd.matrix_transpose(x)"),
    # parts
    **_each("narrow narrow_copy", "x[:, start:start + length]"),
    **_each("select", "pd.gather(x, k, axis)"),
    "take": "pd.gather(pd.reshape(x, [-1]), index); with an axis pd.gather(x, index, axis)",
    "index": "x[index]",
    "get_item": "x[1:, 0]",
    **_each("masked_select extract", "x[mask]"),
    "compress": "x[pd.constant([True, False, True])]; along axis 0",
    "choose": "pd.gather_elements(pd.stack([x, y]), pd.unsqueeze(index, 0))[0]",
    "delete": "pd.concat([x[:1], x[2:]]); the row 1 is left out",
    **_each("split_with_sizes unsafe_split_with_sizes", "pd.split(x, [1, 2], 0)"),
    **_each("tensor_split array_split", "pd.split(x, [2, 1], 0); sizes that differ by 1 at most"),
    "unsafe_chunk": "pd.chunk(x, 3)",
    "unsafe_split": "pd.split(x, [1, 2], 0)",
    **_each("hsplit", "pd.split(x, [2, 2], 1)"),
    **_each("vsplit", "pd.split(x, [1, 2], 0)"),
    "dsplit": "pd.split(pd.unsqueeze(x, 0), [2, 2], 2)",
    "trim_zeros": "v[pd.reduce_min(i):pd.reduce_max(i) + 1]; i = pd.nonzero(v)[0]",
    # together
    **_each("append", "pd.concat([pd.reshape(x, [-1]), pd.reshape(y, [-1])])"),
    "insert": "pd.concat([x[:1], pd.unsqueeze(v, 0), x[1:]]); before row 1",
    "hstack": "pd.concat([x, y], 1)",
    **_each("vstack row_stack", "pd.concat([x, y], 0)"),
    "dstack": "pd.stack([x, y], 2)",
    "column_stack": "pd.stack([v, w], 1)",
    **_each("block bmat", "pd.concat([pd.concat([x, y], 1), pd.concat([z, x], 1)], 0)"),
    "block_diag": "pd.concat([pd.pad(x, [0, 0], [0, m]), pd.pad(y, [0, n], [0, 0])]); "
    "n, m = x.shape[1], y.shape[1]",
    "cartesian_prod": "pd.stack([pd.reshape(g, [-1]) for g in pd.meshgrid(v, w)], 1)",
    "combinations": "v[pd.constant(np.array([(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]))]; "
    "indices of itertools.combinations",
    "constant_pad_nd": "pd.pad(x, [0, 1], [0, 2]); with the width of each axis",
    # order
    **_each("flipud", "pd.flip(x, 0)"),
    **_each("fliplr", "pd.flip(x, 1)"),
    **_each("rot90", "pd.flip(pd.swap_axes(x, 0, 1), 0)"),
    "msort": "pd.sort(x, 0)",
    **_each("partition", "pd.sort(x); all of it is sorted"),
    **_each("argpartition", "pd.argsort(x); all of it is sorted"),
    "lexsort": "pd.gather(i, pd.argsort(pd.gather(w, i))); i = pd.argsort(v); "
    "sorting is stable, the last key comes last",
    # changed copies
    "index_copy": "pd.index_update(x, index, y[:2])",
    "index_fill": "pd.index_update(x, index, value)",
    **_each("index_put put_along_axis scatter_update slice_update select_scatter slice_scatter put",
            "pd.index_update(x, 1, v)"),
    "index_reduce": "pd.scatter_nd(x, pd.unsqueeze(index, 1), y[:2], reduction='max')",
    "scatter_reduce": "pd.scatter(x, index, y, axis, reduction='max'); or 'add', 'mul', 'min'",
    **_each("masked_scatter", "pd.index_update(x, mask, v[:pd.count_nonzero(mask)])"),
    **_each("putmask place copyto", "pd.where(mask, value, x)"),
    "fill": "pd.full_like(x, value)",
    "copy_": "pd.assign(x, y)",
    "zero_": "pd.zeros_like(x)",
    "fill_diagonal": "pd.where(pd.eye(3, 4, 'bool'), value, x)",
    "diagonal_scatter": "pd.where(pd.eye(4, dtype='bool'), v, a)",
    # diagonals and triangles
    "diag": "pd.diag_embed(v); of a matrix pd.diagonal(x)",
    "diagflat": "pd.diag_embed(pd.reshape(x, [-1]))",
    "trace": "pd.reduce_sum(pd.diagonal(x))",
    "tri": "pd.tril(pd.ones([3, 4]))",
    "tril_indices": "pd.nonzero(pd.tril(pd.ones([3, 4])))",
    "triu_indices": "pd.nonzero(pd.triu(pd.ones([3, 4])))",
    "tril_indices_from": "pd.nonzero(pd.tril(pd.ones_like(x)))",
    "triu_indices_from": "pd.nonzero(pd.triu(pd.ones_like(x)))",
    **_each("diag_indices diag_indices_from", "pd.arange(n), pd.arange(n)"),
    # places
    "argwhere": "pd.transpose(pd.nonzero(x))",
    "flatnonzero": "pd.nonzero(pd.reshape(x, [-1]))[0]",
    "nonzero_static": "pd.transpose(pd.nonzero(x))[:k]; when there are k or more",
    "unravel_index": "index // 4, index % 4; for 4 columns",
    "ravel_multi_index": "index * 4 + index; row and column, for 4 columns",
    "indices": "pd.stack(pd.meshgrid(pd.arange(3), pd.arange(4)))",
    "ix_": "x[index][:, index]",
    # new tensors
    **_each("array asanyarray asarray asarray_chkfinite ascontiguousarray convert_to_tensor "
            "frombuffer from_dlpack scalar_tensor asmatrix require fromiter",
            "pd.to_variable"),
    **_each("convert_to_numpy numpy", "x.eval()"),
    **_each("empty empty_permuted empty_strided new_empty new_empty_strided new_zeros",
            "pd.zeros([2, 3])"),
    **_each("empty_like", "pd.zeros_like(x)"),
    "new_ones": "pd.ones([2, 3])",
    "new_full": "pd.full([2, 3], value)",
    **_each("new_tensor new", "pd.to_variable"),
    "range": "pd.arange(4) + 1; a range has the last number, too",
    "logspace": "10.0 ** pd.linspace(0, 2, 5)",
    "geomspace": "pd.exp(pd.linspace(0.0, 4.605170185988092, 5)); of logarithms of both ends",
    "vander": "pd.unsqueeze(v, 1) ** pd.cast(pd.flip(pd.arange(3)), v.dtype); "
    "torch has increasing=True in place of pd.flip",
    "fromfunction": "pd.meshgrid(pd.arange(3), pd.arange(4))[0]; of the function's operands",
    **_each("bartlett bartlett_window", "np.bartlett(8)"),
    **_each("blackman blackman_window", "np.blackman(8)"),
    **_each("hamming hamming_window", "np.hamming(8)"),
    **_each("hann_window hanning", "np.hanning(8)"),
    **_each("kaiser kaiser_window", "np.kaiser(8, 12.0)"),
    # random ones
    "rand_like": "pd.uniform_random(pd.shape_of(x))",
    "randn_like": "pd.gaussian_random(pd.shape_of(x))",
    "randint_like": "pd.randint(pd.shape_of(x), 0, 9)",
    "uniform_": "pd.uniform_random(pd.shape_of(x))",
    **_each("normal_", "pd.gaussian_random(pd.shape_of(x))"),
    "random_": "pd.randint(pd.shape_of(x), 0, 9)",
    "exponential_": "pd.exponential_random(pd.shape_of(x))",
    "log_normal_": "pd.exp(pd.gaussian_random(pd.shape_of(x)))",
    "geometric_": "pd.ceil(pd.exponential_random(pd.shape_of(x)) / 0.6931471805599453); "
    "-ln(1 - p) for p = 0.5",
    "cauchy_": "pd.tan(pd.uniform_random(pd.shape_of(x), -1.5707963, 1.5707963))",
    "poisson": "pd.distributions.Poisson(x).sample(); of rates",
    "binomial": "pd.reduce_sum(pd.cast(pd.uniform_random([10, 3, 4]) < 0.5, 'float32'), 0); "
    "10 throws",
}

REDUCTIONS = {
    "cumulative_prod": "pd.cum_prod", "cumulative_sum": "pd.cum_sum",
    "dist": "pd.norm(x - y)",
    **_each("frobenius_norm native_norm", "pd.norm(x)"),
    "norm_except_dim": "pd.norm(x, axis=1, keep_dim=True); of all axes but one",
    "aminmax": "pd.reduce_min(x), pd.reduce_max(x)",
    "ptp": "pd.reduce_max(x) - pd.reduce_min(x)",
    "average": "pd.reduce_sum(x * w, 1) / pd.reduce_sum(w); w are weights",
    "std_mean": "pd.std(x), pd.reduce_mean(x)",
    **_each("var_mean", "pd.var(x), pd.reduce_mean(x)"),
    "moments": "pd.reduce_mean(x, 0), pd.var(x, 0, correction=0)",
    "percentile": "pd.quantile(x, 0.3); of 30 percent",
    "kthvalue": "pd.gather(pd.sort(x), k - 1, -1), pd.gather(pd.argsort(x), k - 1, -1)",
    "mode": "pd.gather(values, pd.arg_max(counts, 0)); "
    "values, first, inverse, counts = pd.unique(v)",
    "logdet": "pd.log(pd.det(a))",
    "slogdet": "pd.sign(pd.det(a)), pd.log(pd.abs(pd.det(a))); large ones overflow",
    # up to each element
    "cummax": "pd.scan(lambda m, row: (pd.maximum(m, row),) * 2, x[0], x)[1]; along axis 0",
    "cummin": "pd.scan(lambda m, row: (pd.minimum(m, row),) * 2, x[0], x)[1]; along axis 0",
    "logcumsumexp": "pd.scan(lambda s, row: (pd.logaddexp(s, row),) * 2, start, x)[1]; "
    "start = pd.full_like(x[0], -float('inf'))",
    "associative_scan": "pd.scan(lambda s, row: (s + row,) * 2, pd.zeros_like(x[0]), x)[1]; "
    "one step after the other",
    **_each("diff ediff1d", "x[:, 1:] - x[:, :-1]"),
    "gradient": "pd.concat([v[1:2] - v[:1], (v[2:] - v[:-2]) / 2.0, v[-1:] - v[-2:-1]])",
    **_each("trapezoid trapz", "pd.reduce_sum((x[:, 1:] + x[:, :-1]) / 2.0, 1)"),
    "cumulative_trapezoid": "pd.cum_sum((x[:, 1:] + x[:, :-1]) / 2.0, 1)",
    "unwrap": "v - 6.283185307179586 * pd.concat([v[:1] * 0.0, pd.cum_sum(pd.round(d))]); "
    "d = (v[1:] - v[:-1]) / 6.283185307179586",
    # without NaN
    "nansum": f"pd.reduce_sum(pd.where({_NOT_NAN}, x, 0.0))",
    "nanprod": f"pd.reduce_prod(pd.where({_NOT_NAN}, x, 1.0))",
    "nanmax": f"pd.reduce_max(pd.where({_NOT_NAN}, x, -float('inf')))",
    "nanmin": f"pd.reduce_min(pd.where({_NOT_NAN}, x, float('inf')))",
    "nanargmax": f"pd.arg_max(pd.where({_NOT_NAN}, x, -float('inf')), 1)",
    "nanargmin": f"pd.arg_min(pd.where({_NOT_NAN}, x, float('inf')), 1)",
    "nancumsum": f"pd.cum_sum(pd.where({_NOT_NAN}, x, 0.0), 1)",
    "nancumprod": f"pd.cum_prod(pd.where({_NOT_NAN}, x, 1.0), 1)",
    "nanmean": f"pd.reduce_mean(x[{_NOT_NAN}]); over an axis quotients of sums and counts",
    "nanvar": f"pd.var(x[{_NOT_NAN}], correction=0)",
    "nanstd": f"pd.std(x[{_NOT_NAN}], correction=0)",
    "nanmedian": f"pd.median(x[{_NOT_NAN}]); torch has the lower of two in the middle",
    "nanquantile": f"pd.quantile(x[{_NOT_NAN}], 0.3)",
    "nanpercentile": f"pd.quantile(x[{_NOT_NAN}], 0.3); of 30 percent",
    # counts and sets
    "bincount": "pd.segment_sum(pd.ones_like(index), index, n); n is one more than the largest",
    **_each("bucketize digitize", "pd.searchsorted(v, x, 'right'); the boundaries are v"),
    "histc": "pd.histogram(x, 5, -1.0, 1.0)[0]",
    "histogram_bin_edges": "pd.histogram(x, 5)[1]",
    "histogram2d": "pd.reduce_sum(pd.unsqueeze(p, 2) * pd.unsqueeze(q, 1), 0); "
    "p = pd.one_hot(pd.searchsorted([-1.0, 0.0, 1.0], v) - 1, 2); "
    "q = pd.one_hot(pd.searchsorted([-1.0, 0.0, 1.0], w) - 1, 2)",
    **_each("unique_all", "pd.unique(v)"),
    "unique_counts": "pd.unique(v)[0], pd.unique(v)[3]",
    "unique_inverse": "pd.unique(v)[0], pd.unique(v)[2]",
    "unique_values": "pd.unique(v)[0]",
    "unique_consecutive": "v[pd.concat([[True], pd.logical_not(pd.equal(v[1:], v[:-1]))])]",
    "union1d": "pd.unique(pd.concat([v, w]))[0]",
    "intersect1d": "pd.unique(v[pd.reduce_any(pd.equal(pd.unsqueeze(v, 1), w), 1)])[0]",
    "setdiff1d": "pd.unique(v[pd.logical_not(pd.reduce_any(pd.equal(pd.unsqueeze(v, 1), w), 1))])"
    "[0]",
    "setxor1d": "values[pd.equal(counts, 1)]; "
    "values, first, inverse, counts = pd.unique(pd.concat([pd.unique(v)[0], pd.unique(w)[0]]))",
    **_each("in_top_k", "pd.reduce_any(pd.equal(pd.top_k(x, k)[1], pd.unsqueeze(index, 1)), 1)"),
    "segment_prod": "pd.exp(pd.segment_sum(pd.log(x), index, n)); of positive numbers",
    "segment_reduce": "pd.segment_sum",
    # statistics
    "cov": f"c @ pd.matrix_transpose(c) / (n - 1.0); {_CENTRED}; n = x.shape[1]",
    "corrcoef": "c @ pd.matrix_transpose(c); "
    "c = pd.l2_normalize(x - pd.reduce_mean(x, 1, keep_dim=True), epsilon=0.0)",
    "psnr": "10.0 * pd.log10(4.0 / pd.reduce_mean(pd.square(x - y))); for a range of 2",
}

PRODUCTS = {
    "addmm": "x + a @ b",
    "addbmm": "x + pd.reduce_sum(pd.stack([a, a]) @ pd.stack([b, b]), 0)",
    "addmv": "v + a @ w",
    "baddbmm": "pd.stack([x, x]) + pd.stack([a, a]) @ pd.stack([b, b])",
    **_each("addr", "x + pd.unsqueeze(w, 1) * v"),
    "chain_matmul": "a @ a @ b",
    "triangular_solve": "pd.solve_triangular(a, b, upper=True)",
    "cholesky_solve": "pd.solve_triangular(pd.matrix_transpose(a), pd.solve_triangular(a, b), "
    "upper=True)",
    **_each("mv matvec", "a @ v"),
    "vecmat": "v @ a",
    **_each("vdot vecdot inner", "pd.reduce_sum(v * w)"),
    **_each("outer ger", "pd.unsqueeze(v, 1) * w"),
    "tensordot": "pd.einsum('ij,kj->ik', x, y); with a letter for each axis",
    "kron": "pd.reshape(pd.einsum('ij,kl->ikjl', x, y), [9, 16])",
    "matrix_power": "a @ a @ a; of the power 3",
    "polyval": "(v[0] * x + v[1]) * x + v[2]; by Horner's rule",
    "bilinear": "pd.einsum('bi,oij,bj->bo', x, W, y)",
    "renorm": "x * pd.minimum(limit / (pd.norm(x, 2.0, 1, keep_dim=True) + 1e-7), 1.0)",
    "convolve": "pd.reshape(pd.conv(s, pd.flip(f, 2), pads=3), [-1]); "
    "s, f = pd.reshape(v, [1, 1, 4]), pd.reshape(w, [1, 1, 4]); mode 'full'",
    "correlate": "pd.reduce_sum(v * w); mode 'valid', of one length",
    "interp": "pd.gather(w, i) + (x - pd.gather(v, i)) * "
    "(pd.gather(w, i + 1) - pd.gather(w, i)) / (pd.gather(v, i + 1) - pd.gather(v, i)); "
    "i = pd.clip(pd.searchsorted(v, x) - 1, 0, n - 2)",
    "as_strided": "pd.gather(pd.reshape(x, [-1]), [[0, 1, 2], [1, 2, 3]]); with the places",
    **_each("extract_sequences", "pd.gather(v, [[0, 1, 2], [1, 2, 3]]); "
            "with the places of each window"),
}

NETWORKS = {
    **_each("adaptive_average_pool adaptive_avg_pool1d", "pd.adaptive_avg_pool"),
    "adaptive_max_pool1d": "pd.adaptive_max_pool", "average_pool": "pd.avg_pool",
    **_each("batch_normalization native_batch_norm", "pd.batch_norm"),
    **_each("layer_normalization native_layer_norm", "pd.layer_norm"),
    "native_group_norm": "pd.group_norm", "native_dropout": "pd.dropout",
    "rms_normalization": "pd.rms_norm", "convolution": "pd.conv",
    **_each("depthwise_conv separable_conv", "pd.conv; groups is the number of channels"),
    **_each("conv_transpose1d conv_transpose3d", "pd.conv_transpose"),
    "dot_product_attention": "pd.attention",
    **_each("grid_sampler grid_sampler_2d grid_sampler_3d", "pd.grid_sample"),
    "affine_grid_generator": "pd.affine_grid",
    "binary_crossentropy": "pd.binary_cross_entropy",
    "categorical_crossentropy": "pd.reduce_sum(-y * pd.log(x), -1)",
    "sparse_categorical_crossentropy": "pd.cross_entropy",
    "ctc_decode": "v[pd.concat([[True], pd.logical_not(pd.equal(v[1:], v[:-1]))])]; "
    "of the best class of each step, without blanks",
    "soft_margin_loss": "pd.softplus(-y * x)",
    "hinge_embedding_loss": "pd.where(pd.equal(y, 1), x, pd.relu(margin - x))",
    "multilabel_soft_margin_loss": "pd.reduce_mean(pd.sigmoid_cross_entropy(x, y), 1)",
    "multi_margin_loss":
    "pd.reduce_sum(pd.relu(margin + x - pd.gather_elements(x, y, 1)), 1) / n - margin / n; "
    "y are classes [N, 1] of n",
    "pairwise_distance": "pd.norm(x - y + 1e-6, axis=1)",
    "pdist": "pd.cdist(x, x); torch has its upper triangle, as a vector",
    "pixel_unshuffle": "pd.unfold; with strides of the block, then reshaped",
    **_each("channel_shuffle native_channel_shuffle",
            "pd.reshape(pd.swap_axes(pd.reshape(x, [3, 2, 2]), 1, 2), [3, 4]); of 2 groups"),
    "rrelu": "pd.where(x < 0.0, x * pd.uniform_random(pd.shape_of(x), 0.125, 1 / 3), x); "
    "in training, and of 11 / 48 after it",
    "alpha_dropout":
    "(pd.where(pd.bernoulli(x, 0.5) > 0.0, x, -1.7580993) + 0.8790497) * 0.8864043; "
    "of a rate of 0.5",
    "conv_tbc": "pd.conv; after pd.transpose",
    "max_pool1d_with_indices": "pd.max_pool; pd.arg_max of pd.unfold has the places",
    "multi_hot": "pd.reduce_max(pd.one_hot(index, n), 0)",
    "sparsemax": "pd.maximum(x - threshold, 0.0); top = pd.sort(x, descending=True); "
    "k = pd.cast(pd.arange(4) + 1, x.dtype); "
    "inside = pd.cast(top * k + 1.0 > pd.cum_sum(top, 1), x.dtype); "
    "size = pd.reduce_sum(inside, 1, keep_dim=True); "
    "threshold = (pd.reduce_sum(top * inside, 1, keep_dim=True) - 1.0) / size",
    **_each("rnn_relu rnn_tanh", "pd.nn.RNN"),
    "fft": "pd.dft; real and imaginary parts are the last axis",
    **_each("fft2", "pd.dft; once for each axis"),
    "ifft2": "pd.dft; with inverse=True, once for each axis",
    "rfft": "pd.dft; with onesided=True",
    **_each("vectorize vectorized_map map", "pd.vmap"),
    "apply_along_axis": "pd.vmap",
    "fori_loop": "pd.for_loop", "switch": "pd.cond; several of them",
    "piecewise": "pd.where(x < 0, -x, x); one for each condition",
    "rearrange": "pd.transpose; einops.rearrange takes Variables, too",
    **_each("quantize_per_tensor fake_quantize_per_tensor_affine",
            "pd.straight_through(pd.clip(pd.round(x / scale), -128.0, 127.0) * scale, x); "
            "pd.prepare_qat for networks"),
    "fake_quantize_per_channel_affine":
    "pd.straight_through(pd.clip(pd.round(x / w), -128.0, 127.0) * w, x); "
    "pd.prepare_qat for networks",
    "embedding_renorm_": "pd.gather(x, index) * "
    "pd.minimum(limit / (pd.norm(pd.gather(x, index), 2.0, 1, keep_dim=True) + 1e-7), 1.0)",
}

OBJECTS = {
    **_each("is_floating_point", "x.dtype.kind == 'f'"),
    "is_signed": "x.dtype.kind in 'if'",
    **_each("is_complex iscomplexobj", "x.dtype.kind == 'c'"),
    "isrealobj": "x.dtype.kind != 'c'",
    "is_same_size": "x.shape == y.shape",
    "is_tensor": "isinstance(x, pd.Variable)",
    "itemsize": "x.dtype.itemsize", "element_size": "x.dtype.itemsize",
    "nbytes": "x.dtype.itemsize * 12; times the number of elements",
    **_each("broadcast_shapes can_cast promote_types result_type common_type min_scalar_type "
            "issubdtype isdtype", "np.result_type(x.dtype, y.dtype); of shapes and dtypes NumPy's"),
    "iscomplex": "pd.cast(pd.zeros_like(x), bool); there are no complex numbers",
    **_each("is_nonzero", "bool(x); where values are at hand"),
    **_each("seed initial_seed get_rng_state set_rng_state", "pd.reset; with the seed"),
    **_each("to_dense coalesce untyped_storage module_load as_subclass",
            "x; it is dense, and an object of one class"),
    **_each("is_leaf retain_grad retains_grad register_hook grad_fn grad_dtype output_nr "
            "register_post_accumulate_grad_hook",
            "pd.gradients; of any value, at once: there is no tape"),
    "is_inference": "pd.no_grad",
}

_FACTORS = "ONNX has no operator for factorisations and linear systems; NumPy's np.linalg has it " \
    "for arrays, before the graph, and pd.cholesky, pd.solve_triangular and pd.det are there"
_COMPLEX = "ONNX Runtime has no complex numbers; of pd.dft real and imaginary parts are an axis"
_SPARSE = "tensors are dense; pd.SparseRows holds rows of a table that are not zero"
_INTEGERS = "quantized tensors are made when a model is exported; pd.prepare_qat trains for them"
_MEMORY = "where and how values lie in memory is the session's: pd.use_device chooses the device"
_BITS = "no ONNX operator sees the bits of a float"
_SPECIAL = "no operator, and no short formula with all digits; pd.lgamma and pd.digamma are there"
_EUCLID = "no operator; Euclid's algorithm is a pd.while_loop"
_PARTS = "frames by pd.gather, times a window, and then pd.dft; back by pd.scatter_add"
_STORAGE = "values are never changed in place; pd.reshape and pd.assign make others"
_POLYNOMIALS = "polynomials are NumPy's, of arrays; a Variable is evaluated by Horner's rule"
_INSIDE = "a function inside PyTorch, Keras or NumPy, which no program calls"
_FILES = "files, texts and settings are NumPy's: it takes x.numpy()"
_DATES = "there are no dates; they are NumPy's, before the graph"
_PYTHON = "Python functions of elements are no ONNX operators; operators of pd take all at once"

WITHOUT = {
    **_each("cholesky_inverse eig eigh geqrf inv inverse lobpcg lstsq lu "
            "lu_factor lu_solve lu_unpack matrix_exp matrix_rank orgqr ormqr pca_lowrank pinv "
            "pinverse qr solve svd svd_lowrank symeig "
            "nuclear_norm linalg roots polyfit", _FACTORS),
    **_each("complex imag polar view_as_complex view_as_real is_conj is_neg cdouble cfloat chalf "
            "sort_complex", _COMPLEX),
    **_each("stft istft irfft", _PARTS),
    **_each("sparse_bsc_tensor sparse_bsr_tensor sparse_compressed_tensor sparse_coo_tensor "
            "sparse_csc_tensor sparse_csr_tensor to_sparse to_sparse_bsc to_sparse_bsr "
            "to_sparse_coo to_sparse_csc to_sparse_csr smm spmm dsmm hsmm hspmm saddmm sspaddmm "
            "is_sparse is_sparse_csr is_coalesced dense_dim sparse_dim sparse_mask sparse_resize_ "
            "sparse_resize_and_clear_ resize_as_sparse_ ccol_indices crow_indices col_indices "
            "row_indices "
            "to_padded_tensor", _SPARSE),
    **_each("dequantize int_repr q_per_channel_axis q_per_channel_scales q_scale q_zero_point "
            "q_per_channel_zero_points qscheme is_quantized quantize_per_channel empty_quantized "
            "quantize_per_tensor_dynamic choose_qparams_optimized", _INTEGERS),
    **_each("ipu xpu mtia is_cuda is_cpu is_ipu is_maia is_meta is_mkldnn is_mps is_mtia is_vulkan "
            "is_xla is_xpu get_device pin_memory is_pinned share_memory_ is_shared data_ptr "
            "const_data_ptr storage_offset storage_type record_stream layout stride is_contiguous "
            "dim_order is_set_to is_nested to_mkldnn shares_memory may_share_memory "
            "is_distributed asfortranarray isfortran is_storage to_dlpack", _MEMORY),
    **_each("nextafter spacing frexp bitwise_count packbits unpackbits hash_tensor", _BITS),
    **_each("i0 igamma igammac", _SPECIAL),
    **_each("gcd lcm", _EUCLID),
    **_each("resize resize_as set_ as_strided_scatter slice_inverse", _STORAGE),
    **_each("apply_ map_ map2_ apply_over_axes frompyfunc", _PYTHON),
    **_each("poly polyadd polyder polydiv polyint polymul polysub", _POLYNOMIALS),
    "feature_alpha_dropout": "hardly used; pd.dropout is there",
    "feature_dropout": "pd.dropout of ones of one channel each, times x",
    **_each("embedding_bag", "pd.segment_sum of pd.gather(W, ids) does it in two steps"),
    "image": "a module of Keras; its functions are names of pd",
    **_each("dtype", "a constructor of NumPy's; x.dtype is there"),
    "histogramdd": "histograms of several axes are NumPy's; pd.histogram has one",
    "mask_indices": "pd.nonzero of the mask has the indices",
    **_each("reinforce volatile", "PyTorch has dropped it, too"),
    **_each("busday_count busday_offset is_busday datetime_as_string datetime_data isnat", _DATES),
    **_each("array2string array_repr array_str base_repr binary_repr format_float_positional "
            "format_float_scientific printoptions set_printoptions get_printoptions info "
            "fromfile fromregex fromstring from_file genfromtxt loadtxt savetxt savez "
            "savez_compressed show_config show_runtime typename mintypecode get_include getbufsize "
            "setbufsize geterr geterrcall seterr seterrcall test einsum_path isscalar iterable "
            "nested_iters", _FILES),
    **_each("wait fork classproperty unify_type_list merge_type_from_type_comment", _INSIDE),
}
# fmt: on

LINES = {**ELEMENTS, **SHAPES, **REDUCTIONS, **PRODUCTS, **NETWORKS, **OBJECTS}
