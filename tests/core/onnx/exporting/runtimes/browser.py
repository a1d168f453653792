"""A headless Chromium, driven through its debugging pipe: no package is needed for it."""

import contextlib
import http.server
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from functools import partial

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    *("--headless=new", "--no-first-run", "--disable-extensions", "--remote-debugging-pipe"),
    *("--disable-dev-shm-usage", "--disable-background-networking", "--mute-audio"),
)
# The browser reads the pipe at 3 and writes it at 4, whatever the numbers are here.
LAUNCH = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]
os.dup2(ends[0], 3), os.dup2(ends[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
# A software GPU, so that WebGPU is there on any machine.
WEBGPU = (
    *("--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader"),
    *("--enable-features=Vulkan", "--use-vulkan=swiftshader"),
)


def executable():
    """The Chromium that is installed here, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One page of a browser. Use it in a `with`."""

    def __init__(self, *flags):
        self.profile = tempfile.mkdtemp(prefix="pd-browser-")
        to_child, self.write = os.pipe()
        self.read, from_child = os.pipe()
        root = ["--no-sandbox"] if hasattr(os, "getuid") and os.getuid() == 0 else []
        command = [executable(), *FLAGS, *root, *flags, f"--user-data-dir={self.profile}"]
        self.process = subprocess.Popen(
            [sys.executable, "-c", LAUNCH, str(to_child), str(from_child), *command],
            pass_fds=(to_child, from_child),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_child)
        os.close(from_child)
        self.rest, self.count, self.console = b"", 0, []
        try:
            self.session = self._page()
        except BaseException:
            self.close()
            raise

    def _page(self):
        """The session of a new page."""
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        found = self._call("Target.attachToTarget", targetId=target, flatten=True)
        for domain in ("Page", "Runtime"):
            self._call(f"{domain}.enable", session=found["sessionId"])
        return found["sessionId"]

    def close(self):
        """End the browser that was started here."""
        self.process.terminate()
        self.process.wait(10)
        os.close(self.write)
        os.close(self.read)
        shutil.rmtree(self.profile, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def open(self, url):
        """Go to a page."""
        self.call("Page.navigate", url=url)

    def evaluate(self, expression, timeout=60):
        """The value of a JavaScript expression, awaited if it is a promise."""
        found = self.call(
            "Runtime.evaluate",
            timeout,
            expression=expression,
            awaitPromise=True,
            returnByValue=True,
        )
        if "exceptionDetails" in found:
            error = found["exceptionDetails"].get("exception", {})
            raise RuntimeError(error.get("description") or found["exceptionDetails"]["text"])
        return found["result"].get("value")

    def wait_for(self, expression, timeout=60):
        """The value of an expression as soon as it is true; TimeoutError with the page's words."""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            value = self.evaluate(expression)
            if value:
                return value
            time.sleep(0.1)
        raise TimeoutError(f"{expression} was not true in {timeout} s; console: {self.console}")

    def call(self, method, timeout=60, **parameters):
        """A command of the DevTools protocol for this page."""
        return self._call(method, timeout, self.session, **parameters)

    def _call(self, method, timeout=60, session=None, **parameters):
        self.count += 1
        message = {"id": self.count, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self.write, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + timeout
        while True:
            answer = self._receive(end, method)
            if answer.get("id") == self.count:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self._note(answer)

    def _receive(self, end, method):
        """The next message of the browser."""
        while b"\0" not in self.rest:
            ready, _, _ = select.select([self.read], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                raise TimeoutError(f"{method}: no answer; console: {self.console}")
            more = os.read(self.read, 1 << 16)
            if not more:
                raise RuntimeError(f"{method}: the browser has ended")
            self.rest += more
        message, _, self.rest = self.rest.partition(b"\0")
        return json.loads(message)

    def _note(self, event):
        """Keep what the page prints, and its uncaught errors."""
        details = event.get("params", {})
        if event.get("method") == "Runtime.consoleAPICalled":
            self.console.append(" ".join(str(a.get("value", "")) for a in details["args"]))
        elif event.get("method") == "Runtime.exceptionThrown":
            error = details["exceptionDetails"]
            self.console.append(error.get("exception", {}).get("description") or error["text"])


class _Handler(http.server.SimpleHTTPRequestHandler):
    extensions_map = {".html": "text/html", ".js": "text/javascript", ".mjs": "text/javascript"}
    extensions_map |= {".wasm": "application/wasm", "": "application/octet-stream"}

    def __init__(self, *arguments, folders):
        self.folders = folders
        super().__init__(*arguments, directory=folders[""])

    def translate_path(self, path):
        """A file of the folder that stands for the first part of the path, if one does."""
        first, _, rest = path.lstrip("/").partition("/")
        if first not in self.folders:
            return super().translate_path(path)
        self.directory = self.folders[first]
        try:
            return super().translate_path(rest)
        finally:
            self.directory = self.folders[""]

    def log_message(self, *_):
        """Say nothing."""


@contextlib.contextmanager
def served(root, **folders):
    """The address of a folder on this machine; others stand in it under names of their own."""
    folders = {name: str(folder) for name, folder in {"": root, **folders}.items()}
    handler = partial(_Handler, folders=folders)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()
