"""The package for JavaScript: its own tests in Node, and its types."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from .browser import Browser, served
from .test_other_runtimes import MODULES, ROOT, chromium, modules, needs

PACKAGE = ROOT / "demos" / "js"

__all__ = ["chromium", "modules"]  # fixtures


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    command = [sys.executable, PACKAGE / "test" / "write_models.py", folder]
    subprocess.run(command, check=True, cwd=ROOT)
    return folder


@pytest.mark.parametrize("package", ["onnxruntime-node", "onnxruntime-web"])
def test_its_own_tests(package, modules, models):
    needs(package)
    places = {"PD_MODELS": str(models), "PD_NODE_MODULES": str(modules), "PD_RUNTIME": package}
    command = ["node", "--test", "test/"]
    done = subprocess.run(
        command, cwd=PACKAGE, env=os.environ | places, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout
    assert "# pass 10" in done.stdout


def test_types_are_those_of_the_comments(modules, tmp_path):
    needs("typescript")
    copy = shutil.copytree(PACKAGE, tmp_path / "js", ignore=shutil.ignore_patterns("node_modules"))
    shutil.rmtree(copy / "types")
    compiler = MODULES / "typescript" / "bin" / "tsc"
    done = subprocess.run(["node", compiler, "-p", copy], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    written = {path.name: path.read_text() for path in (copy / "types").iterdir()}
    assert written == {path.name: path.read_text() for path in (PACKAGE / "types").iterdir()}


def test_the_package_is_small_and_complete():
    facts = json.loads((PACKAGE / "package.json").read_text())
    assert "dependencies" not in facts
    assert set(facts["peerDependencies"]) == {"onnxruntime-node", "onnxruntime-web"}
    assert sum(path.stat().st_size for path in (PACKAGE / "src").iterdir()) < 25_000
    for path in (facts["types"], facts["exports"]["."]["default"]):
        assert (PACKAGE / path).is_file()


@pytest.mark.slow
def test_a_browser_keeps_the_state_over_a_reload(chromium, models):
    folders = {"modules": MODULES, "models": models / "step"}
    with served(PACKAGE, **folders) as address, Browser() as browser:

        def visit(action):
            browser.open(f"{address}/src/index.js")  # some page of this address
            browser.wait_for("document.readyState == 'complete'")
            return browser.evaluate(ON_A_PAGE.replace("ACTION", action))

        kept, following = visit("trained")
        assert visit("restored") == [kept, following]
        assert visit("deleted") is False


ON_A_PAGE = """(async () => {
    const ort = await import("/modules/onnxruntime-web/dist/ort.wasm.bundle.min.mjs");
    const { BrowserStore, TrainingStep } = await import("/src/index.js");
    ort.env.wasm.numThreads = 1;
    const read = async (name) =>
        new Uint8Array(await (await fetch(`/models/${name}.onnx`)).arrayBuffer());
    const training = await TrainingStep.create(ort, await read("step"), await read("initial"));
    const x = new ort.Tensor("float32", Float32Array.from({ length: 12 }, Math.cos), [2, 6]);
    const label = new ort.Tensor("int64", BigInt64Array.of(0n, 2n), [2]);
    const loss = async () => (await training.run({ x, label })).cost.data[0];
    const store = new BrowserStore();
    const text = async () => (await training.save()).join();
    const actions = {
        async trained() {
            await training.restore(store, "user"); // there is none
            await Promise.all([loss(), loss(), loss()]);
            await training.keep(store, "user");
            return [await text(), await loss()];
        },
        async restored() {
            if (!(await training.restore(store, "user"))) return false;
            return [await text(), await loss()];
        },
        async deleted() {
            await store.delete("user");
            return actions.restored();
        },
    };
    return actions.ACTION();
})()"""
