"""Federated averaging with two browsers; these tests run with PD_BROWSER_TESTS=1."""

import gzip
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnxruntime
import pytest

from .browser import Browser, executable
from .federated_rounds import serving
from .test_federated import averaged, demo, digits, files, opened
from .test_other_runtimes import MODULES, ROOT, needs

__all__ = ["averaged", "demo", "digits", "files", "opened"]  # fixtures
pytestmark = pytest.mark.slow

TOTAL = 1000  # digits, half of them in each browser
CLIENT = """(async (k, total) => {
    const ort = await import("/modules/onnxruntime-web/dist/ort.wasm.bundle.min.mjs");
    const { Client } = await import("/demos/federated/client.js");
    const { digits, parts } = await import("/demos/federated/digits.js");
    ort.env.wasm.numThreads = 1;
    const read = async (kind) => {
        const { body } = await fetch(`/data/train-${kind}-ubyte.gz`);
        const bytes = new Response(body.pipeThrough(new DecompressionStream("gzip")));
        return new Uint8Array(await bytes.arrayBuffer());
    };
    const data = digits(await read("images-idx3"), await read("labels-idx1"));
    const client = new Client(ort, location.origin, `browser-${k}`, { seed: k + 1 });
    await client.open();
    return client.takePart(parts(ort, data, 2, { total })[k]);
})"""


@pytest.fixture
def two_browsers(demo, opened, digits):
    """two_browsers(rounds, **plan): the Rounds after two browsers have taken part in them."""
    if not os.environ.get("PD_BROWSER_TESTS"):
        pytest.skip("tests in a browser run with PD_BROWSER_TESTS=1")
    if executable() is None:
        pytest.skip("there is no Chromium here")
    needs("onnxruntime-web")

    def trained(total, **plan):
        rounds = opened(clients=2, total=total, averaged=demo["updates"].averaged_of(digits))
        data = demo["write_files"].DATA
        pages = {"demos": ROOT / "demos", "modules": MODULES, "data": data}
        with (
            serving(demo, rounds, digits, plan=plan, pages=pages) as address,
            Browser() as first,
            Browser() as second,
            ThreadPoolExecutor() as pool,
        ):
            assert first.profile != second.profile

            def take_part(k, browser):
                browser.open(f"{address}/demos/browser/style.css")  # any page of the server's
                browser.wait_for("document.readyState == 'complete'")
                return browser.evaluate(f"{CLIENT}({k}, {TOTAL})", timeout=300)

            counted = list(pool.map(take_part, (0, 1), (first, second)))
        assert (rounds.number, counted) == (total, [total, total])
        return rounds

    return trained


def images_and_labels(demo, name):
    folder = demo["write_files"].DATA
    images, labels = (
        np.frombuffer(gzip.decompress((folder / f"{name}-{kind}-ubyte.gz").read_bytes()), np.uint8)
        for kind in ("images-idx3", "labels-idx1")
    )
    return images[16:].reshape(-1, 784) / np.float32(255), labels[8:].astype(np.int64)


def centrally(demo, folder, epochs, batch, rate):
    """Return the state of a training on all of the digits."""
    session, initial = (
        onnxruntime.InferenceSession(folder / f"{name}.onnx") for name in ("step", "initial")
    )
    state = dict(zip([o.name for o in initial.get_outputs()], initial.run(None, {}), strict=True))
    state["learning_rate"] = np.array(rate, np.float32)
    image, label = (a[:TOTAL] for a in images_and_labels(demo, "train"))
    outputs, order = [o.name for o in session.get_outputs()], np.random.default_rng(0)
    for _ in range(epochs):
        rows = order.permutation(TOTAL)
        for at in range(0, TOTAL, batch or TOTAL):
            chosen = rows[at : at + (batch or TOTAL)]
            feeds = {"image": image[chosen], "label": label[chosen], **state}
            out = dict(zip(outputs, session.run(None, feeds), strict=True))
            state = {name: out.get(f"{name}_next", value) for name, value in state.items()}
    return state


def accuracy(demo, folder, weights):
    predict = onnxruntime.InferenceSession(folder / "predict.onnx")
    image, label = images_and_labels(demo, "t10k")
    feeds = {i.name: weights[i.name] for i in predict.get_inputs() if i.name != "image"}
    return (predict.run(None, {"image": image, **feeds})[0].argmax(1) == label).mean()


@pytest.mark.parametrize("digits", ["weights"], indirect=True)
def test_one_local_step_in_two_browsers_is_a_step_on_all(two_browsers, demo, digits):
    rounds = two_browsers(3, epochs=1, batch=0, rate=0.5)
    central = centrally(demo, digits, 3, 0, 0.5)
    for name, array in rounds.now.weights.items():
        np.testing.assert_allclose(array, central[name], rtol=0, atol=1e-5)
        assert abs(array - rounds.averaged.initial[name]).max() > 1e-4


@pytest.mark.parametrize("digits", ["weights"], indirect=True)
def test_more_local_steps_in_two_browsers_are_as_good(two_browsers, demo, digits):
    rounds = two_browsers(4, epochs=5, batch=10, rate=0.1)
    found = accuracy(demo, digits, rounds.now.weights)
    wanted = accuracy(demo, digits, centrally(demo, digits, 20, 10, 0.1))
    print(f"accuracy: {found:.4f} in two browsers, {wanted:.4f} of one training")
    assert wanted > 0.85
    assert abs(found - wanted) < 0.02
