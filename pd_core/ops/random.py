"""Random numbers, reproducible from the session's seed.

Every draw is a hash of (seed, step, which draw, which element), computed in the graph with
integer products, so that pruning or adding parts shifts nothing, no runtime merges two draws, and
any ONNX runtime gives the same stream. In the body of a loop every step draws anew.
"""

import math
from zlib import crc32

from ..graph.checks import whole
from ..graph.errors import ShapeError
from ..graph.names import current_namespace, names
from ..graph.node import composite
from ..graph.variable import constant, fresh_dim
from . import math as m
from .control import loop_counters
from .mode import mode_switch
from .shape import shape_of


def uniform_random(shape, low=0.0, high=1.0, dtype="float32"):
    """Uniform on [low, high): a fresh draw in every evaluation. Sizes are numbers or a Variable."""
    bits = _uniform(shape, current_namespace() + names().next("uniform_random_"))
    return m.cast(bits * float(high - low) + float(low), dtype)


def gaussian_random(shape, mean=0.0, std=1.0, dtype="float32"):
    """Normal N(mean, std^2): a fresh draw in every evaluation (Box & Muller 1958)."""
    name = current_namespace() + names().next("gaussian_random_")
    radius = m.sqrt(m.log(1.0 - _uniform(shape, name + "/radius")) * -2.0)
    wave = m.cos(_uniform(shape, name + "/angle") * (2.0 * math.pi))
    return m.cast(radius * wave * float(std) + float(mean), dtype)


def bernoulli(x, probability):
    """1 with the given probability, else 0: one draw for each element of x, in its shape."""
    if not 0 <= probability <= 1:
        raise ValueError(f"bernoulli: a probability is within [0, 1], not {probability}")
    x = constant(x)
    name = current_namespace() + names().next("bernoulli_")
    u = _uniform(shape_of(x) if not x.is_static else x.dims, name, x.dims)
    return m.cast(m.less_than(u, float(probability)), x.dtype)


def dropout(x, rate=0.5, upscale_in_train=True):
    """Zero each element with probability `rate` in a training step; identity in inference.

    Training divides what is kept by 1 - rate. With upscale_in_train=False it does not, and
    inference multiplies by 1 - rate instead.
    """
    x = constant(x)
    if not 0 <= rate < 1:
        raise ValueError(f"dropout: the rate is within [0, 1), not {rate}")
    if rate == 0:
        return x
    kept = x * bernoulli(x, 1.0 - rate)
    if upscale_in_train:
        return mode_switch(kept * (1.0 / (1.0 - rate)), x)
    return mode_switch(kept, x * (1.0 - rate))


def _uniform(shape, name, dims=None):
    """Uniform float32 on [0, 1), of which `name` is the key."""
    target = whole(shape)
    if dims is None:
        known = target.value is not None
        dims = target.value.tolist() if known else [fresh_dim() for _ in range(target.dims[0])]
    if any(isinstance(d, int) and d < 0 for d in dims):
        raise ShapeError(f"a size is not negative, {list(dims)}")
    types, key = [(tuple(dims), "float32")], crc32(name.encode())
    return composite("Uniform", target, *loop_counters(), types=types, key=key)
