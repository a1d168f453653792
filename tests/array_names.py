"""The functions of torch, torch.Tensor, keras.ops and NumPy, and what they are here.

`python -m tests.torch_names` writes docs/array_functions.md: a name is there under its own name, or
as `pd_core/graph/other_words.py` or `array_words.py` says. Names are those of PyTorch 2.13, Keras
3.15 and NumPy 2.
"""

import re
from pathlib import Path

import pd_core as pd
from pd_core.graph import array_words
from pd_core.graph.array_words import WITHOUT
from pd_core.graph.other_words import FUNCTIONS, NAMES, VARIABLE, function_here
from pd_core.graph.tensor_words import METHODS

PAGE = Path(__file__).resolve().parents[1] / "docs" / "array_functions.md"


def words(text):
    """The words of a text."""
    return text.split()


FACES = {
    "torch": words("""
        abs absolute acos acosh adaptive_avg_pool1d adaptive_max_pool1d add addbmm addcdiv
        addcmul addmm addmv addr adjoint affine_grid_generator all allclose alpha_dropout
        amax amin aminmax angle any arange arccos arccosh arcsin arcsinh arctan arctan2
        arctanh argmax argmin argsort argwhere as_strided as_strided_scatter as_tensor
        asarray asin asinh atan atan2 atanh atleast_1d atleast_2d atleast_3d avg_pool1d
        baddbmm bartlett_window batch_norm bernoulli bilinear
        binary_cross_entropy_with_logits bincount binomial bitwise_and bitwise_left_shift
        bitwise_not bitwise_or bitwise_right_shift bitwise_xor blackman_window block_diag
        bmm broadcast_shapes broadcast_tensors broadcast_to bucketize can_cast
        cartesian_prod cat cdist ceil celu chain_matmul channel_shuffle cholesky
        cholesky_inverse cholesky_solve choose_qparams_optimized chunk clamp clamp_max
        clamp_min classproperty clip clone column_stack combinations compile complex concat
        concatenate cond conj conj_physical constant_pad_nd conv1d conv2d conv3d conv_tbc
        conv_transpose1d conv_transpose2d conv_transpose3d convolution copysign corrcoef cos
        cosh cosine_embedding_loss cosine_similarity count_nonzero cov cross ctc_loss cummax
        cummin cumprod cumsum cumulative_trapezoid deg2rad dequantize det detach diag
        diag_embed diagflat diagonal diagonal_scatter diff digamma dist div divide dot
        dropout dsmm dsplit dstack eig einsum embedding embedding_bag embedding_renorm_
        empty empty_like empty_permuted empty_quantized empty_strided eq equal erf erfc
        erfinv exp exp2 expm1 eye fake_quantize_per_channel_affine
        fake_quantize_per_tensor_affine feature_alpha_dropout feature_dropout fill fix
        flatten flip fliplr flipud float_power floor floor_divide fmax fmin fmod fork frac
        frexp frobenius_norm from_dlpack from_file from_numpy frombuffer full full_like
        gather gcd ge geqrf ger gradient greater greater_equal grid_sampler grid_sampler_2d
        grid_sampler_3d group_norm gru gru_cell gt hamming_window hann_window hardshrink
        hash_tensor heaviside hinge_embedding_loss histc histogram histogramdd hsmm hsplit
        hspmm hstack hypot i0 igamma igammac imag index_add index_fill index_put
        index_reduce index_select initial_seed inner instance_norm int_repr inverse
        is_complex is_conj is_distributed is_floating_point is_inference is_neg is_nonzero
        is_same_size is_signed is_storage is_tensor isclose isfinite isin isinf isnan
        isneginf isposinf isreal istft kaiser_window kl_div kron kthvalue layer_norm lcm
        ldexp le lerp less less_equal lgamma linspace load lobpcg log log10 log1p log2
        log_softmax logaddexp logaddexp2 logcumsumexp logdet logical_and logical_not
        logical_or logical_xor logit logspace logsumexp lstm lstm_cell lstsq lt lu lu_solve
        lu_unpack manual_seed margin_ranking_loss masked_fill masked_scatter masked_select
        matmul matrix_exp matrix_power matrix_rank max max_pool1d max_pool1d_with_indices
        max_pool2d max_pool3d maximum mean median merge_type_from_type_comment meshgrid min
        minimum mm mode moveaxis movedim msort mul multinomial multiply mv mvlgamma
        nan_to_num nanmean nanmedian nanquantile nansum narrow native_batch_norm
        native_channel_shuffle native_dropout native_group_norm native_layer_norm
        native_norm ne neg negative nextafter nonzero nonzero_static norm norm_except_dim
        normal not_equal nuclear_norm numel ones ones_like orgqr ormqr outer
        pairwise_distance pca_lowrank pdist permute pinverse pixel_shuffle pixel_unshuffle
        poisson poisson_nll_loss polar polygamma positive pow prelu prod promote_types put
        q_per_channel_axis q_per_channel_scales q_per_channel_zero_points q_scale
        q_zero_point qr quantile quantize_per_channel quantize_per_tensor
        quantize_per_tensor_dynamic rad2deg rand rand_like randint randint_like randn
        randn_like randperm range ravel real reciprocal relu remainder renorm
        repeat_interleave reshape resize_as_sparse_ resolve_conj resolve_neg result_type
        rms_norm rnn_relu rnn_relu_cell rnn_tanh rnn_tanh_cell roll rot90 round row_stack
        rrelu rsqrt rsub saddmm save scalar_tensor scatter scatter_add scatter_reduce
        searchsorted seed segment_reduce select select_scatter selu sgn sigmoid sign signbit
        sin sinc sinh slice_inverse slice_scatter slogdet smm softmax solve sort
        sparse_bsc_tensor sparse_bsr_tensor sparse_compressed_tensor sparse_coo_tensor
        sparse_csc_tensor sparse_csr_tensor split split_with_sizes spmm sqrt square squeeze
        sspaddmm stack std std_mean stft sub subtract sum svd svd_lowrank swapaxes swapdims
        symeig t take take_along_dim tan tanh tensor tensor_split tensordot threshold tile
        to_dlpack topk trace transpose trapezoid trapz triangular_solve tril tril_indices
        triplet_margin_loss triu triu_indices true_divide trunc typename unbind unflatten
        unify_type_list unique unique_consecutive unravel_index unsafe_chunk unsafe_split
        unsafe_split_with_sizes unsqueeze vander var var_mean vdot view_as_complex
        view_as_real vmap vsplit vstack wait where while_loop xlogy zero_ zeros zeros_like
    """),
    "torch.Tensor": words("""
        H T abs absolute acos acosh add addbmm addcdiv addcmul addmm addmv addr adjoint all
        allclose amax amin aminmax angle any apply_ arccos arccosh arcsin arcsinh arctan
        arctan2 arctanh argmax argmin argsort argwhere as_strided as_strided_scatter
        as_subclass asin asinh atan atan2 atanh backward baddbmm bernoulli bfloat16 bincount
        bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift
        bitwise_xor bmm bool broadcast_to byte cauchy_ ccol_indices cdouble ceil cfloat
        chalf char cholesky cholesky_inverse cholesky_solve chunk clamp clamp_max clamp_min
        clip clone coalesce col_indices conj conj_physical const_data_ptr contiguous copy_
        copysign corrcoef cos cosh count_nonzero cov cpu cross crow_indices cuda cummax
        cummin cumprod cumsum data data_ptr deg2rad dense_dim dequantize det detach device
        diag diag_embed diagflat diagonal diagonal_scatter diff digamma dim dim_order dist
        div divide dot double dsplit dtype eig element_size eq equal erf erfc erfinv exp
        exp2 expand expand_as expm1 exponential_ fill_ fill_diagonal_ fix flatten flip
        fliplr flipud float float_power floor floor_divide fmax fmin fmod frac frexp gather
        gcd ge geometric_ geqrf ger get_device grad grad_dtype grad_fn greater greater_equal
        gt half hardshrink hash_tensor heaviside histc histogram hsplit hypot i0 igamma
        igammac imag index index_add index_copy index_fill index_put index_reduce
        index_select indices inner int int_repr inverse ipu is_coalesced is_complex is_conj
        is_contiguous is_cpu is_cuda is_distributed is_floating_point is_inference is_ipu
        is_leaf is_maia is_meta is_mkldnn is_mps is_mtia is_neg is_nested is_nonzero
        is_pinned is_quantized is_same_size is_set_to is_shared is_signed is_sparse
        is_sparse_csr is_vulkan is_xla is_xpu isclose isfinite isinf isnan isneginf isposinf
        isreal istft item itemsize kron kthvalue layout lcm ldexp le lerp less less_equal
        lgamma log log10 log1p log2 log_normal_ log_softmax logaddexp logaddexp2
        logcumsumexp logdet logical_and logical_not logical_or logical_xor logit logsumexp
        long lstsq lt lu lu_solve mH mT map2_ map_ masked_fill masked_scatter masked_select
        matmul matrix_exp matrix_power max maximum mean median min minimum mm mode
        module_load moveaxis movedim msort mtia mul multinomial multiply mv mvlgamma name
        nan_to_num nanmean nanmedian nanquantile nansum narrow narrow_copy nbytes ndim
        ndimension ne neg negative nelement new new_empty new_empty_strided new_full
        new_ones new_tensor new_zeros nextafter nonzero nonzero_static norm normal_
        not_equal numel numpy orgqr ormqr outer output_nr permute pin_memory pinverse
        polygamma positive pow prelu prod put q_per_channel_axis q_per_channel_scales
        q_per_channel_zero_points q_scale q_zero_point qr qscheme quantile rad2deg random_
        ravel real reciprocal record_stream register_hook register_post_accumulate_grad_hook
        reinforce relu remainder renorm repeat repeat_interleave requires_grad reshape
        reshape_as resize resize_as resize_as_sparse_ resolve_conj resolve_neg retain_grad
        retains_grad roll rot90 round row_indices rsqrt scatter scatter_add scatter_reduce
        select select_scatter set_ sgn shape share_memory_ short sigmoid sign signbit sin
        sinc sinh size slice_inverse slice_scatter slogdet smm softmax solve sort sparse_dim
        sparse_mask sparse_resize_ sparse_resize_and_clear_ split split_with_sizes sqrt
        square squeeze sspaddmm std stft storage storage_offset storage_type stride sub
        subtract sum sum_to_size svd swapaxes swapdims symeig t take take_along_dim tan tanh
        tensor_split tile to to_dense to_mkldnn to_padded_tensor to_sparse to_sparse_bsc
        to_sparse_bsr to_sparse_coo to_sparse_csc to_sparse_csr tolist topk trace transpose
        triangular_solve tril triu true_divide trunc type type_as unbind unflatten unfold
        uniform_ unique unique_consecutive unsafe_chunk unsafe_split unsafe_split_with_sizes
        unsqueeze untyped_storage values var vdot view view_as volatile vsplit where xlogy
        xpu zero_
    """),
    "keras.ops": words("""
        abs absolute adaptive_average_pool adaptive_max_pool add all allclose amax amin
        angle any append arange arccos arccosh arcsin arcsinh arctan arctan2 arctanh argmax
        argmin argpartition argsort array array_split associative_scan average average_pool
        bartlett batch_normalization binary_crossentropy bincount bitwise_and bitwise_invert
        bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor blackman
        broadcast_to cast categorical_crossentropy cbrt cdist ceil celu cholesky
        cholesky_inverse clip concatenate cond conj conjugate conv conv_transpose
        convert_to_numpy convert_to_tensor copy corrcoef correlate cos cosh count_nonzero
        cross ctc_decode ctc_loss cumprod cumsum custom_gradient deg2rad depth_to_space
        depthwise_conv det diag diagflat diagonal diff digitize divide divide_no_nan dot
        dot_product_attention dsplit dstack dtype eig eigh einsum elu empty empty_like equal
        erf erfc erfinv exp exp2 expand_dims expm1 extract_sequences eye fabs fft fft2 flip
        fliplr flipud floor floor_divide fmax fmin fmod fold fori_loop full full_like gcd
        gelu geomspace get_item glu greater greater_equal hamming hanning hard_shrink
        hard_sigmoid hard_silu hard_swish hard_tanh heaviside histogram hsplit hstack hypot
        i0 identity ifft2 imag image in_top_k inner inv irfft is_tensor isclose isfinite
        isin isinf isnan isneginf isposinf isreal istft jvp kaiser kron layer_normalization
        lcm ldexp leaky_relu left_shift less less_equal linalg linspace log log10 log1p log2
        log_sigmoid log_softmax logaddexp logaddexp2 logdet logical_and logical_not
        logical_or logical_xor logspace logsumexp lstsq lu_factor map matmul matrix_rank max
        max_pool maximum mean median meshgrid min minimum mod moments moveaxis multi_hot
        multiply nan_to_num nanargmax nanargmin nancumprod nancumsum nanmax nanmean
        nanmedian nanmin nanpercentile nanprod nanquantile nanstd nansum nanvar ndim
        negative nextafter nn nonzero norm normalize not_equal numpy one_hot ones ones_like
        outer pad percentile pinv polar power prod psnr ptp qr quantile rad2deg ravel real
        rearrange reciprocal relu relu6 repeat reshape rfft right_shift rms_normalization
        roll rot90 round rsqrt saturate_cast scan scatter scatter_update searchsorted
        segment_max segment_min segment_prod segment_sum select selu separable_conv shape
        sigmoid sign signbit silu sin sinc sinh size slice slice_update slogdet soft_shrink
        softmax softplus softsign solve solve_triangular sort space_to_depth
        sparse_categorical_crossentropy sparse_plus sparse_sigmoid sparsemax split sqrt
        square squareplus squeeze stack std stft stop_gradient subtract sum svd swapaxes
        swish switch take take_along_axis tan tanh tanh_shrink tensordot threshold tile
        top_k trace transpose trapezoid tri tril triu true_divide trunc unfold unique
        unravel_index unstack vander var vdot vectorize vectorized_map view view_as_complex
        view_as_real vsplit vstack where while_loop zeros zeros_like
    """),
    "numpy": words("""
        abs absolute acos acosh add all allclose amax amin angle any append apply_along_axis
        apply_over_axes arange arccos arccosh arcsin arcsinh arctan arctan2 arctanh argmax
        argmin argpartition argsort argwhere around array array2string array_equal
        array_equiv array_repr array_split array_str asanyarray asarray asarray_chkfinite
        ascontiguousarray asfortranarray asin asinh asmatrix astype atan atan2 atanh
        atleast_1d atleast_2d atleast_3d average bartlett base_repr binary_repr bincount
        bitwise_and bitwise_count bitwise_invert bitwise_left_shift bitwise_not bitwise_or
        bitwise_right_shift bitwise_xor blackman block bmat broadcast_arrays
        broadcast_shapes broadcast_to busday_count busday_offset can_cast cbrt ceil choose
        clip column_stack common_type compress concat concatenate conj conjugate convolve
        copy copysign copyto corrcoef correlate cos cosh count_nonzero cov cross cumprod
        cumsum cumulative_prod cumulative_sum datetime_as_string datetime_data deg2rad
        degrees delete diag diag_indices diag_indices_from diagflat diagonal diff digitize
        divide divmod dot dsplit dstack ediff1d einsum einsum_path empty empty_like equal
        exp exp2 expand_dims expm1 extract eye fabs fill_diagonal fix flatnonzero flip
        fliplr flipud float_power floor floor_divide fmax fmin fmod format_float_positional
        format_float_scientific frexp from_dlpack frombuffer fromfile fromfunction fromiter
        frompyfunc fromregex fromstring full full_like gcd genfromtxt geomspace get_include
        get_printoptions getbufsize geterr geterrcall gradient greater greater_equal hamming
        hanning heaviside histogram histogram2d histogram_bin_edges histogramdd hsplit
        hstack hypot i0 identity imag indices info inner insert interp intersect1d invert
        is_busday isclose iscomplex iscomplexobj isdtype isfinite isfortran isin isinf isnan
        isnat isneginf isposinf isreal isrealobj isscalar issubdtype iterable ix_ kaiser
        kron lcm ldexp left_shift less less_equal lexsort linspace load loadtxt log log10
        log1p log2 logaddexp logaddexp2 logical_and logical_not logical_or logical_xor
        logspace mask_indices matmul matrix_transpose matvec max maximum may_share_memory
        mean median meshgrid min min_scalar_type minimum mintypecode mod modf moveaxis
        multiply nan_to_num nanargmax nanargmin nancumprod nancumsum nanmax nanmean
        nanmedian nanmin nanpercentile nanprod nanquantile nanstd nansum nanvar ndim
        negative nested_iters nextafter nonzero not_equal ones ones_like outer packbits pad
        partition percentile permute_dims piecewise place poly polyadd polyder polydiv
        polyfit polyint polymul polysub polyval positive pow power printoptions prod
        promote_types ptp put put_along_axis putmask quantile rad2deg radians ravel
        ravel_multi_index real real_if_close reciprocal remainder repeat require reshape
        resize result_type right_shift rint roll rollaxis roots rot90 round row_stack save
        savetxt savez savez_compressed searchsorted select set_printoptions setbufsize
        setdiff1d seterr seterrcall setxor1d shape shares_memory show_config show_runtime
        sign signbit sin sinc sinh size sort sort_complex spacing split sqrt square squeeze
        stack std subtract sum swapaxes take take_along_axis tan tanh tensordot test tile
        trace transpose trapezoid tri tril tril_indices tril_indices_from trim_zeros triu
        triu_indices triu_indices_from true_divide trunc typename union1d unique unique_all
        unique_counts unique_inverse unique_values unpackbits unravel_index unstack unwrap
        vander var vdot vecdot vecmat vsplit vstack where zeros zeros_like
    """),
}

# Callables of torch that compute nothing on tensors, or are kernels of one device; beside them
# there are functions in place, and copies of views, of which the plain names tell.
INTERNAL = re.compile(
    r"(cudnn|miopen|mkldnn|fbgemm|quantized|sym|parse|import_ir|autocast)_|batch_norm_[begsu]"
    r"|(set|get)_|is_.*(enabled|available)|fused_|use_det|are_det|compiled_with|init_num"
    r"|prepare_multi|profiler_|clear_autocast|thread_safe|alias_copy"
)
SECTIONS = {
    "Elements": array_words.ELEMENTS,
    "Shapes, parts and new tensors": array_words.SHAPES,
    "Reductions, order and sets": array_words.REDUCTIONS,
    "Products": array_words.PRODUCTS,
    "Networks": array_words.NETWORKS,
    "Objects": array_words.OBJECTS,
}


_X = pd.Variable([3, 4], name="x")


def is_variant(name, names):
    """Whether a name is a function in place, or the copy of a view, of another name."""
    return any(
        name.endswith(end) and name.removesuffix(end) in {*names, "slice"} for end in ("_", "_copy")
    )


def found(face, name):
    """Return (kind, text): "same", "here", "how" or "no", and what is there for a name."""
    if face == "torch.Tensor":
        if name in dir(_X):
            return "same", f"x.{name}"
        text = VARIABLE.get(name) or METHODS.get(name)
    else:
        text = f"pd.{name}" if name in pd.__all__ else function_here(name)
        if name in pd.__all__:
            return "same", text
    if text is None:
        return "missing", name
    if text.startswith("no: "):
        return "no", text.removeprefix("no: ")
    is_one = name in NAMES or re.fullmatch(r"(pd|x)(\.\w+)+(\([\w, =]*\))?", text.split("; ")[0])
    return "here" if is_one else "how", text


def shares():
    """Return {face: (there, in a line, missing)}."""
    counts = {}
    for face, names in FACES.items():
        kinds = [found(face, name)[0] for name in names]
        there = kinds.count("same") + kinds.count("here")
        counts[face] = there, kinds.count("how"), kinds.count("no")
    return counts


def code(text):
    """Put the expression that a text begins with, and definitions, into backticks."""
    if "; " not in text and ", or " in text:
        expression, _, rest = text.partition(", or ")
        return f"`{expression}`, or {rest}"
    parts = text.split("; ")
    shown = [f"`{p}`" if k == 0 or re.match(r"[\w, ]+ = ", p) else p for k, p in enumerate(parts)]
    return "; ".join(shown).replace("|", "\\|")


def table(entries):
    """Rows of {name: text}, with the names of one text together."""
    by_text = {}
    for name, text in entries.items():
        by_text.setdefault(text, []).append(f"`{name}`")
    rows = [f"| {', '.join(names)} | {text} |" for text, names in by_text.items()]
    return ["| there | here |", "|---|---|", *rows]


def page():
    """Return docs/array_functions.md."""
    functions = sorted({n for face, ns in FACES.items() if face != "torch.Tensor" for n in ns})
    same = [f"`{n}`" for n in functions if found("torch", n)[0] == "same"]
    lines = [
        "# Functions of arrays",
        "",
        "What the functions of PyTorch 2.13, Keras 3.15 and NumPy 2 and the methods of tensors are",
        "in pd. Asked for one, pd or a Variable says the same in an AttributeError. Generated by",
        "`python -m tests.torch_names`; tests compute each line beside the function that it is",
        "for, and its gradients beside PyTorch's. Layers, losses and optimizers: [other_words.md]"
        "(other_words.md), [from_pytorch.md](from_pytorch.md).",
        "",
        "| names | there | in a line of others | no | share |",
        "|---|---|---|---|---|",
    ]
    for face, (there, how, no) in shares().items():
        share = round(100 * (there + how) / (there + how + no))
        lines.append(f"| `{face}` | {there} | {how} | {no} | {share} % |")
    lines += [
        "",
        "Functions in place, `add_` and its like, are none: values never change, and `x = x + y`",
        "gives the name another one. x, y and z are tensors of one shape, v and w vectors, a and b",
        "matrices, index and mask tensors of integers and bools.",
        "",
        f"Under the same name: {', '.join(same)}.",
        "",
        "## Under other names",
        "",
        *table({n: code(FUNCTIONS[n].replace("; ", ", ")) for n in functions if n in FUNCTIONS}),
    ]
    for title, entries in SECTIONS.items():
        shown = {n: code(text) for n, text in entries.items()}
        lines += ["", f"## {title}", "", *table(shown)]
    lines += ["", "## Not here", "", *table(WITHOUT)]
    own = {
        n: code(text)
        for n, text in sorted({**METHODS, **VARIABLE}.items())
        if n in FACES["torch.Tensor"]
        and text != f"pd.{n}(x)"
        and text.removeprefix("no: ") != (function_here(n) or "").removeprefix("no: ")
    }
    lines += ["", "## Methods that are no functions, or other ones", "", *table(own)]
    return "\n".join(lines) + "\n"
