"""The pages that train, in a headless Chromium; these tests run with PD_BROWSER_TESTS=1."""

import contextlib
import os
import re
from pathlib import Path

import pytest

from .browser import WEBGPU, Browser, executable, served
from .conftest import DEMO

MODULES = Path(os.environ.get("PD_NODE_MODULES", DEMO / "node_modules"))
PAGES = ("index.html", "finetune.html")
SETTLED = "['idle', 'broken'].includes(document.body.dataset.state)"

pytestmark = pytest.mark.slow


class Page:
    """A page of the demo, and what a visitor does with it."""

    def __init__(self, browser):
        self.browser = browser
        self.js = browser.evaluate

    def settle(self, timeout=120):
        """Wait for the end of loading or training; return the words of the status line."""
        self.browser.wait_for(SETTLED, timeout)
        return self.text("status")

    def text(self, name):
        return self.js(f"document.getElementById('{name}').textContent")

    def click(self, name):
        self.js(f"document.getElementById('{name}').click()")

    def choose(self, name, value):
        """Set a field of the form as a visitor does."""
        self.js(f"""(field => {{
            field.value = {value!r};
            field.dispatchEvent(new Event("change", {{ bubbles: true }}));
        }})(document.forms.controls.elements.{name})""")

    def press(self, *keys):
        """Type keys into the element that has the focus."""
        for key in keys:
            for kind in ("keyDown", "keyUp"):
                self.browser.call("Input.dispatchKeyEvent", type=kind, key=key)

    def draw(self, *points):
        """Draw a line in the pad with the mouse; points are parts of its side."""
        left, top, side = self.js("""(pad => {
            pad.scrollIntoView({ block: "center" });
            const { left, top, width } = pad.getBoundingClientRect();
            return [left, top, width];
        })(document.getElementById("pad"))""")
        for k, (x, y) in enumerate((*points, points[-1])):
            kinds = "mousePressed", *["mouseMoved"] * (len(points) - 1), "mouseReleased"
            self.browser.call(
                "Input.dispatchMouseEvent",
                type=kinds[k],
                x=left + x * side,
                y=top + y * side,
                button="left",
                buttons=int(k < len(points)),
                clickCount=1,
            )

    def probabilities(self):
        """Return the percentages that are shown."""
        rows = self.js("[...document.querySelectorAll('.value')].map(e => e.textContent)")
        return [float(row.removesuffix(" %")) for row in rows if row != "\N{EN DASH}"]

    def ink(self):
        """Return how many pixels of the pad are drawn."""
        return self.js("""(pad => pad.getContext("2d").getImageData(0, 0, 280, 280).data
            .filter((value, k) => k % 4 == 3 && value).length)(document.getElementById("pad"))""")


@pytest.fixture
def visit():
    """visit(page, files): that page in a browser, loaded."""
    if not os.environ.get("PD_BROWSER_TESTS"):
        pytest.skip("tests in a browser run with PD_BROWSER_TESTS=1")
    if executable() is None:
        pytest.skip("there is no Chromium here")
    if not (MODULES / "onnxruntime-web").is_dir():
        pytest.skip("no onnxruntime-web here: npm install --ignore-scripts --prefix demos/browser")
    with contextlib.ExitStack() as stack:

        def opened(page, files, *flags, modules=MODULES):
            parts = {"files": files, "node_modules": modules, "js": DEMO.parent / "js"}
            address = stack.enter_context(served(DEMO, **parts))
            browser = stack.enter_context(Browser(*flags))
            browser.open(f"{address}/{page}")
            browser.wait_for("document.readyState == 'complete'")
            page = Page(browser)
            page.settle()
            return page

        yield opened


# How many frames are shown while the training is on.
FRAMES = """(() => {
    window.frames_of_training = 0;
    const count = () => {
        if (document.body.dataset.state === "training") window.frames_of_training += 1;
        requestAnimationFrame(count);
    };
    count();
})()"""


def test_the_page_trains_and_stays_alive(visit, files):
    page = visit("index.html", files)
    assert page.text("status").startswith("Ready.")
    page.choose("passes", "1")
    page.js(FRAMES)
    page.click("train")
    assert page.settle().startswith("Done. Test error ")
    assert page.js("window.frames_of_training") > 20  # a frozen tab has none
    assert page.text("step") == "80 of 80"
    error = float(page.text("now-error").removesuffix(" %"))
    assert error < 25
    assert float(page.text("speed")) > 0
    for figure, words in (("loss", "moving average from"), ("error", "of 1,000 test digits from")):
        assert words in page.js(f"document.querySelector('#{figure} svg').ariaLabel")
        assert page.js(f"document.querySelectorAll('#{figure} .tick').length") >= 8
        assert page.js(f"document.querySelectorAll('#{figure} .curve path').length") >= 1
    wrong = int(page.text("summary").split()[0])
    assert wrong == round(error * 10)
    page.click("only-wrong")
    assert page.js("document.querySelectorAll('#digits .wrong').length") == min(wrong, 56)
    assert page.js("document.querySelector('#digits .wrong').textContent").startswith("✗ ")
    assert page.browser.console == []


def test_stop_go_on_and_reset(visit, files):
    page = visit("index.html", files)
    page.click("train")
    page.browser.wait_for("parseInt(document.getElementById('step').textContent) >= 3")
    assert page.js("document.getElementById('reset').disabled")
    page.click("stop")
    assert page.settle().startswith("Stopped. ")
    done, total = (int(n) for n in page.text("step").split(" of "))
    assert 3 <= done < total == 240
    page.choose("passes", "1")
    page.click("train")
    assert page.settle().startswith("Done. ")
    assert page.text("step") == f"{done + 80} of {done + 80}"
    page.click("reset")
    assert page.settle().startswith("Ready. ")
    assert page.text("step") == "\N{EN DASH}"
    assert page.js("document.querySelectorAll('.curve').length") == 0
    # An empty number of passes is told, and trains nothing.
    page.choose("passes", "")
    page.click("train")
    assert page.text("status").startswith("Passes: ")
    assert page.text("step") == "\N{EN DASH}"


def test_drawing_with_mouse_and_keyboard(visit, files):
    page = visit("index.html", files)
    assert page.probabilities() == []
    page.draw((0.3, 0.2), (0.5, 0.4), (0.6, 0.8))
    page.browser.wait_for("document.getElementById('reading').textContent")
    assert sum(page.probabilities()) == pytest.approx(100, abs=1)
    with_mouse = page.ink()
    assert with_mouse > 1000
    page.js("document.getElementById('pad').focus()")
    page.press("Delete")
    assert page.ink() == 0
    page.press(*["ArrowUp"] * 5)
    assert page.ink() == 0
    page.press(" ", *["ArrowDown"] * 10, " ", *["ArrowLeft"] * 5)
    page.browser.wait_for("document.getElementById('reading').textContent")
    assert 2000 < page.ink() < 3000  # 100 x 20 pixels, and round ends
    page.click("clear")
    page.click("sample")
    page.browser.wait_for("document.getElementById('reading').textContent")
    assert len(page.probabilities()) == 10


@pytest.mark.parametrize("tuned", ["head", "whole"])
def test_fine_tuning_on_examples(visit, files, tuned):
    page = visit("finetune.html", files)
    page.click("train")
    assert page.text("status") == "Add pictures first: class 1, class 2 have none."
    page.click("examples")
    page.settle()
    assert page.js("document.querySelectorAll('.thumbnails button').length") == 24
    page.choose("tuned", tuned)
    page.settle()
    page.js(FRAMES)
    page.click("train")
    assert page.settle().startswith("Done.")
    assert page.js("window.frames_of_training") > 5
    assert page.text("step") == "60 of 60"
    assert float(page.text("now-right").removesuffix(" %")) > 55
    page.draw((0.5, 0.2), (0.8, 0.8), (0.2, 0.8), (0.5, 0.2))
    page.browser.wait_for("document.getElementById('reading').textContent")
    assert len(page.probabilities()) == 3
    # The drawing becomes a picture of the second class, and the first one of it goes.
    page.js("document.querySelectorAll('.card button[type=button]:not([title])')[1].click()")
    page.js("document.querySelectorAll('.card')[0].querySelector('[title=Remove]').click()")
    counts = "[...document.querySelectorAll('.thumbnails')].map(e => e.children.length)"
    assert page.js(counts) == [7, 9, 8]
    page.click("add-class")
    assert page.js("document.querySelectorAll('.card').length") == 4
    page.click("save")
    page.js("new Promise((resolve) => setTimeout(resolve, 200))")
    assert page.text("status").startswith("Done.")
    assert page.browser.console == []


def again(page):
    """Leave a page and open it again, in the same browser."""
    address = page.js("location.href")
    page.browser.open("about:blank")
    page.browser.wait_for("location.href == 'about:blank'")
    page.browser.open(address)
    page.browser.wait_for("document.readyState == 'complete' && location.href != 'about:blank'")
    return page.settle()


PICTURES = "document.querySelectorAll('.thumbnails button').length"
TRIANGLE = (0.5, 0.2), (0.8, 0.8), (0.2, 0.8), (0.5, 0.2)
# The middle of the state that the browser keeps becomes another number of bytes.
DAMAGE = """new Promise((resolve) => {
    indexedDB.open("pd-fine-tuning").onsuccess = ({ target: { result } }) => {
        const table = result.transaction("states", "readwrite").objectStore("states");
        table.put(new Uint8Array(9), "whole").onsuccess = () => { result.close(); resolve(); };
    };
})"""


def test_a_training_goes_on_when_the_page_is_opened_again(visit, files):
    page = visit("finetune.html", files)
    page.click("examples")
    page.settle()
    page.js("document.querySelector('.card input').value = 'ring'")
    page.js("document.querySelector('.card input').dispatchEvent(new Event('input'))")
    page.click("train")
    assert page.settle().startswith("Done.")
    page.draw(*TRIANGLE)
    page.browser.wait_for("document.getElementById('reading').textContent")
    before = page.probabilities()
    assert again(page) == "Ready. The network goes on as you left it, after 60 steps."
    assert page.js(PICTURES) == 24
    assert page.js("document.querySelector('.card input').value") == "ring"
    page.draw(*TRIANGLE)
    page.browser.wait_for("document.getElementById('reading').textContent")
    assert page.probabilities() == before
    page.click("train")
    assert page.settle().startswith("Done.")
    assert page.text("step") == "120 of 120"
    # The other network has a training of its own.
    page.choose("tuned", "head")
    assert page.settle().startswith("Ready. Add pictures")
    page.choose("tuned", "whole")
    assert page.settle() == "Ready. The network goes on as you left it, after 120 steps."
    page.click("reset")
    assert page.settle().startswith("Ready. Add pictures")
    assert again(page).startswith("Ready. Add pictures")
    assert page.js(PICTURES) == 24
    page.click("train")
    page.settle()
    page.click("forget")
    page.settle()
    assert again(page).startswith("Ready. Add pictures")
    assert page.js(PICTURES) == 0
    assert page.browser.console == []


def test_a_damaged_state_is_forgotten(visit, files):
    page = visit("finetune.html", files)
    page.js(DAMAGE)
    assert again(page).startswith("Ready. Add pictures")
    page.click("examples")
    page.settle()
    page.click("train")
    assert page.settle().startswith("Done.")


def test_a_browser_that_keeps_nothing(visit, files):
    page = visit("finetune.html", files)
    page.browser.call(
        "Page.addScriptToEvaluateOnNewDocument",
        source="Object.defineProperty(window, 'indexedDB', { value: undefined })",
    )
    assert again(page).startswith("Ready.")
    page.click("examples")
    page.settle()
    page.click("train")
    assert page.settle().startswith("Done.")


def test_a_file_that_is_no_picture(visit, files):
    page = visit("finetune.html", files)
    page.js("""(input => {
        const data = new DataTransfer();
        data.items.add(new File(["words"], "notes.txt"));
        input.files = data.files;
        input.dispatchEvent(new Event("change"));
    })(document.getElementById("choose"))""")
    page.browser.wait_for("document.querySelector('#status.problem') !== null")
    assert page.text("status") == "notes.txt is no picture that this browser can read."


@pytest.mark.parametrize("page", PAGES)
def test_what_is_missing_is_told(visit, files, tmp_path, page):
    broken = visit(page, tmp_path)
    assert re.search(r"step\.onnx is missing: run write_files.py first", broken.text("status"))
    broken = visit(page, files, modules=tmp_path)
    assert "ONNX Runtime is missing: run “npm install" in broken.text("status")
    assert "No GPU here: " in broken.text("device-note")
    assert broken.js("document.querySelector('[value=webgpu]').disabled")
    broken.browser.open((DEMO / page).as_uri())
    broken.browser.wait_for("document.readyState == 'complete' && location.protocol == 'file:'")
    assert broken.text("status").startswith("This page was opened as a file")


@pytest.mark.parametrize("page", PAGES)
def test_narrow_windows_and_dark_mode(visit, files, page):
    page = visit(page, files)
    for width in (320, 360, 400, 1100):
        page.browser.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=700,
            deviceScaleFactor=2,
            mobile=width < 500,
        )
        assert page.js("document.documentElement.scrollWidth <= innerWidth")
        assert page.js("innerWidth") == width
    for scheme, color in (("light", "rgb(255, 255, 255)"), ("dark", "rgb(21, 23, 26)")):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        page.browser.call("Emulation.setEmulatedMedia", features=features)
        assert page.js("getComputedStyle(document.body).backgroundColor") == color


@pytest.mark.parametrize("page", PAGES)
def test_training_on_webgpu(visit, files, page):
    page = visit(page, files, *WEBGPU)
    assert page.text("device-note") == ""
    if page.js("document.getElementById('examples') !== null"):
        page.click("examples")
        page.settle()
    page.choose("device", "webgpu")
    assert page.settle().startswith("Ready.")
    page.click("train")
    page.browser.wait_for("parseInt(document.getElementById('step').textContent) >= 3", 120)
    page.click("stop")
    assert page.settle().startswith("Stopped.")
    page.draw((0.5, 0.2), (0.5, 0.8))
    page.browser.wait_for("document.getElementById('reading').textContent")
    assert sum(page.probabilities()) == pytest.approx(100, abs=1)
    page.choose("device", "wasm")
    assert page.settle().startswith("Ready.")
