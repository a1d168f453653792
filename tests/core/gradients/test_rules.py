"""Rules that ONNX's own node tests leave out: slopes on ONNX Runtime by central differences.

A row is an opset, inputs and nodes in ONNX's notation, the last node of which gives y.
"""

import numpy as np
import pytest

import pd_core as pd

from ..onnx.importing.test_import import arrays_of, model_of

STEP = 5e-3
ROWS = [
    (21, "float[3,4] x", "y = Trilu<upper=0>(x)"),
    (21, "float[3,4] x", "a = Constant<value=int64 {1}>() y = CumSum<reverse=1>(x, a)"),
    (21, "float[3,4] x", "a = Constant<value=int64 {0}>() y = CumSum<exclusive=1>(x, a)"),
    (26, "float[3,4] x", "a = Constant<value=int64 {1}>() y = CumProd(x, a)"),
    (
        26,
        "float[3,4] x",
        "a = Constant<value=int64 {1}>() y = CumProd<reverse=1,exclusive=1>(x, a)",
    ),
    (26, "float[3,3] x", "z = Trilu(x) a = Constant<value=int64 {1}>() y = CumProd(z, a)"),
    (21, "float[5] x", "y, i, j, c = Unique(x)"),
    (21, "float[3,4] x", "y, i, j, c = Unique<axis=0>(x)"),
    *(
        (
            *(21, "float[3,4] x"),
            f'p = Constant<value=int64[4] {{1,2,0,1}}>() y = Pad<mode="{mode}">(x, p)',
        )
        for mode in ("constant", "reflect", "edge", "wrap")
    ),
    (21, "float[3,4] x, float v", "p = Constant<value=int64[4] {1,-1,0,1}>() y = Pad(x, p, v)"),
    (21, "float[2,3,4] x", "y = GlobalLpPool<p=3>(x)"),
    (
        *(21, "float[1,2,4,4] x"),
        "r = Constant<value=float[2,5] {0.0,0.0,0.0,2.0,3.0,0.0,1.0,1.0,3.0,3.0}>()"
        " y = MaxRoiPool<pooled_shape=[2,2]>(x, r)",
    ),
    (
        *(21, "float a, float d"),
        "k = Constant<value=float {7.3}>() o = Constant<value=float {1.0}>()"
        " e = Abs(d) f = Abs(a) g = Add(e, o) y = Range(f, k, g)",
    ),
    (21, "float[3,4] x", "c = Constant<value=bool[5] {1,0,1,1,0}>() y = Compress(x, c)"),
    (21, "float[2,3] x", "r = Constant<value=int64[2] {2,3}>() y = Tile(x, r)"),
    *(
        (
            *(21, "float[4,3] x, float[2,3] u"),
            "i = Constant<value=int64[2,1] {1,-3}>()"
            f' y = ScatterND<reduction="{reduction}">(x, i, u)',
        )
        for reduction in ("add", "mul", "max", "min")
    ),
    (
        *(21, "float[1,2,5,5] x"),
        "y = AveragePool<kernel_shape=[3,2],strides=[2,2],ceil_mode=1,pads=[1,0,1,0],"
        "count_include_pad=1>(x)",
    ),
    (
        *(21, "float[1,2,5,5] x, float[2,3,3,3] w"),
        'y = ConvTranspose<strides=[2,2],auto_pad="SAME_LOWER">(x, w)',
    ),
    (21, "float[1,2,5,5] x", "y = LpPool<kernel_shape=[2,2],p=3,dilations=[2,1]>(x)"),
    (
        *(21, "float[1,1,4,4] x"),
        "s = Constant<value=float[0] {}>() z = Constant<value=int64[4] {1,1,3,3}>()"
        " r = Constant<value=float[8] {0.0,0.0,0.2,0.1,1.0,1.0,0.9,0.7}>()"
        ' y = Resize<coordinate_transformation_mode="tf_crop_and_resize",mode="linear">'
        "(x, r, s, z)",
    ),
    (
        21,
        "float[1,2,N,M] x, float[3,2,3,3] w",
        'y = Conv<auto_pad="SAME_LOWER",strides=[2,2]>(x, w)',
    ),
    (21, "float[1,2,N,M] x", 'y = MaxPool<auto_pad="SAME_UPPER",kernel_shape=[3,2]>(x)'),
    (21, "float[2,6] x", "k = Constant<value=int64[1] {3}>() y, i = TopK<largest=0>(x, k)"),
    (
        *(21, "float[4,2,3] x"),
        "l = Constant<value=int64[2] {3,2}>() y = ReverseSequence<time_axis=0,batch_axis=1>(x, l)",
    ),
    (21, "float[3,3] x", "z = Trilu(x) y = ReduceProd<keepdims=0>(z)"),
    (
        *(21, "float[2] x"),
        "i = Constant<value=int64[2] {0,2}>() d = Constant<value=int64 {3}>() y = OneHot(i, d, x)",
    ),
    (
        *(21, "float[2,8,2] x"),
        "a = Constant<value=int64 {1}>() n = Constant<value=int64 {5}>()"
        " y = DFT<inverse=1>(x, n, a)",
    ),
    (
        *(21, "float[1,2,3] x"),
        "c = Constant<value=int64[2] {2,5}>() y = CenterCropPad<axes=[1,2]>(x, c)",
    ),
]


def label(row):
    return row[2].split("y")[-1].split("= ")[-1].split("(")[0].split("<")[0]


@pytest.mark.parametrize("row", ROWS, ids=label)
def test_slope(row, rng):
    opset, inputs, nodes = row
    model = model_of(opset, inputs, "float[?] y", nodes)
    f = pd.import_onnx(model)
    arrays = arrays_of(model, rng)
    slots = {n: pd.Variable(list(f.inputs[n][0])) for n in arrays}
    feeds, variables = {slots[n]: a for n, a in arrays.items()}, list(slots.values())
    y = f(**slots)
    weights = rng.standard_normal(pd.eval(y, feeds).shape)
    directions = {x: rng.standard_normal(a.shape) for x, a in feeds.items()}

    def projected(h):
        moved = {x: a + h * directions[x] for x, a in feeds.items()}
        return np.vdot(weights, pd.eval(y, moved).astype(float))

    numeric = (projected(STEP) - projected(-STEP)) / (2 * STEP)
    found = zip(
        variables, pd.gradients(y, variables, seeds=[weights.astype("float32")]), strict=True
    )
    slope = sum(np.vdot(pd.eval(g, feeds), directions[x]) for x, g in found if g is not None)
    assert slope == pytest.approx(numeric, rel=5e-3, abs=5e-3)
