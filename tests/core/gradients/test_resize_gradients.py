"""The gradient of a Resize by the region that it crops, against differences of its values."""

import numpy as np
import pytest

import pd_core as pd
from pd_core.graph.node import apply

LAST_TWO = [0.1, 0.05, 0.83, 0.9]
REGIONS = {
    "last axes": ([2, 3], LAST_TWO, [4, 5]),
    "all axes": (None, [0, 0, 0.1, 0.05, 1, 1, 0.83, 0.9], [1, 2, 4, 5]),
    "beyond the image": ([2, 3], [-0.31, 0.2, 0.73, 1.27], [5, 4]),
    "turned around": ([2, 3], [0.93, 0.07, 0.12, 0.88], [3, 6]),
    "one pixel": ([2, 3], LAST_TWO, [1, 3]),
}


def crop(mode, axes, count, sizes, **attributes):
    x, region = pd.Variable([1, 2, 6, 7]), pd.Variable([count])
    attributes |= {"coordinate_transformation_mode": "tf_crop_and_resize", "mode": mode}
    y = apply("Resize", x, region, None, np.array(sizes), axes=axes, **attributes)
    return x, region, y


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize(("axes", "region", "sizes"), REGIONS.values(), ids=REGIONS.keys())
def test_gradient_of_a_region(axes, region, sizes, mode, rng):
    x, slot, y = crop(mode, axes, len(region), sizes, extrapolation_value=0.5)
    data, region = rng.standard_normal(x.shape), np.array(region)
    weights = rng.standard_normal(y.shape).astype("float32")
    (gradient,) = pd.gradients(pd.reduce_sum(pd.square(y) * weights), [slot])
    found = pd.eval(gradient, {x: data, slot: region})

    def cost(at):
        return (pd.eval(y, {x: data, slot: at}).astype("float64") ** 2 * weights).sum()

    half = len(region) // 2
    for k in range(len(region)):
        if axes is None and k % half < 2:  # images and channels are never cropped
            assert found[k] == 0
            continue
        step = 1e-3 * (np.arange(len(region)) == k)
        wanted = (cost(region + step) - cost(region - step)) / 2e-3
        np.testing.assert_allclose(found[k], wanted, rtol=2e-2, atol=5e-2)


def test_a_region_of_nearest_pixels_has_no_slope():
    x, slot, y = crop("nearest", [2, 3], 4, [4, 5])
    (gradient,) = pd.gradients(y, [slot])
    assert not pd.eval(gradient, {x: np.ones(x.shape), slot: LAST_TWO}).any()


def test_a_region_that_is_not_read_has_no_gradient():
    x, region = pd.Variable([1, 2, 6, 7]), pd.Variable([4])
    sizes = np.array([3, 3])
    y = apply("Resize", x, region, None, sizes, axes=[2, 3], mode="linear")
    assert pd.gradients(y, [region]) == [None]


def test_what_leaves_a_region_without_a_gradient_is_named():
    _, region, y = crop("cubic", [2, 3], 4, [4, 5], exclude_outside=1)
    with pytest.raises(pd.NoGradient, match="exclude_outside"):
        pd.gradients(y, [region])
