"""The page of demos/browser after three passes over its digits, trained in the tab.

Needs Chromium and npm: `npm install --ignore-scripts --prefix demos/browser`, or PD_NODE_MODULES.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from screens import ROOT, browser, served, shoot

FILES = ("browser.png",)
DEMO = ROOT / "demos" / "browser"
SETTLED = "['idle', 'broken'].includes(document.body.dataset.state)"


def draw(folder):
    """Write the files of the page, open it, train, and take a picture."""
    modules = os.environ.get("PD_NODE_MODULES", DEMO / "node_modules")
    with tempfile.TemporaryDirectory() as files:
        command = [sys.executable, DEMO / "write_files.py", "--quick", "--out", files]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        with served(DEMO, files=files, node_modules=modules) as address, browser() as page:
            page.open(f"{address}/index.html")
            page.wait_for("document.readyState == 'complete'")
            page.wait_for(SETTLED, 120)
            page.evaluate("document.getElementById('train').click()")
            page.wait_for(SETTLED, 300)
            page.evaluate("document.getElementById('sample').click()")
            shoot(page, Path(folder) / "browser.png", 1100, 1000)
