"""A training that is fed over the network, and its clients."""

import json
import socket
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

import pd_v2 as paddle
from pd_v2.data_feeder import DataFeeder

SECONDS = 30  # after which a test that waits fails


class Client:
    """A client of an online reader, which reads all answers in the order of its messages."""

    def __init__(self, address, receive_buffer=None):
        self.socket = socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET)
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        # what was sent is there, even if the answers are not read before the socket is closed
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.settimeout(SECONDS)
        self.socket.connect(address)
        self._file = self.socket.makefile("rb")

    def send(self, message):
        """Send a message without waiting for its answer."""
        self.socket.sendall(json.dumps(message).encode() + b"\n")

    def answer(self):
        """Return the next answer; None at the end of the connection."""
        line = self._file.readline()
        return json.loads(line) if line else None

    def ask(self, message):
        """Send a message and return its answer."""
        self.send(message)
        return self.answer()

    def samples(self, n, seed=0):
        """Send n samples, a message for each; return the answers."""
        rng = np.random.default_rng(seed)
        for x in rng.normal(size=(n, 2)):
            self.send({"sample": [x.tolist(), [float(x.sum())]]})
        return [self.answer() for _ in range(n)]

    def command(self, command, /, **fields):
        """Send a command and return its answer."""
        return self.ask({"command": command, **fields})

    def wait_idle(self):
        """Wait until the training has done all that it can."""
        self.wait_for(lambda status: status["idle"])

    def wait_for(self, condition):
        """Wait until a condition of the status is met; return the status."""
        end = time.monotonic() + SECONDS
        while not condition(status := self.command("status")):
            assert time.monotonic() < end, status
            time.sleep(0.002)
        return status

    def close(self):
        """Close the connection."""
        self._file.close()
        self.socket.close()


class Training:
    """A trainer of a line through two inputs, and the context that it attaches to a source.

    `saved` has the number of batches at each checkpoint.
    """

    def __init__(self):
        x = paddle.layer.data(name="x", type=paddle.data_type.dense_vector(2))
        y = paddle.layer.data(name="y", type=paddle.data_type.dense_vector(1))
        line = paddle.layer.fc(x, 1, act=paddle.activation.Linear(), bias_attr=False)
        cost = paddle.layer.square_error_cost(line, y)
        self.parameters = paddle.parameters.create(cost)
        self.types = paddle.topology.Topology(cost).data_type()
        sgd = paddle.optimizer.Momentum(learning_rate=0.01, momentum=0.0)
        self.trainer = paddle.trainer.SGD(cost, self.parameters, sgd)
        self.context = SimpleNamespace(batches=0, samples=0, metrics={}, is_stopped=False)
        self.context.runner, self.context.stop = self, self._stop
        self.saved, self.errors, self.sizes = {}, [], []

    def _stop(self):
        self.context.is_stopped = True

    def save(self, path):
        """Write a checkpoint, as the runner of a context does."""
        if path.exists() and not (path / "parameters.tar").exists():
            raise FileExistsError(f"{path.name} exists and is no checkpoint")
        path.mkdir(exist_ok=True)
        self.trainer.save_parameter_to_tar(path / "parameters.tar")
        self.saved[path.name] = self.context.batches

    def weights(self):
        """Return the weights, [2]."""
        return self.parameters[self.parameters.names()[0]].ravel().copy()

    def run(self, reader, num_passes=1, event_handler=None, feeding=None):
        """Train from an online reader until it ends."""

        def batches():
            for samples in read:
                self.sizes.append(len(samples))
                yield samples

        batches.unrepeatable = reader.unrepeatable

        def handler(event):
            if isinstance(event, paddle.event.EndIteration):
                self.context.cost, self.context.batches = event.cost, self.context.batches + 1
                self.context.samples = sum(self.sizes)
            if event_handler is not None:
                event_handler(event)

        reader.attach(self.context, DataFeeder(self.types, feeding), feeding)
        read = reader()
        try:
            self.trainer.train(batches, num_passes, handler, feeding)
        finally:
            read.close()

    def in_thread(self, **arguments):
        """Train in a thread, which is returned."""

        def run():
            try:
                self.run(**arguments)
            except BaseException as error:
                self.errors.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        return thread


@pytest.fixture
def trainer():
    """A trainer of a small network on two inputs."""
    return Training()


@pytest.fixture
def source(tmp_path):
    """Return a function that makes online readers with batches of 4; they are closed at the end."""
    sources = []

    def make(batch_size=4, address=("127.0.0.1", 0), folder=tmp_path, **arguments):
        sources.append(paddle.reader.online(address, batch_size, folder, **arguments))
        return sources[-1]

    before = {t for t in threading.enumerate() if t.name == "pd_v2.online"}
    yield make
    for s in sources:
        s.close()
    assert {t for t in threading.enumerate() if t.name == "pd_v2.online"} <= before


@pytest.fixture
def client():
    """Return a function that connects clients; they are closed at the end."""
    clients = []

    def connect(source, **arguments):
        clients.append(Client(source.address, **arguments))
        return clients[-1]

    yield connect
    for c in clients:
        c.close()


@pytest.fixture
def learning(source, trainer, client):
    """Return a function that starts a training; it returns the source, a client and a stop."""
    started = []

    def start(**arguments):
        feeding, handler = arguments.pop("feeding", None), arguments.pop("event_handler", None)
        reader = source(**arguments)
        thread = trainer.in_thread(reader=reader, event_handler=handler, feeding=feeding)
        started.append((reader, thread))

        def stop():
            """Stop by a client of its own, and wait for the end."""
            assert client(reader).command("stop")["ok"]
            thread.join(SECONDS)
            assert not thread.is_alive()
            assert trainer.errors == []

        return reader, client(reader), stop

    yield start
    for reader, thread in started:
        reader.close()
        thread.join(SECONDS)
        assert not thread.is_alive()
