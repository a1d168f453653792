"""`python -m pd_v2 export`: a topology or a script, and parameters, to one ONNX file."""

import contextlib
import gzip
import os
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import pd_v2 as paddle
from pd_v2 import build
from pd_v2.__main__ import main
from pd_v2.topology import Topology

ROOT = str(Path(__file__).parents[2])
A, L, T = paddle.activation, paddle.layer, paddle.data_type

# Python 2, with a module of its own and a main program that must not run.
SCRIPT = """\
import sizes
import paddle.v2 as paddle

def net(size, act=None):
    x = paddle.layer.data(name='x', type=paddle.data_type.dense_vector(8 / 2))
    hidden = paddle.layer.fc(input=x, size=sizes.hidden, name='h')
    return hidden, paddle.layer.fc(input=hidden, size=size, act=act, name='p')

if __name__ == '__main__':
    print 'training'
"""


def network():
    x = L.data(name="x", type=T.dense_vector(4))
    return L.fc(L.fc(x, size=5, name="h"), size=3, name="p", act=A.Softmax())


@pytest.fixture
def files(tmp_path):
    """A topology and its parameters; what the network gives for X."""
    (tmp_path / "net.py").write_text(SCRIPT)
    (tmp_path / "sizes.py").write_text("hidden = 5\n")
    with build.fresh():
        p = network()
        pool = paddle.parameters.create(p)
        with open(tmp_path / "net.pkl", "wb") as f:
            Topology(p).serialize_for_inference(f)
        pool.to_tar(tmp_path / "net.tar")
        with gzip.open(tmp_path / "net.tar.gz", "wb") as f:
            pool.to_tar(f)
        expected, h = paddle.inference.Inference(pool, [p, L.get_layer("h")]).infer(
            input=[(row,) for row in X], flatten_result=False
        )
    return tmp_path, [expected, h]


X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)


def computed(path):
    """The outputs of a model for X, by name."""
    onnx.checker.check_model(onnx.load(path), full_check=True)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    assert [(i.name, i.shape) for i in session.get_inputs()] == [("x", ["batch", 4])]
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(None, {"x": X}), strict=True))


@pytest.mark.parametrize("tar", ["net.tar", "net.tar.gz"])
def test_a_topology(files, tar, capsys):
    folder, (expected, _) = files
    out = str(folder / "net.onnx")
    arguments = ["--topology", folder / "net.pkl", "--parameters", folder / tar, out]
    assert main(["export", *map(str, arguments)]) == 0
    assert capsys.readouterr() == (f"{out}: x -> p\n", "")
    found = computed(out)
    assert list(found) == ["p"]
    np.testing.assert_allclose(found["p"], expected, rtol=1e-5)
    assert build.current().layers == {}


@pytest.fixture
def exported(zygote):
    """A function that runs the command in a folder, in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": ROOT}
    return lambda folder, *arguments: zygote(["export", *arguments], folder, environment, "")


def test_layers_of_a_script(files, exported):
    """One by an expression, one by its name."""
    folder, (p, h) = files
    layers = ("--layer", "net(3, paddle.activation.Softmax())[1]", "--layer", "h")
    done = exported(folder, "--script", "net.py", *layers, "--parameters", "net.tar", "n.onnx")
    assert (done.returncode, done.stdout, done.stderr) == (0, "n.onnx: x -> p, h\n", "")
    found = computed(folder / "n.onnx")
    np.testing.assert_allclose(found["p"], p, rtol=1e-5)
    np.testing.assert_allclose(found["h"], h, rtol=1e-5)


@pytest.mark.parametrize(
    ("layer", "problem"),
    [("net(3)", "net(3) is "), ("x.y.", "x.y.: invalid syntax"), ("g", "g: name 'g' is not def")],
)
def test_what_is_no_layer(files, exported, layer, problem):
    folder, _ = files
    done = exported(
        folder, "--script", "net.py", "--layer", layer, "--parameters", "net.tar", "n.onnx"
    )
    assert done.returncode == 1 and not (folder / "n.onnx").exists()
    assert done.stderr.startswith(f"python -m pd_v2 export: --layer {problem}")
    assert done.stderr.count("\n") == 1 and "; the layers of " in done.stderr


@pytest.mark.parametrize(
    ("replace", "message"),
    [
        ({"--topology": "none.pkl"}, "No such file or directory: 'none.pkl'"),
        ({"--parameters": "none.tar"}, "No such file or directory: 'none.tar'"),
        ({"--topology": "net.tar"}, "net.tar holds no topology"),
        ({"--parameters": "net.pkl"}, "not a tar"),
        ({"--parameters": "other.tar"}, "there is no value for the parameters ['_h.w0', "),
        ({"OUTPUT": "none/n.onnx"}, "No such file or directory"),
    ],
)
def test_what_does_not_fit(files, replace, message, capsys, monkeypatch):
    folder, _ = files
    monkeypatch.chdir(folder)
    with build.fresh():
        x = L.data(name="x", type=T.dense_vector(4))
        paddle.parameters.create(L.fc(x, size=1, name="other")).to_tar("other.tar")
    given = {"--topology": "net.pkl", "--parameters": "net.tar", "OUTPUT": "n.onnx", **replace}
    output = given.pop("OUTPUT")
    assert main(["export", *(w for pair in given.items() for w in pair), output]) == 1
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("python -m pd_v2 export: ") and message in err
    assert not os.path.exists(output)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "required: --parameters, OUTPUT"),
        (["--parameters", "p", "o"], "one of the arguments --topology --script is required"),
        (["--script", "s", "--parameters", "p", "o"], "--script and --layer go together"),
        (
            ["--topology", "t", "--layer", "l", "--parameters", "p", "o"],
            "--script and --layer go together",
        ),
    ],
)
def test_arguments_that_are_missing(arguments, message, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["export", *arguments])
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


def test_what_a_damaged_topology_says_is_one_line(tmp_path, capsys, monkeypatch):
    """Messages of ONNX, which have several, too."""
    monkeypatch.chdir(tmp_path)
    x = paddle.layer.data(name="x", type=paddle.data_type.dense_vector(4))
    y = paddle.layer.fc(input=x, size=3, act=paddle.activation.Softmax())
    with open("p.tar", "wb") as file:
        paddle.parameters.create(y).to_tar(file)
    with open("whole.bin", "wb") as file:
        paddle.topology.Topology(y).serialize_for_inference(file)
    whole, rng, said = Path("whole.bin").read_bytes(), np.random.default_rng(3), []
    for _ in range(120):
        damaged = bytearray(whole)
        for place in rng.integers(len(whole), size=2):
            damaged[place] = rng.integers(256)
        Path("cut.bin").write_bytes(damaged)
        with contextlib.suppress(SystemExit):
            main(["export", "--topology", "cut.bin", "--parameters", "p.tar", "out.onnx"])
        said.append(capsys.readouterr().err)
    assert [text for text in said if text.count("\n") > 1] == []
    assert any("ValidationError" in text for text in said)
