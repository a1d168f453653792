"""Operators in the forms for CUDA, beside those that they stand for; no GPU is needed."""

import numpy as np
import pytest

import pd_core as pd
from pd_core.backend.passes import cuda
from pd_core.backend.passes.context import Context, each_node
from pd_core.graph.node import ancestors, apply

FORM = each_node({"ConvTranspose": cuda.conv_transpose})


def pads_of(y):
    nodes = [node for node in ancestors([y]) if node.op_type == "ConvTranspose"]
    return [node.attributes.get("pads") for node in nodes]


@pytest.mark.parametrize("seed", range(12))
def test_transposed_convolutions_are_cropped_alike(seed):
    rng = np.random.default_rng(seed)
    n, group = int(rng.integers(1, 4)), int(rng.integers(1, 3))
    window = [int(k) for k in rng.integers(2, 4, n)]
    strides, dilations = ([int(k) for k in rng.integers(1, 3, n)] for _ in range(2))
    pads = [int(k) for k in rng.integers(0, 3, 2 * n)]
    sizes = [int(k) for k in rng.integers(5, 8, n)]
    more = [int(rng.integers(0, stride)) for stride in strides]
    image = rng.standard_normal((2, 2 * group, *sizes)).astype("float32")
    filters = rng.standard_normal((2 * group, 3, *window)).astype("float32")
    options = {"strides": strides, "dilations": dilations, "group": group, "pads": pads}
    x = pd.Variable([None, *image.shape[1:]])
    y = apply("ConvTranspose", x, pd.constant(filters), output_padding=more, **options)
    (z,) = FORM([y], Context())
    assert z.dims == y.dims
    assert all(each[:n] == each[n:] for each in pads_of(z))
    assert pads[:n] == pads[n:] or z is not y
    wanted, found = pd.eval([y, z], {x: image})
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    "options", [{}, {"pads": [1, 1]}, {"auto_pad": "SAME_UPPER"}, {"output_shape": [9]}], ids=str
)
def test_what_is_cropped_alike_or_by_itself_stays(options):
    x, w = pd.Variable([1, 1, 5]), pd.constant(np.ones((1, 1, 3), "float32"))
    y = apply("ConvTranspose", x, w, **options)
    assert FORM([y], Context()) == [y]
