"""ResNet-20 (He et al. 2016) over 32 x 32 images, for inference in each framework.

PyTorch and JAX get convolutions that include the normalisation, as `fuse_conv_bn_eval` of PyTorch
computes them.
"""

import numpy as np

from tests.benchmarks import inference

STAGES, BLOCKS, CLASSES, EPSILON = ((16, 1), (32, 2), (64, 2)), 3, 10, 1e-5


def units():
    """Yield (channels, filters, kernel, stride, size of the result) of each convolution."""
    yield 3, 16, 3, 1, 32
    channels, side = 16, 32
    for filters, first_stride in STAGES:
        side //= first_stride
        for block in range(BLOCKS):
            stride = first_stride if block == 0 else 1
            yield channels, filters, 3, stride, side
            yield filters, filters, 3, 1, side
            if stride > 1:
                yield channels, filters, 1, stride, side
            channels = filters


def flops(batch):
    """Return the operations of the products."""
    return 2 * batch * (sum(c * f * (k * side) ** 2 for c, f, k, _, side in units()) + 64 * CLASSES)


def batches(batch):
    """Return batches of images [n, 3, 32, 32]."""
    rng = np.random.default_rng(0)
    return [(rng.normal(size=(batch, 3, 32, 32)).astype(np.float32),) for _ in range(4)]


def forward(convolution, relu, x):
    """Return the last image; `convolution(index, x)` includes the normalisation."""
    x, index = relu(convolution(0, x)), 1
    for _, first_stride in STAGES:
        for block in range(BLOCKS):
            y = relu(convolution(index, x))
            y, index = convolution(index + 1, y), index + 2
            if block == 0 and first_stride > 1:
                x, index = convolution(index, x), index + 1
            x = relu(y + x)
    return x


def ours():
    """Return the loop of `pd.eval`, and filters, scale, shift, mean and variance of each layer."""
    import pd_core as pd

    table, rng = list(units()), np.random.default_rng(1)
    convolutions = [
        pd.nn.Conv2d(
            filters, size, stride=stride, padding=size // 2, bias=False, kernel_init="he_normal"
        )
        for _, filters, size, stride, _ in table
    ]
    norms = [pd.nn.BatchNorm2d() for _ in table]
    images = pd.Variable([None, 3, 32, 32])
    x = forward(lambda k, x: norms[k](convolutions[k](x)), pd.relu, images)
    last = pd.nn.FC(CLASSES)
    scores = last(pd.reduce_mean(x, [2, 3]))
    parameters = []
    for convolution, norm in zip(convolutions, norms, strict=True):
        statistics = {
            name: rng.uniform(0.5, 1.5, value.shape).astype(np.float32)
            for name, value in norm.state_dict().items()
        }
        norm.load_dict(statistics)
        parameters += [convolution.parameters()[0].val()]
        parameters += [v.val() for v in (*norm.parameters(), *norm.buffers())]
    return inference.eval_loop(scores, [images]), [*parameters, *last.state_dict().values()]


def folded(parameters):
    """Return (filters with the factor, bias) of each convolution, and the last layer."""
    *parameters, weight, bias = parameters
    layers = []
    for k in range(0, len(parameters), 5):
        w, scale, shift, mean, variance = parameters[k : k + 5]
        factor = scale / np.sqrt(variance + EPSILON)
        layers.append([w * factor[:, None, None, None], shift - mean * factor])
    return layers, [weight, bias]


def pytorch(parameters, compiled):
    """Return the loop of PyTorch, with channels last."""
    import torch
    from torch.nn import functional as f

    layers, (weight, bias) = folded(parameters)
    form = torch.channels_last
    layers = [(torch.from_numpy(w).to(memory_format=form), torch.from_numpy(b)) for w, b in layers]
    weight, bias = torch.from_numpy(weight), torch.from_numpy(bias)
    table = list(units())

    def convolution(index, x):
        _, _, size, stride, _ = table[index]
        return f.conv2d(x, *layers[index], stride, size // 2)

    def scores(images):
        x = forward(convolution, torch.relu, images.to(memory_format=form))
        return torch.addmm(bias, x.mean((2, 3)), weight)

    return inference.torch_loop(scores, compiled)


def jax(parameters):
    """Return the loop of JAX, whose images are [n, H, W, channels]."""
    import jax
    from jax import lax

    layers, last = folded(parameters)
    layers = [(w.transpose(2, 3, 1, 0), b) for w, b in layers]
    table, layout = list(units()), ("NHWC", "HWIO", "NHWC")

    def scores(parameters, images):
        layers, (weight, bias) = parameters

        def convolution(index, x):
            (w, b), (_, _, size, stride, _) = layers[index], table[index]
            padding = [(size // 2, size // 2)] * 2
            return b + lax.conv_general_dilated(
                x, w, (stride, stride), padding, dimension_numbers=layout
            )

        x = forward(convolution, jax.nn.relu, images.transpose(0, 2, 3, 1))
        return x.mean((1, 2)) @ weight + bias

    return inference.jax_loop(scores, [layers, last])
