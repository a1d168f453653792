"""ResNet-20 as the third chapter of the 2017 book has it, on 32 x 32 images."""

import numpy as np

from tests.benchmarks import loops
from tests.benchmarks.models import pictures
from tests.benchmarks.models.resnet import BLOCKS, CLASSES, EPSILON, STAGES, units

BATCH, DEPTH = 64, 20
RATE, MOMENTUM = 0.01, 0.9

TITLE = f"ResNet-{DEPTH}, 32 x 32, batch {BATCH}, momentum"
KIND = "train"
RTOL = 5e-3
_PRODUCTS = [c * f * size**2 * side**2 for c, f, size, _, side in units()]
# The gradient of the image is not needed.
FLOPS = 2 * BATCH * (3 * (sum(_PRODUCTS) + 64 * CLASSES) - _PRODUCTS[0])


def batches():
    """Return batches of images [n, 3, 32, 32] and labels [n]."""
    return pictures.batches(BATCH, CLASSES)


def network():
    """Return (cost, images, labels), layers of pd_v2."""
    import pd_v2 as paddle

    layer, relu, linear = paddle.layer, paddle.activation.Relu(), paddle.activation.Linear()

    def conv_bn(x, filters, size, stride, act, channels=None):
        x = layer.img_conv(
            input=x,
            filter_size=size,
            num_channels=channels,
            num_filters=filters,
            stride=stride,
            padding=size // 2,
            act=linear,
            bias_attr=False,
        )
        return layer.batch_norm(input=x, act=act)

    image = paddle.data_type.dense_vector(3 * 32 * 32)
    image = layer.data(name="image", type=image, height=32, width=32)
    label = layer.data(name="label", type=paddle.data_type.integer_value(CLASSES))
    x = conv_bn(image, 16, 3, 1, relu, channels=3)
    for filters, first_stride in STAGES:
        for block in range(BLOCKS):
            stride = first_stride if block == 0 else 1
            y = conv_bn(x, filters, 3, stride, relu)
            y = conv_bn(y, filters, 3, 1, linear)
            if stride > 1:
                x = conv_bn(x, filters, 1, stride, linear)
            x = layer.addto(input=[y, x], act=relu)
    x = layer.img_pool(input=x, pool_size=8, stride=1, pool_type=paddle.pooling.Avg())
    scores = layer.fc(input=x, size=CLASSES, act=paddle.activation.Softmax())
    return layer.cross_entropy_cost(input=scores, label=label), image, label


def ours():
    """Return the loop of `paddle.trainer.SGD.train`, and the parameters."""
    import pd_v2 as paddle

    optimizer = paddle.optimizer.Momentum(learning_rate=RATE / BATCH, momentum=MOMENTUM)
    return loops.trainer_loop(network()[0], optimizer, pictures.samples)


def trained(parameters):
    """Return the parameters of a trainer without the moving averages of the normalisations."""
    *units_of_five, weight, bias = parameters
    return [v for k, v in enumerate(units_of_five) if k % 5 not in (2, 3)] + [weight, bias]


def shaped(parameters):
    """Return filter, scale and shift of each convolution, weight and bias of the last layer."""
    *values, weight, bias = parameters
    shapes = []
    for channels, filters, size, _, _ in units():
        shapes += [(filters, channels, size, size), (filters,), (filters,)]
    shaped = [value.reshape(shape) for value, shape in zip(values, shapes, strict=True)]
    return [*shaped, weight, bias.reshape(-1)]


def forward(convolution, relu, x):
    """Return the image before the last pooling; `convolution(index, x)` with normalisation."""
    x, index = relu(convolution(0, x)), 1
    for _, first_stride in STAGES:
        for block in range(BLOCKS):
            y = relu(convolution(index, x))
            y, index = convolution(index + 1, y), index + 2
            if block == 0 and first_stride > 1:
                x, index = convolution(index, x), index + 1
            x = relu(y + x)
    return x


def torch_loss(parameters):
    """Return the loss in PyTorch, a function (images, labels), from parameters as of `shaped`."""
    import torch
    from torch.nn import functional as f

    *values, weight, bias = parameters
    table = list(units())
    statistics = [[torch.zeros(unit[1]), torch.zeros(unit[1])] for unit in table]

    def convolution(index, x):
        (w, scale, shift), (_, _, size, stride, _) = values[3 * index :][:3], table[index]
        x = f.conv2d(x, w, None, stride, size // 2)
        return f.batch_norm(x, *statistics[index], scale, shift, True, 0.1, EPSILON)

    def loss(images, labels):
        x = forward(convolution, torch.relu, images).mean((2, 3))
        return f.cross_entropy(torch.addmm(bias, x, weight), labels)

    return loss


def pytorch(parameters, compiled):
    """Return the loop of PyTorch."""
    import torch

    values = loops.torch_parameters(shaped(trained(parameters)))
    optimizer = torch.optim.SGD(values, RATE, momentum=MOMENTUM, fused=True)
    return loops.torch_loop(compiled(torch_loss(values)), optimizer)


def jax(parameters):
    """Return the loop of JAX, whose images are [n, H, W, channels]."""
    import jax
    from jax import lax
    from jax import numpy as jnp

    values = shaped(trained(parameters))
    values = [v.transpose(2, 3, 1, 0) if v.ndim == 4 else v for v in values]
    table = list(units())
    statistics = [[np.zeros(unit[1], np.float32)] * 2 for unit in table]
    layout = ("NHWC", "HWIO", "NHWC")

    def loss(parameters, statistics, images, labels):
        *values, weight, bias = parameters
        statistics = list(statistics)

        def convolution(index, x):
            (w, scale, shift), (_, _, size, stride, _) = values[3 * index :][:3], table[index]
            padding = [(size // 2, size // 2)] * 2
            x = lax.conv_general_dilated(x, w, (stride, stride), padding, dimension_numbers=layout)
            mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
            old = statistics[index]
            statistics[index] = [0.9 * old[0] + 0.1 * mean, 0.9 * old[1] + 0.1 * variance]
            factor = scale * lax.rsqrt(variance + EPSILON)
            return x * factor + (shift - mean * factor)

        x = forward(convolution, jax.nn.relu, images.transpose(0, 2, 3, 1)).mean((1, 2))
        logarithms = jax.nn.log_softmax(x @ weight + bias)
        return -jnp.take_along_axis(logarithms, labels[:, None], 1).mean(), statistics

    return loops.jax_loop(loss, values, loops.jax_momentum(RATE, MOMENTUM), statistics)
