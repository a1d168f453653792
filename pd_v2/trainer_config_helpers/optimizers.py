"""What optimizers take, where it had the same name in v1."""

from ..optimizer import L2Regularization, ModelAverage

__all__ = ["L2Regularization", "ModelAverage"]
