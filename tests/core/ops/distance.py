"""Rows of distances and angles."""

import numpy as np

from pd_core import ops

from .case import case, distinct, normal


def _cosine(x, y, axis=-1):
    norms = np.linalg.norm(x, axis=axis) * np.linalg.norm(y, axis=axis)
    return (x * y).sum(axis) / np.maximum(norms, 1e-16)


def _cdist(x, y, p=2.0):
    return np.linalg.norm(x[..., :, None, :] - y[..., None, :, :], p, -1)


CASES = [
    case("cosine_similarity", ops.cosine_similarity, _cosine, [normal(3, 4), normal(3, 4)]),
    case("cosine_similarity", ops.cosine_similarity, _cosine, [normal(3, 4)] * 2, axis=0),
    case("cdist", ops.cdist, _cdist, [normal(2, 3, 4), normal(5, 4)]),
    case("cdist", ops.cdist, _cdist, [distinct(3, 4), normal(2, 4)], p=1.0, batch=(0, 1)),
    case("cdist", ops.cdist, _cdist, [normal(3, 4), normal(2, 4)], p=3.0, rtol=1e-4),
    case("cdist", ops.cdist, _cdist, [normal(3, 4), normal(2, 4)], p=np.inf),
]
