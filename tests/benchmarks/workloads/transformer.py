"""A step of a small language model over characters."""

from tests.benchmarks import loops
from tests.benchmarks.models import transformer as model

BATCH, RATE = 16, 1e-3

TITLE = (
    f"char transformer, {model.LAYERS} layers of {model.WIDTH}, {model.CONTEXT} characters, "
    f"batch {BATCH}, Adam"
)
KIND = "train"
RTOL = 1e-3
FLOPS = 3 * model.flops(BATCH, model.CONTEXT)


def batches():
    """Return batches of characters [n, T], and the characters that follow them."""
    texts = model.letters(BATCH, model.CONTEXT + 1, 8)
    return [(text[:, :-1].copy(), text[:, 1:].copy()) for text in texts]


def ours():
    """Return the loop of `pd.eval`, and the parameters."""
    import pd_core as pd

    net = model.network()
    ids, following = (pd.Variable([None, model.CONTEXT], dtype="int64") for _ in range(2))
    loss = pd.reduce_mean(pd.softmax_cross_entropy(net(ids), following))
    parameters = net.parameters()
    return loops.eval_loop(
        loss, pd.AdamOptimizer(RATE).minimize(loss), [ids, following], parameters
    )


def pytorch(parameters, compiled):
    """Return the loop of PyTorch."""
    import torch
    from torch.nn import functional as f

    values = model.fused(parameters)
    trained = []

    def parameter(value):
        if isinstance(value, list):
            return [parameter(v) for v in value]
        trained.append(torch.nn.Parameter(torch.from_numpy(value)))
        return trained[-1]

    values = parameter(values)

    def loss(ids, following):
        logits = model.torch_forward(values, ids)
        return f.cross_entropy(logits.reshape(-1, model.LETTERS), following.reshape(-1))

    return loops.torch_loop(compiled(loss), torch.optim.Adam(trained, RATE, fused=True))


def jax(parameters):
    """Return the loop of JAX."""
    import jax
    from jax import numpy as jnp

    def loss(values, ids, following):
        logarithms = jax.nn.log_softmax(model.jax_forward(values, ids))
        return -jnp.take_along_axis(logarithms, following[:, :, None], 2).mean()

    return loops.jax_loop(loss, model.fused(parameters), loops.jax_adam(RATE))
