"""LeNet over 28 x 28 pixels, for inference in each framework."""

import numpy as np

from tests.benchmarks import inference

_PRODUCTS = 24**2 * 25 * 20 + 8**2 * 25 * 20 * 50 + 800 * 10


def flops(batch):
    """Return the operations of the products."""
    return 2 * batch * _PRODUCTS


def batches(batch):
    """Return batches of images [n, 1, 28, 28]."""
    rng = np.random.default_rng(0)
    return [(rng.random((batch, 1, 28, 28), np.float32),) for _ in range(8)]


def ours():
    """Return the loop of `pd.eval`, and the parameters."""
    import pd_core as pd

    net = pd.nn.Sequential(
        pd.nn.Conv2d(20, 5, act="relu"),
        pd.nn.MaxPool2d(2),
        pd.nn.Conv2d(50, 5, act="relu"),
        pd.nn.MaxPool2d(2),
        pd.nn.Flatten(),
        pd.nn.FC(10),
    )
    images = pd.Variable([None, 1, 28, 28])
    scores = net(images)
    return inference.eval_loop(scores, [images]), [v.val() for v in net.parameters()]


def pytorch(parameters, compiled):
    """Return the loop of PyTorch."""
    import torch
    from torch.nn import functional as f

    w1, b1, w2, b2, w3, b3 = map(torch.from_numpy, parameters)

    def scores(images):
        x = f.max_pool2d(f.relu(f.conv2d(images, w1, b1)), 2)
        x = f.max_pool2d(f.relu(f.conv2d(x, w2, b2)), 2)
        return torch.addmm(b3, x.flatten(1), w3)

    return inference.torch_loop(scores, compiled)


def jax(parameters):
    """Return the loop of JAX, whose images are [n, H, W, channels]."""
    import jax
    from jax import lax

    w1, b1, w2, b2, w3, b3 = parameters
    w1, w2 = w1.transpose(2, 3, 1, 0), w2.transpose(2, 3, 1, 0)
    w3 = w3.reshape(50, 4, 4, 10).transpose(1, 2, 0, 3).reshape(800, 10)

    def layer(x, w, b):
        layout = ("NHWC", "HWIO", "NHWC")
        x = lax.conv_general_dilated(x, w, (1, 1), "VALID", dimension_numbers=layout)
        n, height, width, channels = x.shape
        x = x.reshape(n, height // 2, 2, width // 2, 2, channels).max((2, 4))
        return jax.nn.relu(x + b)

    def scores(parameters, images):
        w1, b1, w2, b2, w3, b3 = parameters
        x = layer(layer(images.reshape(-1, 28, 28, 1), w1, b1), w2, b2)
        return x.reshape(-1, 800) @ w3 + b3

    return inference.jax_loop(scores, [w1, b1, w2, b2, w3, b3])
