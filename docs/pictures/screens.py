"""Screenshots of pages in a headless Chromium: for the scripts that need one."""

import base64
import io
import sys
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT))  # for the browser that the tests drive

from tests.core.onnx.exporting.runtimes.browser import Browser, executable, served  # noqa: E402

FLAGS = (
    "--disable-gpu",
    "--hide-scrollbars",
    "--disable-quic",
    "--disable-component-update",
    "--disable-sync",
)
COLORS = 256


def browser():
    """Return a browser, for a `with`."""
    if executable() is None:
        raise SystemExit("this picture needs Chromium")
    return Browser(*FLAGS)


def shoot(page, path, width, height):
    """Write what the page shows in a window of this size as a small PNG."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    page.call("Emulation.setDeviceMetricsOverride", **size)
    page.evaluate("window.scrollTo(0, 0), new Promise(done => setTimeout(done, 300))")
    data = base64.b64decode(page.call("Page.captureScreenshot", format="png")["data"])
    with Image.open(io.BytesIO(data)) as picture:
        small = picture.convert("RGB").quantize(COLORS, dither=Image.Dither.NONE)
        small.save(path, optimize=True)


__all__ = ["browser", "served", "shoot"]
