"""Products that kernels of ONNX Runtime get wrong in one form."""

import numpy as np
import onnxruntime
import pytest

import pd_core as pd


@pytest.mark.parametrize("sizes", [(4, 5), (3, 4, 5)], ids=["matrix", "stack"])
@pytest.mark.parametrize("form", [pd.identity, lambda x: pd.reshape_like(x, x), pd.neg])
@pytest.mark.parametrize("given", [True, False], ids=["known", "unknown"])
def test_a_transposed_matrix_times_a_vector(sizes, given, form, rng, tmp_path):
    """ONNX Runtime 1.31 fuses both and leaves the transposition out."""
    order = [*range(len(sizes) - 2), len(sizes) - 1, len(sizes) - 2]
    a = pd.Variable(sizes if given else [None] * len(sizes), name="a")
    b = pd.Variable([4 if given else None], name="b")
    sign = -1.0 if form is pd.neg else 1.0
    y = pd.matmul(form(pd.transpose(a, order)), b)
    gradients = pd.gradients(pd.reduce_sum(pd.square(y)), [a, b])
    feeds = {"a": rng.random(sizes, np.float32), "b": rng.random(4, np.float32)}
    want = sign * np.swapaxes(feeds["a"], -1, -2) @ feeds["b"]
    got = pd.eval([y, *gradients], feeds={a: feeds["a"], b: feeds["b"]})
    assert np.allclose(got[0], want, rtol=1e-5)
    assert np.allclose(got[1], 2 * sign * want[..., None, :] * feeds["b"][:, None], rtol=1e-5)
    slopes = 2 * sign * (feeds["a"] * want[..., None, :]).sum(-1).reshape(-1, 4).sum(0)
    assert np.allclose(got[2], slopes, rtol=1e-5)
    path = tmp_path / "product.onnx"
    pd.export_onnx(path, [y], inputs=[a, b])
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    assert np.allclose(session.run(None, feeds)[0], want, rtol=1e-5)
