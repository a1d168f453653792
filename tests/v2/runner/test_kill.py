"""Trainings that are killed at random moments, and started again, end with the same bits."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pd_core.training import read_checkpoint

from .kill_programs import DIGITS, GAN

ROOT = Path(__file__).resolve().parents[3]
KILLS = int(os.environ.get("PD_KILLS", "8"))
EVERY, PASS, PASSES = 4, 20, 3  # batches between checkpoints and in a pass, and passes

pytestmark = pytest.mark.skipif(os.name != "posix", reason="kills processes as POSIX does")


class Run:
    """A run of a program in a child of the zygote."""

    def __init__(self, zygote):
        self.zygote, self.status = zygote, None
        self.pid = int(self.line().removeprefix("pid "))

    def line(self):
        """The next line, None at the end of the run."""
        text = self.zygote.stdout.readline().rstrip("\n")
        assert text, "the zygote has died"
        if text.startswith("ended "):
            self.status = int(text.removeprefix("ended "))
            self.zygote.stdin.write("\n")
            self.zygote.stdin.flush()
            return None
        return text

    def skip(self, batches):
        """Wait for a number of batches."""
        while batches and (line := self.line()) is not None:
            batches -= line == "batch"

    def kill(self, number):
        if self.status is None:
            os.kill(self.pid, number)

    def end(self):
        """Wait for the end; return the exit status."""
        while self.status is None:
            self.line()
        return self.status


class Program:
    """A script that is run by the zygote; `started` gives its arguments for a folder."""

    def __init__(self, zygote, folder, text, kind, started):
        self.zygote, self.folder, self.kind, self.started = zygote, folder, kind, started
        self.script = folder / "program.py"
        self.script.write_text(text.replace("PASSES", str(PASSES)).replace("PASS", str(PASS)))

    def start(self, saved, result, every=EVERY):
        arguments = self.started(str(self.script), str(saved), str(result), every)
        errors = str(self.folder / "errors")
        order = {"kind": self.kind, "arguments": arguments, "errors": errors}
        self.zygote.stdin.write(json.dumps(order) + "\n")
        self.zygote.stdin.flush()
        return Run(self.zygote)

    def errors(self):
        return (self.folder / "errors").read_text()

    def undisturbed(self, every=EVERY):
        """What is left at the end of a run that nobody kills, as bytes."""
        result = self.folder / f"whole{every}"
        assert self.start(self.folder / f"whole-saved{every}", result, every).end() == 0, (
            self.errors()
        )
        return _left(result)


def _left(result):
    files = sorted(result.parent.glob(f"{result.name}*"))
    assert files
    return {p.name.removeprefix(result.name): p.read_bytes() for p in files if p.is_file()}


@pytest.fixture(scope="module")
def zygote():
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.v2.runner.kill_zygote"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        yield process
        process.kill()  # a run of a test that failed ends with its stdout


def digits(script, saved, result, every):
    options = ["--checkpoint", saved, "--every", str(every), "--resume"] if every else []
    return [*options, script, result]


def gan(script, saved, result, every):
    return [script, saved, result, str(every)]


PROGRAMS = {"digits": (DIGITS, "main", digits), "gan": (GAN, "path", gan)}


@pytest.fixture(params=PROGRAMS)
def program(request, zygote, tmp_path):
    return Program(zygote, tmp_path, *PROGRAMS[request.param])


def moment(rng):
    """(batches, seconds) after which a run is killed: often while it writes a checkpoint."""
    kind = rng.random()
    if kind < 0.1:
        return 0, rng.uniform(0.0, 0.3)  # while it is built, or before
    batches = rng.randrange(1, 2 * EVERY + 2)
    if kind < 0.6:
        batches = max(EVERY, batches // EVERY * EVERY)
    return batches, rng.uniform(0.0, 0.02) * rng.random()


def check_folder(saved):
    """All that has the name of a checkpoint is one, whatever was killed."""
    for path in saved.glob("batch-*"):
        assert read_checkpoint(path).batches == int(path.name[6:])


def train_and_kill(program, name, kills, rng, signals):
    """Run a program until it ends, killed up to so many times; return how often it was."""
    saved, result, killed = program.folder / f"{name}-saved", program.folder / name, 0
    while True:
        run, number = program.start(saved, result), rng.choice(signals)
        if killed < kills:
            batches, seconds = moment(rng)
            run.skip(batches)
            time.sleep(seconds)
            run.kill(number)
        status = run.end()
        check_folder(saved)
        if status == 0:
            break
        # a SIGTERM before the training begins ends the process as usual
        expected = (-number,) if number == signal.SIGKILL else (-number, 128 + number)
        assert killed < kills and status in expected, program.errors()
        killed += 1
    left = sorted(p.name for p in saved.iterdir())
    assert len(left) == 2 and left[-1] == f"batch-{PASS * PASSES:05d}"
    return killed


@pytest.mark.parametrize("seed", [1])
def test_killed_trainings_end_with_the_same_bits(seed, program):
    rng, killed, trainings = random.Random(seed), 0, 0
    whole = program.undisturbed()
    assert program.undisturbed(every=0) == whole  # checkpoints change nothing
    while killed < KILLS:
        name, left = f"killed{trainings}", KILLS - killed
        killed += train_and_kill(program, name, left, rng, [signal.SIGKILL])
        trainings += 1
        assert _left(program.folder / name) == whole, f"after {killed} kills"
    print(f"{killed} kills in {trainings} trainings")


def test_terminated_trainings_end_with_the_same_bits(program):
    whole = program.undisturbed()
    signals = [signal.SIGTERM, signal.SIGTERM, signal.SIGKILL]
    train_and_kill(program, "terminated", max(5, KILLS // 4), random.Random(2), signals)
    assert _left(program.folder / "terminated") == whole


def test_a_last_checkpoint_is_written(program):
    """SIGTERM between two checkpoints: the batch that was going on is in one of its own."""
    run = program.start(program.folder / "saved", program.folder / "result", every=1000)
    run.skip(3)
    run.kill(signal.SIGTERM)
    assert run.end() == 143, program.errors()
    (path,) = (program.folder / "saved").iterdir()
    assert read_checkpoint(path).batches >= 3
