"""Convolutions by oneDNN: their values and gradients, and what goes wrong."""

import gc
import threading
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnx import helper

import pd_core as pd
from pd_core.backend.fused import onednn, program
from pd_core.backend.fused.build import available, build
from pd_core.backend.fused.onednn import channels_last, choice, kernels
from pd_core.backend.passes.context import Context
from pd_core.commands import main
from pd_core.graph.node import ancestors

pytestmark = [
    pytest.mark.skipif(not available(), reason="there is no C compiler here"),
    pytest.mark.skipif(not onednn.active(), reason="there is no oneDNN here"),
]
RNG = np.random.default_rng(0)
LAST, PLAIN = (0, 2, 3, 1), (0, 3, 1, 2)


def floats(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


# ---- operators alone, against ONNX Runtime's own

GEOMETRIES = {  # images, channels, filters, image, window, strides, pads, dilations, groups
    "plain": (4, 3, 8, (9, 10), (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1),
    "strides": (5, 16, 8, (9, 8), (3, 2), (2, 3), (1, 0, 2, 1), (1, 1), 1),
    "dilations": (2, 4, 6, (11, 9), (3, 2), (1, 1), (2, 1, 2, 0), (2, 3), 1),
    "groups": (3, 6, 9, (7, 8), (3, 3), (1, 2), (1, 1, 0, 2), (1, 1), 3),
    "depthwise": (3, 8, 8, (7, 8), (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 8),
    "a pixel": (3, 16, 24, (5, 6), (1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 1),
    "pixels left over": (2, 5, 7, (8, 9), (2, 2), (3, 3), (0, 0, 0, 0), (1, 1), 1),
    "one channel": (4, 1, 1, (6, 6), (5, 5), (1, 1), (2, 2, 2, 2), (1, 1), 1),
    "one result": (4, 3, 5, (6, 7), (6, 7), (1, 1), (0, 0, 0, 0), (1, 1), 1),
    "many parts": (37, 16, 16, (16, 16), (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1),
    "two parts": (3, 32, 32, (24, 24), (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1),
}


def model_of(op_type, shapes, domain="", **attributes):
    """A model of one operator on inputs of these ranks."""
    node = helper.make_node(op_type, list(shapes), ["y"], "node", domain=domain, **attributes)
    inputs = [helper.make_tensor_value_info(k, 1, [None] * r) for k, r in shapes.items()]
    graph = helper.make_graph([node], "test", inputs, [helper.make_tensor_value_info("y", 1, None)])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(kernels.DOMAIN, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def opened(model, threads=2):
    """A session of a model, with oneDNN's operators if it has any."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 4
    source, _ = kernels.fuse(model, {})
    if source is not None:
        options.register_custom_ops_library(str(build(source, **kernels.options())))
    return onnxruntime.InferenceSession(model.SerializeToString(), options)


def session_of(op_type, geometry, inputs, threads=2):
    relu = {"relu": 0} if op_type in ("ConvLast", "ConvLastBias") else {}
    attributes = geometry.attributes() | {"rank": 4} | relu
    shapes = {k: v.ndim for k, v in inputs.items()}
    return opened(model_of(op_type, shapes, kernels.DOMAIN, **attributes), threads)


def last(x):
    return np.ascontiguousarray(x.transpose(LAST))


def case(n, channels, filters, image, window, strides, pads, dilations, group):
    """(geometry, attributes of ONNX, x, w, b, dy) of a row."""
    result = tuple(
        (size + p + q - (k - 1) * d - 1) // s + 1
        for size, p, q, k, d, s in zip(
            image, pads, pads[2:], window, dilations, strides, strict=False
        )
    )
    geometry = choice.Geometry(
        channels, filters, group, image, result, window, strides, dilations, pads
    )
    own = {"strides": strides, "pads": pads, "dilations": dilations, "group": group}
    arrays = (
        floats(n, channels, *image),
        floats(filters, channels // group, *window),
        floats(filters),
        floats(n, filters, *result),
    )
    return geometry, own, *arrays


def of_runtime(op_type, attributes, **inputs):
    model = model_of(op_type, {k: v.ndim for k, v in inputs.items()}, **attributes)
    return opened(model).run(None, inputs)[0]


def filter_grad(x, dy, w, own):
    """The gradient of filters by the runtime's convolution: x with channels as images.

    A group at a time: dy is the filters, whose strides are dilations and the other way round.
    """
    group, parts = own["group"], []
    for a, b in zip(np.split(x, group, 1), np.split(dy, group, 1), strict=True):
        attributes = {"strides": own["dilations"], "dilations": own["strides"], "pads": own["pads"]}
        y = of_runtime("Conv", attributes, x=a.transpose(1, 0, 2, 3), w=b.transpose(1, 0, 2, 3))
        parts.append(y.transpose(1, 0, 2, 3)[:, :, : w.shape[2], : w.shape[3]])
    return np.concatenate(parts, 0)


def input_grad(dy, w, geometry, own):
    """The gradient of an image by the runtime's transposed convolution."""
    missing = [
        size + p + q - (r - 1) * s - (k - 1) * d - 1
        for size, p, q, r, s, k, d in zip(
            geometry.image, own["pads"], own["pads"][2:], geometry.result, own["strides"],
            geometry.window, own["dilations"], strict=False,
        )
    ]  # fmt: skip
    n, group = len(dy), own["group"]
    if any(
        m >= max(s, d) for m, s, d in zip(missing, own["strides"], own["dilations"], strict=True)
    ):
        raise AssertionError("a row that ONNX has no transposed convolution for")
    y = of_runtime("ConvTranspose", {**own, "output_padding": missing}, x=dy, w=w)
    assert y.shape == (n, geometry.channels, *geometry.image) and group
    return y


@pytest.mark.parametrize("row", GEOMETRIES.values(), ids=GEOMETRIES)
def test_each_operator_is_what_the_runtime_computes(row):
    geometry, own, x, w, b, dy = case(*row)

    def run(op_type, **inputs):
        return session_of(op_type, geometry, inputs).run(None, inputs)[0]

    y = of_runtime("Conv", own, x=x, w=w)
    np.testing.assert_allclose(run("ConvLast", x=last(x), w=w).transpose(PLAIN), y, 1e-4, 1e-4)
    y = of_runtime("Conv", own, x=x, w=w, b=b)
    found = run("ConvLastBias", x=last(x), w=w, b=b).transpose(PLAIN)
    np.testing.assert_allclose(found, y, 1e-4, 1e-4)
    dx = run("ConvLastInputGrad", w=w, dy=last(dy)).transpose(PLAIN)
    np.testing.assert_allclose(dx, input_grad(dy, w, geometry, own), 1e-4, 1e-4)
    dw = run("ConvLastFilterGrad", x=last(x), dy=last(dy))
    np.testing.assert_allclose(dw, filter_grad(x, dy, w, own), 1e-4, 1e-5 * np.abs(dw).max())


def filter_grad_of_double(x, dy, geometry):
    """The gradient of filters in double precision, a place of the window at a time."""
    g = geometry
    (top, left, bottom, right), (rows, columns) = g.pads, g.result
    x = np.pad(x.astype(float), ((0, 0), (0, 0), (top, bottom), (left, right)))
    dw = np.zeros((g.filters, g.channels, *g.window))
    for k, m in np.ndindex(*g.window):
        above, before = k * g.dilations[0], m * g.dilations[1]
        met = x[:, :, above :: g.strides[0], before :: g.strides[1]][:, :, :rows, :columns]
        dw[:, :, k, m] = np.einsum("nchw,nfhw->fc", met, dy)
    return dw


@pytest.mark.parametrize("seed", range(24))
def test_gradients_of_filters_of_any_geometry(seed):
    """Drawn so that most are computed by the kernel for many channels, and some at its limits."""
    rng = np.random.default_rng(seed)

    def draw(low, high, count=2):
        return tuple(map(int, rng.integers(low, high, count, endpoint=True)))

    window, dilations, strides = draw(1, 4), draw(1, 2), draw(1, 3)
    pads = draw(0, 4, 4)
    least = [
        (k - 1) * d + 1 - p - q
        for k, d, p, q in zip(window, dilations, pads, pads[2:], strict=False)
    ]
    image = tuple([max(1, size) + more for size, more in zip(least, draw(0, 14), strict=True)])
    channels = int(rng.choice([11, 12, 14, 16, 18, 20, 22, 26, 32]))
    filters = int(rng.choice([8, 16, 32, 48]))
    n = int(rng.choice([1, 2, 3, 9]))
    row = (n, channels, filters, image, window, strides, pads, dilations, 1)
    geometry, _, x, _, _, dy = case(*row)
    inputs = {"x": last(x), "dy": last(dy)}
    session = session_of("ConvLastFilterGrad", geometry, inputs)
    found = session.run(["y"], inputs)[0]
    expected = filter_grad_of_double(x, dy, geometry)
    np.testing.assert_allclose(found, expected, 1e-4, 1e-5 * max(1, np.abs(expected).max()))
    np.testing.assert_array_equal(session.run(["y"], inputs)[0], found)


@pytest.mark.parametrize("op_type", ["ConvLast", "ConvLastInputGrad", "ConvLastFilterGrad"])
def test_numbers_of_images_may_change_from_run_to_run(op_type):
    geometry, own, _, w, _, _ = case(*GEOMETRIES["plain"])
    session = None
    for n in (4, 1, 0, 7, 4, 40, 2, 3, 5, 6, 8, 9, 4, 1):  # more than there are primitives for
        x, dy = floats(n, 3, 9, 10), floats(n, 8, 9, 10)
        inputs, expected = {
            "ConvLast": lambda x=x: (
                {"x": last(x), "w": w},
                last(of_runtime("Conv", own, x=x, w=w)) if len(x) else np.zeros((0, 9, 10, 8)),
            ),
            "ConvLastInputGrad": lambda dy=dy: (
                {"w": w, "dy": last(dy)},
                last(input_grad(dy, w, geometry, own)) if len(dy) else np.zeros((0, 9, 10, 3)),
            ),
            "ConvLastFilterGrad": lambda x=x, dy=dy: (
                {"x": last(x), "dy": last(dy)},
                filter_grad(x, dy, w, own) if len(x) else np.zeros_like(w),
            ),
        }[op_type]()
        session = session or session_of(op_type, geometry, inputs)
        found = session.run(None, inputs)[0]
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, 1e-4, 1e-3)


@pytest.mark.parametrize("op_type", ["ConvLast", "ConvLastInputGrad", "ConvLastFilterGrad"])
def test_concurrent_runs_have_the_bits_of_one_thread(op_type):
    geometry, _, x, w, _, dy = case(*GEOMETRIES["many parts"])
    inputs = {
        "ConvLast": {"x": last(x), "w": w},
        "ConvLastInputGrad": {"w": w, "dy": last(dy)},
        "ConvLastFilterGrad": {"x": last(x), "dy": last(dy)},
    }[op_type]
    expected = session_of(op_type, geometry, inputs, threads=1).run(None, inputs)[0]
    session, found = session_of(op_type, geometry, inputs, threads=3), []
    fewer = {k: v if k == "w" else v[:5] for k, v in inputs.items()}

    def run(k):
        for _ in range(3):
            session.run(None, fewer if k % 2 else inputs)
        found.append(session.run(None, inputs)[0])

    threads = [threading.Thread(target=run, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(found) == 4 and all(np.array_equal(y, expected) for y in found)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e-42, 3e38])
def test_special_values_are_where_the_runtime_has_them(value):
    geometry, own, x, w, b, dy = case(*GEOMETRIES["plain"])
    x[1, 2, 4, 5] = dy[2, 3, 4, 5] = value
    inputs = {"x": last(x), "w": w, "b": b}
    found = session_of("ConvLastBias", geometry, inputs).run(None, inputs)[0]
    np.testing.assert_allclose(
        found.transpose(PLAIN), of_runtime("Conv", own, x=x, w=w, b=b), 1e-4, 1e-4
    )
    inputs = {"w": w, "dy": last(dy)}
    found = session_of("ConvLastInputGrad", geometry, inputs).run(None, inputs)[0]
    expected = input_grad(dy, w, geometry, own)
    np.testing.assert_allclose(found.transpose(PLAIN), expected, 1e-4, 1e-4)


def test_sizes_that_do_not_fit_are_an_error_of_the_runtime():
    geometry, _, x, w, b, _ = case(*GEOMETRIES["plain"])
    session = session_of("ConvLastBias", geometry, {"x": x, "w": w, "b": b})
    for inputs in (
        {"x": x, "w": w, "b": b},  # channels first
        {"x": last(x), "w": w[:, :2], "b": b},
        {"x": last(x), "w": w, "b": b[:3]},
    ):
        with pytest.raises(
            onnxruntime.capi.onnxruntime_pybind11_state.InvalidArgument, match="oneDNN"
        ):
            session.run(None, inputs)
    inputs = {"x": last(x), "w": w, "b": b}
    assert session.run(None, inputs)[0].shape == (4, 9, 10, 8)  # it goes on


@pytest.mark.parametrize(
    "changed",
    [{"group": 2}, {"rank": 6}, {"pads": [0, 0]}, {"result": [2, 2]}, {"window": [3]}],
    ids=str,
)
def test_attributes_that_do_not_fit_are_an_error(changed):
    geometry, _, x, w, _, _ = case(*GEOMETRIES["plain"])
    attributes = geometry.attributes() | {"rank": 4, "relu": 0} | changed
    model = model_of("ConvLast", {"x": 4, "w": 4}, kernels.DOMAIN, **attributes)
    with pytest.raises(Exception, match="oneDNN"):
        opened(model).run(None, {"x": last(x), "w": w})


def test_a_library_that_cannot_be_loaded_is_an_error(tmp_path):
    (tmp_path / "libdnnl.so.3").write_bytes(b"none")
    geometry, _, _, _, _, _ = case(*GEOMETRIES["plain"])
    attributes = geometry.attributes() | {"rank": 4, "relu": 0}
    model = model_of("ConvLast", {"x": 4, "w": 4}, kernels.DOMAIN, **attributes)
    source, _ = kernels.fuse(model, {})
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    flags = [f'-DONEDNN="{tmp_path / "libdnnl.so.3"}"']
    options.register_custom_ops_library(str(build(source, flags=flags)))
    with pytest.raises(Exception, match="oneDNN cannot be loaded"):
        onnxruntime.InferenceSession(model.SerializeToString(), options)


def resident():
    """Bytes of this process in memory."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no /proc here")
def test_memory_is_freed():
    geometry, _, x, _, _, dy = case(*GEOMETRIES["two parts"])

    def once(n):
        inputs = {"x": last(x)[:n], "dy": last(dy)[:n]}
        session = session_of("ConvLastFilterGrad", geometry, inputs)
        for k in range(1, 4):
            session.run(None, {name: v[:k] for name, v in inputs.items()})
        gc.collect()

    gc.collect()
    gc.freeze()  # as conftest.py does: what was here before is not visited sixty times
    grown = []
    for _ in range(4):  # a leak grows each time, the heap of a process that did much else does not
        before = resident()
        for _ in range(15):
            once(3)
        grown.append(resident() - before)
    assert min(grown) < 3 << 19


# ---- networks


@pytest.fixture
def counted(monkeypatch):
    """A list of the numbers of oneDNN's operators of each program; all convolutions are theirs."""
    found = []

    def fuse(model, kinds, equal):
        source, count = kernels.fuse(model, kinds, equal)
        found.append(count)
        return source, count

    monkeypatch.setattr(choice, "is_faster", lambda *_: True)
    fusers = [program.Fuser(fuse, kernels.options), *program.FUSERS[1:]]
    monkeypatch.setattr(program, "FUSERS", fusers)
    monkeypatch.setattr(program, "_remembered", lambda name: None)  # but libraries are
    pd.clear_programs()
    with pd.fresh():
        yield found
    pd.clear_programs()


def residual(x):
    y = pd.relu(pd.nn.BatchNorm2d()(pd.nn.Conv2d(8, 3, padding=1)(x)))
    z = pd.nn.BatchNorm2d()(pd.nn.Conv2d(8, 3, padding=1)(y))
    y = pd.relu(z + y)
    return pd.reduce_mean(pd.nn.Conv2d(4, 1, stride=2)(y), [2, 3])


def unet(x):
    y = pd.nn.Conv2d(6, 3, padding=1, act="relu")(x)
    z = pd.nn.Conv2d(8, 3, padding=1, act="relu")(pd.nn.MaxPool2d(2)(y))
    z = pd.concat([y, pd.nn.ConvTranspose2d(6, 2, stride=2)(z)], axis=1)
    return pd.nn.Conv2d(1, 1)(pd.nn.Conv2d(5, 3, padding=1, act="tanh")(z))


def lenet(x):
    y = pd.nn.MaxPool2d(2)(pd.nn.Conv2d(6, 3, act="relu")(x))
    y = pd.nn.AvgPool2d(3)(pd.nn.Conv2d(7, 1)(y))
    return pd.fc(pd.reshape(y, [0, -1]), size=5)


def depthwise(x):
    y = pd.nn.Conv2d(6, 3, padding=1)(x) * pd.Variable("scale", data=floats(6, 1, 1))
    y = pd.nn.Conv2d(12, 3, groups=6, stride=2)(y)
    left, right = pd.split(y, [6, 6], axis=1)
    return left * pd.sigmoid(right) + pd.reduce_mean(y, [0, 2, 3], keep_dim=True)[:, :6]


def pools(x):
    y = pd.nn.Conv2d(4, 3)(x)
    overlapping = pd.nn.MaxPool2d(3, stride=1)(y)
    whole = pd.reduce_max(y, [2, 3], keep_dim=True)
    return (
        pd.nn.Conv2d(3, 2)(overlapping * whole) + pd.reduce_sum(y, 1, keep_dim=True)[:, :, :3, :3]
    )


NETWORKS = {f.__name__: f for f in (residual, unet, lenet, depthwise, pools)}


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_networks_train_alike(network, counted):
    size = {"lenet": 14, "pools": 8}.get(network.__name__, 12)
    x = pd.Variable([None, 3, size, size])
    cost = pd.reduce_mean(pd.square(network(x)))
    trained = [v for v in read_by(cost) if v.is_persistent and v.trainable]
    grads = pd.gradients(cost, [x, *trained])
    assert len(grads) > 2
    for n in (5, 1):
        feeds = {x: floats(n, 3, size, size)}
        with pd.fused(False):
            expected = pd.eval([cost, *grads], feeds)
        with pd.fused():
            found = pd.eval([cost, *grads], feeds)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, 1e-3, 1e-4 * max(1e-3, np.abs(b).max()))
    assert max(counted) >= 3


def test_nan_and_ties_of_a_pooling(counted):
    x = pd.Variable([None, 2, 4, 4])
    w = np.zeros((2, 2, 1, 1), np.float32)
    w[0, 0] = w[1, 1] = 1
    y = pd.nn.MaxPool2d(2)(pd.relu(pd.nn.Conv2d(2, 1, kernel_init=w, bias=False)(x)))
    grad = pd.gradients(pd.reduce_sum(y * np.arange(1, 9, dtype=np.float32).reshape(2, 2, 2)), [x])
    value = np.ones((3, 2, 4, 4), np.float32)
    value[0, 0, 1, 1] = value[1, 0, 0, 0] = value[1, 1, 3, :2] = np.nan
    value[2] = -1
    with np.errstate(invalid="ignore"):
        after = np.maximum(value + 0 * value[:, ::-1], 0).reshape(3, 2, 2, 2, 2, 2)
    with pd.fused(False):
        expected = pd.eval(grad, {x: value})
    with pd.fused():
        np.testing.assert_array_equal(pd.eval(y, {x: value}), after.max((3, 5)))
        np.testing.assert_array_equal(pd.eval(grad, {x: value}), expected)
    assert max(counted) > 0


# ---- which convolutions


@pytest.mark.parametrize(
    ("n", "channels", "filters", "group", "is_faster"),
    [
        (8, 1, 1, 1, True),
        (64, 16, 32, 1, True),
        (7, 16, 32, 1, False),  # few images
        (8, 32, 32, 32, True),
        (8, 32, 64, 32, False),
        (8, 32, 32, 4, True),
        (8, 32, 32, 8, False),  # few channels of a group
    ],
)
def test_the_limits_are_those_that_were_measured(n, channels, filters, group, is_faster):
    sizes = ((9, 9), (9, 9), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1))
    assert choice.is_faster(choice.Geometry(channels, filters, group, *sizes), n) is is_faster


def op_types(build, shape):
    """The operators behind a value, before it is lowered."""
    with pd.fresh():
        x = pd.Variable([None, *shape[1:]])
        y = pd.reduce_mean(build(x))
        grads = pd.gradients(y, [v for v in read_by(y) if v.is_persistent])
        sizes = {d: shape[0] for d in x.dims if isinstance(d, str)}
        targets = channels_last.channels_last([y, *grads], Context(sizes=sizes))
        return {node.op_type for node in ancestors(targets)}


def read_by(y):
    read = (v for node in ancestors([y]) for v in node.inputs if v is not None)
    return list(dict.fromkeys(read))


def test_wide_filters_are_left_to_winograd():
    narrow = op_types(pd.nn.Conv2d(16, 3, padding=1), (8, 16, 16, 16))
    wide = op_types(pd.nn.Conv2d(64, 3, padding=1), (8, 64, 16, 16))
    few = op_types(pd.nn.Conv2d(16, 3, padding=1), (2, 16, 16, 16))
    assert "ConvLastBias" in narrow and "ConvLastFilterGrad" in narrow
    assert not narrow & {"Conv", "ConvFilterGrad"}
    assert not any(each.startswith("Conv") for each in wide)
    assert "Conv" in few and not any("Last" in each for each in few)


# ---- the switch


def layouts(monkeypatch, value):
    monkeypatch.setenv("PD_ONEDNN", value)
    return channels_last.channels_last in pd.Session(fused=True).compilers.current.backend.layouts


def test_it_is_for_fused_programs_and_can_be_switched_off(monkeypatch):
    assert layouts(monkeypatch, "1") and not layouts(monkeypatch, "0")
    assert onednn.why_not() == "PD_ONEDNN=0"
    monkeypatch.setenv("PD_ONEDNN", "1")
    plain = pd.Session(fused=False).compilers.current.backend
    assert channels_last.channels_last not in plain.layouts


@pytest.mark.parametrize(
    ("value", "told"), [("1", "convolutions by oneDNN"), ("0", "not by oneDNN: PD_ONEDNN=0")]
)
def test_info_tells_whether_it_is_used(value, told, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("PD_ONEDNN", value)
    path = str(tmp_path / "model.onnx")
    with pd.fresh():
        x = pd.Variable([None, 3], name="x")
        pd.export_onnx(path, [pd.relu(x)], inputs=[x])
    assert main(["info", path]) == 0
    assert told in capsys.readouterr().out


def test_without_the_package_everything_else_stays(monkeypatch):
    monkeypatch.setattr(onednn.package, "PACKAGE", "no-such-package")
    onednn.package._found.cache_clear()
    try:
        assert "no-such-package is not installed" in onednn.why_not()
        session = pd.Session(fused=True)
        x = pd.Variable([None, 1, 3, 3])
        y = pd.nn.Conv2d(1, 3, kernel_init="ones", bias=False)(x)
        assert session.eval(y, {x: np.ones((9, 1, 3, 3))}).tolist() == [[[[9.0]]]] * 9
        assert channels_last.channels_last not in session.compilers.current.backend.layouts
    finally:
        monkeypatch.undo()
        onednn.package._found.cache_clear()
