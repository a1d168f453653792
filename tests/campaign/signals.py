"""Threads, forks and signals at random moments of training, compiling, reading and writing.

Each trial is a process. Whatever comes, and whenever: it ends in time, an interrupt arrives as a
KeyboardInterrupt, and the session goes on afterwards with parameters of a whole number of steps.
"""

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

import pd_core as pd
import pd_v2 as paddle
from pd_core.training.checkpoint import Checkpoint, read_checkpoint, write_checkpoint

from .plan import Plan, Row

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 60.0  # for a trial
ENDING = 5.0  # for the threads of what was interrupted
TRIALS = 20  # of a subject, in the long form


class Counting:
    """A training whose parameters tell how many steps they have made: each adds 1."""

    def __init__(self, session: pd.Session):
        with pd.fresh():
            x = pd.Variable("x", shape=[None, 3])
            w = pd.Variable("w", data=np.zeros((3, 2), np.float32), trainable=True)
            v = pd.Variable("v", data=np.zeros(5, np.float32), trainable=True)
            cost = pd.reduce_sum(x @ w) + pd.reduce_sum(v)
            self.targets = [cost, pd.SGDOptimizer(1.0).minimize(cost)]
        self.session, self.w, self.v = session, w, v
        self.feeds = {"x": -np.ones((1, 3), np.float32)}

    def step(self) -> None:
        """Make a step: w grows by 1, and v falls by 1."""
        self.session.eval(self.targets, self.feeds)

    def check(self) -> int:
        """Return the number of steps; AssertionError if the parameters disagree."""
        w, v = self.session.get(self.w), self.session.get(self.v)
        counts = {float(each) for each in [*w.ravel(), *-v]}
        assert len(counts) == 1, f"parameters of different steps: {counts}"
        return int(counts.pop())


def train(seconds: float) -> None:
    """Make steps."""
    training, end = Counting(pd.default_session()), time.monotonic() + seconds
    while time.monotonic() < end:
        training.step()


def compile_programs(seconds: float) -> None:
    """Compile one program after another."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with pd.fresh():
            x = pd.Variable("x", shape=[None, random.randrange(2, 50)])
            cost = pd.reduce_mean(pd.layer.fc(x, random.randrange(2, 50), act="tanh"))
            feeds = {"x": np.ones((2, x.dims[1]), np.float32)}
            pd.eval([cost, pd.AdamOptimizer().minimize(cost)], feeds)


def read(seconds: float) -> None:
    """Read through threads."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        reader = paddle.reader.buffered(lambda: iter(range(200)), 10)
        reader = paddle.reader.xmap_readers(lambda n: n + 1, reader, 2, 8)
        assert sorted(reader()) == list(range(1, 201))


def write(seconds: float) -> None:
    """Write checkpoints over each other; one is always there, whole."""
    with tempfile.TemporaryDirectory(prefix="pd-signals-") as home:
        path, end = Path(home) / "c", time.monotonic() + seconds
        version = 0
        try:
            while time.monotonic() < end:
                arrays = {"w": np.full(20_000, version)}
                write_checkpoint(path, Checkpoint({"item": arrays}, version, 0))
                version += 1
        finally:
            if version:
                found = read_checkpoint(path)
                assert (found.parts["item"]["w"] == found.batches).all()


ACTIONS = {f.__name__: f for f in (train, compile_programs, read, write)}


def interrupted(action: str, seed: int) -> None:
    """Interrupt an action, then train: each signal is one of several kinds at a random moment."""
    rng = random.Random(seed)
    training = Counting(pd.default_session())
    training.step()
    seen = []
    for kind in (signal.SIGUSR1, signal.SIGALRM, signal.SIGTERM):
        signal.signal(kind, lambda number, frame: seen.append(number))
    kinds = [signal.SIGUSR1, signal.SIGALRM, signal.SIGTERM, signal.SIGINT]

    def send():
        for kind in [*(rng.choice(kinds[:3]) for _ in range(rng.randrange(4))), signal.SIGINT]:
            time.sleep(rng.random() * 0.1)
            os.kill(os.getpid(), kind)

    thread = threading.Thread(target=send)
    try:
        thread.start()
        ACTIONS[action](SECONDS)
    except KeyboardInterrupt:
        thread.join()
    else:
        raise AssertionError("no KeyboardInterrupt arrived")
    before = training.check()
    for _ in range(5):
        training.step()
    assert training.check() == before + 5
    end = time.monotonic() + ENDING
    while threading.active_count() > 1:
        assert time.monotonic() < end, f"threads are left: {threading.enumerate()}"
        time.sleep(0.01)


def in_threads(action: str, seed: int) -> None:
    """Train in several threads, each with a session, and all with one."""
    shared = Counting(pd.Session())
    shared.step()
    steps = 50

    def own(number):
        training = Counting(pd.Session(seed=number))
        for _ in range(steps):
            training.step()
            shared.step()
        assert training.check() == steps

    with ThreadPoolExecutor(4) as pool:
        other = pool.submit(ACTIONS[action], 0.3)
        list(pool.map(own, range(3)))
        other.result()
    assert shared.check() == 1 + 3 * steps


def _reading_child(connection):
    """Read through threads, as a forked child may; it must not run graphs."""
    reader = paddle.reader.buffered(lambda: iter(range(5)), 2)
    connection.send(len(list(reader())))


def _training_child(connection):
    """Train."""
    training = Counting(pd.Session())
    for _ in range(5):
        training.step()
    connection.send(training.check())


def forked(action: str, seed: int) -> None:
    """Start processes in every way while an action goes on in a thread, and train on."""
    rng = random.Random(seed)
    training = Counting(pd.default_session())
    training.step()
    thread = threading.Thread(target=ACTIONS[action], args=(0.5,))
    thread.start()
    time.sleep(rng.random() * 0.1)
    method = rng.choice(["spawn", "forkserver", "fork"])
    context = multiprocessing.get_context(method)
    here, there = context.Pipe()
    does = _reading_child if method == "fork" else _training_child
    child = context.Process(target=does, args=(there,))
    child.start()
    forked = os.fork()
    if forked == 0:
        os._exit(7)  # a child that runs no graph: what a reader's process is
    assert os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1]) == 7
    for _ in range(5):
        training.step()
    assert here.poll(SECONDS) and here.recv() == 5, method
    child.join()
    thread.join()
    assert training.check() == 6


SUBJECTS = {"interrupted": interrupted, "in_threads": in_threads, "forked": forked}


def run(plan: Plan) -> list[Row]:
    """Try every subject with every action, or in the quick form with one or two; a row for each."""
    pairs = [(s, a) for number, s in enumerate(SUBJECTS) for a in actions_of(number, plan)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda pair: _tried(*pair, plan), pairs))


def actions_of(number: int, plan: Plan) -> list[str]:
    """The actions for the subject of this number; in the quick form each is that of one subject."""
    step, first = (len(SUBJECTS), (number + plan.seed) % len(SUBJECTS)) if plan.quick else (1, 0)
    return list(ACTIONS)[first::step]


def _tried(subject, action, plan):
    row, rng = Row("signals", f"{subject}: {action}"), plan.rng("signals", subject, action)
    for _ in range(plan.count(1, TRIALS)):
        seed = int(rng.integers(2**31))
        row.add(*trial(subject, action, seed))
    return row


def trial(subject: str, action: str, seed: int) -> tuple[str, str]:
    """Run a trial in a process of its own; return its outcome and how to see it again."""
    program = [sys.executable, "-m", "tests.campaign.signals", subject, action, str(seed)]
    again = " ".join(["python", *program[1:]])
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        program, cwd=ROOT, env=environment, stderr=subprocess.PIPE, start_new_session=True
    )
    try:
        _, errors = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return "hang", again
    if process.returncode == 0:
        return "right", ""
    if process.returncode < 0:
        return "crash", f"{signal.Signals(-process.returncode).name} ({again})"
    return "failed", f"{errors.decode(errors='replace').strip()[-400:]} ({again})"


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        SUBJECTS[sys.argv[1]](sys.argv[2], int(sys.argv[3]))
    except BaseException:
        traceback.print_exc()
        sys.exit(1)
