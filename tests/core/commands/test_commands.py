"""`python -m pd_core`: what the commands print, write and refuse."""

import re
import runpy
import sys

import numpy as np
import onnx
import onnxruntime
import pytest

import pd_core as pd
from pd_core.commands import main
from pd_core.optimizers.named import OPTIMIZERS

from ..training.tuning import models


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with model.onnx and data.npz, which is the current one."""
    monkeypatch.chdir(tmp_path)
    onnx.save(models.perceptron(head="Softmax"), "model.onnx")
    np.savez("data.npz", **models.samples(256))
    return tmp_path


def output(capsys, command):
    """Run a command that succeeds; return what it prints."""
    assert main(command.split()) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    return printed.out


def test_info_describes_inputs_operators_and_parameters(folder, capsys):
    lines = output(capsys, "info model.onnx --freeze W1").splitlines()
    assert re.fullmatch(r"model.onnx: [\d,]+ bytes, opset ai.onnx 17, written by unknown", lines[0])
    assert lines[1:4] == [
        "input  x: float32 [N, 8]",
        "output  y: float32 [N, 3]",
        "operators  1 Add, 1 Gemm, 1 MatMul, 1 Relu, 1 Softmax",
    ]
    assert "W1    [8, 16]  float32  MatMul weight  no: frozen" in lines
    assert "trained: 3 tensors, 67 elements, 268 bytes" in lines


def test_check_names_operators_that_end_gradients(folder, capsys):
    assert output(capsys, "check model.onnx") == (
        "4 of 4 parameters that are to be trained get a gradient\n"
    )
    proto = models.perceptron()
    proto.graph.node[2].op_type = "Round"
    onnx.save(proto, "rounded.onnx")
    assert main(["check", "rounded.onnx"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "no gradient  W1: Round, which gives 'h', has a derivative of zero",
        "no gradient  b1: Round, which gives 'h', has a derivative of zero",
        "ends gradients  Round, which gives 'h', has a derivative of zero",
        "2 of 4 parameters that are to be trained get a gradient",
    ]


def test_finetune_writes_a_model_that_has_learned(folder, capsys):
    printed = output(
        capsys,
        "finetune model.onnx data.npz -o tuned.onnx --epochs 4 --lr 0.05 --validation 0.25 "
        "--optimizer adamw --weight-decay 0.001 --freeze b1",
    ).splitlines()
    assert printed[0] == "cross-entropy of y against label; feeds: x float32[N, 8], label int64[N]"
    assert len(printed) == 6
    assert re.match(r"epoch 4: cost \S+, accuracy 0.9\d+, validation cost", printed[4])
    tuned, before = onnx.load("tuned.onnx"), onnx.load("model.onnx")
    assert tuned.graph.node == before.graph.node
    held_out = models.samples(64, seed=9)
    y = models.run(tuned, x=held_out["x"])[0]
    assert (y.argmax(1) == held_out["label"]).mean() > 0.75
    np.testing.assert_array_equal(models.stored(tuned)["b1"], models.stored(before)["b1"])


def test_finetune_in_another_precision(folder, capsys):
    command = "finetune model.onnx data.npz -o tuned.onnx --epochs 4 --lr 0.02 --precision "
    output(capsys, command + "mixed_float16")
    (found,) = models.run(onnx.load("tuned.onnx"), x=models.samples(64, 2)["x"])
    assert (found.argmax(1) == models.samples(64, 2)["label"]).mean() > 0.8
    assert main((command + "mixed_bfloat16").split()) == 2
    assert "the device cpu has no bfloat16 kernels" in capsys.readouterr().err


def test_finetune_with_adapters_and_quantised(folder, capsys):
    command = "finetune model.onnx data.npz -o tuned.onnx --epochs 2 --lr 0.02 "
    printed = output(capsys, command + "--lora 2 --target W1 --adapters a.safetensors --train b2")
    assert printed.startswith("LoRA of rank 2, alpha 2, on 1 matrix: 48 numbers are trained inst")
    tuned, before = onnx.load("tuned.onnx"), models.stored(onnx.load("model.onnx"))
    changed = {n for n, a in models.stored(tuned).items() if (a != before[n]).any()}
    assert changed == {"W1", "b2"}
    assert (folder / "a.safetensors").exists()
    output(capsys, command + "--qat")
    integers = models.stored(onnx.load("tuned.onnx"))["W2_quantized"]
    assert integers.dtype == np.int8


def test_a_training_goes_on_from_its_checkpoint(folder, capsys):
    command = "finetune model.onnx data.npz --lr 0.02 --lora 2 "
    output(capsys, command + "--epochs 4 -o whole.onnx")
    output(capsys, command + "--epochs 2 -o half.onnx --checkpoint saved")
    printed = output(capsys, command + "--epochs 4 -o tuned.onnx --checkpoint saved --resume")
    assert re.findall(r"epoch (\d):", printed) == ["3", "4"]
    whole, tuned = (models.stored(onnx.load(f"{name}.onnx")) for name in ("whole", "tuned"))
    for name in whole:
        np.testing.assert_array_equal(tuned[name], whole[name])
    for path in ("saved", "saved/batch-00032"):
        output(capsys, f"export model.onnx {path} -o again.onnx --lora 2")
        again = models.stored(onnx.load("again.onnx"))
        for name in whole:
            np.testing.assert_array_equal(again[name], whole[name])


RANGES = [f"{x}.range_{part}" for x in ("x", "h") for part in ("low", "high", "weight")]
FACTORS = [f"{w}.lora_{k}" for w in ("W1", "W2") for k in "AB"]


@pytest.mark.parametrize(
    ("adaptation", "more"),
    [("", []), ("--freeze b1", []), ("--lora 2 --alpha 4", FACTORS), ("--qat", RANGES)],
)
def test_a_step_trains_in_any_runtime_and_its_state_returns(folder, capsys, adaptation, more):
    """The loop of docs/on_device_training.md with ONNX Runtime alone, then `export`."""
    output(capsys, f"artifacts model.onnx -o files --optimizer sgd --lr 0.1 {adaptation}")
    sessions = [
        onnxruntime.InferenceSession(f"files/{name}.onnx")
        for name in ("checkpoint", "training_model", "eval_model")
    ]
    checkpoint, training, evaluation = sessions
    state = dict(
        zip([o.name for o in checkpoint.get_outputs()], checkpoint.run(None, {}), strict=True)
    )
    names = [o.name for o in training.get_outputs()]
    data, losses = models.samples(256), []
    assert state["learning_rate"] == np.float32(0.1)
    state["learning_rate"] = np.array(0.2, np.float32)
    for _ in range(20):
        out = dict(zip(names, training.run(None, {**data, **state}), strict=True))
        state = {name: out.get(f"{name}_next", value) for name, value in state.items()}
        losses.append(out[names[0]])
    assert losses[-1] < 0.8 * losses[0]
    wanted = {i.name for i in evaluation.get_inputs()}
    assert wanted == {"x", "label", "W1", "b1", "W2", "b2", *more}
    feeds = {name: a for name, a in {**data, **state}.items() if name in wanted}
    loss, y = evaluation.run(None, feeds)
    assert loss < losses[-1]
    np.savez("state.npz", **state)
    printed = output(capsys, f"export model.onnx state.npz -o tuned.onnx {adaptation}")
    assert f"tuned.onnx: {4 + len(more)} of " in printed
    if more:
        assert main(["export", "model.onnx", "state.npz", "-o", "tuned.onnx"]) == 2
        assert "was adapted: it needs --" in capsys.readouterr().err
    tuned = onnx.load("tuned.onnx")
    np.testing.assert_allclose(models.run(tuned, x=data["x"])[0], y, rtol=1e-3, atol=1e-4)


def test_train_step_writes_one_file_or_two(folder, capsys):
    command = "train-step model.onnx -o step.onnx --loss mse --freeze W1 --optimizer momentum"
    printed = output(capsys, command)
    assert re.search(r"step.onnx: \d+ operators; 3 parameters are trained", printed)
    session = onnxruntime.InferenceSession("step.onnx")
    feeds = {"x": models.samples()["x"], "label": np.zeros((64, 3), np.float32)}
    expected = (models.run(models.perceptron(head="Softmax"), x=feeds["x"])[0] ** 2).mean()
    np.testing.assert_allclose(session.run(None, feeds)[0], expected, rtol=1e-5)
    output(capsys, command + " --initial initial.onnx")
    assert not onnx.load("initial.onnx").graph.input


@pytest.mark.parametrize("clip", ["", " --clip-norm 0"])
def test_outputs_in_pixels_are_trained_by_the_defaults_of_sgd(folder, capsys, clip):
    """A detector's boxes: gradients of a mean squared error grow with the square of the image."""
    text = models.CONVOLUTION.replace("y = Conv(h, W2)", "p = Conv(h, W2) y = Mul(p, size)")
    text = text.replace("{ c", "{ size = Constant<value_float=640.0>() c")
    model = models.model(text, models.FILTERS)
    onnx.save(model, "model.onnx")
    x = np.random.default_rng(0).normal(size=(64, 2, 6, 6)).astype(np.float32)
    np.savez("data.npz", x=x, label=0.8 * models.run(model, x=x)[0])
    options = f"model.onnx --loss mse --optimizer sgd{clip}"
    printed = output(capsys, f"finetune {options} data.npz -o tuned.onnx --epochs 8 --batch-size 8")
    costs = [float(c) for c in re.findall(r"epoch \d: cost (\S+)", printed)]
    assert len(costs) == 8
    output(capsys, f"train-step {options} -o step.onnx")
    step, state, batch = onnxruntime.InferenceSession("step.onnx"), {}, np.load("data.npz")
    names = [o.name for o in step.get_outputs()]
    losses = []
    for _ in range(20):
        out = dict(zip(names, step.run(None, {**batch, **state}), strict=True))
        state = {n.removesuffix("_next"): a for n, a in out.items() if n.endswith("_next")}
        losses.append(out[names[0]])
    if clip:
        assert not costs[-1] < costs[0]
        assert not losses[-1] < losses[0]
    else:
        assert costs == sorted(costs, reverse=True)
        assert losses == sorted(losses, reverse=True)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_makes_a_step(folder, capsys, name):
    decay = "--weight-decay 0.1" if name in ("adamw", "lion", "lamb") else ""
    output(capsys, f"train-step model.onnx -o step.onnx --optimizer {name} --lr 0.01 {decay}")
    onnx.checker.check_model("step.onnx")


MISTAKES = [
    ("finetune model.onnx nowhere.npz -o t.onnx", "nowhere.npz: No such file or directory"),
    ("info data.npz", "data.npz is no ONNX model"),
    ("info model.onnx --freeze W9", "--freeze: model.onnx: 'W9' matches no stored tensor"),
    (
        "finetune model.onnx data.npz -o t.onnx --lora 2 --target q",
        "--target: lora: no matrix",
    ),
    ("finetune model.onnx data.npz -o t.onnx --alpha 2", "--alpha is for adapters: it needs --lo"),
    ("finetune model.onnx data.npz -o t.onnx --label z", "--label: data.npz has no array 'z'"),
    ("finetune model.onnx data.npz -o t.onnx --resume", "it needs --checkpoint DIR"),
    (
        "finetune model.onnx data.npz -o t.onnx --weight-decay 1",
        "--weight-decay is for adamw, ",
    ),
    ("finetune model.onnx data.npz -o t.onnx --validation 2", "--validation: a fraction within"),
    ("finetune model.onnx data.npz -o no/t.onnx", "error: -o: no/t.onnx: No such file or dir"),
    ("finetune model.onnx data.npz -o t.onnx --checkpoint data.npz", "--checkpoint: data.npz: "),
    ("train-step model.onnx -o s.onnx --output q", "--output: the model has no tensor 'q'"),
    ("export model.onnx . -o t.onnx", "there is no checkpoint in ."),
    ("export model.onnx data.npz -o t.onnx", "data.npz has no value for a parameter of the model"),
]


@pytest.mark.parametrize(("command", "text"), MISTAKES)
def test_a_mistake_is_one_line(folder, capsys, command, text):
    assert main(command.split()) == 2
    printed = capsys.readouterr()
    assert text in printed.err
    name = command.split()[0]
    assert printed.err.startswith(f"python -m pd_core {name}: error: ")
    assert printed.err.count("\n") == 1
    assert sorted(p.name for p in folder.iterdir()) == ["data.npz", "model.onnx"]


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("--epochs 0", "argument --epochs: a positive integer, not 0"),
        ("--batch-size x", "argument --batch-size: a positive integer, not x"),
        ("--seed -1", "argument --seed: "),
        ("--seed=-1", "argument --seed: an integer from 0 on, not -1"),
        ("--lr 0", "argument --lr: a positive number, not 0"),
        ("--lr nan", "argument --lr: a positive number, not nan"),
        ("--alpha x", "argument --alpha: a positive number, not x"),
        ("--weight-decay=-1", "argument --weight-decay: a number from 0 on, not -1"),
        ("--clip-norm=-1", "argument --clip-norm: a number from 0 on, not -1"),
        ("--lora 1.5", "argument --lora: a positive integer, not 1.5"),
        ("--optimizer q", "argument --optimizer: invalid choice: 'q'"),
    ],
)
def test_wrong_values_of_options(option, text, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["finetune", "model.onnx", "data.npz", "-o", "t.onnx", *option.split()])
    assert text in capsys.readouterr().err


def test_help_and_version(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["pd_core", "--version"])
    with pytest.raises(SystemExit, match="0"):
        runpy.run_module("pd_core", run_name="__main__")
    versions = (
        f"pd {pd.__version__}, onnx {onnx.__version__}, onnxruntime {onnxruntime.__version__}\n"
    )
    assert capsys.readouterr().out == versions
    for arguments in (["--help"], ["finetune", "--help"]):
        with pytest.raises(SystemExit, match="0"):
            main(arguments)
        assert 'numpy.savez("data.npz"' in capsys.readouterr().out
    for arguments in ([], ["nothing"], ["train-step", "model.onnx"]):
        with pytest.raises(SystemExit, match="2"):
            main(arguments)
