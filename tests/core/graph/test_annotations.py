"""Annotations of jaxtyping on Variables, checked by beartype."""
# ruff: noqa: F722 - the texts are sizes

import numpy as np
import pytest

import pd_core as pd

jaxtyping = pytest.importorskip("jaxtyping")
from jaxtyping import Float, Int, Shaped  # noqa: E402

V = pd.Variable


@pytest.mark.parametrize(
    "shape, dtype, kind, text, fits",
    [
        ([3, 4], "float32", Float, "batch dim", True),
        ([None, 4], "float32", Float, "batch 4", True),
        ([None, 4], "float32", Float, "batch 5", False),
        ([None, 4], "float32", Float, "8 4", False),  # it is not known to be 8
        ([3, 4], "float32", Float, "n n", False),
        ([3, 4], "float32", Float, "batch", False),
        ([2, 3, 4], "float32", Float, "... 4", True),
        ([3, 4], "int64", Int, "a b", True),
        ([3, 4], "int64", Float, "a b", False),
        ([3], "bfloat16", Float, "a", True),
        ([3], "bool", Shaped, "a", True),
    ],
)
def test_shapes_and_dtypes(shape, dtype, kind, text, fits):
    assert isinstance(V(shape, dtype=dtype), kind[V, text]) == fits
    if None not in shape and dtype != "bfloat16":
        with pd.guard():
            assert isinstance(pd.to_variable(np.ones(shape, dtype)), kind[V, text]) == fits


def test_functions_and_modules():
    beartype = pytest.importorskip("beartype").beartype

    @jaxtyping.jaxtyped(typechecker=beartype)
    def product(x: Float[V, "batch dim"], w: Float[V, "dim out"]) -> Float[V, "batch out"]:
        return pd.matmul(x, w)

    assert product(V([None, 4]), V([4, 3])).shape == (None, 3)
    with pytest.raises(jaxtyping.TypeCheckError, match="parameter 'w'"):
        product(V([None, 4]), V([5, 3]))
    with pytest.raises(jaxtyping.TypeCheckError, match="parameter 'x'"):
        product(V([None, 4], dtype="int64"), V([4, 3]))

    class Net(pd.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = pd.nn.FC(2)

        @jaxtyping.jaxtyped(typechecker=beartype)
        def forward(self, x: Float[V, "n 4"]) -> Float[V, "n 2"]:
            return self.fc(x)

    x, net = np.ones((8, 4), np.float32), Net()
    net.fit(x, np.ones((8, 2), np.float32), optimizer="sgd", loss="mse")
    assert net.predict(x).shape == (8, 2)
