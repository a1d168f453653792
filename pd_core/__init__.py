"""A graph of ONNX nodes that can be differentiated and trained on stock ONNX Runtime."""

# isort: skip_file
# fmt: off
from typing import TYPE_CHECKING as _TYPE_CHECKING

from . import distributed, interchange, nn, training, tuning
from .backend.devices import devices, register_devices
from .backend.fallbacks import fallbacks
from .dynamic import (
    Placeholder, disable_dynamic, enable_dynamic, guard, no_grad, to_variable,
)
from .gradients import (
    custom_gradient, gradients, hessian, hessian_vector_product, jacobian, jvp, recompute,
)
from .graph.errors import (
    BackendError, CompilerError, DamagedFile, DamagedModel, DTypeError, ExportError, FeedError,
    GraphError, LoadWarning, MissingFeed, ModelError, NameConflict, NoGradient, NotComputed,
    NotInitialized, NumericError, OutOfRange, PlaceError, ShapeError,
)
from .graph.initializers import MSRA, LeCun, Orthogonal, TruncatedNormal, Xavier
from .graph.initializers import Constant as constant_initializer
from .graph.initializers import FromFile as file_initializer
from .graph.initializers import Gaussian as gaussian_initializer
from .graph.initializers import Uniform as uniform_initializer
from .graph.initializers import zero as zero_initializer
from .graph.names import adopt, clear_names, current_namespace, fresh_names
from .graph.namespace import get_variable, namespace, persistent_variables, trainable_variables
from .graph.public_modules import place_names_in as _place_names
from .graph.update import Update, assign, effects
from .graph.variable import Variable, constant
from .layers import functional as layer
from .layers.drawing import draw
from .layers.functional import conv2d, embedding, fc, gru, lstm, simple_rnn, softmax
from .layers.graph_summary import summary
from .onnx.exporting.export import export_onnx
from .onnx.exporting.training_export import export_step
from .onnx.importing import ImportedModel, import_onnx
from .ops import (
    BeamExpansion, PaddedSegments, Segments, SparseRows, State, Step, abs, acos, acosh,
    adaptive_avg_pool, adaptive_max_pool, add, affine_grid, arange, arg_max, arg_min, argsort, asin,
    asinh, atan, atan2, atanh, attention, avg_pool, batch_norm, beam_search, bernoulli,
    binary_cross_entropy, bitwise_and, bitwise_not, bitwise_or, bitwise_xor, box_overlaps, cast,
    categorical, cdist, ceil, celu, cholesky,
    chunk, classification_error, clip, clip_gradient, concat, cond,
    contrastive_loss, conv, conv_transpose, cos, cosh, cosine_embedding_loss, cosine_similarity,
    count_nonzero, crf_decode, crf_loss, cross, cross_entropy, cross_entropy_over_beam, ctc_loss,
    cum_prod, cum_sum, decode_boxes, depth_to_space, det, detect_objects, dft, diag_embed, diagonal,
    dice_loss, digamma, distributions, div, dropout, einsum, elu, encode_boxes, equal, erf, erfinv,
    exp, expand, expand_like, expm1, exponential_random, eye, flatten, flip, floor, floor_div, fmod,
    focal_loss, fold, for_loop, full, full_like, gather, gather_elements, gather_nd,
    gaussian_nll_loss, gaussian_random, gelu, global_avg_pool, global_max_pool, glu, greater_equal,
    greater_than, grid_sample, group_norm, gru_cell, gru_cell_reset_after, gumbel_softmax,
    hard_sigmoid, hard_swish, hard_tanh, hierarchical_sigmoid, hinge_loss, histogram, huber_loss,
    identity, ifelse, im2col, index_add, index_update, instance_norm, interpolate, is_close,
    is_finite, is_inf, is_nan, kl_divergence, l1_loss, l2_normalize, label_weights, lambda_rank,
    layer_norm, leaky_relu, lerp, less_equal, less_than, lgamma, linspace, local_response_norm, log,
    log1p, log2, log10, log_probability, log_softmax, logaddexp, logical_and, logical_not,
    logical_or, logical_xor, logsumexp, lstm_cell, margin_ranking_loss, match_boxes, matmul,
    matrix_transpose, max_pool, maximum, median, meshgrid, minimum, mish, mod, mode_switch,
    move_axis, mul, multibox_loss, multinomial, nan_to_num, nce_loss, ndcg, neg,
    negative_log_likelihood, non_max_suppression, nonzero, norm, odeint, one_hot, ones, ones_like,
    pad, permutation, poisson_nll_loss, pool2d, pow, prelu, prior_boxes, quantile, randint,
    random_classes, reciprocal, reduce_all, reduce_any, reduce_max, reduce_mean, reduce_min,
    reduce_prod, reduce_sum, relu, relu6, repeat, reshape, reshape_like, rms_norm, rnn,
    roi_max_pool, roll, rotary_embedding, round, rsqrt, scale_gradient, scan, scan_bounded, scatter,
    scatter_add, scatter_nd, searchsorted, segment_max, segment_mean, segment_min, segment_softmax,
    segment_sum, selu, sequence_concat, sequence_context, sequence_overhang, sequence_ranks,
    sequence_slice, sequence_top_k, sequence_windows, shape_of, sigmoid, sigmoid_cross_entropy,
    sign, silu, sin, sinh, size, size_of, slice, softmax_cross_entropy, softplus, softsign,
    solve_triangular, sort,
    space_to_depth, split, sqrt, square, square_error, squeeze, stack, std, stochastic_depth,
    stop_gradient, straight_through, sub, sum_over_ranks, swap_axes, tan, tanh, tanhshrink, tile,
    top_k, transpose, tril, triplet_loss, triu, trunc, unfold, uniform_random, unique, unroll,
    unsqueeze, unstack, var, vmap, where, while_loop, while_op, xlogy, zeros, zeros_like,
)
from .ops.autocast import autocast
from .ops.operator import apply
from .optimizers import schedules
from .optimizers.adafactor import AdaFactorOptimizer
from .optimizers.adam_variants import NAdamOptimizer, RAdamOptimizer
from .optimizers.adaptive import (
    AdaDeltaOptimizer, AdaGradOptimizer, AdamaxOptimizer, AdamWOptimizer, DecayedAdaGradOptimizer,
    RMSPropOptimizer,
)
from .optimizers.averaging import MovingAverage
from .optimizers.base import AdamOptimizer, MomentumOptimizer, SGDOptimizer
from .optimizers.decoupled import LAMBOptimizer, LionOptimizer
from .optimizers.lbfgs import LBFGSOptimizer
from .optimizers.muon import MuonOptimizer
from .optimizers.lookahead import Lookahead
from .optimizers.loss_scaling import LossScaler
from .optimizers.regularizers import L1, L2, ClipElements, ClipGlobalNorm, ClipNorm
from .run.evaluation import eval, run_steps, stats, subgraph, variable_initializers
from .run.freeing import clear_programs
from .run.fusion import fused
from .run.numerics.checking import check_numerics
from .run.parameters import load, save
from .run.profiling.profile import profile
from .run.session import (
    Session, default_session, fresh, on_reset, reset, use_device,
)
from .storage.atomic import atomic_write
from .training import metrics
from .training.tuning.fake_quantization import prepare_qat
from .training.tuning.low_rank import lora
from .training.tuning.tuned_file import export_tuned
from .version import __version__

if _TYPE_CHECKING:
    from . import sklearn as sklearn

# For type checkers, to which an import alone is private.
__all__ = [
    "L1", "L2", "MSRA", "AdaDeltaOptimizer", "AdaFactorOptimizer", "AdaGradOptimizer",
    "AdamOptimizer", "AdamWOptimizer", "AdamaxOptimizer", "BackendError", "BeamExpansion",
    "ClipElements", "ClipGlobalNorm", "ClipNorm", "CompilerError", "DTypeError", "DamagedFile",
    "DamagedModel", "DecayedAdaGradOptimizer", "ExportError", "FeedError", "GraphError",
    "ImportedModel",
    "LAMBOptimizer", "LBFGSOptimizer", "LeCun", "LionOptimizer", "LoadWarning", "Lookahead",
    "LossScaler", "MissingFeed", "ModelError", "MomentumOptimizer", "MovingAverage",
    "MuonOptimizer", "NAdamOptimizer", "NameConflict", "NoGradient", "NotComputed",
    "NotInitialized", "NumericError", "Orthogonal", "OutOfRange", "PaddedSegments", "PlaceError",
    "Placeholder", "RAdamOptimizer", "RMSPropOptimizer", "SGDOptimizer", "Segments", "Session",
    "ShapeError", "SparseRows", "State", "Step", "TruncatedNormal", "Update", "Variable", "Xavier",
    "__version__",
    "abs", "acos", "acosh", "adaptive_avg_pool", "adaptive_max_pool", "add", "adopt", "affine_grid",
    "apply", "arange", "arg_max", "arg_min", "argsort", "asin", "asinh", "assign", "atan", "atan2",
    "atanh", "atomic_write", "attention", "autocast", "avg_pool", "batch_norm", "beam_search",
    "bernoulli", "binary_cross_entropy", "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor",
    "box_overlaps", "cast", "categorical", "cdist", "ceil", "celu", "check_numerics",
    "cholesky", "chunk",
    "classification_error", "clear_names", "clear_programs", "clip", "clip_gradient", "concat",
    "cond", "constant", "constant_initializer", "contrastive_loss", "conv", "conv2d",
    "conv_transpose", "cos", "cosh", "cosine_embedding_loss", "cosine_similarity", "count_nonzero",
    "crf_decode", "crf_loss", "cross", "cross_entropy", "cross_entropy_over_beam", "ctc_loss",
    "cum_prod", "cum_sum", "current_namespace", "custom_gradient", "decode_boxes",
    "default_session", "depth_to_space", "det", "detect_objects", "devices", "dft", "diag_embed",
    "diagonal", "dice_loss", "digamma", "disable_dynamic", "distributed", "distributions", "div",
    "draw", "dropout", "effects", "einsum", "elu", "embedding", "enable_dynamic", "encode_boxes",
    "equal", "erf", "erfinv", "eval", "exp", "expand", "expand_like", "expm1", "exponential_random",
    "export_onnx", "export_step", "export_tuned", "eye", "fallbacks", "fc", "file_initializer",
    "flatten", "flip", "floor", "floor_div", "fmod", "focal_loss", "fold", "for_loop", "fresh",
    "fresh_names", "full", "full_like", "fused", "gather", "gather_elements", "gather_nd",
    "gaussian_initializer", "gaussian_nll_loss", "gaussian_random", "gelu", "get_variable",
    "global_avg_pool", "global_max_pool", "glu", "gradients", "greater_equal", "greater_than",
    "grid_sample", "group_norm", "gru", "gru_cell", "gru_cell_reset_after", "guard",
    "gumbel_softmax", "hard_sigmoid", "hard_swish", "hard_tanh", "hessian",
    "hessian_vector_product", "hierarchical_sigmoid", "hinge_loss", "histogram", "huber_loss",
    "identity", "ifelse", "im2col", "import_onnx", "index_add", "index_update", "instance_norm",
    "interchange", "interpolate", "is_close", "is_finite", "is_inf", "is_nan", "jacobian", "jvp",
    "kl_divergence", "l1_loss", "l2_normalize", "label_weights", "lambda_rank", "layer",
    "layer_norm", "leaky_relu", "lerp", "less_equal", "less_than", "lgamma", "linspace", "load",
    "local_response_norm", "log", "log1p", "log2", "log10", "log_probability", "log_softmax",
    "logaddexp", "logical_and", "logical_not", "logical_or", "logical_xor", "logsumexp", "lora",
    "lstm", "lstm_cell", "margin_ranking_loss", "match_boxes", "matmul", "matrix_transpose",
    "max_pool", "maximum", "median", "meshgrid", "metrics", "minimum", "mish", "mod", "mode_switch",
    "move_axis", "mul", "multibox_loss", "multinomial", "namespace", "nan_to_num", "nce_loss",
    "ndcg", "neg", "negative_log_likelihood", "nn", "no_grad", "non_max_suppression", "nonzero",
    "norm", "odeint", "on_reset", "one_hot", "ones", "ones_like", "pad", "permutation",
    "persistent_variables", "poisson_nll_loss", "pool2d", "pow", "prelu", "prepare_qat",
    "prior_boxes", "profile", "quantile", "randint", "random_classes", "reciprocal", "recompute",
    "reduce_all", "reduce_any", "reduce_max", "reduce_mean", "reduce_min", "reduce_prod",
    "reduce_sum", "register_devices", "relu", "relu6", "repeat", "reset", "reshape", "reshape_like",
    "rms_norm", "rnn", "roi_max_pool", "roll", "rotary_embedding", "round", "rsqrt", "run_steps",
    "save", "scale_gradient", "scan", "scan_bounded", "scatter", "scatter_add", "scatter_nd",
    "schedules", "searchsorted", "segment_max", "segment_mean", "segment_min", "segment_softmax",
    "segment_sum", "selu", "sequence_concat", "sequence_context", "sequence_overhang",
    "sequence_ranks", "sequence_slice", "sequence_top_k", "sequence_windows", "shape_of", "sigmoid",
    "sigmoid_cross_entropy", "sign", "silu", "simple_rnn", "sin", "sinh", "size", "size_of",
    "slice", "softmax", "softmax_cross_entropy", "softplus", "softsign",
    "solve_triangular", "sort", "space_to_depth",
    "split", "sqrt", "square", "square_error", "squeeze", "stack", "stats", "std",
    "stochastic_depth", "stop_gradient", "straight_through", "sub", "subgraph", "sum_over_ranks",
    "summary", "swap_axes", "tan", "tanh", "tanhshrink", "tile", "to_variable", "top_k",
    "trainable_variables", "training", "transpose", "tril", "triplet_loss", "triu", "trunc",
    "tuning", "unfold", "uniform_initializer", "uniform_random", "unique", "unroll", "unsqueeze",
    "unstack", "use_device", "var", "variable_initializers", "vmap", "where", "while_loop",
    "while_op", "xlogy", "zero_initializer", "zeros", "zeros_like",
]
# fmt: on

# scikit-learn is imported when it is asked for
_place_names(__name__, "pd", asked_for=["sklearn"])
