"""The methods of torch.Tensor that Variables lack, and what they are here."""

from collections.abc import Mapping

from .array_words import LINES, WITHOUT
from .other_words import NAMES, VARIABLE


def _words(text: str) -> list[str]:
    return text.split()


# methods that do something else than the functions of their names
OWN = {
    "unfold": "pd.gather(x, [[0, 1, 2], [1, 2, 3]], axis); with the places of each window",
    "median": "pd.median(x); torch has the lower of two in the middle",
}
# functions of pd under the same name
SAME = _words("""
    acos acosh asin asinh atan atan2 atanh bernoulli bitwise_and bitwise_not bitwise_or
    bitwise_xor ceil cosh count_nonzero cross det diag_embed diagonal digamma equal erf erfinv
    expm1 fmod greater_equal histogram index_add lerp less_equal lgamma log10 log1p log2
    logaddexp logical_and logical_not logical_or logical_xor maximum median minimum multinomial
    nan_to_num neg nonzero prelu quantile reciprocal roll rsqrt scatter scatter_add sinh tan
    trunc unfold unique xlogy
""")
# names of functions, of which the tables of functions tell
OTHERS = _words("""
    H absolute addbmm addcdiv addcmul addmm addmv addr adjoint allclose amax amin aminmax angle
    apply_ arccos arccosh arcsin arcsinh arctan arctan2 arctanh argwhere as_strided
    as_strided_scatter as_subclass baddbmm bincount bitwise_left_shift bitwise_right_shift byte
    cauchy_ ccol_indices cdouble cfloat chalf char cholesky cholesky_inverse cholesky_solve
    clamp_max clamp_min coalesce col_indices conj conj_physical const_data_ptr copy_ copysign
    corrcoef cov crow_indices cummax cummin data_ptr deg2rad dense_dim dequantize diag diagflat
    diagonal_scatter diff dim_order dist divide dot dsplit eig element_size erfc exp2
    exponential_ fix fliplr flipud float_power floor_divide fmax fmin frac frexp gcd ge
    geometric_ geqrf ger get_device grad_dtype grad_fn greater gt hardshrink hash_tensor
    heaviside histc hsplit hypot i0 igamma igammac imag index index_copy index_fill index_put
    index_reduce inner int_repr inverse ipu is_coalesced is_complex is_conj is_contiguous is_cpu
    is_cuda is_distributed is_floating_point is_inference is_ipu is_leaf is_maia is_meta
    is_mkldnn is_mps is_mtia is_neg is_nested is_nonzero is_pinned is_quantized is_same_size
    is_set_to is_shared is_signed is_sparse is_sparse_csr is_vulkan is_xla is_xpu isclose
    isfinite isinf isneginf isposinf isreal istft itemsize kron kthvalue layout lcm ldexp le
    less log_normal_ logaddexp2 logcumsumexp logdet logit lstsq lt lu lu_solve mH map2_ map_
    masked_scatter masked_select matrix_exp matrix_power mode module_load moveaxis movedim msort
    mtia multiply mv mvlgamma nanmean nanmedian nanquantile nansum narrow narrow_copy nbytes ne
    negative new new_empty new_empty_strided new_full new_ones new_tensor new_zeros nextafter
    nonzero_static normal_ not_equal orgqr ormqr outer output_nr pin_memory pinverse polygamma
    positive put q_per_channel_axis q_per_channel_scales q_per_channel_zero_points q_scale
    q_zero_point qr qscheme rad2deg random_ ravel real record_stream register_hook
    register_post_accumulate_grad_hook reinforce remainder renorm repeat_interleave reshape_as
    resize resize_as resize_as_sparse_ resolve_conj resolve_neg retain_grad retains_grad rot90
    row_indices scatter_reduce select select_scatter set_ sgn share_memory_ short signbit sinc
    slice_inverse slice_scatter slogdet smm solve sparse_dim sparse_mask sparse_resize_
    sparse_resize_and_clear_ split_with_sizes sspaddmm stft storage_offset storage_type stride
    subtract sum_to_size svd swapdims symeig take take_along_dim tensor_split to_dense to_mkldnn
    to_padded_tensor to_sparse to_sparse_bsc to_sparse_bsr to_sparse_coo to_sparse_csc
    to_sparse_csr trace triangular_solve true_divide type_as unflatten uniform_
    unique_consecutive unsafe_chunk unsafe_split unsafe_split_with_sizes untyped_storage vdot
    volatile vsplit xpu
""")
# without the _ at the end
IN_PLACE = _words("""
    abs absolute acos acosh add addbmm addcdiv addcmul addmm addmv addr arccos arccosh arcsin
    arcsinh arctan2 arctan arctanh as_strided asin asinh atan2 atan atanh baddbmm bernoulli
    bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor ceil
    clamp clamp_max clamp_min clip conj_physical copysign cos cosh cumprod cumsum deg2rad detach
    digamma div divide eq erf erfc erfinv exp2 exp expm1 fill fill_diagonal fix float_power
    floor floor_divide fmod frac gcd ge greater greater_equal gt heaviside hypot i0 igamma
    igammac index_add index_copy index_fill index_put index_reduce lcm ldexp le lerp less
    less_equal lgamma log10 log1p log2 log logical_and logical_not logical_or logical_xor logit
    lt masked_fill masked_scatter mul multiply mvlgamma nan_to_num ne neg negative nextafter
    not_equal polygamma pow put rad2deg reciprocal relu remainder renorm resize resize_as round
    rsqrt scatter scatter_add scatter_reduce sgn sigmoid sign sin sinc sinh sqrt square squeeze
    sub subtract swapaxes swapdims t tan tanh transpose tril triu true_divide trunc unsqueeze
    xlogy
""")


def _text(name: str, names: Mapping[str, str]) -> str:
    """Return our line for a method, or "no: " and why there is none."""
    if name in WITHOUT:
        return f"no: {WITHOUT[name]}"
    return names.get(name, f"x.{name}(…)")


def _methods() -> dict[str, str]:
    same = {name: f"pd.{name}(x)" for name in SAME}
    names = {**NAMES, **LINES, **same, **OWN, **VARIABLE}
    words = {name: _text(name, names) for name in (*SAME, *OTHERS)}
    for name in IN_PLACE:
        text = _text(name, names)
        words[f"{name}_"] = text if text[:3] == "no:" else f"{text}; a new value, none in place"
    return words


METHODS = _methods()
