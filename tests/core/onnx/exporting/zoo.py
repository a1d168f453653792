"""Networks whose exports are given to other tools: each built with inputs that fit it."""

import numpy as np

import pd_core as pd
from pd_core import nn


def normal(*sizes):
    return np.random.default_rng(0).normal(size=sizes).astype(np.float32)


def randomize(seed=2):
    """Give all parameters values that no layer begins with; variances stay positive."""
    rng = np.random.default_rng(seed)
    session = pd.default_session()
    for v in list(pd.persistent_variables()):
        shift = 1.0 if "scale" in v.name or "variance" in v.name else 0.0
        spread = 0.3 * rng.uniform(-1, 1, v.dims)
        session.set(v, (shift + spread).astype(v.dtype))


def mlp():
    x = pd.Variable("x", shape=[None, 16])
    hidden = pd.dropout(pd.gelu(pd.fc(x, 32)), 0.5)
    return [pd.softmax(pd.fc(hidden, 4))], {"x": normal(8, 16)}


def lenet():
    x = pd.Variable("x", shape=[None, 1, 16, 16])
    y = x
    for filters in (4, 8):
        y = pd.layer.batch_norm(pd.layer.conv2d(y, filters, 3, padding=1))
        y = pd.max_pool(pd.relu(y), 2, 2)
    return [pd.fc(pd.reshape(y, [0, -1]), 10)], {"x": normal(4, 1, 16, 16)}


def unet():
    x = pd.Variable("x", shape=[None, 3, 16, 16])

    def block(x, filters):
        y = pd.layer.conv2d(x, filters, 3, padding=1, B=False)
        return pd.relu(pd.layer.group_norm(y, 2))

    first = block(x, 4)
    second = block(pd.max_pool(first, 2, 2), 8)
    up = pd.interpolate(second, [16, 16])
    y = block(pd.concat([first, up], 1), 4)
    return [pd.layer.conv2d(y, 1, 1)], {"x": normal(2, 3, 16, 16)}


def transformer():
    x = pd.Variable("x", shape=[None, 6, 16])
    layers = [nn.TransformerEncoderLayer(16, 2, 32, act="gelu") for _ in range(2)]
    return [layers[1](layers[0](x))], {"x": normal(2, 6, 16)}


def lstm():
    x = pd.Variable("x", shape=[None, None, 8])
    y, _ = pd.layer.lstm(x, 12, num_layers=2, bidirectional=True)
    return [pd.fc(pd.reduce_mean(y, [1]), 3)], {"x": normal(4, 7, 8)}


def gru():
    x = pd.Variable("x", shape=[None, None, 8])
    y, _ = pd.layer.gru(x, 12)
    return [pd.fc(pd.reduce_max(y, [1]), 3)], {"x": normal(4, 7, 8)}


def vae():
    x = pd.Variable("x", shape=[None, 16])
    hidden = pd.tanh(pd.fc(x, 12))
    mean, deviation = pd.fc(hidden, 4), pd.exp(pd.fc(hidden, 4) * 0.5)
    noise = pd.Variable("noise", shape=[None, 4])
    y = pd.sigmoid(pd.fc(pd.tanh(pd.fc(mean + deviation * noise, 12)), 16))
    return [y, mean], {"x": normal(8, 16), "noise": normal(8, 4)}


NETS = {f.__name__: f for f in (mlp, lenet, unet, transformer, lstm, gru, vae)}
