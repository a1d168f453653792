"""Small networks, their training steps and batches: what the tests run on other runtimes."""

import json

import numpy as np

import pd_core as pd
import pd_v2 as paddle
from pd_v2 import build

STEPS = 20


def perceptron():
    """Feeds, cost and step of an MLP with momentum and weight decay."""
    x = pd.Variable("x", shape=[None, 16])
    label = pd.Variable("label", shape=[None], dtype="int64")
    h = pd.fc(pd.fc(x, 12, act="relu"), 8, act="tanh")
    cost = pd.reduce_mean(pd.cross_entropy(pd.softmax(h, size=4), label))
    step = pd.MomentumOptimizer(0.1, regularizer=pd.L2(1e-3)).minimize(cost)
    return {"x": x, "label": label}, cost, step


def lenet():
    """Convolutions, batch normalisation, tiled and overlapping pooling, dropout; Adam."""
    x = pd.Variable("x", shape=[None, 1, 16, 16])
    label = pd.Variable("label", shape=[None], dtype="int64")
    h = pd.pool2d(pd.conv2d(x, 4, 5, act="relu"), 2)
    h = pd.conv2d(h, 6, 3, B=False)
    scale, variance = (pd.Variable(n, data=np.ones(6)) for n in ("scale", "variance"))
    shift, mean = (pd.Variable(n, data=np.zeros(6)) for n in ("shift", "mean"))
    variance.trainable = mean.trainable = False
    h = pd.relu(pd.batch_norm(h, scale, shift, mean, variance))
    h = pd.pool2d(h, 3, 2, pool_padding=1)
    h = pd.dropout(pd.fc(pd.reshape(h, [-1, 6 * 2 * 2]), 16, act="relu"), 0.5)
    cost = pd.reduce_mean(pd.cross_entropy(pd.softmax(h, size=4), label))
    return {"x": x, "label": label}, cost, pd.AdamOptimizer(2e-3).minimize(cost)


def gru():
    """A classifier of packed sequences, with layers of 2017; Adam."""
    layer, kinds = paddle.layer, paddle.data_type
    words = layer.data(name="words", type=kinds.integer_value_sequence(20))
    label = layer.data(name="label", type=kinds.integer_value(3))
    state = paddle.networks.simple_gru2(layer.embedding(words, size=6), size=5)
    softmax = paddle.activation.Softmax()
    probability = layer.fc(layer.last_seq(state), size=3, act=softmax)
    paddle.parameters.create(probability)
    cost = pd.reduce_mean(layer.classification_cost(probability, label))
    feeds = {v.name: v for v in (*words.inputs, *label.inputs)}
    return feeds, cost, pd.AdamOptimizer(0.02).minimize(cost)


NETWORKS = {"perceptron": perceptron, "lenet": lenet, "gru": gru}


def batch(name, k):
    """Arrays by name; sizes and lengths differ from one to the next."""
    rng = np.random.default_rng(k)
    n = 4 + k % 3
    if name == "gru":
        lengths = rng.integers(1, 6, n)
        words = rng.integers(0, 20, lengths.sum())
        return {"words": words, "words.lengths": lengths, "label": rng.integers(0, 3, n)}
    image = (16,) if name == "perceptron" else (1, 16, 16)
    x = rng.normal(size=(n, *image)).astype(np.float32)
    return {"x": x, "label": rng.integers(0, 4, n)}


def write(folder, name, portable=False):
    """step.onnx, initial.onnx and batches.json of a network: (model, losses by pd.eval)."""
    batches = [batch(name, k) for k in range(STEPS)]
    with build.fresh():
        feeds, cost, step = NETWORKS[name]()
        model = pd.export_step(
            folder / "step.onnx",
            step,
            [cost],
            initial=folder / "initial.onnx",
            portable=portable,
        )
        losses = [
            float(pd.eval([step, cost], {feeds[n]: a for n, a in arrays.items()})[1])
            for arrays in batches
        ]
    listed = [{n: _listed(a) for n, a in arrays.items()} for arrays in batches]
    (folder / "batches.json").write_text(json.dumps(listed))
    return model, losses


def _listed(array):
    return {"type": array.dtype.name, "dims": array.shape, "data": array.ravel().tolist()}
