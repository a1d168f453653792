"""A network learns from samples that another process sends while it trains.

The learner tells whether a point lies in a circle. It opens a port of this machine and starts a
sender, a second process that sends points as JSON lines. Halfway the sender saves the network and
moves the circle: the error jumps, and falls again. The curve is drawn while it learns.
"""

import argparse
import json
import socket
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np

import pd_v2 as paddle
from picture import require

BATCH = 32
SAMPLES, QUICK_SAMPLES = 64_000, 16_000  # for each of the circles
CENTERS, RADIUS = ((-0.4, 0.0), (0.5, 0.3)), 0.5
EVERY = 20  # batches of a point of the curve
BOUND, QUICK_BOUND = 0.06, 0.12  # of the error at the end; always "outside" is wrong for 0.2


# ---- the sender


def points(center, n, rng):
    """Return n samples, each a point of a square and whether it is in the circle (0 or 1)."""
    xy = rng.uniform(-1, 1, (n, 2))
    inside = ((xy - center) ** 2).sum(1) < RADIUS**2
    return [[point, int(label)] for point, label in zip(xy.tolist(), inside, strict=True)]


class Client:
    """A connection to the learner: a JSON line for each message, and one for each answer."""

    def __init__(self, address):
        self.socket = socket.create_connection(address)
        self.answers = self.socket.makefile("rb")

    def ask(self, **message):
        """Send a message; return its answer."""
        self.socket.sendall(json.dumps(message).encode() + b"\n")
        answer = json.loads(self.answers.readline() or '{"error": "the learner has gone"}')
        if "error" in answer:
            raise SystemExit(f"sender: {answer['error']}")
        return answer


def send(address, count):
    """Send points of one circle, have the network saved, send those of the other, and stop."""
    client, rng = Client(address), np.random.default_rng(0)
    for name, center in zip(("first", "second"), CENTERS, strict=True):
        for _ in range(count // BATCH):
            client.ask(samples=points(center, BATCH, rng))
        saved = client.ask(command="save", name=name)
        now = client.ask(command="metrics")
        print(
            f"sender: saved {saved['name']} after {now['samples']} samples, cost {now['cost']:.3f}"
        )
    client.ask(command="stop")


# ---- the learner


def network():
    """Return the cost of a perceptron with a hidden layer, which has the error as a metric."""
    xy = paddle.layer.data(name="xy", type=paddle.data_type.dense_vector(2))
    label = paddle.layer.data(name="label", type=paddle.data_type.integer_value(2))
    hidden = paddle.layer.fc(input=xy, size=32, act=paddle.activation.Relu())
    inside = paddle.layer.fc(input=hidden, size=2, act=paddle.activation.Softmax())
    return paddle.layer.classification_cost(input=inside, label=label)


class Curve:
    """The mean error of the last batches, drawn while the network learns."""

    def __init__(self, path, window=False):
        self.path, self.errors, self.recent = path, [], []
        self.ploter = paddle.plot.Ploter("error")
        self.axes = self._open_window() if window else None

    def add(self, batch_id, error):
        """Add the error of a batch."""
        self.recent.append(error)
        if len(self.recent) == EVERY:
            self.errors.append(float(np.mean(self.recent)))
            self.recent.clear()
            self.ploter.append("error", batch_id, self.errors[-1])
            if len(self.errors) % 10 == 0:
                self.draw()
                print(f"learner: batch {batch_id + 1:5}  error {100 * self.errors[-1]:4.1f} %")

    def draw(self):
        """Draw the curve into its file, and into the window."""
        self.ploter.plot(str(self.path))
        if self.axes is not None:
            self.axes.clear()
            self.axes.plot(np.arange(1, len(self.errors) + 1) * EVERY, self.errors)
            self.axes.set(xlabel="batch", ylabel="error")
            self.pyplot.pause(0.001)

    def _open_window(self):
        import matplotlib.pyplot as pyplot

        self.pyplot = pyplot
        return pyplot.figure().subplots()


def learn(count, out, window):
    """Learn from a sender of `count` points of each circle; return the curve."""
    source = paddle.reader.online(("127.0.0.1", 0), batch_size=BATCH, folder=out / "online_models")
    cost = network()
    trainer = paddle.trainer.SGD(
        cost=cost,
        parameters=paddle.parameters.create(cost),
        update_equation=paddle.optimizer.Adam(learning_rate=3e-3),
    )
    curve = Curve(out / "online_learning.png", window)

    def event_handler(event):
        if isinstance(event, paddle.event.EndIteration):
            curve.add(event.batch_id, event.metrics["classification_error_evaluator"])

    host, port = source.address
    command = [sys.executable, __file__, "--send", f"{host}:{port}", "--samples", str(count)]
    with subprocess.Popen(command) as sender:
        # the pass ends by the sender's stop, or when it is gone
        threading.Thread(target=lambda: (sender.wait(), source.close()), daemon=True).start()
        trainer.train(reader=source, num_passes=1, event_handler=event_handler)
    if sender.returncode:
        raise SystemExit("the sender failed")
    curve.draw()
    return curve


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    quick = f"{QUICK_SAMPLES} samples of each circle, not {SAMPLES}"
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument("--window", action="store_true", help="show the curve in a window, too")
    parser.add_argument("--out", type=Path, default=Path("output"), help="default: ./output")
    parser.add_argument("--send", metavar="HOST:PORT", help="be the sender, for this learner")
    parser.add_argument("--samples", type=int, help="of each circle, for the sender")
    args = parser.parse_args(argv)
    count = args.samples or (QUICK_SAMPLES if args.quick else SAMPLES)
    if args.send:
        host, _, port = args.send.rpartition(":")
        send((host, int(port)), count)
        return
    require("matplotlib")
    args.out.mkdir(parents=True, exist_ok=True)
    paddle.init(use_gpu=False, trainer_count=1)
    errors = learn(count, args.out, args.window).errors
    half = len(errors) // 2
    for name, error in (
        ("first", np.mean(errors[half - 5 : half])),
        ("second", np.mean(errors[-5:])),
    ):
        print(f"learner: error of the {name} circle {100 * error:.1f} % at its end")
    jump = max(errors[half : half + 5])
    print(f"learner: {100 * jump:.1f} % when the circle moved; see {args.out}")
    bound = QUICK_BOUND if args.quick else BOUND
    if error > bound:
        raise SystemExit(f"did not learn: error {100 * error:.1f}%, more than {100 * bound:g}%")


if __name__ == "__main__":
    main()
