"""`info --memory` and `info --operators`: numbers against files, states and sizes."""

import os
import re

import onnx
import onnxruntime
import pytest

import pd_core as pd
from pd_core.commands import main
from pd_core.commands.memory import operators_of

from ..training.tuning import models


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder with model.onnx, which is the current one."""
    monkeypatch.chdir(tmp_path)
    onnx.save(models.perceptron(head="Softmax"), "model.onnx")


def run(capsys, command):
    """Run a command that succeeds; return its lines that end in bytes, by their names."""
    assert main(command.split()) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    rows = re.findall(r"^  (\S.*?)  +([\d,]+|-)  ", printed.out, re.MULTILINE)
    return {name: None if n == "-" else int(n.replace(",", "")) for name, n in rows}, printed.out


def state_of(path):
    """The outputs of a model without inputs."""
    session = onnxruntime.InferenceSession(path)
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, {}), strict=True))


@pytest.mark.parametrize("adaptation", ["", " --freeze b1", " --lora 2 --alpha 4"])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_memory_of_a_model_is_that_of_its_step(capsys, optimizer, adaptation):
    options = f"model.onnx --optimizer {optimizer}{adaptation}"
    rows, printed = run(capsys, f"info {options} --memory --batch 16")
    assert f"memory of a step, {optimizer}, batch 16, in bytes" in printed
    main(f"train-step {options} -o step.onnx --initial initial.onnx".split())
    main(f"train-step {options} -o portable.onnx --portable --initial other.onnx".split())
    capsys.readouterr()
    state = state_of("initial.onnx")
    slots = [n for n in state if n.startswith("optimizer/") or n == "learning_rate"]
    next_ones = {o.name for o in onnxruntime.InferenceSession("step.onnx").get_outputs()}
    ours = {n: a.nbytes for n, a in state.items() if n not in slots}
    assert rows["parameters"] == sum(n for name, n in ours.items() if f"{name}_next" in next_ones)
    assert rows.get("frozen", 0) == sum(ours.values()) - rows["parameters"]
    assert ("frozen" in rows) == bool(adaptation)
    assert rows["optimizer"] == sum(state[n].nbytes for n in slots)
    assert rows["state"] == sum(a.nbytes for a in state.values())
    assert rows["feeds"] == 16 * (8 * 4 + 8)
    assert rows["step.onnx"] == os.path.getsize("step.onnx")
    assert rows["step.onnx, portable"] == os.path.getsize("portable.onnx")
    assert rows["initial.onnx"] == os.path.getsize("initial.onnx")
    parts = ("state", "feeds", "constants", "peak of a run")
    assert rows["in all"] == sum(rows[name] for name in parts)
    # at the end the next state and the loss live
    changing = (a.nbytes for name, a in state.items() if f"{name}_next" in next_ones)
    assert rows["peak of a run"] >= 4 + sum(changing)
    # the same of the file that was written
    again, printed = run(capsys, "info step.onnx --memory --batch 16")
    assert "a training step" in printed
    assert again == {name: rows[name] for name in (*parts, "in all")}


def test_statistics_count_apart(capsys):
    with pd.fresh():
        x = pd.Variable("x", shape=["N", 1, "T"])
        y = pd.reduce_mean(pd.nn.BatchNorm1d()(x), [2])
        pd.export_onnx("norm.onnx", pd.fc(y, 3), inputs=[x])
    rows, _ = run(capsys, "info norm.onnx --memory --batch 4 --size T=10 --optimizer sgd")
    assert rows["statistics"] == 2 * 4
    assert rows["parameters"] == (2 + 3 + 3) * 4
    assert rows["feeds"] == 4 * 10 * 4 + 4 * 8


def test_larger_batches_take_more_in_proportion(capsys):
    peaks = [
        run(capsys, f"info model.onnx --memory --batch {n}")[0]["peak of a run"]
        for n in (1000, 2000)
    ]
    assert 1.9 < peaks[1] / peaks[0] <= 2


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("", "sizes that are known at run time only: T (hint: --size NAME=N gives one)"),
        ("--size T=3 --size U=4", "no input has a size named U"),
    ],
)
def test_a_size_that_is_missing_or_unknown_is_a_mistake(capsys, options, text):
    with pd.fresh():
        x = pd.Variable("x", shape=["N", "T", 4])
        pd.export_onnx("open.onnx", pd.fc(pd.reduce_mean(x, [1]), 3), inputs=[x])
    assert main(f"info open.onnx --memory {options}".split()) == 2
    assert text in capsys.readouterr().err


@pytest.mark.parametrize("value", ["T", "T=0", "=3", "T=x"])
def test_an_option_that_is_no_size_is_a_mistake(capsys, value):
    with pytest.raises(SystemExit):
        main(["info", "model.onnx", "--size", value])
    assert f"such as T=128, not {value}" in capsys.readouterr().err


def test_operators_of_bodies_and_functions_are_listed(capsys):
    proto = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17, "local" : 1, "com.microsoft" : 1]>
        g (float[n] x, bool c) => (float[n] y) {
            a = local.twice(x)
            b = com.microsoft.Gelu(a)
            y = If (c) <then_branch = t () => (float[n] p) {p = Exp(b)},
                        else_branch = e () => (float[n] q) {q = Log(b)}>
        }
        <domain: "local", opset_import: ["" : 17]> twice (x) => (y) {y = Add(x, x)}
    """)
    assert operators_of(proto) == {
        "ai.onnx": {"Add", "Exp", "If", "Log"},
        "com.microsoft": {"Gelu"},
    }
    main(["train-step", "model.onnx", "-o", "step.onnx"])
    capsys.readouterr()
    _, printed = run(capsys, "info model.onnx --operators needed.config")
    with open("needed.config") as file:
        assert file.read() == "ai.onnx;17;Add,Gemm,MatMul,Relu,Softmax\n"
    assert printed.endswith("needed.config: 5 operators\n")
    run(capsys, "info step.onnx --memory --operators needed.config")
    needed = {n.op_type for n in onnx.load("step.onnx").graph.node}
    with open("needed.config") as file:
        assert set(file.read().strip().split(";")[2].split(",")) == needed
    assert len(needed) > 10
