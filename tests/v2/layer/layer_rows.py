"""A row per layer and option: how it is built, what it is fed, and its formula in numpy."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import pd_v2 as paddle
from pd_v2.attr import Extra, Param

from . import reference_layers as naive

A, L, P, T = paddle.activation, paddle.layer, paddle.pooling, paddle.data_type


@dataclass(frozen=True)
class Row:
    """`build(**data layers)` gives the layer 'y', whose rows are `formula(v)` in inference.

    v holds the data by name, and the parameters by the end of their names: `w0`, `wbias`. The
    gradient is that of `training(v)` times `coeff`, where they differ.
    """

    name: str
    inputs: dict  # data layer -> numbers of a row, (channels, height, width), or range of ids
    build: Callable
    formula: Callable
    training: Callable | None = None
    coeff: float = 1.0

    def layers(self):
        """(the layer, its data layers by name)."""
        data = {name: kind.layer(name) for name, kind in self.inputs.items()}
        return self.build(**data), data

    def feeds(self, rng, n):
        """Random data of n samples, by name."""
        return {name: kind.draw(rng, n) for name, kind in self.inputs.items()}


@dataclass(frozen=True)
class Dense:
    """Numbers around 0."""

    size: int

    def layer(self, name):
        return L.data(name=name, type=T.dense_vector(self.size))

    def draw(self, rng, n):
        return rng.standard_normal((n, self.size)).astype(np.float32)


@dataclass(frozen=True)
class Image:
    """A row that is an image."""

    channels: int
    height: int
    width: int

    def layer(self, name):
        size = self.channels * self.height * self.width
        return L.data(name=name, type=T.dense_vector(size), height=self.height, width=self.width)

    def draw(self, rng, n):
        size = self.channels * self.height * self.width
        return rng.standard_normal((n, size)).astype(np.float32)

    def of(self, x):
        return x.reshape(-1, self.channels, self.height, self.width)


@dataclass(frozen=True)
class Ids:
    """Integers."""

    size: int

    def layer(self, name):
        return L.data(name=name, type=T.integer_value(self.size))

    def draw(self, rng, n):
        return rng.integers(0, self.size, n)


def flat(x):
    """[N, C, H, W] as [N, C H W]."""
    return x.reshape(len(x), -1)


X, Z, IM = Dense(4), Dense(3), Image(2, 5, 6)


def fc(v, k=0, name="x"):
    """x W."""
    return v[name] @ v[f"w{k}"]


def im(v):
    return IM.of(v["im"])


def filters(v, *shape):
    return v["w0"].reshape(shape)


def per_channel(v):
    return v["wbias"].reshape(1, -1, 1, 1)


# ---- dense

DENSE = [
    Row(
        "fc",
        {"x": X},
        lambda x: L.fc(input=x, size=3, name="y"),
        lambda v: np.tanh(fc(v) + v["wbias"]),
    ),
    Row(
        "fc-without-bias",
        {"x": X},
        lambda x: L.fc(input=x, size=3, name="y", act=A.Linear(), bias_attr=False),
        fc,
    ),
    Row(
        "fc-two-inputs",
        {"x": X, "z": Z},
        lambda x, z: L.fc(input=[x, z], size=3, name="y", act=A.Softmax()),
        lambda v: naive.softmax(fc(v) + fc(v, 1, "z") + v["wbias"]),
    ),
    Row(
        "fc-shared-weight",
        {"x": X, "z": X},
        lambda x, z: L.fc(
            input=[x, z], size=3, name="y", param_attr=[Param(name="w"), Param(name="w")]
        ),
        lambda v: np.tanh((v["x"] + v["z"]) @ v["w"] + v["wbias"]),
    ),
    Row(
        "fc-bias-of-another-layer",
        {"x": X},
        lambda x: L.fc(
            input=L.fc(input=x, size=4, name="h", bias_attr=Param(name="b")),
            size=4,
            name="y",
            bias_attr=Param(name="b"),
        ),
        lambda v: np.tanh(np.tanh(v["x"] @ v["_h.w0"] + v["b"]) @ v["w0"] + v["b"]),
    ),
    Row(
        "addto",
        {"x": X, "z": X},
        lambda x, z: L.addto([x, z, x], name="y"),
        lambda v: 2 * v["x"] + v["z"],
    ),
    Row(
        "addto-bias",
        {"x": X, "z": X},
        lambda x, z: L.addto([x, z], name="y", act=A.Tanh(), bias_attr=True),
        lambda v: np.tanh(v["x"] + v["z"] + v["wbias"]),
    ),
    Row(
        "addto-images",
        {"im": IM},
        lambda im: L.addto([L.img_pool(im, pool_size=1, name="p"), im], name="y", bias_attr=True),
        lambda v: 2 * v["im"] + v["wbias"],
    ),
    Row(
        "concat",
        {"x": X, "z": Z},
        lambda x, z: L.concat([x, z, x], name="y", act=A.Tanh()),
        lambda v: np.tanh(np.concatenate([v["x"], v["z"], v["x"]], 1)),
    ),
    Row(
        "concat-images",
        {"im": IM},
        lambda im: L.concat([im, L.img_pool(im, pool_size=1, name="p")], name="y"),
        lambda v: np.concatenate([v["im"], v["im"]], 1),
    ),
    Row(
        "dropout-in-inference",
        {"x": X},
        lambda x: L.dropout(x, 0.25, name="y"),
        lambda v: 0.75 * v["x"],
        training=lambda v: None,
    ),
]

# ---- convolution and pooling


def conv_row(name, formula, **options):
    return Row(
        f"conv-{name}",
        {"im": IM},
        lambda im: L.img_conv(input=im, name="y", **options),
        lambda v: flat(formula(v)),
    )


def pool_row(name, kind, model=None, **options):
    pool_type = {"max": P.Max, "avg": P.Avg}[kind]
    return Row(
        f"pool-{kind}-{name}",
        {"im": IM},
        lambda im: L.img_pool(input=im, name="y", pool_type=pool_type(), **options),
        lambda v: flat(naive.pool(im(v), kind, **model)),
    )


IMAGES = [
    conv_row(
        "relu",
        lambda v: naive.relu(naive.conv(im(v), filters(v, 3, 2, 3, 3)) + per_channel(v)),
        filter_size=3,
        num_filters=3,
    ),
    conv_row(
        "pairs",
        lambda v: naive.conv(im(v), filters(v, 3, 2, 3, 2), (2, 1), (2, 1)) + per_channel(v),
        filter_size=(2, 3),
        num_filters=3,
        stride=(1, 2),
        padding=(1, 2),
        act=A.Linear(),
    ),
    conv_row(
        "heights-apart",
        lambda v: naive.conv(im(v), filters(v, 3, 2, 3, 2), (2, 1), (2, 1), (1, 2)),
        filter_size=2,
        filter_size_y=3,
        num_filters=3,
        stride=1,
        stride_y=2,
        padding=1,
        padding_y=2,
        dilation=2,
        dilation_y=1,
        act=A.Linear(),
        bias_attr=False,
    ),
    conv_row(
        "groups",
        lambda v: np.tanh(
            naive.conv(im(v), filters(v, 4, 1, 3, 3), pad=(1, 1), groups=2) + per_channel(v)
        ),
        filter_size=3,
        num_filters=4,
        padding=1,
        groups=2,
        act=A.Tanh(),
    ),
    conv_row(
        "dilation",
        lambda v: naive.conv(im(v), filters(v, 3, 2, 2, 2), dilation=(3, 3)) + per_channel(v),
        filter_size=2,
        num_filters=3,
        dilation=3,
        act=A.Linear(),
    ),
    conv_row(
        "bias-per-element",
        lambda v: naive.conv(im(v), filters(v, 3, 2, 3, 3)) + v["wbias"].reshape(1, 3, 3, 4),
        filter_size=3,
        num_filters=3,
        shared_biases=False,
        act=A.Linear(),
    ),
    Row(
        "conv-of-rows",
        {"x": Dense(18)},
        lambda x: L.img_conv(
            input=x, name="y", filter_size=2, num_filters=2, num_channels=2, act=A.Linear()
        ),
        lambda v: flat(
            naive.conv(v["x"].reshape(-1, 2, 3, 3), filters(v, 2, 2, 2, 2)) + per_channel(v)
        ),
    ),
    pool_row("plain", "max", {"window": (2, 2)}, pool_size=2),
    pool_row("remainder", "max", {"window": (2, 2), "stride": (2, 2)}, pool_size=2, stride=2),
    pool_row(
        "floor",
        "max",
        {"window": (2, 2), "stride": (2, 2), "ceil": False},
        pool_size=2,
        stride=2,
        ceil_mode=False,
    ),
    pool_row(
        "pairs",
        "max",
        {"window": (3, 2), "stride": (2, 3), "pad": (1, 0)},
        pool_size=2,
        pool_size_y=3,
        stride=3,
        stride_y=2,
        padding=0,
        padding_y=1,
    ),
    pool_row("windows-outside", "max", {"window": (1, 1), "stride": (2, 2)}, pool_size=1, stride=2),
    pool_row("plain", "avg", {"window": (2, 2)}, pool_size=2),
    pool_row(
        "remainder",
        "avg",
        {"window": (3, 3), "stride": (2, 2), "pad": (1, 1)},
        pool_size=3,
        stride=2,
        padding=1,
    ),
    pool_row(
        "whole-window",
        "avg",
        {"window": (3, 3), "stride": (2, 2), "pad": (1, 1), "exclude": False},
        pool_size=3,
        stride=2,
        padding=1,
        exclude_mode=False,
    ),
    pool_row(
        "whole-window-over-the-end",
        "avg",
        {"window": (2, 4), "stride": (2, 3), "exclude": False},
        pool_size=4,
        pool_size_y=2,
        stride=3,
        stride_y=2,
        exclude_mode=False,
    ),
    pool_row(
        "floor",
        "avg",
        {"window": (2, 4), "stride": (2, 3), "ceil": False},
        pool_size=4,
        pool_size_y=2,
        stride=3,
        stride_y=2,
        ceil_mode=False,
        exclude_mode=True,
    ),
    pool_row("windows-outside", "avg", {"window": (1, 1), "stride": (2, 2)}, pool_size=1, stride=2),
]

# ---- normalisation


def norm(v, x, batch, beta=None):
    beta = v["wbias"] if beta is None else beta
    return naive.batch_norm(x, v["w0"], beta, *(() if batch else (v["w1"][0], v["w2"][0])))


NORMS = [
    Row(
        "batch-norm-rows",
        {"x": X},
        lambda x: L.batch_norm(input=x, name="y", act=A.Linear()),
        lambda v: norm(v, v["x"], batch=False),
        training=lambda v: norm(v, v["x"], batch=True),
    ),
    Row(
        "batch-norm-image",
        {"im": IM},
        lambda im: L.batch_norm(input=im, name="y"),
        lambda v: flat(naive.relu(norm(v, im(v), batch=False))),
        training=lambda v: flat(naive.relu(norm(v, im(v), batch=True))),
    ),
    Row(
        "batch-norm-of-the-batch",
        {"im": IM},
        lambda im: L.batch_norm(input=im, name="y", use_global_stats=False, act=A.Linear()),
        lambda v: flat(norm(v, im(v), batch=True)),
    ),
    Row(
        "batch-norm-without-shift",
        {"x": X},
        lambda x: L.batch_norm(
            input=x, name="y", bias_attr=False, use_global_stats=True, act=A.Linear()
        ),
        lambda v: norm(v, v["x"], False, np.zeros(4)),
        training=lambda v: norm(v, v["x"], True, np.zeros(4)),
    ),
]

# ---- costs

PROBABILITIES = {"x": X, "label": Ids(4)}


def softmax_of(x):
    return L.fc(input=x, size=4, name="p", act=A.Softmax(), bias_attr=False)


def entropy(v):
    return naive.cross_entropy(naive.softmax(v["x"] @ v["_p.w0"]), v["label"])


COSTS = [
    Row(
        "square-error",
        {"x": X, "label": X},
        lambda x, label: L.square_error_cost(input=L.dropout(x, 0.0), label=label, name="y"),
        lambda v: naive.square_error(v["x"], v["label"]),
    ),
    Row(
        "regression-weight-coeff",
        {"x": X, "label": X, "weight": Dense(1)},
        lambda x, label, weight: L.regression_cost(
            input=x, label=label, weight=weight, name="y", coeff=0.25
        ),
        lambda v: naive.square_error(v["x"], v["label"]) * v["weight"],
        coeff=0.25,
    ),
    Row(
        "classification",
        PROBABILITIES,
        lambda x, label: L.classification_cost(input=softmax_of(x), label=label, name="y"),
        entropy,
    ),
    Row(
        "classification-weight-coeff",
        {**PROBABILITIES, "weight": Dense(1)},
        lambda x, label, weight: L.classification_cost(
            input=softmax_of(x), label=label, weight=weight, name="y", coeff=3.0
        ),
        lambda v: entropy(v) * v["weight"],
        coeff=3.0,
    ),
    Row(
        "cross-entropy",
        PROBABILITIES,
        lambda x, label: L.cross_entropy_cost(
            input=L.fc(input=x, size=4, name="p", act=A.Exp(), bias_attr=False),
            label=label,
            name="y",
            coeff=2.0,
        ),
        lambda v: naive.cross_entropy(np.exp(v["x"] @ v["_p.w0"]), v["label"]),
        coeff=2.0,
    ),
    Row(
        "cross-entropy-of-softmax",
        PROBABILITIES,
        lambda x, label: L.cross_entropy_cost(input=softmax_of(x), label=label, name="y"),
        entropy,
    ),
]

CLIPPED = Row(
    "error-clipping-inactive",
    {"x": X},
    lambda x: L.fc(input=x, size=3, name="y", layer_attr=Extra(error_clipping_threshold=100.0)),
    lambda v: np.tanh(fc(v) + v["wbias"]),
)

ROWS = [*DENSE, *IMAGES, *NORMS, *COSTS, CLIPPED]
