"""A server of federated averaging: hands out weights, takes what clients trained, averages it.

python server.py files --state state --rounds 20 --clients 10

`files` is a folder that write_files.py has filled. Needs `pip install aiohttp`, and for the epsilon
of --noise `pip install dp-accounting`.
"""

import argparse
import asyncio
import contextlib
import hmac
import ipaddress
import math
import os
import re
import sys
from pathlib import Path

from aiohttp import web
from privacy import Rule, epsilon
from rounds import Rounds
from updates import MODELS, Refused, averaged_of

TOKEN = "PD_FEDERATED_TOKEN"  # the variable of the environment that has it
SHORTEST_TOKEN = 16
AT_ONCE = 8  # updates that are received at the same time, each in memory
LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]")


class Server:
    """The answers to requests.

    `rounds` is a Rounds, `folder` has the models, `plan` says how clients train. Updates are
    received in `timeout` seconds, and a client waits at most so long for the next round.
    """

    def __init__(self, rounds, folder, plan, token=None, timeout=30.0, delta=1e-5):
        self.rounds, self.folder, self.plan = rounds, Path(folder), plan
        self.token, self.timeout, self.delta = token, timeout, delta
        self.alone = asyncio.Lock()  # one update at a time is counted
        self.receiving = asyncio.Semaphore(AT_ONCE)
        self.changed = asyncio.Event()  # of the present round: set when it ends

    def application(self):
        """Return the application of aiohttp."""
        limit = self.rounds.averaged.most_bytes
        app = web.Application(middlewares=[self.guarded], client_max_size=limit)
        app.router.add_get("/", self.about)
        app.router.add_get("/files/{name}", self.file)
        app.router.add_get("/round", self.round)
        app.router.add_get("/rounds/{number}/weights", self.weights)
        app.router.add_put("/rounds/{number}/updates/{client}", self.update)
        app.cleanup_ctx.append(self.watched)
        return app

    @web.middleware
    async def guarded(self, request, handler):
        """Let in who may come in; answer errors as JSON."""
        try:
            self.admit(request)
            return await handler(request)
        except Refused as error:
            return answer({"error": str(error)}, error.status)
        except web.HTTPRequestEntityTooLarge:
            limit = self.rounds.averaged.most_bytes
            return answer({"error": f"an update has at most {limit} bytes"}, 413)
        except web.HTTPException as error:
            return answer({"error": error.reason}, error.status)

    def admit(self, request):
        """Refuse requests without the token; without a token those by another name."""
        if self.token is not None:
            given = request.headers.get("Authorization", "")
            wanted = f"Bearer {self.token}"
            if not hmac.compare_digest(given.encode("utf-8", "surrogateescape"), wanted.encode()):
                raise Refused(401, "the header Authorization has to be: Bearer, and the token")
        elif re.sub(r":\d+$", "", request.host) not in LOCAL_NAMES:
            # a page whose name was made to mean this machine
            raise Refused(403, f"a server without a token is {' or '.join(LOCAL_NAMES)}")

    async def watched(self, app):
        """End rounds whose time is over, as long as the application runs."""

        async def watch():
            while True:
                await asyncio.sleep(min(1.0, (self.rounds.seconds or 1.0) / 4))
                async with self.alone:
                    if await asyncio.to_thread(self.rounds.close_if_late):
                        self.ended()

        task = asyncio.create_task(watch())
        yield
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    def ended(self):
        """Wake those who wait for the next round."""
        self.changed.set()
        self.changed = asyncio.Event()
        rounds = self.rounds
        print(f"round {rounds.number} of {rounds.total} begins", flush=True)

    async def about(self, request):
        """Describe the training, with its epsilon so far."""
        rounds = self.rounds
        private = epsilon(rounds.now.spent, self.delta)
        if private is None:
            private = "unknown: dp-accounting is not installed"
        elif math.isinf(private):
            private = "infinite: some round was without noise"
        return answer(
            {
                "digest": rounds.averaged.digest,
                "averaged": rounds.averaged.schema,
                "most_bytes": rounds.averaged.most_bytes,
                "files": MODELS,
                "round": rounds.number,
                "rounds": rounds.total,
                "privacy": {"epsilon": private, "delta": self.delta},
            }
        )

    async def file(self, request):
        """A model."""
        name = request.match_info["name"]
        if name not in MODELS:
            raise Refused(404, f"files are {', '.join(MODELS)}")
        return web.FileResponse(self.folder / name)

    async def round(self, request):
        """The round that is open; with ?after=3 once round 3 is over, or after a while anyway."""
        after = whole(request.query.get("after", "-1"), "after")
        changed = self.changed
        if self.rounds.number == after and not self.rounds.is_done:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), self.timeout)
        rounds = self.rounds
        return answer(
            {
                "round": rounds.number,
                "done": rounds.is_done,
                "digest": rounds.averaged.digest,
                "averaged": [*rounds.averaged.initial],
                "received": len(rounds.received),
                "wanted": rounds.rule.clients,
                "plan": self.plan,
            }
        )

    async def weights(self, request):
        """Send the weights of this round."""
        number = whole(request.match_info["number"], "round")
        now = self.rounds.now  # another thread may be ending the round
        if number != now.number:
            raise Refused(409, f"round {number} is not open: this is round {now.number}")
        body = now.file(self.rounds.averaged.digest)
        return web.Response(body=body, content_type="application/octet-stream")

    async def update(self, request):
        """Receive the update of a client, of ?samples=60; a repeated one counts once."""
        number = whole(request.match_info["number"], "round")
        samples = whole(request.query.get("samples", ""), "samples")
        self.rounds.check_open(number)  # before a body is received for nothing
        if self.receiving.locked():
            headers = {"Retry-After": "1"}
            return answer({"error": f"{AT_ONCE} updates arrive already"}, 503, headers)
        async with self.receiving:
            try:
                async with asyncio.timeout(self.timeout):
                    body = await request.read()
            except TimeoutError:
                raise Refused(408, f"no whole update in {self.timeout:g} seconds") from None
            async with self.alone:
                client = request.match_info["client"]
                counted = await asyncio.to_thread(self.rounds.add, number, client, samples, body)
                if self.rounds.number > number:
                    self.ended()
        return answer({"round": number, "counted": counted}, 201 if counted else 200)


def answer(content, status=200, headers=None):
    """A response of JSON."""
    return web.json_response(content, status=status, headers=headers)


def whole(text, name):
    """An integer of a request."""
    if not re.fullmatch(r"-?[0-9]{1,12}", text):
        raise Refused(400, f"{name} is an integer, and missing or no such number here")
    return int(text)


def checked_token(token, host):
    """Return the token; ValueError if it is too short, or missing where others reach the server."""
    try:
        is_local = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_local = False
    if not token and not is_local:
        raise ValueError(f"{host} can be reached from other machines, which needs {TOKEN}")
    if token and len(token) < SHORTEST_TOKEN:
        raise ValueError(f"{TOKEN}: a token has at least {SHORTEST_TOKEN} characters")
    return token or None


async def serve(server, host, port):
    """Listen until the task is cancelled; print the address."""
    runner = web.AppRunner(server.application(), access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        bound = runner.addresses[0]
        shown = f"[{bound[0]}]" if ":" in bound[0] else bound[0]
        print(f"listening at http://{shown}:{bound[1]}", flush=True)
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()


def from_(least, kind=int):
    """A type of argparse: numbers from a least one on."""

    def number(text):
        value = kind(text)
        if not least <= value < math.inf:
            raise argparse.ArgumentTypeError(f"{text} is no number from {least} on")
        return value

    return number


def parsed(argv):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    count, positive = from_(1), from_(1e-9, float)
    add("files", type=Path, help="folder with step.onnx, initial.onnx and predict.onnx")
    add("--state", type=Path, default=Path("state"), help="folder of weights and updates")
    add("--only", metavar="REGEX", help="average these inputs of predict.onnx alone")
    add("--host", default="127.0.0.1", help=f"another one needs a token in {TOKEN}")
    add("--port", type=from_(0), default=8080, help="0 for any that is free")
    add("--rounds", type=count, default=20)
    add("--clients", type=count, default=10, help="that a round wants")
    add("--least", type=count, default=1, help="clients with which a late round ends")
    add("--seconds", type=positive, help="after which a round is late; by default never")
    add("--timeout", type=positive, default=30.0, help="seconds in which an update has to arrive")
    add("--epochs", type=count, default=1, help="that a client trains in a round")
    add("--batch", type=from_(0), default=20, help="samples of a client's batch; 0 for all of them")
    add("--rate", type=positive, help="the learning rate; by default that of the step")
    add("--most-samples", type=count, default=10_000, help="that a client counts for")
    add("--clip", type=positive, help="largest L2 norm of a client's difference")
    add("--noise", type=from_(0.0, float), default=0.0, help="its standard deviation / --clip")
    add("--delta", type=positive, default=1e-5, help="of differential privacy")
    return parser, parser.parse_args(argv)


def main(argv=None):
    parser, args = parsed(argv)
    plan = {"epochs": args.epochs, "batch": args.batch, "rate": args.rate}
    try:
        token = checked_token(os.environ.get(TOKEN), args.host)
        rule = Rule(args.clients, args.clip, args.noise, args.most_samples)
        averaged = averaged_of(args.files, args.only)
        rounds = Rounds(args.state, averaged, rule, args.rounds, args.seconds, args.least)
    except (OSError, ValueError) as error:
        parser.error(str(error))

    async def run():
        server = Server(rounds, args.files, plan, token, args.timeout, args.delta)
        await serve(server, args.host, args.port)

    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(run())
    rounds.release()


if __name__ == "__main__":
    sys.exit(main())
