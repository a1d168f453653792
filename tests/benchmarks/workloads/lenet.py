"""LeNet as the second chapter of the 2017 book has it."""

import numpy as np

from tests.benchmarks import loops
from tests.benchmarks.digits import digits

BATCH = 128
RATE, MOMENTUM, DECAY = 0.01, 0.9, 0.0005  # of the mean over the batch

TITLE = f"LeNet, batch {BATCH}, momentum"
KIND = "train"
RTOL = 1e-3
# The gradient of the image is not needed.
FLOPS = 2 * BATCH * (2 * 24**2 * 25 * 20 + 3 * 8**2 * 25 * 20 * 50 + 3 * 800 * 10)


def batches():
    """Return batches of pixels [n, 784] and labels [n].

    No two pixels are equal, because of equal maxima in a window all get the gradient in 2017's max
    pooling, and one of them in PyTorch's.
    """
    rng = np.random.default_rng(0)
    return [(p + rng.normal(0, 0.01, p.shape).astype(np.float32), k) for p, k in digits(BATCH)]


def network():
    """Return (cost, images, labels), layers of pd_v2."""
    import pd_v2 as paddle

    image = paddle.layer.data(name="pixel", type=paddle.data_type.dense_vector(784))
    label = paddle.layer.data(name="label", type=paddle.data_type.integer_value(10))
    x = image
    for channels, filters in ((1, 20), (20, 50)):
        x = paddle.networks.simple_img_conv_pool(
            input=x,
            filter_size=5,
            num_filters=filters,
            num_channel=channels,
            pool_size=2,
            pool_stride=2,
            act=paddle.activation.Relu(),
        )
    scores = paddle.layer.fc(input=x, size=10, act=paddle.activation.Softmax())
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


def shaped(parameters):
    """Return the parameters, with the filters as [filters, channels, 5, 5] and biases as [n]."""
    w1, b1, w2, b2, w3, b3 = parameters
    filters = w1.reshape(20, 1, 5, 5), w2.reshape(50, 20, 5, 5)
    return [filters[0], b1.reshape(-1), filters[1], b2.reshape(-1), w3, b3.reshape(-1)]


def pytorch(parameters, compiled):
    """Return the loop of PyTorch."""
    import torch
    from torch.nn import functional as f

    trained = loops.torch_parameters(shaped(parameters))
    w1, b1, w2, b2, w3, b3 = trained

    def loss(pixels, labels):
        x = pixels.reshape(-1, 1, 28, 28)
        x = f.max_pool2d(f.relu(f.conv2d(x, w1, b1)), 2)
        x = f.max_pool2d(f.relu(f.conv2d(x, w2, b2)), 2)
        return f.cross_entropy(torch.addmm(b3, x.flatten(1), w3), labels)

    optimizer = torch.optim.SGD(trained, RATE, momentum=MOMENTUM, weight_decay=DECAY, fused=True)
    return loops.torch_loop(compiled(loss), optimizer)


def jax(parameters):
    """Return the loop of JAX, whose images are [n, H, W, channels]."""
    import jax
    from jax import lax
    from jax import numpy as jnp

    w1, b1, w2, b2, w3, b3 = shaped(parameters)
    positions_first = w3.reshape(50, 4, 4, 10).transpose(1, 2, 0, 3).reshape(800, 10)
    filters = w1.transpose(2, 3, 1, 0), w2.transpose(2, 3, 1, 0)

    def layer(x, w, b):
        layout = ("NHWC", "HWIO", "NHWC")
        x = jax.nn.relu(
            lax.conv_general_dilated(x, w, (1, 1), "VALID", dimension_numbers=layout) + b
        )
        n, height, width, channels = x.shape
        return x.reshape(n, height // 2, 2, width // 2, 2, channels).max((2, 4))

    def loss(parameters, pixels, labels):
        w1, b1, w2, b2, w3, b3 = parameters
        x = layer(layer(pixels.reshape(-1, 28, 28, 1), w1, b1), w2, b2)
        logarithms = jax.nn.log_softmax(x.reshape(-1, 800) @ w3 + b3)
        return -jnp.take_along_axis(logarithms, labels[:, None], 1).mean()

    start = [filters[0], b1, filters[1], b2, positions_first, b3]
    return loops.jax_loop(loss, start, loops.jax_momentum(RATE, MOMENTUM, DECAY))
