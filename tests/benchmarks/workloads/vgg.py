"""A stack of 3 x 3 convolutions, 64-64-128-128-256-256 on 32 x 32 images, as VGG starts."""

from tests.benchmarks import loops
from tests.benchmarks.models import pictures

BATCH, WIDTHS, CLASSES = 32, (64, 128, 256), 10
CHANNELS = (3, 64, 64, 128, 128, 256, 256)
FLAT = 4096  # 256 channels of 4 x 4
RATE, MOMENTUM = 0.0003, 0.9

TITLE = f"3 x 3 convolutions 64-64-128-128-256-256, 32 x 32, batch {BATCH}, momentum"
KIND = "train"
RTOL = 1e-3
_CONVOLUTIONS = [
    (32 >> k // 2) ** 2 * 9 * CHANNELS[k] * CHANNELS[k + 1] for k in range(len(CHANNELS) - 1)
]
# The gradient of the image is not needed.
FLOPS = 2 * BATCH * (3 * (sum(_CONVOLUTIONS) + FLAT * CLASSES) - _CONVOLUTIONS[0])


def batches():
    """Return batches of images [n, 3, 32, 32] and labels [n]."""
    return pictures.batches(BATCH, CLASSES)


def network():
    """Return (cost, images, labels), layers of pd_v2."""
    import pd_v2 as paddle

    layer, relu = paddle.layer, paddle.activation.Relu()
    image = paddle.data_type.dense_vector(3 * 32 * 32)
    image = layer.data(name="image", type=image, height=32, width=32)
    label = layer.data(name="label", type=paddle.data_type.integer_value(CLASSES))
    x, channels = image, 3
    for width in WIDTHS:
        for _ in range(2):
            x = layer.img_conv(
                input=x,
                filter_size=3,
                num_channels=channels,
                num_filters=width,
                padding=1,
                act=relu,
            )
            channels = width
        x = layer.img_pool(input=x, pool_size=2, stride=2, pool_type=paddle.pooling.Max())
    scores = layer.fc(input=x, size=CLASSES, act=paddle.activation.Softmax())
    return layer.cross_entropy_cost(input=scores, label=label), image, label


def ours():
    """Return the loop of `paddle.trainer.SGD.train`, and the parameters."""
    import pd_v2 as paddle

    optimizer = paddle.optimizer.Momentum(learning_rate=RATE / BATCH, momentum=MOMENTUM)
    return loops.trainer_loop(network()[0], optimizer, pictures.samples)


def shaped(parameters):
    """Return the parameters, with the filters as [filters, channels, 3, 3] and biases as [n]."""
    shapes = []
    for k in range(len(CHANNELS) - 1):
        shapes += [(CHANNELS[k + 1], CHANNELS[k], 3, 3), (CHANNELS[k + 1],)]
    shapes += [(FLAT, CLASSES), (CLASSES,)]
    return [value.reshape(shape) for value, shape in zip(parameters, shapes, strict=True)]


def torch_loss(parameters):
    """Return the loss in PyTorch, a function (images, labels), from parameters as of `shaped`."""
    import torch
    from torch.nn import functional as f

    *filters, weight, bias = parameters

    def loss(images, labels):
        x = images
        for k in range(0, len(filters), 4):
            for w, b in (filters[k : k + 2], filters[k + 2 : k + 4]):
                x = f.relu(f.conv2d(x, w, b, padding=1))
            x = f.max_pool2d(x, 2)
        return f.cross_entropy(torch.addmm(bias, x.flatten(1), weight), labels)

    return loss


def pytorch(parameters, compiled):
    """Return the loop of PyTorch."""
    import torch

    trained = loops.torch_parameters(shaped(parameters))
    optimizer = torch.optim.SGD(trained, RATE, momentum=MOMENTUM, fused=True)
    return loops.torch_loop(compiled(torch_loss(trained)), optimizer)


def jax(parameters):
    """Return the loop of JAX, whose images are [n, H, W, channels]."""
    import jax
    from jax import lax
    from jax import numpy as jnp

    *start, weight, bias = shaped(parameters)
    start = [v.transpose(2, 3, 1, 0) if v.ndim == 4 else v for v in start]
    positions_first = weight.reshape(-1, 4, 4, CLASSES).transpose(1, 2, 0, 3).reshape(FLAT, CLASSES)
    layout = ("NHWC", "HWIO", "NHWC")

    def loss(parameters, images, labels):
        *filters, weight, bias = parameters
        x = images.transpose(0, 2, 3, 1)
        for k in range(0, len(filters), 4):
            for w, b in (filters[k : k + 2], filters[k + 2 : k + 4]):
                x = lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=layout)
                x = jax.nn.relu(x + b)
            n, height, width, channels = x.shape
            x = x.reshape(n, height // 2, 2, width // 2, 2, channels).max((2, 4))
        logarithms = jax.nn.log_softmax(x.reshape(-1, FLAT) @ weight + bias)
        return -jnp.take_along_axis(logarithms, labels[:, None], 1).mean()

    optimizer = loops.jax_momentum(RATE, MOMENTUM)
    return loops.jax_loop(loss, [*start, positions_first, bias], optimizer)
