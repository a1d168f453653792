"""The words of PyTorch and Keras, and where what they mean is found here.

They are no second names: what they are asked for is an error that says our word. Entries begin with
an expression that exists, which tests evaluate; in those of methods `x` is a Variable, `layer` a
layer or module, `optimizer` an optimizer.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar

from .array_words import LINES, WITHOUT

P = ParamSpec("P")
R = TypeVar("R")

# fmt: off
LAYERS = {
    "AdaptiveAvgPool1d": "pd.adaptive_avg_pool", "AdaptiveAvgPool3d": "pd.adaptive_avg_pool",
    "AdaptiveMaxPool1d": "pd.adaptive_max_pool", "AdaptiveMaxPool3d": "pd.adaptive_max_pool",
    "BCELoss": "pd.binary_cross_entropy", "BCEWithLogitsLoss": "pd.nn.SigmoidCrossEntropy",
    "BatchNorm": "pd.nn.BatchNorm2d, or BatchNorm1d",
    "CELU": "pd.celu", "CTCLoss": "pd.ctc_loss", "CosineEmbeddingLoss": "pd.cosine_embedding_loss",
    "ConstantPad1d": "pd.pad", "ConstantPad2d": "pd.pad", "ConstantPad3d": "pd.pad",
    "CrossEntropyLoss": "pd.nn.SoftmaxCrossEntropy", "GRUCell": "pd.gru_cell_reset_after",
    "GaussianNLLLoss": "pd.nn.GaussianNLL", "Hardsigmoid": "pd.nn.HardSigmoid",
    "Hardswish": "pd.nn.HardSwish", "Hardtanh": "pd.nn.HardTanh", "HuberLoss": "pd.nn.Huber",
    "Identity": "pd.nn.Lambda(pd.identity)",
    "KLDivLoss": "pd.nn.KLDiv, with the mean of the rows (batchmean)", "L1Loss": "pd.nn.L1",
    "LSTMCell": "pd.lstm_cell", "LazyBatchNorm1d": "pd.nn.BatchNorm1d",
    "LazyBatchNorm2d": "pd.nn.BatchNorm2d", "LazyBatchNorm3d": "pd.nn.BatchNorm3d",
    "LazyConv1d": "pd.nn.Conv1d",
    "LazyConv2d": "pd.nn.Conv2d", "LazyConv3d": "pd.nn.Conv3d",
    "LazyConvTranspose1d": "pd.nn.ConvTranspose1d", "LazyConvTranspose2d": "pd.nn.ConvTranspose2d",
    "LazyConvTranspose3d": "pd.nn.ConvTranspose3d", "LazyInstanceNorm1d": "pd.nn.InstanceNorm1d",
    "LazyInstanceNorm2d": "pd.nn.InstanceNorm2d", "LazyInstanceNorm3d": "pd.nn.InstanceNorm3d",
    "LazyLinear": "pd.nn.FC(size)",
    "Linear": "pd.nn.FC(size), which sees the size of its input in the first call",
    "LocalResponseNorm": "pd.local_response_norm", "MSELoss": "pd.nn.MSE",
    "MarginRankingLoss": "pd.margin_ranking_loss", "ModuleDict": "pd.nn.LayerDict",
    "ModuleList": "pd.nn.LayerList", "MultiheadAttention": "pd.nn.MultiHeadAttention",
    "NLLLoss": "pd.nn.NLL",
    "PixelShuffle": "pd.depth_to_space(x, block, mode='CRD')",
    "PixelUnshuffle": "pd.unfold(x, block, strides=block), reshaped",
    "PoissonNLLLoss": "pd.nn.PoissonNLL",
    "ReflectionPad1d": "pd.pad(mode='reflect')", "ReflectionPad2d": "pd.pad(mode='reflect')",
    "ReflectionPad3d": "pd.pad(mode='reflect')", "ReplicationPad1d": "pd.pad(mode='edge')",
    "ReplicationPad2d": "pd.pad(mode='edge')", "ReplicationPad3d": "pd.pad(mode='edge')",
    "SmoothL1Loss": "pd.nn.Huber(beta), divided by beta", "Softmax2d": "pd.nn.Softmax(axis=1)",
    "SyncBatchNorm": "pd.distributed.init(sync_batch_norm=True)", "Tanhshrink": "pd.tanhshrink",
    "TransformerDecoder": "pd.nn.LayerList of TransformerDecoderLayers",
    "TransformerEncoder": "pd.nn.Sequential of TransformerEncoderLayers",
    "TripletMarginLoss": "pd.nn.Triplet", "Unflatten": "pd.reshape",
    "Upsample": "pd.interpolate", "UpsamplingBilinear2d": "pd.interpolate",
    "UpsamplingNearest2d": "pd.interpolate", "ZeroPad1d": "pd.pad", "ZeroPad2d": "pd.pad",
    "ZeroPad3d": "pd.pad", "DataParallel": "pd.distributed", "Parameter": "pd.Variable",
    "init": "pd.Xavier, pd.MSRA and the other initializers, or a name such as 'he_uniform'",
    # of Keras, where they are others
    "Activation": "pd.nn.ReLU and others, or act='relu' of a layer",
    "AveragePooling1D": "pd.nn.AvgPool1d", "AveragePooling2D": "pd.nn.AvgPool2d",
    "AveragePooling3D": "pd.nn.AvgPool3d",
    "BatchNormalization": "pd.nn.BatchNorm2d, or BatchNorm1d",
    "Bidirectional": "pd.nn.LSTM(hidden, bidirectional=True)", "Concatenate": "pd.concat",
    "Conv1D": "pd.nn.Conv1d", "Conv1DTranspose": "pd.nn.ConvTranspose1d", "Conv2D": "pd.nn.Conv2d",
    "Conv2DTranspose": "pd.nn.ConvTranspose2d", "Conv3D": "pd.nn.Conv3d",
    "Conv3DTranspose": "pd.nn.ConvTranspose3d",
    "Dense": "pd.nn.FC(size), which sees the size of its input in the first call",
    "DepthwiseConv2D": "pd.nn.Conv2d(filters, kernel, groups=filters)",
    "GlobalAveragePooling2D": "pd.nn.GlobalAvgPool2d",
    "GlobalMaxPooling2D": "pd.nn.GlobalMaxPool2d",
    "GroupNormalization": "pd.nn.GroupNorm", "LayerNormalization": "pd.nn.LayerNorm",
    "MaxPooling1D": "pd.nn.MaxPool1d", "MaxPooling2D": "pd.nn.MaxPool2d",
    "MaxPooling3D": "pd.nn.MaxPool3d", "Permute": "pd.transpose",
    "RMSNormalization": "pd.nn.RMSNorm",
    "Reshape": "pd.reshape", "SimpleRNN": "pd.nn.RNN", "UpSampling2D": "pd.interpolate",
    "ZeroPadding2D": "pd.pad", "Input": "pd.Placeholder([None, size]), with the axis of the batch",
    "Model": "pd.nn.Module",
    "BinaryCrossentropy": "pd.nn.SigmoidCrossEntropy, of logits",
    "CategoricalCrossentropy": "pd.nn.SoftmaxCrossEntropy, of logits",
    "SparseCategoricalCrossentropy": "pd.nn.SoftmaxCrossEntropy, of logits",
    "KLDivergence": "pd.nn.KLDiv", "MeanAbsoluteError": "pd.nn.L1", "MeanSquaredError": "pd.nn.MSE",
}
OPTIMIZERS = {
    "Adadelta": "pd.AdaDeltaOptimizer", "Adafactor": "pd.AdaFactorOptimizer",
    "Adagrad": "pd.AdaGradOptimizer", "Adam": "pd.AdamOptimizer", "AdamW": "pd.AdamWOptimizer",
    "Adamax": "pd.AdamaxOptimizer", "LBFGS": "pd.LBFGSOptimizer", "NAdam": "pd.NAdamOptimizer",
    "RAdam": "pd.RAdamOptimizer", "RMSprop": "pd.RMSPropOptimizer",
    "SGD": "pd.SGDOptimizer, or pd.MomentumOptimizer, with rate_in_velocity=False as PyTorch's",
    "SparseAdam": "pd.AdamOptimizer, of what has row_sparse=True",
    "Lamb": "pd.LAMBOptimizer", "Lion": "pd.LionOptimizer", "Nadam": "pd.NAdamOptimizer",
    "LossScaleOptimizer": "pd.LossScaler", "GradScaler": "pd.LossScaler",
    "optim": "pd.AdamOptimizer and its like, names of pd",
    # schedules are what an optimizer gets instead of a number
    "CosineAnnealingLR": "pd.schedules.CosineDecay, which stays at its end",
    "MultiStepLR": "pd.schedules.Piecewise, whose boundaries are the milestones less 1",
    "CosineAnnealingWarmRestarts": "pd.schedules.CosineRestarts",
    "ExponentialLR": "pd.schedules.ExponentialDecay", "LinearLR": "pd.schedules.Warmup, from 0",
    "OneCycleLR": "pd.schedules.OneCycle", "PolynomialLR": "pd.schedules.PolynomialDecay",
    "ReduceLROnPlateau": "pd.schedules.ReduceOnPlateau",
    "AveragedModel": "pd.MovingAverage(None)", "EMA": "pd.MovingAverage",
    "ExponentialMovingAverage": "pd.MovingAverage",
    "StepLR": "pd.schedules.ExponentialDecay(rate, decay, every, staircase=True)",
    "PiecewiseConstantDecay": "pd.schedules.Piecewise", "lr_scheduler": "pd.schedules",
}
FUNCTIONS = {
    "Tensor": "pd.Variable", "as_tensor": "pd.to_variable", "from_numpy": "pd.to_variable",
    "tensor": "pd.to_variable", "absolute": "pd.abs", "arccos": "pd.acos", "arcsin": "pd.asin",
    "arctan": "pd.atan", "arctan2": "pd.atan2", "argmax": "pd.arg_max(x, axis)",
    "argmin": "pd.arg_min(x, axis)",
    "shape": "pd.shape_of(x), or x.shape where sizes are known",
    "autograd": "pd.gradients", "grad": "pd.gradients", "bmm": "pd.matmul", "mm": "pd.matmul",
    "dot": "pd.matmul", "broadcast_to": "pd.expand", "cat": "pd.concat", "concatenate": "pd.concat",
    "clamp": "pd.clip", "cuda": "pd.use_device('cuda:0')", "device": "pd.use_device",
    "cumprod": "pd.cum_prod", "cumsum": "pd.cum_sum", "eq": "pd.equal", "ge": "pd.greater_equal",
    "gt": "pd.greater_than", "le": "pd.less_equal", "lt": "pd.less_than",
    "greater": "pd.greater_than",
    "less": "pd.less_than", "floor_divide": "pd.floor_div", "divide": "pd.div",
    "multiply": "pd.mul", "subtract": "pd.sub", "negative": "pd.neg", "index_select": "pd.gather",
    "inference_mode": "pd.no_grad", "isclose": "pd.is_close", "isfinite": "pd.is_finite",
    "isinf": "pd.is_inf", "isnan": "pd.is_nan", "manual_seed": "pd.reset(seed)",
    "masked_fill": "pd.where", "amax": "pd.reduce_max", "amin": "pd.reduce_min",
    "max": "pd.reduce_max, or pd.maximum of two", "mean": "pd.reduce_mean",
    "min": "pd.reduce_min, or pd.minimum of two", "sum": "pd.reduce_sum", "prod": "pd.reduce_prod",
    "all": "pd.reduce_all", "any": "pd.reduce_any", "moveaxis": "pd.move_axis",
    "movedim": "pd.move_axis", "numel": "pd.size", "permute": "pd.transpose",
    "randn": "pd.gaussian_random", "normal": "pd.gaussian_random", "rand": "pd.uniform_random",
    "randperm": "pd.permutation", "remainder": "pd.mod", "repeat_interleave": "pd.repeat",
    "swapaxes": "pd.swap_axes", "take_along_dim": "pd.gather_elements", "topk": "pd.top_k",
    "unbind": "pd.unstack",
    "linear": "pd.fc", "conv1d": "pd.conv", "conv3d": "pd.conv",
    "conv_transpose2d": "pd.conv_transpose",
    **dict.fromkeys(("max_pool1d", "max_pool2d", "max_pool3d"),
                    "pd.max_pool(x, window, strides=window); strides are 1 by default"),
    **dict.fromkeys(("avg_pool1d", "avg_pool2d", "avg_pool3d"),
                    "pd.avg_pool(x, window, strides=window, include_pad=True)"),
    "adaptive_avg_pool2d": "pd.adaptive_avg_pool", "adaptive_max_pool2d": "pd.adaptive_max_pool",
    "binary_cross_entropy_with_logits": "pd.sigmoid_cross_entropy", "hardtanh": "pd.hard_tanh",
    "hardsigmoid": "pd.hard_sigmoid", "hardswish": "pd.hard_swish", "kl_div": "pd.kl_divergence",
    "mse_loss": "pd.nn.MSE", "nll_loss": "pd.negative_log_likelihood",
    "normalize": "pd.l2_normalize(x, axis=1), by default of the last axis",
    "pixel_shuffle": "pd.depth_to_space(x, block, mode='CRD')",
    "smooth_l1_loss": "pd.huber_loss(x, target, beta), divided by beta",
    "scaled_dot_product_attention": "pd.attention", "triplet_margin_loss": "pd.triplet_loss",
    "clip_grad_norm_": "pd.ClipGlobalNorm, the clip of an optimizer",
    "DataLoader": "pd.training.ArrayReader, or arrays in Module.fit", "utils": "pd.training",
    "compile": "pd.eval, which compiles what it evaluates", "jit": "pd.eval, which compiles",
    "losses": "pd.nn.MSE and its like, names of pd.nn", "models": "pd.nn.Module",
    "callbacks": "pd.training", "EarlyStopping": "pd.training.StopEarly",
    "ModelCheckpoint": "pd.training.SaveEvery", "TensorBoard": "pd.training.Log",
}
# fmt: on
NAMES = {**FUNCTIONS, **OPTIMIZERS, **LAYERS}

_DTYPES = ("bfloat16", "bool", "double", "float", "half", "int", "long")
_DEVICE = "pd.use_device('cuda:0'), before anything is computed; all values are there"
VARIABLE = {
    **{name: f"x.astype({name if name != 'long' else 'int64'!r})" for name in _DTYPES},
    **{name: f"pd.{ours}" for name, ours in [("clamp", "clip(x, low, high)")]},
    "add": "x + y",
    "assign": "pd.assign(x, value)",
    "bmm": "x @ y",
    "broadcast_to": "x.expand(shape)",
    "chunk": "pd.chunk(x, n)",
    "clone": "pd.identity(x)",
    "contiguous": "x itself, which always is",
    "cpu": "x.numpy(), an array",
    "cuda": _DEVICE,
    "data": "x.numpy(), or x.detach()",
    "device": "pd.default_session().device",
    "dim": "x.rank",
    "div": "x / y",
    "eq": "pd.equal(x, y)",
    "expand_as": "pd.expand_like(x, y)",
    "gather": "pd.gather_elements(x, index, axis)",
    "grad": "x.gradient(), after backward()",
    "index_select": "pd.gather(x, index, axis)",
    "isnan": "pd.is_nan(x)",
    "masked_fill": "pd.where(mask, value, x)",
    "mm": "x @ y",
    "mul": "x * y",
    "ndimension": "x.rank",
    "nelement": "pd.size(x)",
    "numel": "pd.size(x)",
    "permute": "x.transpose(axes)",
    "requires_grad": "x.trainable of a parameter, or x.stop_gradient",
    "requires_grad_": "x.trainable of a parameter, or x.stop_gradient",
    "size": "x.shape",
    "split": "pd.split(x, sizes, axis)",
    "sub": "x - y",
    "swapaxes": "pd.swap_axes(x, a, b)",
    "t": "x.T",
    "to": _DEVICE + ", or x.astype(dtype)",
    "tolist": "x.numpy().tolist()",
    "tril": "pd.tril(x)",
    "triu": "pd.triu(x)",
    "type": "x.dtype",
    "unbind": "pd.unstack(x, axis)",
    "view": "x.reshape(shape)",
    "view_as": "pd.reshape_like(x, y)",
    "where": "pd.where(condition, x, y)",
    **dict.fromkeys(("values", "indices"), "pd.sort, pd.argsort, x.max(axis=…), x.argmax(axis)"),
    "zero_": "pd.assign(x, pd.zeros_like(x))",
}
LAYER = {
    **dict.fromkeys(("bfloat16", "half"), "pd.autocast, a `with`"),
    **dict.fromkeys(("double", "float"), "layer.forward with inputs of that dtype"),
    **dict.fromkeys(("cpu", "cuda", "to"), _DEVICE),
    **dict.fromkeys(("modules", "submodules"), "layer.sublayers()"),
    **dict.fromkeys(("named_children", "named_modules"), "layer.named_sublayers()"),
    **dict.fromkeys(("add_module", "register_module"), "layer.name = other, an attribute"),
    **dict.fromkeys(
        ("trainable_variables", "trainable_weights", "weights", "variables"), "layer.parameters()"
    ),
    "build": "layer.infer_shape(shape)",
    "call": "layer.forward, which a class defines",
    "count_params": "layer.parameters(); pd.summary counts them",
    "extra_repr": "layer.extra()",
    **dict.fromkeys(
        ("compile", "evaluate", "fit", "predict"),
        "pd.nn.Module, whose forward calls this layer: it has fit, evaluate and predict",
    ),
    "get_parameter": "layer.named_parameters()",
    "get_weights": "layer.state_dict()",
    "layers": "layer.children()",
    "load_state_dict": "layer.load_dict(values); PyTorch's are pd.interchange.from_pytorch(layer, "
    "values)",
    "load_weights": "layer.load_dict(values), or load(path) of a Module",
    "register_buffer": "layer.buffer(name, shape)",
    "register_parameter": "layer.parameter(name, shape)",
    "requires_grad_": "layer.freeze() or layer.unfreeze()",
    "save_weights": "layer.state_dict(), or save(path) of a Module",
    "set_weights": "layer.load_dict(values)",
    "zero_grad": "layer.clear_gradients()",
}
OPTIMIZER = {
    "add_param_group": "optimizer.groups",
    "apply_gradients": "optimizer.update(pairs)",
    "load_state_dict": "optimizer.load_state(values)",
    "lr": "optimizer.learning_rate",
    "param_groups": "optimizer.groups",
    "state_dict": "optimizer.state()",
    "step": "optimizer.minimize(cost)",
    "zero_grad": "optimizer.minimize(cost), which takes gradients of this cost; or "
    "layer.clear_gradients()",
}

# Arguments: those that mean the same, of which a function has one; or a phrase.
ARGUMENTS: dict[str, tuple[str, ...]] = {
    "activation": ("act",),
    "nonlinearity": ("act",),
    "batch_first": ("sequences are [batch, time, features]",),
    "beta_1": ("beta1",),
    "betas": ("beta1 and beta2",),
    "beta_2": ("beta2",),
    "bias_initializer": ("bias_init",),
    "clipnorm": ("clip",),
    "count_include_pad": ("include_pad",),
    "d_model": ("width",),
    "data_format": ("channels are axis 1",),
    "decay_rate": ("decay",),
    "device": ("the device is that of the session, pd.use_device('cuda:0')",),
    "dilation": ("dilations",),
    "dilation_rate": ("dilation", "dilations"),
    "dim": ("axis", "axes"),
    "dim_feedforward": ("hidden",),
    "dims": ("axis", "axes"),
    "elementwise_affine": ("affine",),
    "embed_dim": ("width",),
    "embedding_dim": ("width",),
    "eps": ("epsilon",),
    "filepath": ("path",),
    "global_clipnorm": ("clip",),
    "hidden_size": ("hidden",),
    "in_channels": ("channels are those of the first input",),
    "in_features": ("sizes are those of the first input",),
    "init_scale": ("initial_scale",),
    "inplace": ("operators make new values",),
    "input_dim": ("words", "sizes are those of the first input"),
    "input_shape": ("sizes are those of the first input",),
    "input_size": ("sizes are those of the first input",),
    "keepdim": ("keep_dim",),
    "keepdims": ("keep_dim",),
    "kernel_initializer": ("kernel_init",),
    "kernel_size": ("kernel", "block", "window", "filter_size"),
    "lr": ("learning_rate", "the optimizer has the learning_rate"),
    "min_lr": ("least",),
    "momentum": ("pd.MomentumOptimizer(learning_rate, momentum) has one",),
    "maximize": ("the cost is minimised: minimize(-cost)",),
    "negative_slope": ("alpha",),
    "nhead": ("heads",),
    "normalized_shape": ("axis",),
    "num_classes": ("size", "classes"),
    "num_channels": ("channels are those of the first input",),
    "num_embeddings": ("words",),
    "num_samples": ("samples",),
    "num_features": ("sizes are those of the first input",),
    "num_groups": ("groups",),
    "num_heads": ("heads",),
    "out_channels": ("filters",),
    "out_features": ("size",),
    "output_dim": ("width",),
    "output_size": ("size",),
    "p": ("rate",),
    "padding": ("pads",),
    "padding_idx": ("padding_id",),
    "params": ("the parameters are found from the cost, or are minimize(cost, var_list)",),
    "pool_size": ("kernel",),
    "reduction": ("losses are those of rows or elements; layers of pd.nn have their mean",),
    "requires_grad": ("trainable",),
    "restore_best_weights": ("restore_best",),
    "return_sequences": ("the output has all steps",),
    "sparse": ("row_sparse",),
    "stride": ("strides",),
    "strides": ("stride",),
    "rho": ("decay",),
    "save_best_only": ("SaveBest(path) has the best, SaveEvery(path=…) writes checkpoints",),
    "scale_factor": ("scale",),
    "training": ("modes are those of layers, layer.train() and layer.eval()",),
    "unbiased": ("correction",),
    "units": ("size", "hidden"),
    "use_bias": ("bias",),
    "weight_decay": ("regularizer=pd.L2(rate) adds rate * w to gradients",),
    "workers": ("the reader may have threads of its own",),
}
# What methods of Modules take elsewhere than Keras's do.
_OF_METHODS = {
    ("compile", "optimizer"): "fit(x, y, optimizer=…, loss=…) takes it",
    ("compile", "loss"): "fit(x, y, optimizer=…, loss=…) takes it",
    ("compile", "metrics"): "fit(x, y, metrics=…) takes it",
    ("fit", "learning_rate"): "the optimizer has it, optimizer=pd.AdamOptimizer(0.01)",
}


def _close(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate that a misspelt name may stand for, or None."""
    lower = {c.casefold(): c for c in candidates}
    matches = get_close_matches(name.casefold(), lower, 1, 0.75)
    return lower[matches[0]] if matches else None


_NO = "no: "  # before the reason why there is nothing for a name


def function_here(name: str) -> str | None:
    """Return our words for a function of another framework, or "no: " and why; None if unknown.

    Functions in place, `add_`, and copies of views, `select_copy`, are found by the plain names.
    """
    if name in NAMES:
        return NAMES[name]
    if name in LINES:
        return LINES[name]
    if name in WITHOUT:
        return f"{_NO}{WITHOUT[name]}"
    plain = name.removesuffix("_").removesuffix("_copy")
    return None if plain == name else function_here(plain)


class MissingName(AttributeError):
    """A name that a module or an object lacks; the text says our word for it, or a name like it."""

    def __init__(self, who: str, name: str, here: str | None, names: Iterable[str] = ()) -> None:
        super().__init__(who, name)
        self.who, self.here, self._names = who, here, names
        self.name = name if here is None else None  # for which Python itself may suggest another

    def __str__(self) -> str:
        who, name = self.args
        text = f"{who} has no {name!r}"
        if self.here is not None and self.here.startswith(_NO):
            return f"{text}: {self.here.removeprefix(_NO)}"
        if self.here is not None:
            return f"{text}; here it is {self.here}"
        close = _close(name, self._names)
        return f"{text}; did you mean {close!r}?" if close else text


class Elsewhere:
    """A descriptor for a name of another framework: an AttributeError that says our word.

    It costs nothing as long as nobody asks. A subclass or an object may have the name itself.
    """

    def __init__(self, here: str):
        self.here = here

    def __repr__(self) -> str:  # as `help` of the class lists it
        return f"<here it is {self.here}>"

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, x: Any, owner: type | None = None) -> Any:
        if x is None:
            return self
        raise MissingName(type(x).__name__, self.name, self.here)


class NoSetting(Elsewhere):
    """The same for what may not be set either, as it would have no effect."""

    def __set__(self, x: Any, value: Any) -> None:
        raise MissingName(type(x).__name__, self.name, self.here)


def place(cls: type, words: Mapping[str, str], settings: Iterable[str] = ()) -> None:
    """Let a class tell our words; `settings` are those that may not be set."""
    for name, here in words.items():
        if name not in vars(cls):
            entry = NoSetting(here) if name in settings else Elsewhere(here)
            entry.__set_name__(cls, name)
            setattr(cls, name, entry)
    cls.__dir__ = _names_of  # type: ignore[assignment]


def place_rare(cls: type, words: Mapping[str, str]) -> None:
    """Let objects of a class tell our words for names so many that its `help` leaves them out."""

    def absent(x: Any, name: str) -> Any:
        if name in words and not hasattr(type(x), name):
            raise MissingName(type(x).__name__, name, words[name])
        return object.__getattribute__(x, name)  # the error once more, of a property for example

    cls.__getattr__ = absent  # type: ignore[attr-defined]


def _names_of(x: object) -> list[str]:
    """Return the names for `dir`, without those of other frameworks."""
    return [n for n in object.__dir__(x) if not isinstance(getattr(type(x), n, None), Elsewhere)]


# ---- arguments


def check_arguments(cls: type, given: Mapping[str, Any]) -> None:
    """Raise a TypeError that says our word if a class takes no arguments of the names given."""
    known = _arguments_of(cls)
    if known is not None and not known.keys() >= given.keys():
        name = next(name for name in given if name not in known)
        raise TypeError(unknown(cls.__name__, name, known))


def check_positions(cls: type, given: int, why: str) -> None:
    """Raise a TypeError if a class of ours takes fewer arguments without a name than are given."""
    names = _positions_of(cls)
    if names is not None and given > len(names):
        takes = f"takes {' and '.join(names)} without a name" if names else "takes names"
        raise TypeError(f"{cls.__name__}: {takes}, {given} given; {why}")


@cache
def _positions_of(cls: type) -> tuple[str, ...] | None:
    """The names of the arguments of a class that need no names; None if it is not ours."""
    own: Any = cls.__init__  # type: ignore[misc]
    if not (own.__module__ or "").startswith("pd_core."):
        return None
    parameters = list(inspect.signature(own).parameters.values())[1:]
    if any(p.kind == p.VAR_POSITIONAL for p in parameters):
        return None
    return tuple(p.name for p in parameters if p.kind == p.POSITIONAL_OR_KEYWORD)


@cache
def _arguments_of(cls: type) -> dict[str, None] | None:
    """The names of the arguments of a class; None if any are taken."""
    names: dict[str, None] = {}
    for base in cls.__mro__:
        own = vars(base).get("__init__")
        if inspect.isfunction(own):
            parameters = list(inspect.signature(own).parameters.values())[1:]
            names.update((p.name, None) for p in parameters if p.kind not in _VARIABLE)
            if not any(p.kind == p.VAR_KEYWORD for p in parameters):
                return names
            if not base.__module__.startswith("pd_core."):
                return None
    return None


_VARIABLE = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD


def unknown(who: str, name: str, known: Iterable[str]) -> str:
    """Return the text on an argument that a class or function does not have."""
    text, known = f"{who}: no argument {name!r}", list(known)
    if (who, name) in _OF_METHODS:
        return f"{text}; {_OF_METHODS[who, name]}"
    for ours in ARGUMENTS.get(name, ()):
        if ours in known:
            return f"{text}; it is called {ours}"
        if " " in ours:
            return f"{text}; {ours}"
    close = _close(name, known)
    return f"{text}; did you mean {close}?" if close else f"{text}; it has {', '.join(known)}"


def explained(function: Callable, given: Iterable[str], error: TypeError) -> TypeError:
    """Return the TypeError that a call has raised, or one that says our word for an argument."""
    parameters = inspect.signature(function).parameters
    if not any(p.kind == p.VAR_KEYWORD for p in parameters.values()):
        for name in given:
            if name not in parameters:
                known = [n for n in parameters if n != "self"]
                return TypeError(unknown(function.__name__, name, known))
    return error


def says_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function: an argument that it does not have is a TypeError with our word."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            other = explained(function, kwargs, error)
            if other is error:
                raise
            raise other from None

    return call


class Signature:
    """`__signature__` of classes whose `__new__` takes anything: that of their `__init__`."""

    def __get__(self, x: Any, cls: type) -> inspect.Signature:
        if x is not None:  # of a call of the object itself
            raise AttributeError("__signature__")
        own = inspect.signature(cls.__init__)  # type: ignore[misc]
        return own.replace(parameters=list(own.parameters.values())[1:])


# ---- documentation


def page() -> str:
    """Return docs/other_words.md."""
    lines = [
        "# Words of PyTorch and Keras",
        "",
        "Generated by `python -m pd_core.graph.other_words`; a test compares it with the code.",
        "Asked for one of these, pd says the same: `pd.nn.Linear` is an AttributeError, and",
        "`pd.nn.FC(units=3)` a TypeError that names `size`. Functions that are lines of others are",
        "in [array_functions.md](array_functions.md).",
    ]
    tables = {
        "Layers and losses": LAYERS,
        "Optimizers and schedules": OPTIMIZERS,
        "Functions": FUNCTIONS,
        "Methods of Variables": VARIABLE,
        "Methods of layers and modules": LAYER,
        "Methods of optimizers": OPTIMIZER,
        "Arguments": {name: " or ".join(ours) for name, ours in ARGUMENTS.items()},
    }
    for title, table in tables.items():
        lines += ["", f"## {title}", "", "| there | here |", "| --- | --- |"]
        lines += [f"| `{name}` | {here} |" for name, here in sorted(table.items())]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(page(), end="")
