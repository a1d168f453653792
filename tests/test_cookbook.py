"""The programs of demos/cookbook compute what their twins in PyTorch compute, and export it.

`cookbook/losses.json` has the twins' losses; `python -m tests.test_cookbook` writes it again.
"""

import importlib
import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import pd_core as pd

ROOT = Path(__file__).resolve().parents[1]
STORED = ROOT / "tests" / "cookbook" / "losses.json"
PROGRAMS = sorted(
    path.stem for path in (ROOT / "demos" / "cookbook").glob("*.py") if path.stem != "initial"
)
STEPS = 20
CLOSE = {"rtol": 1e-6, "atol": 1e-4}
# Two of its pooling windows have almost equal maxima: what rounds otherwise is amplified.
LATER = {"siamese": {"rtol": 1e-6, "atol": 2e-3}}


def load(name):
    """Import a program, or a twin, from its folder."""
    for folder in ("demos", "tests"):
        path = str(ROOT / folder / "cookbook")
        if path not in sys.path:
            sys.path.append(path)
    return importlib.import_module(name)


def stored(name):
    """The losses of the twin."""
    return json.loads(STORED.read_text(encoding="utf-8"))[name]


@pytest.mark.parametrize("name", PROGRAMS)
def test_losses_are_those_of_pytorch(name):
    assert len(stored(name)) == STEPS
    np.testing.assert_allclose(load(name).losses(STEPS), stored(name), **LATER.get(name, CLOSE))


@pytest.mark.parametrize("name", LATER)
def test_losses_with_exact_convolutions_are_closer(name, monkeypatch):
    monkeypatch.setenv("PD_EXACT_CONVOLUTIONS", "1")
    pd.reset(seed=0)
    np.testing.assert_allclose(load(name).losses(STEPS), stored(name), **CLOSE)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_stored_losses_are_those_of_the_twin(name):
    pytest.importorskip("torch")
    np.testing.assert_allclose(load(f"{name}_torch").losses(STEPS), stored(name), **CLOSE)


def build(name):
    """Build a program's graph; return its feeds, cost, and training step."""
    *parts, cost, step = load(name).build()
    return next(part for part in parts if isinstance(part, (tuple, list))), cost, step


STATIC = [name for name in PROGRAMS if hasattr(load(name), "build")]


@pytest.mark.parametrize("name", STATIC)
def test_the_exported_step_trains_alike(name, tmp_path):
    """In ONNX Runtime alone."""
    feeds, cost, step = build(name)
    files = tmp_path / "step.onnx", tmp_path / "initial.onnx"
    pd.export_step(files[0], step, fetches=[cost], inputs=feeds, initial=files[1])
    run, first = (onnxruntime.InferenceSession(path) for path in files)
    state = dict(zip([o.name for o in first.get_outputs()], first.run(None, {}), strict=True))
    outputs, costs = [o.name for o in run.get_outputs()], []
    for batch in load(name).batches(3):
        fed = {v.name: np.asarray(a, v.dtype) for v, a in zip(feeds, batch, strict=True)}
        out = dict(zip(outputs, run.run(None, {**fed, **state}), strict=True))
        state = {k: out.get(f"{k}_next", value) for k, value in state.items()}
        costs.append(float(out[cost.name]))
    np.testing.assert_allclose(costs, stored(name)[:3], **CLOSE)


@pytest.mark.parametrize("name", STATIC)
def test_the_exported_cost_is_that_of_pytorch(name, tmp_path):
    """The inference model, attention included."""
    feeds, cost, _ = build(name)
    pd.export_onnx(tmp_path / "cost.onnx", cost, inputs=feeds)
    run = onnxruntime.InferenceSession(tmp_path / "cost.onnx")
    (batch,) = load(name).batches(1)
    fed = {v.name: np.asarray(a, v.dtype) for v, a in zip(feeds, batch, strict=True)}
    np.testing.assert_allclose(run.run(None, fed)[0], stored(name)[0], **CLOSE)


if __name__ == "__main__":
    losses = {name: load(f"{name}_torch").losses(STEPS) for name in PROGRAMS}
    STORED.write_text(json.dumps(losses, indent=1) + "\n", encoding="utf-8")
