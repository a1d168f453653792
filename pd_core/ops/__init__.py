"""Op functions by family: each adds one or a few nodes to the graph; none creates parameters."""

# isort: skip_file
# fmt: off
from . import face
from .activation import (
    celu, elu, gelu, glu, hard_sigmoid, hard_swish, hard_tanh, leaky_relu, mish, normal_cdf,
    normal_pdf, prelu, relu, relu6, relu_grad, selu, sigmoid, silu, softplus, softsign, tanh,
    tanhshrink,
)
from .attention import attention, rotary_embedding
from .beam import beam_search
from .beam_cost import BeamExpansion, cross_entropy_over_beam
from .blocks import rnn, while_op
from .control import cond, for_loop, scan, while_loop
from .conv import (
    avg_pool, avg_pool_grad, conv, conv_filter_grad, conv_input_grad, conv_transpose, max_pool,
    max_pool_grad, max_pool_pick, pool2d,
)
from .copies import (
    chunk, diag_embed, diagonal, eye, flip, full, full_like, linspace, meshgrid, move_axis, ones,
    repeat, roll, stack, swap_axes, tile, tril, triu, unstack, zeros,
)
from .detection import (
    box_overlaps, decode_boxes, detect_objects, encode_boxes, match_boxes, multibox_loss,
    non_max_suppression, prior_boxes,
)
from .distance import cdist, cosine_similarity
from .draws import (
    categorical, exponential_random, gumbel_softmax, multinomial, permutation, randint,
)
from .factor import cholesky, solve_triangular
from .gather import gather, gather_elements, gather_nd, nonzero, one_hot, scatter, scatter_add
from .getitem import index_add, index_update, scatter_nd
from .image import fold, im2col, interpolate, roi_max_pool, unfold
from .loss import (
    binary_cross_entropy, binary_cross_entropy_grad, classification_error, cross_entropy,
    huber_loss, kl_divergence, label_weights, log_probability, log_probability_grad,
    negative_log_likelihood, sigmoid_cross_entropy, softmax_cross_entropy, square_error,
)
from .mapping import vmap
from .math import (
    abs, acos, acosh, add, asin, asinh, atan, atan2, atanh, bitwise_and, bitwise_not, bitwise_or,
    bitwise_xor, cast, ceil, clip, cos, cosh, div, equal, erf, exp, expm1, floor, floor_div, fmod,
    greater_equal, greater_than, identity, is_close, is_finite, is_inf, is_nan, lerp, less_equal,
    less_than, log, log1p, log2, log10, logical_and, logical_not, logical_or, logical_xor, maximum,
    minimum, mod, mul, neg, pow, reciprocal, round, rsqrt, sign, sin, sinh, sqrt, square, sub, tan,
    trunc, where,
)
from .matrix import cross, det, einsum, matmul
from .metric_loss import contrastive_loss, cosine_embedding_loss, margin_ranking_loss, triplet_loss
from .mode import clip_gradient, mode_switch, scale_gradient, stop_gradient, straight_through
from .norm import (
    batch_norm, group_norm, instance_norm, l2_normalize, layer_norm, local_response_norm, rms_norm,
)
from .ode import odeint
from .order import arg_min, argsort, sort, top_k, unique
from .padding import pad
from .pool import adaptive_avg_pool, adaptive_max_pool, global_avg_pool, global_max_pool
from .quantile import histogram, median, quantile, searchsorted
from .random import bernoulli, dropout, gaussian_random, stochastic_depth, uniform_random
from .ranking import lambda_rank, ndcg, sequence_ranks
from .ranks import sum_over_ranks
from .recurrent import gru_cell, gru_cell_reset_after, lstm_cell
from .reduce import (
    arg_max, cum_sum, log_softmax, reduce_max, reduce_mean, reduce_min, reduce_prod, reduce_sum,
    softmax, softmax_grad,
)
from .row_branches import ifelse
from .sampled import hierarchical_sigmoid, nce_loss, random_classes
from .sampling import affine_grid, grid_sample
from .segment import segment_max, segment_mean, segment_min, segment_softmax, segment_sum
from .sequence.chunked_scan import pack_chunks, pad_chunks, scan_bounded
from .sequence.padded import PaddedSegments
from .sequence.parts import (
    sequence_concat, sequence_context, sequence_overhang, sequence_slice, sequence_top_k,
    sequence_windows,
)
from .sequence.segments import (
    Segments, pack_rows, packed_arg_max, packed_max, packed_sum, pad_rows, permute_rows,
    repeat_rows,
)
from .sequence.unroll import State, Step, unroll
from .shape import (
    arange, concat, depth_to_space, expand, expand_like, flatten, matrix_transpose, ones_like,
    reshape, reshape_like, shape_of, size, size_of, slice, space_to_depth, split, squeeze,
    transpose, unsqueeze, zeros_like,
)
from .signal import dft
from .sparse import SparseRows
from .special import digamma, erfinv, lgamma, logaddexp, nan_to_num, xlogy
from .statistics import count_nonzero, cum_prod, logsumexp, norm, reduce_all, reduce_any, std, var
from .structured import crf_decode, crf_loss, ctc_loss
from .target_loss import (
    dice_loss, focal_loss, gaussian_nll_loss, hinge_loss, l1_loss, poisson_nll_loss,
)

GRADIENT_OPS = {
    *("avg_pool_grad", "binary_cross_entropy_grad", "conv_filter_grad", "conv_input_grad"),
    *("permute_rows", "log_probability_grad", "max_pool_grad", "max_pool_pick", "normal_cdf"),
    *("normal_pdf", "pack_chunks", "pack_rows", "pad_chunks", "pad_rows", "relu_grad"),
    *("repeat_rows", "packed_arg_max", "packed_max", "packed_sum", "softmax_grad"),
}
