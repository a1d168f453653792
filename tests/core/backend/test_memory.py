"""The memory of a run: by hand for small graphs, and against what ONNX Runtime takes."""

import subprocess
import sys
import textwrap

import numpy as np
import onnx
import pytest

import pd_core as pd
from pd_core.backend.memory import UnknownSize, fixed_sizes, run_memory


def model(text):
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}')


X = 4 * 100  # bytes of a row
CASES = {
    # one value after the other: the product and its sum at once
    "chain": ("y = MatMul(x, w) z = ReduceSum <keepdims = 0> (y)", "float z", 3 * X + 4),
    # relu writes into its input
    "in place": ("y = MatMul(x, w) z = Relu(y)", "float[n, 100] z", 3 * X),
    # but not while the input is read later, or is the caller's
    "read later": (
        "y = MatMul(x, w) a = Relu(y) z = Concat <axis = 0> (a, y)",
        "float[m, 100] z",
        12 * X,
    ),
    "of the caller": ("z = Relu(x)", "float[n, 100] z", 3 * X),
    # a transposed value is a copy, a reshaped one is not
    "copy": ("y = MatMul(x, w) z = Transpose(y)", "float[100, n] z", 6 * X),
    "view": (
        "s = Constant <value_ints = [-1]> () y = MatMul(x, w) a = Reshape(y, s) z = Relu(a)",
        "float[m] z",
        3 * X,
    ),
    # what nobody reads lives while its node runs
    "unread": ("a, b = TopK(x, k) c = Exp(a) z = MatMul(c, w)", "float[n, 100] z", 3 * X * 3),
}


@pytest.mark.parametrize("name", CASES)
def test_values_live_until_nothing_reads_them(name):
    nodes, output, expected = CASES[name]
    inputs, stored = "float[n, 100] x, float[100, 100] w", "int64[1] k = {100}"
    memory = run_memory(model(f"g ({inputs}) => ({output}) <{stored}> {{{nodes}}}"), 3, {})
    assert memory.unknown == 0
    assert memory.inputs == {"x": 3 * X, "w": 100 * X}
    assert memory.peak == expected


def test_bodies_of_loops_count_where_they_run():
    nodes = """
        y = MatMul(x, w)
        h, z = Scan <num_scan_inputs = 1, body = b (float[1] h0, float[100] row)
            => (float[1] h1, float[1] o) {
            wide = Concat <axis = 0> (row, row, row)
            o = ReduceMax <keepdims = 1> (wide)
            h1 = Add(h0, o)
        }> (start, y)
    """
    text = "g (float[n, 100] x, float[100, 100] w, float[1] start) => (float[1] h, float[n, 1] z)"
    memory = run_memory(model(f"{text} {{{nodes}}}"), 3, {})
    assert memory.unknown == 0
    assert memory.peak == 3 * X + 4 + 12 + 3 * X + 4  # y, h, z and, in a body, wide and o


def test_sizes_have_to_be_known():
    proto = model("g (float[n, t, 4] x) => (float[n, t, 4] y) {y = Relu(x)}")
    with pytest.raises(UnknownSize, match="known at run time only: t"):
        run_memory(proto, 2, {})
    with pytest.raises(UnknownSize, match="no input has a size named u"):
        run_memory(proto, 2, {"t": 5, "u": 6})
    assert run_memory(proto, 2, {"t": 5}).peak == 4 * 2 * 5 * 4
    dims = fixed_sizes(proto, 2, {"t": 5}).graph.input[0].type.tensor_type.shape.dim
    assert [d.dim_value for d in dims] == [2, 5, 4]
    assert proto.graph.input[0].type.tensor_type.shape.dim[1].dim_param == "t"  # as it was


MEASURED = textwrap.dedent("""
    import sys
    import numpy as np, onnxruntime

    def status(key):
        with open("/proc/self/status") as file:
            return next(int(line.split()[1]) for line in file if line.startswith(key)) * 1024

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    session = onnxruntime.InferenceSession(sys.argv[1], options)
    feeds = dict(np.load(sys.argv[2]))
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the peak begins anew
    before = status("VmRSS")
    session.run(None, feeds)
    print(status("VmHWM") - before)
""")


def perceptron():
    x = pd.Variable("x", shape=["N", 128])
    y = x
    for _ in range(4):
        y = pd.fc(y, 384, act="tanh")
    return x, pd.reduce_mean(pd.square(pd.fc(y, 8))), (1024, 128)


def convolutions():
    x = pd.Variable("x", shape=["N", 3, 48, 48])
    y = pd.layer.conv2d(x, 24, 3, padding=1, B=False)
    y = pd.relu(pd.layer.batch_norm(y))
    y = pd.relu(pd.layer.conv2d(y, 24, 3, padding=1, groups=24))
    y = pd.max_pool(pd.relu(pd.layer.conv2d(y, 32, 1)), 2, 2)
    return x, pd.reduce_mean(pd.square(pd.fc(pd.reduce_mean(y, [2, 3]), 8))), (32, 3, 48, 48)


@pytest.mark.skipif(sys.platform != "linux", reason="no /proc here")
@pytest.mark.parametrize("build", [perceptron, convolutions])
def test_the_peak_is_that_of_the_runtime_within_a_factor(build, tmp_path):
    """Above it is the scratch memory of kernels, below it are buffers that it plans better."""
    with pd.fresh():
        x, cost, shape = build()
        step = pd.AdamOptimizer(1e-3).minimize(cost)
        path = tmp_path / "step.onnx"
        proto = pd.export_step(path, step, [cost], [x])
    memory = run_memory(proto, shape[0], {})
    assert memory.unknown == 0
    state = {t.name: onnx.numpy_helper.to_array(t) for t in proto.graph.initializer}
    feeds = {n: state[n] for n in memory.inputs if n in state}
    np.savez(tmp_path / "feeds.npz", x=np.ones(shape, "float32"), **feeds)
    assert sum(a.nbytes for a in feeds.values()) == sum(memory.inputs[n] for n in feeds)
    command = [sys.executable, "-c", MEASURED, path, tmp_path / "feeds.npz"]
    measured = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert 0.7 < measured / memory.peak < 2, (measured, memory.peak)
