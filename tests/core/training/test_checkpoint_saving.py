"""SaveEvery: which checkpoints there are, full disks, two trainings in a folder, SIGTERM."""

import errno
import resource
import signal
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

import pd_core as pd
from pd_core.storage import folders
from pd_core.training import (
    ArrayReader,
    CheckpointWarning,
    Counter,
    Data,
    Device,
    ForwardBackward,
    Log,
    Resume,
    RunnerItem,
    SaveBest,
    SaveEvery,
    TrainStep,
    Update,
    read_checkpoint,
    runner_of,
)

from .resuming import arrays, assert_same_state, train

FEATURES, LABELS = arrays()


def items():
    x = pd.Variable(name="x", shape=[None, 4])
    y = pd.Variable(name="y", shape=[None], dtype="int64")
    cost = pd.reduce_mean(pd.softmax_cross_entropy(pd.layer.fc(x, 3), y))
    data = Data(ArrayReader(FEATURES, LABELS, batch_size=4), [x, y])
    return [Device(), Counter(), data, ForwardBackward(cost), Update(pd.AdamOptimizer(0.01))]


class At(RunnerItem):
    """Calls a function after so many batches."""

    def __init__(self, batches, function):
        self.batches, self.function = batches, function

    def on_batch_end(self, following):
        if self.context.batches == self.batches:
            self.function()
        return following()


def names(folder):
    return sorted(p.name for p in Path(folder).iterdir())


# ---- which ones


@pytest.mark.parametrize(
    "settings, numbers",
    [
        ({"batches": 2}, [6, 8]),
        ({"batches": 2, "keep": 1}, [8]),
        ({"batches": 4, "keep": None}, [4, 8]),
        ({"batches": 1, "keep": 9}, range(1, 10)),
        ({}, [6, 9]),
        ({"passes": 2, "keep": None}, [6]),
        ({"batches": 2, "passes": 1, "keep": None}, [2, 3, 4, 6, 8, 9]),
        ({"batches": 20}, []),
    ],
)
def test_which_checkpoints_there_are(settings, numbers, tmp_path):
    train(items, SaveEvery(path=tmp_path, **settings), passes=3)
    assert names(tmp_path) == [f"batch-{n:05d}" for n in numbers]
    for path in tmp_path.iterdir():
        assert read_checkpoint(path).batches == int(path.name[6:])


def test_the_end_of_a_pass_replaces_its_last_batch(tmp_path):
    train(items, SaveEvery(3, tmp_path, passes=1), passes=1)
    found = read_checkpoint(tmp_path / "batch-00003")
    assert not found.parts["Counter"]["is_in_pass"]


@pytest.mark.parametrize("outside", [True, False])
def test_where_the_ring_is(outside, tmp_path):
    save = SaveEvery(2, tmp_path, keep=None)
    rings = items()
    with runner_of([save, *rings] if outside else [*rings, save]) as runner:
        runner.run(1)
    assert names(tmp_path) == ["batch-00002"]
    state = read_checkpoint(tmp_path / "batch-00002").parts["Counter"]
    assert (state["batches"], state["batch_id"], state["samples"]) == (2, 1, 8)


@pytest.mark.parametrize(
    "settings, error, text",
    [
        ({"batches": 2}, TypeError, "SaveEvery: needs the path of a folder"),
        ({"batches": 0, "path": "x"}, ValueError, "batches is a positive integer, not 0"),
        ({"passes": 1.5, "path": "x"}, ValueError, "passes is a positive integer, not 1.5"),
        ({"path": "x", "keep": 0}, ValueError, "keep is at least 1, or None for all, not 0"),
    ],
)
def test_wrong_settings(settings, error, text):
    with pytest.raises(error, match=text):
        SaveEvery(**settings)


def test_what_saving_needs(tmp_path):
    def step(x, y):
        return 0.0

    data = Data(ArrayReader(FEATURES, LABELS))
    with pytest.raises(pd.GraphError, match=r"this runner has no session\n  hint: add a Device"):
        runner_of([Counter(), data, TrainStep(step), SaveEvery(1, tmp_path)]).__enter__()
    runner = runner_of([Device(), data, TrainStep(step), SaveEvery(1, tmp_path)])
    with runner, pytest.raises(pd.GraphError, match="SaveEvery: no item counts the batches"):
        runner.run_one_pass()


def test_saving_by_hand(tmp_path):
    pd.reset(seed=11)
    with runner_of(items()) as runner:
        runner.run_one_pass()
        runner.save(tmp_path / "one")
        runner.run_one_pass()
        runner.save(tmp_path / "one")
        whole = pd.default_session().state()
    again, _ = train(items, Resume(tmp_path / "one"), passes=2)
    assert_same_state(again, whole)


def test_saving_at_once_after_a_resume(tmp_path):
    """The place in the data is that of the checkpoint, before the pass begins again."""
    whole, _ = train(items, SaveEvery(1, tmp_path, keep=None), passes=2)
    for number in (2, 3, 4):
        pd.reset(seed=5)
        with runner_of([*items(), Resume(tmp_path / f"batch-{number:05d}")]) as runner:
            runner.save(tmp_path / "again")
        state, _ = train(items, Resume(tmp_path / "again"), passes=2)
        assert_same_state(state, whole)


# ---- others in the folder


def test_two_trainings_in_a_folder(tmp_path):
    with runner_of([*items(), SaveEvery(1, tmp_path)]) as runner:
        pd.reset(seed=0)
        with pytest.raises(pd.GraphError, match="another training writes checkpoints to"):
            train(items, SaveEvery(1, tmp_path))
    pd.reset(seed=0)
    with runner_of([*items(), SaveEvery(1, tmp_path)]) as runner:
        runner.run(1)


def test_a_training_that_fails_gives_the_folder_back(tmp_path):
    class Bad(RunnerItem):
        def initialize(self, context, following):
            raise KeyError("bad")

    for _ in range(2):
        pd.reset(seed=0)
        with pytest.raises(KeyError, match="bad"):
            train(items, SaveEvery(1, tmp_path), Bad())


def test_a_training_that_begins_anew_is_refused(tmp_path):
    """Its checkpoints would be older than those that are there, and the first to be removed."""
    train(items, SaveEvery(2, tmp_path))
    before = names(tmp_path)
    with pytest.raises(FileExistsError, match=r"has batch-0000\d of another training"):
        train(items, SaveEvery(1, tmp_path))
    with pytest.raises(FileExistsError, match="this one begins after 4 batches"):
        train(items, SaveEvery(1, tmp_path), Resume(tmp_path / "batch-00004"))
    assert names(tmp_path) == before
    train(items, SaveEvery(2, tmp_path), Resume(tmp_path), passes=3)
    assert names(tmp_path) == ["batch-00006", "batch-00008"]


def test_the_newest_is_never_removed(tmp_path):
    """A damaged one of later batches does not count, nor do folders of others."""
    whole, _ = train(items, SaveEvery(2, tmp_path, keep=None), passes=3)
    (tmp_path / "batch-00008" / "state.json").write_text("{")
    for name in ("batch-00001", "batch-99999"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "thesis").write_text("x")
    (tmp_path / "batch-00000").write_text("x")
    stop = At(8, lambda: signal.raise_signal(signal.SIGINT))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CheckpointWarning)
        with pytest.raises(KeyboardInterrupt):
            train(items, SaveEvery(1, tmp_path, keep=1), Resume(tmp_path), stop, passes=3)
        others = ["batch-00000", "batch-00001", "batch-00008", "batch-99999"]
        assert names(tmp_path) == [*others[:2], "batch-00007", *others[2:]]
        again, _ = train(items, SaveEvery(1, tmp_path, keep=1), Resume(tmp_path), passes=3)
    assert_same_state(again, whole)
    assert names(tmp_path) == [*others[:2], "batch-00009", "batch-99999"]


def test_what_a_killed_writer_left_is_removed(tmp_path):
    train(items, SaveEvery(2, tmp_path, keep=None))
    left = tmp_path / ".batch-00008.0123456789abcdef.part"
    left.mkdir(), (left / "tensors.safetensors").write_text("x")
    pd.reset(seed=0)
    with runner_of([*items(), Resume(tmp_path), SaveEvery(2, tmp_path)]):
        assert names(tmp_path) == ["batch-00004", "batch-00006"]


# ---- file systems that fail


def assert_goes_on(folder, fails):
    """Train with a file system that fails from the fifth batch to the seventh."""
    whole, _ = train(items, passes=3)
    begin, end = At(5, lambda: fails(True)), At(8, lambda: fails(False))
    with pytest.warns(CheckpointWarning) as warned:
        state, _ = train(items, SaveEvery(1, folder, keep=2), begin, end, passes=3)
    assert_same_state(state, whole)
    texts = [str(w.message) for w in warned]
    assert len(texts) == 3
    for number, text in zip((5, 6, 7), texts, strict=True):
        assert f"batch-{number:05d} could not be written" in text
        assert "older checkpoints are as they were" in text
    return texts


@pytest.mark.parametrize("function", ["write_bytes", "write_text", "mkdir"])
def test_a_full_disk(function, tmp_path, monkeypatch):
    seen = []

    def fails(is_full):
        if not is_full:
            seen.append(names(tmp_path))
            monkeypatch.undo()
            return

        def fail(path, *arguments, **settings):
            if function != "mkdir" or path.name.endswith(".part"):
                raise OSError(errno.ENOSPC, "No space left on device")
            return real(path, *arguments, **settings)

        real = getattr(Path, function)
        monkeypatch.setattr(Path, function, fail)

    texts = assert_goes_on(tmp_path, fails)
    assert all("No space left on device" in text for text in texts)
    assert seen == [["batch-00003", "batch-00004"]]
    assert names(tmp_path) == ["batch-00008", "batch-00009"]


def test_a_file_that_may_not_grow(tmp_path):
    """A limit of the system instead of a patch: a part of the bytes is written."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    def fails(is_full):
        limit = 1000 if is_full else limits[0]
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limits[1]))

    try:
        texts = assert_goes_on(tmp_path, fails)
    finally:
        fails(False)
        signal.signal(signal.SIGXFSZ, before)
    assert all("File too large" in text for text in texts)
    assert names(tmp_path) == ["batch-00008", "batch-00009"]


def test_a_folder_that_may_not_be_written_to(tmp_path, monkeypatch):
    folder = tmp_path / "saved"

    def fails(is_closed):  # modes do not stop root: a file takes the place of the folder
        if is_closed:
            folder.rename(tmp_path / "away")
            folder.write_text("x")
        else:
            folder.unlink()
            (tmp_path / "away").rename(folder)

    assert_goes_on(folder, fails)
    assert names(folder) == ["batch-00008", "batch-00009"]


def test_old_ones_that_cannot_be_removed(tmp_path, monkeypatch):
    def fail(path):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("pd_core.training.saving.remove_folder", fail)
    with pytest.warns(CheckpointWarning, match="older checkpoints could not be removed: "):
        train(items, SaveEvery(2, tmp_path, keep=1))
    assert names(tmp_path) == ["batch-00002", "batch-00004", "batch-00006"]


def test_a_state_that_cannot_be_written_is_an_error(tmp_path):
    class Odd(RunnerItem):
        def state(self):
            return {"x": object()}

    with pytest.raises(TypeError, match="checkpoint: Odd/x is <object"):
        train(items, SaveEvery(1, tmp_path), Odd())
    assert names(tmp_path) == []


# ---- SIGTERM


@pytest.fixture
def handler():
    """A handler of SIGTERM that a program has set before."""
    calls = []

    def own(number, frame):
        calls.append(number)

    before = signal.signal(signal.SIGTERM, own)
    yield own, calls
    assert signal.getsignal(signal.SIGTERM) is own  # it is back
    signal.signal(signal.SIGTERM, before)


def terminate():
    signal.raise_signal(signal.SIGTERM)


@pytest.mark.parametrize("every", [{"batches": 100}, {"batches": 2}, {"passes": 9}])
def test_sigterm_writes_a_last_checkpoint(every, handler, tmp_path):
    whole, _ = train(items, passes=3)
    for batches in (1, 2, 3, 4):
        folder = tmp_path / str(batches)
        save = SaveEvery(path=folder, on_sigterm=True, keep=None, **every)
        with pytest.raises(SystemExit) as caught:
            train(items, save, At(batches, terminate), passes=3)
        assert caught.value.code == 143
        assert names(folder)[-1] == f"batch-{batches:05d}"
        again, _ = train(items, Resume(folder), passes=3)
        assert_same_state(again, whole)
    assert handler[1] == []


class AtEnd(RunnerItem):
    """Calls a function in the end of a pass, in its `finalize`, or in its `initialize`."""

    def __init__(self, where, function):
        self.where, self.function = where, function

    def at(self, where):
        if where == self.where:
            self.function()

    def initialize(self, context, following):
        self.at("initialize")
        super().initialize(context, following)

    def on_pass_begin(self, following):
        self.at("pass begin")
        following()

    def on_pass_end(self, following):
        following()
        self.at("pass end")

    def finalize(self, following):
        following()
        self.at("finalize")


@pytest.mark.parametrize("outside", [True, False])
@pytest.mark.parametrize("where", ["initialize", "pass begin", "pass end", "finalize"])
def test_sigterm_between_batches(where, outside, handler, tmp_path):
    """It is never lost: the process ends with 143, at the latest when the training does."""
    save, end = SaveEvery(100, tmp_path, on_sigterm=True), AtEnd(where, terminate)
    early = (where == "initialize" and outside) or (where == "finalize" and outside)
    rings = [end, save] if outside else [save, end]
    pd.reset(seed=11)
    runner = runner_of([*rings, *items()])
    if early:  # before the handler is set, or when it is gone
        with runner:
            runner.run(1)
        assert handler[1]
        return
    with pytest.raises(SystemExit) as caught, runner:
        runner.run(1)
    assert caught.value.code == 143
    assert handler[1] == []
    assert names(tmp_path) == {
        "finalize": [],
        "pass end": ["batch-00003"] if not outside else [],
    }.get(where, ["batch-00001"])


def test_a_training_without_on_sigterm_leaves_the_handler(handler, tmp_path):
    train(items, SaveEvery(1, tmp_path), At(2, terminate))
    assert handler[1] == [signal.SIGTERM]


def test_the_handler_is_back_after_an_error(handler, tmp_path):
    def fail():
        raise KeyError("x")

    with pytest.raises(KeyError):
        train(items, SaveEvery(1, tmp_path, on_sigterm=True), At(2, fail))
    pd.reset(seed=0)
    with pytest.raises(FileExistsError):
        train(items, SaveEvery(1, tmp_path, on_sigterm=True))


def test_in_another_thread_signals_are_left_alone(handler, tmp_path):
    errors = []

    def run():
        try:
            train(items, SaveEvery(1, tmp_path, on_sigterm=True))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert not errors and names(tmp_path)


SCRIPT = """
import os, signal, sys, time
import numpy as np
import pd_core as pd
from pd_core.training import *

class Kill(RunnerItem):
    def on_batch_end(self, following):
        {action}
        return following()

def step(x):
    return 1.0

data = Data(ArrayReader(np.zeros((8, 1), np.float32), batch_size=1))
save = SaveEvery(100, sys.argv[1], on_sigterm=True)
with runner_of([Device(), Counter(), data, TrainStep(step), Kill(), save]) as runner:
    runner.run(1)
"""
TERM = "signal.raise_signal(signal.SIGTERM)"


def ended(action, folder):
    """The exit status of a process that trains and does something after each batch."""
    code = SCRIPT.format(action=action)
    return subprocess.run([sys.executable, "-c", code, folder], timeout=60).returncode


def test_a_process_that_is_terminated(tmp_path):
    assert ended(TERM, tmp_path) == 143
    assert names(tmp_path) == ["batch-00001"]
    assert ended(f"{TERM}; {TERM}; signal.pause()", tmp_path / "twice") == -signal.SIGTERM
    assert names(tmp_path / "twice") == []


def test_a_child_process_is_terminated_at_once(tmp_path):
    """It inherits the handler, which would only note the signal."""
    action = (
        "(end, ready), child = os.pipe(), os.fork()\n"
        # short naps: a signal just before a long one would be handled after it
        "        if not child: os.write(ready, b'x'), [time.sleep(0.01) for _ in range(3000)]\n"
        "        os.read(end, 1), os.kill(child, signal.SIGTERM)\n"
        "        assert os.waitpid(child, 0)[1] == signal.SIGTERM"
    )
    assert ended(action, tmp_path) == 0


def test_folders_are_exchanged(tmp_path, monkeypatch):
    """Where the system cannot do it at once, too."""
    monkeypatch.setattr(folders, "_exchange", lambda *pair: False)
    train(items, SaveEvery(3, tmp_path, passes=1), passes=1)
    assert not read_checkpoint(tmp_path / "batch-00003").parts["Counter"]["is_in_pass"]
    assert np.isfinite(read_checkpoint(tmp_path / "batch-00003").parts["Counter"]["samples"])


def test_a_program_that_changes_its_folder(tmp_path, monkeypatch):
    """Relative paths are of the folder where they were given."""
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    more = SaveEvery(2, "saved"), SaveBest("best", "cost"), Log("log"), Resume("saved", begin=True)
    monkeypatch.chdir("other")
    whole, _ = train(items, *more)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["best", "log", "other", "saved"]
    assert_same_state(train(items, *more[1:], seed=3)[0], whole)
    assert not any((tmp_path / "other").iterdir())
