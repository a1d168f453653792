"""Minibatches: samples grouped into lists."""

from pd_v2.reader.groups import batch

__all__ = ["batch"]
