"""A U-Net (Ronneberger et al. 2015) with three levels, that labels each pixel."""

import numpy as np

from tests.benchmarks import loops

SIZE, BATCH, WIDTHS, RATE = 64, 8, (16, 32, 64), 1e-3
CONVOLUTIONS = (  # channels, filters, kernel, size of the image
    (1, 16, 3, 64), (16, 16, 3, 64), (16, 32, 3, 32), (32, 32, 3, 32), (32, 64, 3, 16),
    (64, 64, 3, 16), (64, 32, 2, 16), (64, 32, 3, 32), (32, 32, 3, 32), (32, 16, 2, 32),
    (32, 16, 3, 64), (16, 16, 3, 64), (16, 1, 1, 64),
)  # fmt: skip

TITLE = f"U-Net {'-'.join(map(str, WIDTHS))}, {SIZE} x {SIZE}, batch {BATCH}, Adam"
KIND = "train"
RTOL = 1e-3
_PRODUCTS = [c * f * (size * side) ** 2 for c, f, size, side in CONVOLUTIONS]
# The gradient of the image is not needed.
FLOPS = 2 * BATCH * (3 * sum(_PRODUCTS) - _PRODUCTS[0])


def batches():
    """Return batches of noisy images [n, 1, 64, 64] of a disc, and its mask."""
    rng = np.random.default_rng(0)
    rows, columns = np.mgrid[:SIZE, :SIZE]
    drawn = []
    for _ in range(4):
        y, x, r = (rng.uniform(a, b, (BATCH, 1, 1, 1)) for a, b in ((16, 48), (16, 48), (8, 16)))
        mask = ((rows - y) ** 2 + (columns - x) ** 2 < r**2).astype(np.float32)
        drawn.append(((mask + rng.normal(0, 0.5, mask.shape)).astype(np.float32), mask))
    return drawn


def ours():
    """Return the loop of `pd.eval`, and the parameters."""
    import pd_core as pd

    image, mask = (pd.Variable([None, 1, SIZE, SIZE]) for _ in range(2))
    layers, pool = [], pd.nn.MaxPool2d(2)

    def applied(layer, x):
        layers.append(layer)
        return layer(x)

    def block(x, width):
        for _ in range(2):
            x = applied(pd.nn.Conv2d(width, 3, padding=1, act="relu", kernel_init="he_normal"), x)
        return x

    def up(below, beside, width):
        below = applied(pd.nn.ConvTranspose2d(width, 2, stride=2, kernel_init="he_normal"), below)
        return block(pd.concat([beside, below], axis=1), width)

    first = block(image, WIDTHS[0])
    second = block(pool(first), WIDTHS[1])
    x = up(block(pool(second), WIDTHS[2]), second, WIDTHS[1])
    logits = applied(pd.nn.Conv2d(1, 1, kernel_init="he_normal"), up(x, first, WIDTHS[0]))
    loss = pd.reduce_mean(pd.sigmoid_cross_entropy(logits, mask))
    parameters = [v for layer in layers for v in layer.parameters()]
    return loops.eval_loop(loss, pd.AdamOptimizer(RATE).minimize(loss), [image, mask], parameters)


def forward(convolution, transposed, pool, join, x):
    """Return the logits; `convolution(index, x)` and `transposed(index, x)` count layers."""
    first = convolution(1, convolution(0, x))
    second = convolution(3, convolution(2, pool(first)))
    x = transposed(6, convolution(5, convolution(4, pool(second))))
    x = transposed(9, convolution(8, convolution(7, join(second, x))))
    return convolution(12, convolution(11, convolution(10, join(first, x))))


def pytorch(parameters, compiled):
    """Return the loop of PyTorch."""
    import torch
    from torch.nn import functional as f

    trained = loops.torch_parameters(parameters)

    def convolution(k, x):
        x = f.conv2d(x, *trained[2 * k : 2 * k + 2], padding="same")
        return f.relu(x) if k < 12 else x

    def transposed(k, x):
        return f.conv_transpose2d(x, *trained[2 * k : 2 * k + 2], stride=2)

    def loss(image, mask):
        logits = forward(
            convolution, transposed, lambda x: f.max_pool2d(x, 2), lambda *x: torch.cat(x, 1), image
        )
        return f.binary_cross_entropy_with_logits(logits, mask)

    return loops.torch_loop(compiled(loss), torch.optim.Adam(trained, RATE, fused=True))


def jax(parameters):
    """Return the loop of JAX, whose images are [n, H, W, channels]."""
    import jax
    from jax import lax
    from jax import numpy as jnp

    layout = ("NHWC", "HWIO", "NHWC")

    def loss(parameters, image, mask):
        def convolution(k, x):
            w, b = parameters[2 * k : 2 * k + 2]
            x = lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=layout) + b
            return jax.nn.relu(x) if k < 12 else x

        def transposed(k, x):  # the 2 x 2 squares of the result do not overlap
            w, b = parameters[2 * k : 2 * k + 2]
            n, height, width, _ = x.shape
            x = (x @ w).reshape(n, height, width, 2, 2, -1) + b
            return x.transpose(0, 1, 3, 2, 4, 5).reshape(n, 2 * height, 2 * width, -1)

        def pool(x):
            n, height, width, channels = x.shape
            return x.reshape(n, height // 2, 2, width // 2, 2, channels).max((2, 4))

        x = image.transpose(0, 2, 3, 1)
        logits = forward(convolution, transposed, pool, lambda *x: jnp.concatenate(x, -1), x)
        logits = logits.reshape(mask.shape)
        return (jax.nn.softplus(logits) - mask * logits).mean()

    def shaped(k, w):
        if k in (12, 18):  # of a transposed convolution, [channels, filters, 2, 2]
            return w.transpose(0, 2, 3, 1).reshape(len(w), -1)
        return w.transpose(2, 3, 1, 0) if w.ndim == 4 else w

    start = [shaped(k, w) for k, w in enumerate(parameters)]
    return loops.jax_loop(loss, start, loops.jax_adam(RATE))
