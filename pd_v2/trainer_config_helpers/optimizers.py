"""Arguments of optimizers that v1 had under these names too."""

from ..optimizer import L2Regularization, ModelAverage

__all__ = ["L2Regularization", "ModelAverage"]
