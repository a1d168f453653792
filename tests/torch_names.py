"""The names of PyTorch 2.13, and what they are here: `python -m tests.torch_names` writes a table.

It stands at the end of docs/from_pytorch.md. A name is there under its own name in pd, or as
`pd_core/graph/other_words.py` says, or as HOW says in one line; NO says why one is not.
"""

import re
from pathlib import Path

import pd_core as pd
from pd_core.graph.array_words import LINES
from pd_core.graph.other_words import NAMES

from . import array_names

PAGE = Path(__file__).resolve().parents[1] / "docs" / "from_pytorch.md"
HEADING = "## All names of torch.nn, torch.nn.functional and torch.optim\n"


def words(text):
    """The words of a text."""
    return text.split()


TORCH = {
    "torch.nn": words("""
        AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveLogSoftmaxWithLoss
        AdaptiveMaxPool1d AdaptiveMaxPool2d AdaptiveMaxPool3d AlphaDropout AvgPool1d AvgPool2d
        AvgPool3d BCELoss BCEWithLogitsLoss BatchNorm1d BatchNorm2d BatchNorm3d Bilinear Buffer
        CELU CTCLoss ChannelShuffle CircularPad1d CircularPad2d CircularPad3d ConstantPad1d
        ConstantPad2d ConstantPad3d Container Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d
        ConvTranspose3d CosineEmbeddingLoss CosineSimilarity CrossEntropyLoss CrossMapLRN2d
        DataParallel Dropout Dropout1d Dropout2d Dropout3d ELU Embedding EmbeddingBag
        FeatureAlphaDropout Flatten Fold FractionalMaxPool2d FractionalMaxPool3d GELU GLU GRU
        GRUCell GaussianNLLLoss GroupNorm Hardshrink Hardsigmoid Hardswish Hardtanh
        HingeEmbeddingLoss HuberLoss Identity InstanceNorm1d InstanceNorm2d InstanceNorm3d
        KLDivLoss L1Loss LPPool1d LPPool2d LPPool3d LSTM LSTMCell LayerNorm LazyBatchNorm1d
        LazyBatchNorm2d LazyBatchNorm3d LazyConv1d LazyConv2d LazyConv3d LazyConvTranspose1d
        LazyConvTranspose2d LazyConvTranspose3d LazyInstanceNorm1d LazyInstanceNorm2d
        LazyInstanceNorm3d LazyLinear LeakyReLU Linear LinearCrossEntropyLoss
        LinearCrossEntropyOptions LocalResponseNorm LogSigmoid LogSoftmax MSELoss
        MarginRankingLoss MaxPool1d MaxPool2d MaxPool3d MaxUnpool1d MaxUnpool2d MaxUnpool3d Mish
        Module ModuleDict ModuleList MultiLabelMarginLoss MultiLabelSoftMarginLoss MultiMarginLoss
        MultiheadAttention NLLLoss NLLLoss2d PReLU PairwiseDistance Parameter ParameterDict
        ParameterList PixelShuffle PixelUnshuffle PoissonNLLLoss RMSNorm RNN RNNBase RNNCell
        RNNCellBase RReLU ReLU ReLU6 ReflectionPad1d ReflectionPad2d ReflectionPad3d
        ReplicationPad1d ReplicationPad2d ReplicationPad3d SELU Sequential SiLU Sigmoid
        SmoothL1Loss SoftMarginLoss Softmax Softmax2d Softmin Softplus Softshrink Softsign
        SyncBatchNorm Tanh Tanhshrink Threshold Transformer TransformerDecoder
        TransformerDecoderLayer TransformerEncoder TransformerEncoderLayer TripletMarginLoss
        TripletMarginWithDistanceLoss Unflatten Unfold UninitializedBuffer UninitializedParameter
        Upsample UpsamplingBilinear2d UpsamplingNearest2d ZeroPad1d ZeroPad2d ZeroPad3d
    """),
    "torch.nn.functional": words("""
        adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d
        adaptive_max_pool1d_with_indices adaptive_max_pool2d adaptive_max_pool2d_with_indices
        adaptive_max_pool3d adaptive_max_pool3d_with_indices affine_grid alpha_dropout avg_pool1d
        avg_pool2d avg_pool3d batch_norm bilinear binary_cross_entropy
        binary_cross_entropy_with_logits celu celu_ channel_shuffle conv1d conv2d conv3d conv_tbc
        conv_transpose1d conv_transpose2d conv_transpose3d cosine_embedding_loss cosine_similarity
        cross_entropy ctc_loss dropout dropout1d dropout2d dropout3d elu elu_ embedding
        embedding_bag feature_alpha_dropout fold fractional_max_pool2d
        fractional_max_pool2d_with_indices fractional_max_pool3d
        fractional_max_pool3d_with_indices gaussian_nll_loss gelu glu grid_sample group_norm
        grouped_mm gumbel_softmax hardshrink hardsigmoid hardswish hardtanh hardtanh_
        hinge_embedding_loss huber_loss instance_norm interpolate kl_div l1_loss layer_norm
        leaky_relu leaky_relu_ linear linear_cross_entropy local_response_norm log_softmax
        logsigmoid lp_pool1d lp_pool2d lp_pool3d margin_ranking_loss max_pool1d
        max_pool1d_with_indices max_pool2d max_pool2d_with_indices max_pool3d
        max_pool3d_with_indices max_unpool1d max_unpool2d max_unpool3d mish mse_loss
        multi_head_attention_forward multi_margin_loss multilabel_margin_loss
        multilabel_soft_margin_loss native_channel_shuffle nll_loss normalize one_hot pad
        pairwise_distance pdist pixel_shuffle pixel_unshuffle poisson_nll_loss prelu relu relu6
        relu_ rms_norm rrelu rrelu_ scaled_dot_product_attention scaled_grouped_mm scaled_mm selu
        selu_ sigmoid silu smooth_l1_loss soft_margin_loss softmax softmin softplus softshrink
        softsign tanh tanhshrink threshold threshold_ triplet_margin_loss
        triplet_margin_with_distance_loss unfold upsample upsample_bilinear upsample_nearest
    """),
    "torch.optim": words("""
        ASGD Adadelta Adafactor Adagrad Adam AdamW Adamax AveragedModel ChainedScheduler
        ConstantLR CosineAnnealingLR CosineAnnealingWarmRestarts CyclicLR ExponentialLR LBFGS
        LRScheduler LambdaLR LinearLR MultiStepLR MultiplicativeLR Muon NAdam OneCycleLR Optimizer
        PolynomialLR RAdam RMSprop ReduceLROnPlateau Rprop SGD SWALR SequentialLR SparseAdam
        StepLR get_ema_avg_fn get_ema_multi_avg_fn get_swa_avg_fn get_swa_multi_avg_fn update_bn
    """),
}
# What modules of PyTorch have besides, and is for its own use.
INTERNAL = words("""
    BroadcastingList1 BroadcastingList2 BroadcastingList3 Callable DType
    GRID_SAMPLE_INTERPOLATION_MODES GRID_SAMPLE_PADDING_MODES Optional ScalingType SwizzleType
    TYPE_CHECKING Tensor assert_int_or_pair boolean_dispatch dataclasses grad
    handle_torch_function has_torch_function has_torch_function_unary has_torch_function_variadic
    importlib math np reproducibility_notes sparse_support_notes tf32_notes torch warnings
    attention common_types factory_kwargs functional init intrinsic modules parallel parameter qat
    quantizable quantized utils lr_scheduler swa_utils swap_in_optimizer_params_and_state
""")

_CHANNEL_DROPOUT = "`x * pd.dropout(pd.ones_like(x[:, :, :1]), rate)`, with as many `:1` as axes"
_CIRCULAR = '`pd.pad(x, before, after, mode="wrap")`'
_LP = "`pd.avg_pool` of x^p, times the size of the window, to the power of 1 / p"
_SHUFFLE = "`pd.reshape` into groups, `pd.transpose`, `pd.reshape` back"
_BAG = "`pd.segment_sum`, `pd.segment_mean` or `pd.segment_max` of the rows of `pd.nn.Embedding`"
_PLACES = "`pd.arg_max` of `pd.unfold` has the places"
_TRIPLET = "`pd.relu(distance(a, p) - distance(a, n) + margin)`"
_UNPOOL = (
    "`pd.gradients(pd.max_pool(x, k, strides=k), [x], [v])[0]`: v at the places of the maxima of x"
)
_LINEAR_COST = "`pd.nn.FC`, then `pd.nn.SoftmaxCrossEntropy`"
_UPSAMPLE = '`pd.interpolate(x, sizes, mode="nearest")` or another mode'
_AVERAGE = "`pd.MovingAverage`"


def _line(name):
    """What a function is in a line of others, of which errors tell, too."""
    return array_names.code(LINES[name])


HOW = {
    "Bilinear": '`pd.einsum("bi,oij,bj->bo", x, W, y)`',
    "Buffer": "`pd.nn.Layer.buffer(name, shape)` in `forward`",
    "ChannelShuffle": _SHUFFLE,
    **dict.fromkeys(("CircularPad1d", "CircularPad2d", "CircularPad3d"), _CIRCULAR),
    "CosineSimilarity": "`pd.cosine_similarity`",
    "CrossMapLRN2d": "`pd.local_response_norm`",
    "Dropout1d": _CHANNEL_DROPOUT,
    "Dropout2d": _CHANNEL_DROPOUT,
    "Dropout3d": _CHANNEL_DROPOUT,
    **dict.fromkeys(("EmbeddingBag", "embedding_bag"), _BAG),
    "Hardshrink": _line("hardshrink"),
    "HingeEmbeddingLoss": _line("hinge_embedding_loss"),
    **dict.fromkeys(("LPPool1d", "LPPool2d", "LPPool3d"), _LP),
    **dict.fromkeys(("lp_pool1d", "lp_pool2d", "lp_pool3d"), _LP),
    **dict.fromkeys(("LinearCrossEntropyLoss", "linear_cross_entropy"), _LINEAR_COST),
    "LogSigmoid": _line("logsigmoid"),
    "AlphaDropout": _line("alpha_dropout"),
    **{f"{kind}npool{n}d": _UNPOOL for kind in ("MaxU", "max_u") for n in (1, 2, 3)},
    "MultiMarginLoss": _line("multi_margin_loss"),
    "RReLU": _line("rrelu"),
    "MultiLabelSoftMarginLoss": _line("multilabel_soft_margin_loss"),
    "NLLLoss2d": "`pd.nn.NLL(axis=1)`",
    "PairwiseDistance": _line("pairwise_distance"),
    "ParameterDict": "a dict of `pd.Variable`s, an attribute of the layer",
    "ParameterList": "a list of `pd.Variable`s, an attribute of the layer",
    "RNNCell": "`pd.tanh(x @ W + h @ R + b)`",
    "SoftMarginLoss": _line("soft_margin_loss"),
    "Softmin": _line("softmin"),
    "Softshrink": _line("softshrink"),
    "Threshold": _line("threshold"),
    "Transformer": "lists of `pd.nn.TransformerEncoderLayer` and `pd.nn.TransformerDecoderLayer`",
    **dict.fromkeys(
        ("TripletMarginWithDistanceLoss", "triplet_margin_with_distance_loss"), _TRIPLET
    ),
    **dict.fromkeys(
        ("UninitializedBuffer", "UninitializedParameter"),
        "`pd.nn.Layer.parameter(name, shape)` in `forward`, when sizes are known",
    ),
    # of the same name here, but for other operands
    "conv1d": "`pd.conv(x, W, b)`; `pd.layer.conv1d` creates the filters",
    "conv2d": "`pd.conv(x, W, b)`; `pd.conv2d` creates the filters",
    "conv3d": "`pd.conv(x, W, b)`; `pd.layer.conv3d` creates the filters",
    "cross_entropy": "`pd.softmax_cross_entropy(x, y)`; `pd.cross_entropy` takes probabilities",
    "embedding": "`pd.gather(W, ids)`; `pd.embedding` creates the table",
    "linear": "`x @ pd.matrix_transpose(W) + b`; `pd.fc` creates the weights",
    "pad": "`pd.pad(x, before, after)`, with a width for each axis",
    # of the functions alone
    **dict.fromkeys(("adaptive_avg_pool1d", "adaptive_avg_pool3d"), "`pd.adaptive_avg_pool`"),
    **dict.fromkeys(("adaptive_max_pool1d", "adaptive_max_pool3d"), "`pd.adaptive_max_pool`"),
    "celu_": "`pd.celu`",
    **dict.fromkeys(("conv_transpose1d", "conv_transpose3d"), "`pd.conv_transpose`"),
    "dropout1d": _CHANNEL_DROPOUT,
    "dropout2d": _CHANNEL_DROPOUT,
    "dropout3d": _CHANNEL_DROPOUT,
    "elu_": "`pd.elu`",
    "hardtanh_": "`pd.hard_tanh`",
    "leaky_relu_": "`pd.leaky_relu`",
    **dict.fromkeys([f"max_pool{n}d_with_indices" for n in (2, 3)], _PLACES),
    "multi_head_attention_forward": "`pd.layer.multi_head_attention`",
    "relu_": "`pd.relu`",
    "selu_": "`pd.selu`",
    **dict.fromkeys(("upsample", "upsample_bilinear", "upsample_nearest"), _UPSAMPLE),
    # of optimizers
    "SGD": "`pd.SGDOptimizer`; with momentum `pd.MomentumOptimizer(rate_in_velocity=False)`",
    "RMSprop": "`pd.RMSPropOptimizer`, with momentum `rate_in_velocity=False`",
    "ASGD": "`pd.SGDOptimizer` and `pd.MovingAverage`",
    "AveragedModel": _AVERAGE,
    "get_ema_avg_fn": _AVERAGE,
    **dict.fromkeys(("get_swa_avg_fn", "get_swa_multi_avg_fn"), "`pd.MovingAverage(None)`"),
    "update_bn": "`pd.training.refresh_batch_norm`",
    "get_ema_multi_avg_fn": _AVERAGE,
    "ConstantLR": "`pd.schedules.Piecewise`, whose boundary is `total_iters - 1`",
    "LinearLR": "`pd.schedules.Warmup`, which begins with a rate of 0",
    "SequentialLR": "`lambda t: pd.where(t < k, first(t), second(t - k))`",
    "ChainedScheduler": "`lambda t: first(t) * second(t)`, a function of the number of steps",
    "CyclicLR": "`lambda t: low + (high - low) * (1.0 - abs(pd.mod(t / steps, 2.0) - 1.0))`",
    "LambdaLR": "`lambda t: 0.1 / (t + 1.0)`, a function of the number of steps",
    "MultiplicativeLR": "`pd.schedules.ExponentialDecay`, or a function of the number of steps",
    "Optimizer": "a subclass as in docs/extending.md, or `pd.assign` of new values",
}

_INDICES = "adaptive pooling returns no places"
_RANDOM = "windows of random sizes: hardly used"
_SELF_NORMAL = "dropout for SELU networks: hardly used; `pd.dropout` is for others"
_MARGIN = "a hinge loss of sets of classes: hardly used; `pd.nn.SigmoidCrossEntropy` is"
_QUANTIZED = "kernels for GPUs that ONNX Runtime lacks"
_BASE = "a base class of PyTorch's own"

NO = {
    "AdaptiveLogSoftmaxWithLoss": "`pd.hierarchical_sigmoid` and `pd.nce_loss` are for large "
    "vocabularies",
    **dict.fromkeys(("FeatureAlphaDropout", "feature_alpha_dropout"), _SELF_NORMAL),
    "Container": "deprecated in PyTorch",
    **dict.fromkeys(("FractionalMaxPool2d", "FractionalMaxPool3d"), _RANDOM),
    **{f"fractional_max_pool{n}d{end}": _RANDOM for n in (2, 3) for end in ("", "_with_indices")},
    "LinearCrossEntropyOptions": "settings of a fused kernel",
    **dict.fromkeys(("MultiLabelMarginLoss", "multilabel_margin_loss"), _MARGIN),
    **dict.fromkeys(("RNNBase", "RNNCellBase", "LRScheduler"), _BASE),
    **{f"adaptive_max_pool{n}d_with_indices": _INDICES for n in (1, 2, 3)},
    **dict.fromkeys(("grouped_mm", "scaled_grouped_mm", "scaled_mm"), _QUANTIZED),
    "Rprop": "for full batches only; `pd.LBFGSOptimizer` is better there",
    "SWALR": "it depends on the rate before; set `optimizer.learning_rate` before a step",
}


def found(module, name):
    """Return (kind, text) for a name: "same", "here", "how" or "no", and what the table says."""
    if module == "torch.nn.functional" and name.removesuffix("_") in LINES:
        return "how", _line(name.removesuffix("_"))
    if name in HOW:
        return "how", HOW[name]
    if module == "torch.nn" and name in pd.nn.__all__:
        return "same", f"pd.nn.{name}"
    if module == "torch.nn.functional" and name in pd.__all__:
        return "same", f"pd.{name}"
    if module == "torch.optim" and f"{name}Optimizer" in pd.__all__:
        return "here", f"pd.{name}Optimizer"
    if name in NAMES:
        return "here", NAMES[name]
    return "no", NO[name]


def rows():
    """Return (module, name, kind, text) of all names."""
    return [(m, name, *found(m, name)) for m, names in TORCH.items() for name in names]


def shares():
    """Return {module: (there, as a line, missing)}."""
    counts = {module: [0, 0, 0] for module in TORCH}
    for module, _, kind, _ in rows():
        counts[module][{"same": 0, "here": 0, "how": 1, "no": 2}[kind]] += 1
    return counts


def ours(text):
    """Return the names of pd that a text has, such as `pd.nn.FC`."""
    return re.findall(r"\bpd((?:\.[A-Za-z_]\w*)+)", text)


def section():
    """Return the section of the page: a table of shares, then the names of each module."""
    lines = [
        HEADING,
        "Generated by `python -m tests.torch_names` for PyTorch 2.13, and kept true by a test.",
        "",
        "| module | there | in a line of others | no | share |",
        "|---|---|---|---|---|",
    ]
    for module, (there, how, no) in shares().items():
        share = round(100 * (there + how) / (there + how + no))
        lines.append(f"| `{module}` | {there} | {how} | {no} | {share} % |")
    for module in TORCH:
        own = [(name, kind, text) for m, name, kind, text in rows() if m == module]
        same = [f"`{name}`" for name, kind, _ in own if kind == "same"]
        lines += ["", f"### {module}", ""]
        if same:
            lines += [f"Under the same name: {', '.join(same)}.", ""]
        lines += ["| PyTorch | here |", "|---|---|"]
        texts: dict[str, list[str]] = {}
        for name, kind, text in own:
            if kind != "same":
                said = text if "`" in text or kind != "here" else _code(text)
                texts.setdefault(f"no: {said}" if kind == "no" else said, []).append(f"`{name}`")
        lines += [f"| {', '.join(names)} | {text} |" for text, names in texts.items()]
    return "\n".join(lines) + "\n"


def _code(text):
    """Put the expression that a text begins with into backticks; commas in brackets are its own."""
    text, semicolon, rest = text.partition("; ")
    parts = text.split(", ")
    for k in range(1, len(parts) + 1):
        expression = ", ".join(parts[:k])
        if expression.count("(") == expression.count(")"):
            break
    return f"`{expression}`" + "".join(f", {part}" for part in parts[k:]) + semicolon + rest


def page():
    """Return docs/from_pytorch.md with the section as it has to be."""
    text = PAGE.read_text("utf-8")
    before = text.partition(HEADING)[0].rstrip("\n")
    return f"{before}\n\n{section()}"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
    array_names.PAGE.write_text(array_names.page(), "utf-8")
    for module, counts in {**shares(), **array_names.shares()}.items():
        print(module, *counts)
