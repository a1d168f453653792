"""A server of federated rounds in a thread, and a client in Python."""

import asyncio
import contextlib
import http.client
import json
import threading
from functools import partial
from urllib.parse import urlsplit

import onnxruntime
import pytest
from safetensors.numpy import load, save


@contextlib.contextmanager
def serving(demo, rounds, files, port=0, pages=None, **options):
    """The address of a server in a thread; `pages` are folders that it serves too, by name."""
    pytest.importorskip("aiohttp")
    from aiohttp import web

    facts, started = {}, threading.Event()
    plan = options.pop("plan", {"epochs": 1, "batch": 0, "rate": None})

    async def main():
        server = demo["server"].Server(rounds, files, plan, **options)
        app = server.application()
        for name, folder in (pages or {}).items():
            app.router.add_static(f"/{name}", folder)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        end = asyncio.Event()
        facts["port"] = runner.addresses[0][1]
        facts["end"] = partial(asyncio.get_running_loop().call_soon_threadsafe, end.set)
        started.set()
        await end.wait()
        await runner.cleanup()

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    assert started.wait(30)
    try:
        yield f"http://127.0.0.1:{facts['port']}"
    finally:
        facts["end"]()
        thread.join()


def ask(address, path, body=None, **headers):
    """(status, answer) of a request; a dict, or the bytes of a file."""
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=30)
    try:
        connection.request("GET" if body is None else "PUT", path, body, headers)
        response = connection.getresponse()
        content = response.read()
        is_json = "json" in response.headers.get("Content-Type", "")
        return response.status, json.loads(content) if is_json else content
    finally:
        connection.close()


class PythonClient:
    """A client with nothing but onnxruntime, safetensors and a connection."""

    def __init__(self, address, name, x, label):
        self.address, self.name, self.batch = address, name, {"x": x, "label": label}
        self.session = onnxruntime.InferenceSession(ask(address, "/files/step.onnx")[1])
        initial = onnxruntime.InferenceSession(ask(address, "/files/initial.onnx")[1])
        outputs = [o.name for o in initial.get_outputs()]
        self.initial = dict(zip(outputs, initial.run(None, {}), strict=True))

    def train(self, state, steps=1):
        outputs = [o.name for o in self.session.get_outputs()]
        for _ in range(steps):
            out = dict(zip(outputs, self.session.run(None, {**self.batch, **state}), strict=True))
            state = {name: out.get(f"{name}_next", value) for name, value in state.items()}
        return state

    def take_part(self, steps=1):
        """Train in the open round; return the answer to the update."""
        _, about = ask(self.address, "/round")
        _, weights = ask(self.address, f"/rounds/{about['round']}/weights")
        state = self.train({**self.initial, **load(weights)}, steps)
        body = save({n: state[n] for n in about["averaged"]}, {"pd.digest": about["digest"]})
        samples = len(self.batch["x"])
        return ask(
            self.address, f"/rounds/{about['round']}/updates/{self.name}?samples={samples}", body
        )
