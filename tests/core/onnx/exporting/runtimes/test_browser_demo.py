"""The pages that train in a browser: their files and models, what is in their text."""

import gzip
import json
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import onnxruntime
import pytest
from safetensors.numpy import save_file

from tests.thinned import thinned

from .conftest import DEMO

DATA = DEMO.parent / "data"
PAGES = ("index.html", "finetune.html")
TEXTS = sorted(p for p in DEMO.iterdir() if p.suffix in (".html", ".css", ".js"))


def digits(folder, name):
    """Pixels [n, 784] from 0 to 255, and labels [n]."""
    images = np.frombuffer((folder / f"{name}.images").read_bytes(), np.uint8)
    labels = np.frombuffer((folder / f"{name}.labels").read_bytes(), np.uint8)
    return images.reshape(-1, 784).astype(np.float32), labels.astype(np.int64)


class Step:
    """The TrainingStep of the page, with ONNX Runtime in Python."""

    def __init__(self, folder):
        initial, self.step, self.predictor = (
            onnxruntime.InferenceSession(folder / f"{name}.onnx")
            for name in ("initial", "step", "predict")
        )
        names = [o.name for o in initial.get_outputs()]
        self.state = dict(zip(names, initial.run(None, {}), strict=True))

    def run(self, **feeds):
        """Run a step; return its cost."""
        outputs = [o.name for o in self.step.get_outputs()]
        out = dict(zip(outputs, self.step.run(None, {**feeds, **self.state}), strict=True))
        self.state = {name: out.get(f"{name}_next", old) for name, old in self.state.items()}
        return float(out["cost"])

    def predict(self, **feeds):
        """Return probabilities for the state of now."""
        names = [i.name for i in self.predictor.get_inputs() if i.name not in feeds]
        given = {name: self.state[name] for name in names}
        return self.predictor.run(["probability"], {**feeds, **given})[0]


def test_the_digits_of_the_page(files):
    for name, source in (("train", "train"), ("test", "t10k")):
        for kind, header in (("images-idx3", 16), ("labels-idx1", 8)):
            with gzip.open(DATA / f"mnist/{source}-{kind}-ubyte.gz") as original:
                wanted = original.read()[header:]
            assert (files / f"{name}.{kind.partition('-')[0]}").read_bytes() == wanted


def test_the_models_of_the_page_learn(files):
    step = Step(files)
    images, labels = digits(files, "train")
    for k in range(0, 2000, 50):
        cost = step.run(image=images[k : k + 50] / 255, label=labels[k : k + 50, None])
    assert cost < 1.2
    images, labels = digits(files, "test")
    found = step.predict(image=images / 255)
    assert (found.argmax(1) != labels).mean() < 0.35


@pytest.mark.parametrize("tuned", ["head", "whole"])
def test_a_new_head_learns_three_classes(files, tuned, rng):
    step = Step(files / tuned)
    kind = np.arange(12)[:, None] % 3
    bars = np.zeros((12, 3, 32, 32), np.float32)  # upright, lying, crossed
    for k, picture in enumerate(bars):
        at = rng.integers(4, 24, 2)
        if k % 3 != 1:
            picture[:, :, at[0] : at[0] + 4] = 1
        if k % 3 != 0:
            picture[:, at[1] : at[1] + 4] = 1
    unused = np.array([[0, 0, 0, 1, 1]] * 12, np.float32)
    before = dict(step.state)
    for _ in range(200):
        cost = step.run(picture=bars, kind=kind, unused=unused)
    found = step.predict(picture=bars, unused=unused)
    assert cost < 0.4
    np.testing.assert_array_equal(found.argmax(1), kind[:, 0])
    assert found[:, 3:].max() < 1e-20
    np.testing.assert_allclose(found.sum(1), 1, rtol=1e-5)
    trained = {name for name, old in before.items() if (step.state[name] != old).any()}
    kernels = {f"{tuned}/classifier/{k}/W" for k in (0, 4, 8)}
    assert trained >= {f"{tuned}/new_head.weight", f"{tuned}/new_head.bias"}
    assert trained & kernels == (kernels if tuned == "whole" else set())
    assert not any(name.endswith(("/mean", "/variance")) for name in trained)


# ---- the text of the pages


class Elements(HTMLParser):
    """All elements of a page: tag, attributes, and the <label> around them, if one is."""

    def __init__(self, page):
        super().__init__()
        self.found, self.labels = [], 0
        self.feed((DEMO / page).read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        self.labels += tag == "label"
        self.found.append((tag, dict(attrs), self.labels > 0))

    def handle_endtag(self, tag):
        self.labels -= tag == "label"

    def of(self, *tags):
        return [attributes for tag, attributes, _ in self.found if tag in tags]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_for_phones_and_screen_readers(page):
    elements = Elements(page)
    metas = {m.get("name"): m.get("content") for m in elements.of("meta")}
    assert metas["viewport"] == "width=device-width, initial-scale=1"
    assert metas["color-scheme"] == "light dark"
    assert elements.of("html") == [{"lang": "en"}]
    assert len(elements.of("h1")) == len(elements.of("main")) == 1
    for tag, attributes, labelled in elements.found:
        if tag in ("input", "select", "canvas", "progress", "nav"):
            assert labelled or "aria-label" in attributes, attributes
    ids = [a["id"] for _, a, _ in elements.found if "id" in a]
    assert len(ids) == len(set(ids))
    for _, attributes, _ in elements.found:
        for name in ("aria-labelledby", "aria-describedby"):
            assert attributes.get(name, ids[0]) in ids
    [status] = [a for a in elements.of("p") if a.get("id") == "status"]
    assert status["role"] == "status"


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_what_its_script_asks_for(page):
    elements = Elements(page)
    ids = {a["id"] for _, a, _ in elements.found if "id" in a}
    [script] = [a["src"] for a in elements.of("script") if a.get("type") == "module"]
    for name in (script, "controls.js"):
        asked = set(re.findall(r'\bat\("([\w-]+)"\)', (DEMO / name).read_text(encoding="utf-8")))
        assert asked <= ids
    states = {s for _, a, _ in elements.found for s in a.get("data-when", "").split()}
    assert states <= {"idle", "training", "broken"}


@pytest.mark.parametrize("path", TEXTS, ids=lambda p: p.name)
def test_a_file_is_short_and_asks_no_other_host(path):
    text = path.read_text(encoding="utf-8")
    hosts = set(re.findall(r"(?:https?:)?//([\w.]+\.\w+)", text))
    assert hosts <= {"127.0.0.1", "www.w3.org"}  # its own address, and the name space of SVG
    assert len(text.splitlines()) <= 300
    assert not re.search(r"\son\w+=[\"']|\sstyle=[\"']|javascript:", text)
    for name in re.findall(r'(?:from |import )"\./([\w.]+)"|(?:src|href)="([\w.]+)"', text):
        assert (DEMO / "".join(name)).exists()


def test_the_server_of_the_readme_is_for_this_machine():
    for name in ("README.md", "file_check.js"):
        text = (DEMO / name).read_text(encoding="utf-8")
        assert text.count("http.server") == text.count("http.server --bind 127.0.0.1") == 1


# ---- modules that need no browser


def in_node(code):
    """The output of a module that is run beside the page's modules."""
    if not shutil.which("node"):
        pytest.skip("there is no node here")
    command = ["node", "--input-type=module", "--eval", code]
    done = subprocess.run(command, cwd=DEMO, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def test_ticks_are_round_numbers_up_to_the_largest_value():
    code = """import { ticks } from "./chart.js";
    const tops = [[2.4, 4], [0.07, 4], [240, 8], [1, 4], [12000, 8]];
    console.log(JSON.stringify(tops.map(([top, count]) => ticks(top, count))));"""
    assert json.loads(in_node(code)) == [
        [0, 1, 2, 3],
        [0, 0.02, 0.04, 0.06, 0.08],
        [0, 50, 100, 150, 200, 250],
        [0, 0.5, 1],
        [0, 2000, 4000, 6000, 8000, 10000, 12000],
    ]


@pytest.mark.parametrize("tuned", thinned(["whole", "head"], 2))
def test_a_model_of_saved_parameters(files, tmp_path, rng, tuned):
    """fine_tuning.py makes one of what the page saves, without the classes that are not used."""
    step = Step(files / tuned)
    picture = rng.random((4, 3, 32, 32), np.float32)
    unused = np.array([[0, 0, 0, 1, 1]] * 4, np.float32)
    for _ in range(3):
        step.run(picture=picture, kind=np.array([[0], [1], [2], [0]]), unused=unused)
    inputs = [i.name for i in step.predictor.get_inputs()]
    weights = {name: value for name, value in step.state.items() if name in inputs}
    about = {"tuned": tuned, "classes": '["cat", "dog", "bird"]'}
    save_file(weights, tmp_path / "tuned.safetensors", about)
    command = [sys.executable, DEMO / "fine_tuning.py", "tuned.safetensors"]
    command += ["--classifier", files / "classifier.onnx"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "tuned.onnx: cat, dog, bird\n"
    model = onnxruntime.InferenceSession(tmp_path / "tuned.onnx")
    [found] = model.run(["probability"], {"picture": picture})
    wanted = step.predict(picture=picture, unused=unused)[:, :3]
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    save_file(weights, tmp_path / "other.safetensors")
    done = subprocess.run(
        [*command[:2], "other.safetensors"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr == "other.safetensors is no file that the page has saved\n"
