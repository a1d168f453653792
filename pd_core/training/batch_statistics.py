"""Statistics of batch normalisation for parameters that no step of training had."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..dynamic.guard import guard
from ..graph.errors import GraphError, NotInitialized
from ..layers.layer import Layer
from ..layers.norm import BatchNorm1d, BatchNorm2d, BatchNorm3d
from ..ops.mode import in_mode
from ..run.session import default_session
from .fit.modes import modes_kept


def refresh_batch_norm(net: Layer, batches: Iterable[Any]) -> None:
    """Compute the moving statistics of batch normalisation anew, as PyTorch's `update_bn` does.

    For parameters that were averaged, for example: inside `average.applied()`. `batches` are arrays
    that the network takes, or tuples for several inputs. Each BatchNorm1d, BatchNorm2d and
    BatchNorm3d gets the means, over all batches, of their means and variances, which are computed
    in training mode. The modes and parameters of the network stay as they are, and after an error
    the statistics, too.
    """
    who, session = "refresh_batch_norm", default_session()
    kinds = BatchNorm1d, BatchNorm2d, BatchNorm3d
    norms = [n for n in (net, *net.sublayers()) if isinstance(n, kinds)]
    if not norms:
        raise GraphError(f"{who}: there is no batch normalisation in {type(net).__name__}")
    if not all(norm.named_buffers() for norm in norms):
        raise NotInitialized(f"{who}: {type(net).__name__} has no statistics before its first call")
    momenta = [norm.momentum for norm in norms]
    buffers = [v for norm in norms for _, v in norm.named_buffers()]
    before = {v: session.get(v) for v in buffers}
    sums: list[Any] = [0.0] * len(buffers)
    count = 0
    try:
        with modes_kept(net):
            net.train()
            for norm in norms:
                norm.momentum = 0.0  # statistics are those of the last batch
            for batch in batches:
                session.load_values({v: np.zeros_like(value) for v, value in before.items()})
                with guard(), in_mode(True):
                    net(*(batch if isinstance(batch, tuple) else (batch,)))
                sums = [s + session.get(v) for s, v in zip(sums, buffers, strict=True)]
                count += 1
        if not count:
            raise ValueError(f"{who}: there are no batches")
    except BaseException:
        session.load_values(before)
        raise
    finally:
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
    session.load_values({v: s / count for v, s in zip(buffers, sums, strict=True)})
