"""The perceptron of the 2017 book's second chapter, 784-128-64-10."""

from tests.benchmarks import loops
from tests.benchmarks.digits import digits

BATCH = 128
SIZES = (784, 128, 64, 10)
RATE, MOMENTUM, DECAY = 0.1, 0.9, 0.0005  # of the mean over the batch

TITLE = f"perceptron 784-128-64-10, batch {BATCH}, momentum"
KIND = "train"
RTOL = 1e-4
# The gradient of the first input is not needed.
FLOPS = 2 * BATCH * (2 * 784 * 128 + 3 * (128 * 64 + 64 * 10))


def batches():
    """Return batches of pixels [n, 784] and labels [n]."""
    return digits(BATCH)


def network():
    """Return (cost, images, labels), layers of pd_v2."""
    import pd_v2 as paddle

    image = paddle.layer.data(name="pixel", type=paddle.data_type.dense_vector(SIZES[0]))
    label = paddle.layer.data(name="label", type=paddle.data_type.integer_value(SIZES[-1]))
    x = image
    for size in SIZES[1:-1]:
        x = paddle.layer.fc(input=x, size=size, act=paddle.activation.Relu())
    scores = paddle.layer.fc(input=x, size=SIZES[-1], act=paddle.activation.Softmax())
    return paddle.layer.cross_entropy_cost(input=scores, label=label), image, label


def ours():
    """Return the loop of `paddle.trainer.SGD.train`, and the parameters."""
    import pd_v2 as paddle

    optimizer = paddle.optimizer.Momentum(
        learning_rate=RATE / BATCH,
        momentum=MOMENTUM,
        regularization=paddle.optimizer.L2Regularization(rate=DECAY * BATCH),
    )
    return loops.trainer_loop(network()[0], optimizer)


def pytorch(parameters, compiled):
    """Return the loop of PyTorch."""
    import torch
    from torch.nn import functional as f

    trained = loops.torch_parameters(parameters)
    w1, b1, w2, b2, w3, b3 = trained

    def loss(pixels, labels):
        x = f.relu(torch.addmm(b1, pixels, w1))
        x = f.relu(torch.addmm(b2, x, w2))
        return f.cross_entropy(torch.addmm(b3, x, w3), labels)

    optimizer = torch.optim.SGD(trained, RATE, momentum=MOMENTUM, weight_decay=DECAY, fused=True)
    return loops.torch_loop(compiled(loss), optimizer)


def jax(parameters):
    """Return the loop of JAX."""
    import jax
    from jax import numpy as jnp

    def loss(parameters, pixels, labels):
        w1, b1, w2, b2, w3, b3 = parameters
        x = jax.nn.relu(pixels @ w1 + b1)
        x = jax.nn.relu(x @ w2 + b2)
        logarithms = jax.nn.log_softmax(x @ w3 + b3)
        return -jnp.take_along_axis(logarithms, labels[:, None], 1).mean()

    return loops.jax_loop(loss, parameters, loops.jax_momentum(RATE, MOMENTUM, DECAY))
