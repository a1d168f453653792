"""The language model of the 2017 book's fourth chapter: the next word after four."""

import numpy as np

from tests.benchmarks import loops

WORDS, WIDTH, CONTEXT, HIDDEN, BATCH = 2073, 32, 4, 256, 32
RATE = 1e-3

TITLE = f"word2vec: {CONTEXT} words of {WIDTH}, hidden {HIDDEN}, {WORDS} words, batch {BATCH}, Adam"
KIND = "train"
RTOL = 1e-4
FLOPS = 6 * BATCH * (CONTEXT * WIDTH * HIDDEN + HIDDEN * WORDS)


def batches():
    """Return batches of five columns of words [n], the context and the next word."""
    rng = np.random.default_rng(0)
    frequency = 1.0 / np.arange(1, WORDS + 1)
    shape = (50, CONTEXT + 1, BATCH)
    return [tuple(k) for k in rng.choice(WORDS, shape, p=frequency / frequency.sum())]


def ours():
    """Return the loop of `paddle.trainer.SGD.train`, and the parameters."""
    import pd_v2 as paddle

    layer, word = paddle.layer, paddle.data_type.integer_value(WORDS)
    names = ("firstw", "secondw", "thirdw", "fourthw", "fifthw")
    *context, following = (layer.data(name=name, type=word) for name in names)
    table = paddle.attr.Param(name="_proj", initial_std=0.1)
    embedded = [layer.table_projection(input=w, size=WIDTH, param_attr=table) for w in context]
    hidden = layer.fc(
        input=layer.concat(input=embedded), size=HIDDEN, act=paddle.activation.Sigmoid()
    )
    scores = layer.fc(input=hidden, size=WORDS, act=paddle.activation.Softmax())
    cost = layer.cross_entropy_cost(input=scores, label=following)
    return loops.trainer_loop(cost, paddle.optimizer.Adam(learning_rate=RATE))


def shaped(parameters):
    """Return the table, and the weight and the bias of two layers."""
    shapes = (WORDS, WIDTH), (CONTEXT * WIDTH, HIDDEN), (HIDDEN,), (HIDDEN, WORDS), (WORDS,)
    return [value.reshape(shape) for value, shape in zip(parameters, shapes, strict=True)]


def pytorch(parameters, compiled):
    """Return the loop of PyTorch."""
    import torch
    from torch.nn import functional as f

    trained = loops.torch_parameters(shaped(parameters))
    table, w1, b1, w2, b2 = trained

    def loss(*words):
        *context, following = words
        x = f.embedding(torch.stack(context, 1), table).flatten(1)
        hidden = torch.sigmoid(torch.addmm(b1, x, w1))
        return f.cross_entropy(torch.addmm(b2, hidden, w2), following)

    return loops.torch_loop(compiled(loss), torch.optim.Adam(trained, RATE, fused=True))


def jax(parameters):
    """Return the loop of JAX."""
    import jax
    from jax import numpy as jnp

    def loss(parameters, *words):
        table, w1, b1, w2, b2 = parameters
        *context, following = words
        x = table[jnp.stack(context, 1)].reshape(BATCH, -1)
        logarithms = jax.nn.log_softmax(jax.nn.sigmoid(x @ w1 + b1) @ w2 + b2)
        return -jnp.take_along_axis(logarithms, following[:, None], 1).mean()

    return loops.jax_loop(loss, shaped(parameters), loops.jax_adam(RATE))
