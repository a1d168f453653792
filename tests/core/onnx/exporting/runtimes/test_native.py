"""Exported steps in C and C++: demos/native against the shared library of the installed runtime."""

import pathlib
import shutil
import subprocess
import sys

import numpy as np
import onnxruntime
import pytest
from safetensors import safe_open

import pd_core as pd

DEMOS = pathlib.Path(__file__).parents[5] / "demos" / "native"
PROGRAMS = {"c": ("cc", "step.c", "-std=c11"), "c++": ("c++", "step.cpp", "-std=c++17")}


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """A folder with the shared library under the names that linker and loader look for."""
    folder = tmp_path_factory.mktemp("library")
    found = [*(pathlib.Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so.*")]
    if sys.platform != "linux" or not found:
        pytest.skip("this ONNX Runtime has no shared library to link with")
    for name in ("libonnxruntime.so", "libonnxruntime.so.1"):
        (folder / name).symlink_to(found[0])
    return folder


@pytest.fixture(scope="module", params=PROGRAMS)
def program(request, library):
    """A compiled example."""
    compiler, source, standard = PROGRAMS[request.param]
    if not shutil.which(compiler):
        pytest.skip("there is no compiler of C or C++ here")
    path = library / source.replace(".", "_")
    warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    linked = [f"-L{library}", "-lonnxruntime", "-lm", f"-Wl,-rpath,{library}"]
    command = [compiler, standard, *warnings, str(DEMOS / source), "-o", str(path), *linked]
    subprocess.run(command, check=True, timeout=300)
    return path


def write_step(folder, width):
    """Write step and initial state; return the first 20 losses of pd."""
    folder.mkdir()
    pd.reset(seed=0)
    x = pd.Variable("x", shape=[None, 8])
    label = pd.Variable("label", shape=[None], dtype="int64")
    hidden = pd.dropout(pd.fc(x, width, act="relu"), 0.2)
    cost = pd.reduce_mean(pd.softmax_cross_entropy(pd.fc(hidden, 3), label))
    step = pd.AdamOptimizer(0.01).minimize(cost)
    pd.export_step(folder / "step.onnx", step, [cost], initial=folder / "initial.onnx")
    samples = np.sin(0.37 * np.arange(256)).astype("float32").reshape(32, 8)
    feeds = {x: samples, label: np.arange(32) % 3}
    return [float(pd.eval([cost, step], feeds)[0]) for _ in range(20)]


@pytest.fixture
def steps(tmp_path):
    """Folders of a step and of one with more units, and the losses of the first."""
    with pd.fresh():
        losses = write_step(tmp_path / "step", 16)
        write_step(tmp_path / "wider", 20)
    return tmp_path / "step", tmp_path / "wider", losses


def run(program, folder, count):
    result = subprocess.run(
        [program, folder, str(count)], capture_output=True, text=True, timeout=120
    )
    return result.returncode, [float(line) for line in result.stdout.split()], result.stderr


def test_it_trains_as_pd_does_and_goes_on_from_its_file(program, steps):
    folder, _, expected = steps
    first, second = run(program, folder, 12), run(program, folder, 8)
    assert (first[0], first[2]) == (0, "beginning\n")
    assert (second[0], second[2]) == (0, "going on\n")
    np.testing.assert_allclose(first[1] + second[1], expected, rtol=1e-5)
    session = onnxruntime.InferenceSession(folder / "step.onnx")
    entries = session.get_modelmeta().custom_metadata_map
    with safe_open(folder / "state.safetensors", "np") as file:
        assert file.metadata() == {"pd.digest": entries["pd.digest"]}
        state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    np.testing.assert_array_equal(state["random_seed"], [[0, 20]])
    feeds = {i.name: state[i.name] for i in session.get_inputs() if i.name in state}
    assert len(feeds) == len(state)


def test_a_state_that_does_not_fit_is_refused(program, steps):
    folder, wider, _ = steps
    assert run(program, folder, 1)[0] == 0
    path = folder / "state.safetensors"
    whole = path.read_bytes()
    stale = wider / path.name
    stale.write_bytes(whole)
    text = f"{stale} is stale: it is the state of another step\n"
    assert run(program, wider, 1) == (3, [], text)
    assert stale.read_bytes() == whole
    for size, what in ((5, "it is cut off"), (len(whole) - 4, "'random_seed' is not whole")):
        path.write_bytes(whole[:size])
        code, losses, error = run(program, folder, 1)
        assert (code, losses) == (4, [])
        assert error == f"{path} is damaged: {what}\n"


def test_a_model_that_is_no_step_and_a_missing_file_are_errors(program, steps):
    folder, wider, _ = steps
    shutil.copy(folder / "initial.onnx", folder / "step.onnx")
    code, _, error = run(program, folder, 1)
    assert code == 1 and "the model has no metadata 'pd.digest'" in error
    (wider / "initial.onnx").unlink()
    code, _, error = run(program, wider, 1)
    assert code == 1 and error.startswith("ONNX Runtime: ") and "initial.onnx" in error
    assert run(program, wider, 0)[::2] == (2, "usage: step FOLDER STEPS\n")
