"""The page that trains in a browser: what its script writes, and the page itself."""

import gzip
import importlib.util
import logging
import os
from pathlib import Path
from unittest import mock

import numpy as np
import onnxruntime
import pytest

from pd_v2 import build
from pd_v2.dataset import common

from .browser import Browser, executable, served

DEMO = Path(__file__).resolve().parents[4] / "demos" / "browser"
MODULES = Path(os.environ.get("PD_NODE_MODULES", DEMO / "node_modules"))
DATA = str(DEMO.parent / "data")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The folder that write_files.py fills."""
    folder = tmp_path_factory.mktemp("files")
    logger = logging.getLogger("paddle")
    level = logger.level
    with (
        mock.patch.dict(os.environ, PD_DATASET_CHECK="0", PD_DATASET_HOME=DATA),
        mock.patch.object(common, "DATA_HOME", DATA),
        build.fresh(),
    ):
        spec = importlib.util.spec_from_file_location("demo_browser", DEMO / "write_files.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        module.main(["--out", str(folder)])
    logger.setLevel(level)
    return folder


def digits(folder, name):
    """Pixels [n, 784] from 0 to 255, and labels [n]."""
    images = np.frombuffer((folder / f"{name}.images").read_bytes(), np.uint8)
    labels = np.frombuffer((folder / f"{name}.labels").read_bytes(), np.uint8)
    return images.reshape(-1, 784).astype(np.float32), labels.astype(np.int64)


def test_the_digits_of_the_page(files):
    for name, source in (("train", "train"), ("test", "t10k")):
        for kind, header in (("images-idx3", 16), ("labels-idx1", 8)):
            with gzip.open(f"{DATA}/mnist/{source}-{kind}-ubyte.gz") as original:
                wanted = original.read()[header:]
            assert (files / f"{name}.{kind.partition('-')[0]}").read_bytes() == wanted


def test_the_models_of_the_page_learn(files):
    """What the page does, with ONNX Runtime in Python."""
    initial, step, predict = (
        onnxruntime.InferenceSession(files / f"{name}.onnx")
        for name in ("initial", "step", "predict")
    )
    names = [o.name for o in initial.get_outputs()]
    state = dict(zip(names, initial.run(None, {}), strict=True))
    outputs = [o.name for o in step.get_outputs()]
    images, labels = digits(files, "train")
    for k in range(0, 2000, 50):
        feeds = {"image": images[k : k + 50] / 255, "label": labels[k : k + 50, None]}
        out = dict(zip(outputs, step.run(None, {**feeds, **state}), strict=True))
        state = {name: out[f"{name}_next"] for name in state}
    assert out["cost"] < 1.2
    images, labels = digits(files, "test")
    given = {i.name: state[i.name] for i in predict.get_inputs() if i.name != "image"}
    (found,) = predict.run(["probability"], {"image": images / 255, **given})
    assert (found.argmax(1) != labels).mean() < 0.35


@pytest.fixture
def page():
    """The page, opened with these files; its modules come from the demo's folder."""
    if not os.environ.get("PD_BROWSER_TESTS"):
        pytest.skip("tests in a browser run with PD_BROWSER_TESTS=1")
    if executable() is None:
        pytest.skip("there is no Chromium here")
    if not (MODULES / "onnxruntime-web").is_dir():
        pytest.skip("no onnxruntime-web here: npm install --ignore-scripts --prefix demos/browser")

    def train(folder):
        with (
            served(DEMO, files=folder, node_modules=MODULES) as address,
            Browser() as browser,
        ):
            browser.open(f"{address}/index.html")
            browser.wait_for("document.readyState == 'complete'")
            browser.evaluate("document.forms[0].elements.passes.value = 1")
            browser.evaluate("document.forms[0].requestSubmit()")
            ended = "!document.querySelector('button').disabled"
            browser.wait_for(f"{ended} && document.querySelector('output').value", 120)
            yield browser.evaluate("document.querySelector('output').value")
            yield browser.evaluate(INK)

    return train


# How many pixels of the picture are drawn in each eighth of its height, from the top.
INK = """(canvas => {
    const { width, height } = canvas;
    const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
    const rows = Array(8).fill(0);
    for (let k = 3; k < data.length; k += 4)
        if (data[k]) rows[Math.floor((k >> 2) / width / height * 8)] += 1;
    return rows;
})(document.querySelector("canvas"))"""


@pytest.mark.slow
def test_the_page_trains_and_draws(page, files):
    said, ink = page(files)
    assert said.endswith("done")
    error = float(said.split("test error ")[1].split(" %")[0])
    assert error < 25
    assert ink[0] > 0 and sum(ink[4:]) > sum(ink[:4])  # it starts at the top and comes down


@pytest.mark.slow
def test_the_page_says_what_is_missing(page, tmp_path):
    said, _ = page(tmp_path)
    assert "is missing: run write_files.py first" in said
