"""Operators that the evaluator of onnx 1.23 gets wrong or refuses, as the specification has them."""

from math import erf

import numpy as np
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun
from onnx.reference.ops.op_conv_transpose import ConvTranspose as OneGroup


class ConvTranspose(OneGroup):
    """Any number of groups, each a call of its own; the evaluator reshapes all of them as one."""

    op_domain = ""

    def _run(self, x, w, bias=None, group=1, **attributes):
        one_group = super()._run
        parts = zip(np.split(x, group, 1), np.split(w, group), strict=True)
        y = np.concatenate([one_group(a, b, group=1, **attributes)[0] for a, b in parts], 1)
        return (y if bias is None else y + bias.reshape(-1, *[1] * (x.ndim - 2)),)


class Erf(OpRun):
    """In the precision of x; the evaluator rounds to float32."""

    op_domain = ""

    def _run(self, x):
        return (np.vectorize(erf, otypes=[x.dtype])(x),)


class GatherElements(OpRun):
    """Any sizes; the evaluator takes at most 32 along the axis, and an index as wide as x."""

    op_domain = ""

    def _run(self, x, index, axis=0):
        axis %= x.ndim
        seen = tuple(slice(None) if k == axis else slice(n) for k, n in enumerate(index.shape))
        return (np.take_along_axis(x[seen], index, axis),)


class LogSoftmax(OpRun):
    """Without underflow; the evaluator takes the logarithm of the softmax."""

    op_domain = ""

    def _run(self, x, axis=-1):
        x = x - x.max(axis, keepdims=True)
        return (x - np.log(np.exp(x).sum(axis, keepdims=True)),)


def evaluator(model) -> ReferenceEvaluator:
    """ONNX's evaluator of a model, with the operators above."""
    return ReferenceEvaluator(model, new_ops=[ConvTranspose, Erf, GatherElements, LogSoftmax])
