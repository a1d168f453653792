"""What objects show of themselves: repr, and HTML in notebooks."""

import re
from xml.etree import ElementTree

import numpy as np
import onnx
import pytest

import pd_core as pd
from pd_core import schedules

from ..training.tuning import models

W = np.arange(4, dtype=np.float32).reshape(2, 2)


def of_optimizers():
    w = pd.Variable("w", data=W)
    yield pd.AdamOptimizer(), "AdamOptimizer(learning_rate=0.001)"
    changed = pd.AdamOptimizer(0.1, beta1=0.5, clip=pd.ClipNorm(1.0), regularizer=pd.L2(0.01))
    text = repr(changed)
    assert text.startswith("AdamOptimizer(learning_rate=0.1, ") and text.endswith(")")
    for part in ("beta1=0.5", "clip=ClipNorm(limit=1.0)", "regularizer=L2(rate=0.01)"):
        assert part in text
    assert "beta2" not in text and "name" not in text
    yield pd.AdamWOptimizer(), "AdamWOptimizer(learning_rate=0.001)"
    yield pd.MomentumOptimizer(w), "MomentumOptimizer(learning_rate=w)"
    decay = schedules.CosineDecay(0.1, 100)
    expected = "SGDOptimizer(learning_rate=CosineDecay(rate=0.1, steps=100, end=0.0))"
    yield pd.SGDOptimizer(decay), expected
    lbfgs = pd.LBFGSOptimizer(max_iter=5, name="o")
    yield lbfgs, "LBFGSOptimizer(max_iter=5, max_eval=6, name='o')"
    yield pd.MovingAverage(0.5), "MovingAverage(decay=0.5)"
    plateau = schedules.ReduceOnPlateau(0.1, patience=3)
    yield plateau, f"ReduceOnPlateau(rate={plateau.rate.name}, patience=3)"


def test_optimizers():
    for x, text in of_optimizers():
        assert repr(x) == text


def test_a_setting_that_was_changed():
    optimizer = pd.AdamOptimizer()
    optimizer.learning_rate = 0.5
    assert repr(optimizer) == "AdamOptimizer(learning_rate=0.5)"


def test_updates_sessions_and_runners(tmp_path):
    w = pd.Variable("w", data=W)
    step = pd.AdamOptimizer().minimize(pd.reduce_sum(pd.square(w)))
    assert re.fullmatch(r"Update\(parameters=1, other_values=\d\)", repr(step))
    assert repr(pd.assign(w, W)) == "Update(other_values=1)"
    assert repr(pd.Session(seed=3)) == "Session(device='cpu', seed=3)"
    runner = pd.training.Runner().add_item(pd.training.Counter())
    runner.add_item(pd.training.Progress(every=3))
    assert repr(runner) == "Runner(Counter(), Progress(every=3))"
    onnx.save(models.perceptron(), str(tmp_path / "m.onnx"))
    model = pd.import_onnx(tmp_path / "m.onnx", frozen="W1")
    text = f"ImportedModel('{tmp_path}/m.onnx': x -> y; 4 parameters, 3 of them trained)"
    assert repr(model) == text


# ---- values that are known


def test_a_value_of_the_session_is_shown():
    with pd.fresh() as session:
        w = pd.Variable("w", data=W)
        y = w + 1.0
        assert (repr(w), repr(y)) == ("w: float32[2, 2]", f"{y.name}: float32[2, 2]")
        assert session.stats()["evaluations"] == 0 and not session.has(w)
        pd.eval(y)
        before = session.stats()
        assert repr(w) == f"w: float32[2, 2]\n{W}"
        assert repr(y) == f"{y.name}: float32[2, 2]\n{W + 1}"
        assert repr(pd.constant(2.5)).endswith(": float32[]\n2.5")
        assert session.stats() == before
        with pytest.raises(pd.ShapeError) as raised:
            pd.assign(w, np.zeros(3))
        assert str(raised.value).splitlines()[0].count("w: float32[2, 2]") == 1
        assert "\n[[" not in str(raised.value)
    assert repr(w) == "w: float32[2, 2]"


def test_a_closed_session_shows_nothing():
    with pd.fresh() as session:
        w = pd.Variable("w", data=W)
        y = w + 1.0
        pd.eval(y)
        session.close()
        assert (repr(w), repr(y)) == ("w: float32[2, 2]", f"{y.name}: float32[2, 2]")


# ---- notebooks


def parsed(x):
    """The texts of the HTML of an object, which is well-formed and has nothing from elsewhere."""
    html = x._repr_html_()
    root = ElementTree.fromstring(f"<div>{html}</div>")
    assert not re.search(r"color|src=|href=|<script|class=", html)
    assert len(html) < 5000
    return [text for text in root.itertext() if text.strip()]


def test_a_variable_in_a_notebook():
    with pd.fresh():
        w = pd.Variable("<b>w</b>", data=W)
        texts = parsed(w)
        assert texts[:4] == ["<b>w</b>", "is", "float32[2, 2], parameter", "built at"]
        assert re.search(r"test_shown.py:\d+$", texts[4]) and len(texts) == 5
        pd.eval(w)
        assert parsed(w)[5] == str(W)
        x = pd.Variable("x", shape=[None, 2])
        assert parsed(x)[2] == "float32[?, 2], feed slot"
        assert parsed(pd.relu(x))[2] == "float32[?, 2], output of Relu"
        with pd.guard():
            assert parsed(pd.to_variable(W) + 1.0)[-1] == str(W + 1.0)


def test_a_history_in_a_notebook():
    history = pd.nn.History({"cost": [0.5, 0.25], "<val>": [1.0, float("nan")]})
    assert parsed(history) == ["epoch", "cost", "<val>", "1", "0.5", "1", "2", "0.25", "nan"]
    long = parsed(pd.nn.History({"cost": [1.0] * 40}))
    assert long[2::2] == ["1", "2", "3", "4", "5", "…", *map(str, range(36, 41)), long[-1]]
    assert long[-1] == "30 epochs are left out"


def test_a_summary_in_a_notebook():
    with pd.fresh():
        x = pd.Variable("x", shape=[None, 3])
        summary = pd.summary(pd.layer.fc(x, 2))
        texts, lines = parsed(summary), str(summary).splitlines()
    assert texts[:5] == ["layer", "operators", "output shape", "parameters", "multiply-adds"]
    assert texts[-3:] == lines[-3:]
    assert all(text in lines[2] for text in texts[5:10])


# ---- terminals with rich


@pytest.mark.parametrize("name", ["a", "[red]a[/red]"])
def test_tables_of_rich(name):
    """Their texts are those of notebooks, brackets too."""
    console = pytest.importorskip("rich.console").Console(width=100)
    with pd.fresh():
        summary = pd.summary(pd.fc(pd.Variable([None, 4]), 3))
    history = pd.nn.History({"cost": [0.5, 0.25] * 8, name: [0.5, 0.25] * 8})
    for x, notes in ((summary, "multiply-adds: 12"), (history, "6 epochs are left out")):
        with console.capture() as capture:
            console.print(x)
        shown = capture.get()
        assert notes in shown
        assert all(text in shown for text in parsed(x))
