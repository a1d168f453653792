"""Op functions by family: each adds one or a few nodes to the graph; none creates parameters."""

from .activation import gelu, leaky_relu, relu, relu_grad, sigmoid, softplus, softsign, tanh
from .attention import attention, rotary_embedding
from .beam import beam_search
from .beam_cost import BeamExpansion, cross_entropy_over_beam
from .blocks import rnn, while_op
from .control import cond, for_loop, scan, while_loop
from .conv import (
    avg_pool,
    avg_pool_grad,
    conv,
    conv_filter_grad,
    conv_input_grad,
    conv_transpose,
    max_pool,
    max_pool_grad,
    max_pool_pick,
    pool2d,
)
from .detection import (
    box_overlaps,
    decode_boxes,
    detect_objects,
    encode_boxes,
    match_boxes,
    multibox_loss,
    non_max_suppression,
    prior_boxes,
)
from .image import im2col, interpolate, roi_max_pool
from .index import gather, gather_elements, gather_nd, nonzero, one_hot, scatter, scatter_add
from .loss import (
    binary_cross_entropy,
    binary_cross_entropy_grad,
    classification_error,
    cross_entropy,
    huber_loss,
    kl_divergence,
    label_weights,
    log_probability,
    log_probability_grad,
    negative_log_likelihood,
    sigmoid_cross_entropy,
    softmax_cross_entropy,
    square_error,
)
from .math import (
    abs,
    add,
    cast,
    clip,
    cos,
    div,
    equal,
    erf,
    exp,
    floor,
    greater_equal,
    greater_than,
    identity,
    less_equal,
    less_than,
    log,
    logical_and,
    logical_not,
    logical_or,
    maximum,
    minimum,
    mul,
    neg,
    pow,
    reciprocal,
    round,
    sign,
    sin,
    sqrt,
    square,
    sub,
    where,
)
from .matrix import det, einsum, matmul
from .mode import clip_gradient, mode_switch, scale_gradient, stop_gradient, straight_through
from .norm import (
    batch_norm,
    group_norm,
    instance_norm,
    l2_normalize,
    layer_norm,
    local_response_norm,
    rms_norm,
)
from .pool import adaptive_avg_pool, adaptive_max_pool
from .random import bernoulli, dropout, gaussian_random, uniform_random
from .ranking import lambda_rank, ndcg, sequence_ranks
from .ranks import sum_over_ranks
from .recurrent import gru_cell, gru_cell_reset_after, lstm_cell
from .reduce import (
    arg_max,
    cum_sum,
    log_softmax,
    reduce_max,
    reduce_mean,
    reduce_min,
    reduce_prod,
    reduce_sum,
    softmax,
    softmax_grad,
)
from .rows import ifelse
from .sampled import hierarchical_sigmoid, nce_loss, random_classes
from .sequence.chunked_scan import pack_chunks, pad_chunks, scan_bounded
from .sequence.padded import PaddedSegments
from .sequence.parts import (
    sequence_concat,
    sequence_context,
    sequence_overhang,
    sequence_slice,
    sequence_top_k,
    sequence_windows,
)
from .sequence.segments import (
    Segments,
    pack_rows,
    pad_rows,
    permute_rows,
    repeat_rows,
    segment_max,
    segment_sum,
)
from .sequence.unroll import State, Step, unroll
from .shape import (
    arange,
    concat,
    depth_to_space,
    expand,
    expand_like,
    flatten,
    matrix_transpose,
    ones_like,
    pad,
    reshape,
    reshape_like,
    shape_of,
    size,
    size_of,
    slice,
    space_to_depth,
    split,
    squeeze,
    transpose,
    unsqueeze,
    zeros_like,
)
from .signal import dft
from .sparse import SparseRows
from .structured import crf_decode, crf_loss, ctc_loss

# Ops that only gradient rules add: they are in `ops`, but not names of `pd`, and documented apart.
GRADIENT_OPS = {
    *("avg_pool_grad", "binary_cross_entropy_grad", "conv_filter_grad", "conv_input_grad"),
    *("permute_rows", "log_probability_grad", "max_pool_grad", "max_pool_pick", "pack_chunks"),
    *("pack_rows", "pad_chunks", "pad_rows", "relu_grad", "repeat_rows", "segment_max"),
    *("segment_sum", "softmax_grad"),
}
