"""Damaged checkpoints: every one ends in an error with words, and changes nothing."""

import hashlib
import itertools
import json
import random
import shutil

import numpy as np
import pytest

import pd_core as pd
from pd_core.run.undo import Undo
from pd_core.storage.tensors import tensor_bytes
from pd_core.training import (
    ArrayReader,
    Checkpoint,
    CheckpointWarning,
    Counter,
    Data,
    Device,
    Evaluate,
    ForwardBackward,
    ReduceRate,
    Resume,
    SaveEvery,
    StopEarly,
    Update,
    newest_checkpoint,
    read_checkpoint,
    runner_of,
    write_checkpoint,
)
from pd_core.training.checkpoint import restore_items, sums
from pd_core.training.generators import generators_state
from tests.thinned import thinned

from .resuming import arrays, assert_same_state

FEATURES, LABELS = arrays()
STATE, TENSORS = "state.json", "tensors.safetensors"


def items(width=4, optimizer=None, metrics="accuracy"):
    x = pd.Variable(name="x", shape=[None, 4])
    y = pd.Variable(name="y", shape=[None], dtype="int64")
    scores = pd.layer.fc(pd.dropout(pd.layer.fc(x, width, act="tanh"), 0.5), 3)
    reader = ArrayReader(FEATURES, LABELS, batch_size=4, shuffle=True)
    return [
        *(Device(), Counter(), Data(reader, [x, y])),
        ForwardBackward(pd.reduce_mean(pd.softmax_cross_entropy(scores, y))),
        Update(optimizer or pd.AdamOptimizer(0.01)),
        Evaluate(scores, y, metrics),
        *(StopEarly("cost", 9), ReduceRate(0.5, "cost", 9)),
    ]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Checkpoints after each of four batches, the third one at the end of a pass."""
    pd.reset(seed=0)
    folder = tmp_path_factory.mktemp("whole")
    with runner_of([*items(), SaveEvery(1, folder, keep=None)]) as runner:
        runner.run(1)
        runner.context.num_passes = 2
        runner._pass_begin(), runner._run_one_batch(runner.context)
    return folder


@pytest.fixture
def copied(whole, tmp_path):
    """The same, to be damaged."""
    return shutil.copytree(whole, tmp_path / "copied")


@pytest.fixture
def checkpoint(copied):
    return copied / "batch-00004"


@pytest.fixture
def runner():
    """A runner of the same items, in a world of its own, with values."""
    pd.reset(seed=7)
    random.seed(7), np.random.seed(7)
    with runner_of(items()) as opened:
        pd.default_session().store.initialize(pd.persistent_variables())
        yield opened


def seal(path, content):
    """Write the state of a checkpoint with the sum that belongs to it."""
    content = {key: value for key, value in content.items() if key != "sha256"}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    content["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    (path / STATE).write_text(json.dumps(content))


def reseal_tensors(path, data):
    (path / TENSORS).write_bytes(data)
    content = json.loads((path / STATE).read_text())
    said = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    seal(path, {**content, "files": {TENSORS: said}})


def restore(checkpoint, runner, where=""):
    with Undo(pd.default_session()) as undo:
        restore_items(checkpoint, runner.items, where, undo)


def snapshot(runner):
    """All that a refused checkpoint must not change."""
    context, states = runner.context, [item.state() for item in runner.items[1:]]
    counts = [context.pass_id, context.batch_id, context.is_stopped, context.rate_factor]
    return states, counts, generators_state(), dict(context.test_metrics)


def assert_refused(path, runner, error=(pd.DamagedFile, pd.GraphError)):
    """Check that a checkpoint is refused with words, and nothing is changed; return the text."""
    session = pd.default_session()
    values, before = session.state(), snapshot(runner)
    with pytest.raises(error) as caught:
        restore(read_checkpoint(path), runner, str(path))
    assert_same_state(session.state(), values)
    assert repr(snapshot(runner)) == repr(before)
    return str(caught.value)


# ---- single damages, and what is said of them


def test_a_whole_checkpoint_is_read(checkpoint):
    found = read_checkpoint(checkpoint)
    assert (found.batches, found.pass_id) == (4, 1)
    assert set(found.versions) == {"python", "numpy", "onnxruntime"}
    assert "Device" in found.parts and found.parts["Counter"]["samples"] == 16


def cut(path, name, size=None):
    data = (path / name).read_bytes()
    (path / name).write_bytes(data[: len(data) // 2 if size is None else size])


def as_folder(file):
    file.unlink(), file.mkdir()


def count_up(file):
    text = file.read_text()
    assert '"samples": 16' in text
    file.write_text(text.replace('"samples": 16', '"samples": 17'))


DAMAGES = {
    "no state": (lambda p: (p / STATE).unlink(), "is no checkpoint: it has no state.json"),
    "no tensors": (lambda p: (p / TENSORS).unlink(), "lacks tensors.safetensors"),
    "nothing": (lambda p: shutil.rmtree(p), "is no checkpoint: it has no state.json"),
    "half a state": (lambda p: cut(p, STATE), "state.json is no JSON"),
    "an empty state": (lambda p: cut(p, STATE, 0), "state.json is no JSON"),
    "half of the tensors": (lambda p: cut(p, TENSORS), "bytes were written|were written"),
    "no bytes": (lambda p: cut(p, TENSORS, 0), "tensors.safetensors has 0 bytes"),
    "other text": (lambda p: (p / STATE).write_text("[1, 2]"), "is no state of a checkpoint of pd"),
    "bytes": (lambda p: (p / STATE).write_bytes(b"\xff\xfe\x00"), "state.json is no JSON"),
    "a deep list": (lambda p: (p / STATE).write_text("[" * 10**5), "state.json is no JSON"),
    "a number": (lambda p: (p / STATE).write_text("9" * 5000), "state.json is no JSON"),
    "a folder": (
        lambda p: ((p / STATE).unlink(), (p / STATE).mkdir()),
        "state.json cannot be read",
    ),
    "tensors are a folder": (
        lambda p: ((p / TENSORS).unlink(), (p / TENSORS).mkdir()),
        "tensors.safetensors (cannot be read|has)",
    ),
    "a sum": (
        lambda p: (p / STATE).write_text(
            (p / STATE).read_text().replace('"samples": 16', '"samples": 17')
        ),
        "state.json was altered: its content has another SHA-256 sum",
    ),
}


@pytest.mark.parametrize("damage, text", DAMAGES.values(), ids=DAMAGES)
def test_a_damage_is_named(damage, text, checkpoint, runner):
    damage(checkpoint)
    with pytest.raises(pd.DamagedFile, match=text):
        read_checkpoint(checkpoint)


def test_an_altered_tensor(checkpoint):
    data = bytearray((checkpoint / TENSORS).read_bytes())
    data[-1] ^= 1
    (checkpoint / TENSORS).write_bytes(data)
    with pytest.raises(pd.DamagedFile, match="altered: it has another SHA-256 sum"):
        read_checkpoint(checkpoint)


def test_a_state_that_is_too_long(checkpoint, monkeypatch):
    monkeypatch.setattr("pd_core.training.checkpoint._MOST_BYTES", 100)
    with pytest.raises(pd.DamagedFile, match="bytes, too many for a state"):
        read_checkpoint(checkpoint)


def test_a_later_version(checkpoint):
    seal(checkpoint, {**json.loads((checkpoint / STATE).read_text()), "version": 2})
    with pytest.raises(pd.DamagedFile, match="version 2 of the format, this pd reads 1"):
        read_checkpoint(checkpoint)


def test_words_behind_those_of_a_generator(checkpoint, runner):
    """NumPy would read behind its array."""
    content = json.loads((checkpoint / STATE).read_text())

    def grow(tree):
        if isinstance(tree, dict):
            return {k: 10**8 if k == "pos" else grow(v) for k, v in tree.items()}
        return [grow(v) for v in tree] if isinstance(tree, list) else tree

    seal(checkpoint, {**content, "parts": grow(content["parts"])})
    assert "numpy.random has no word 100000000" in assert_refused(checkpoint, runner)


def changed(checkpoint, change):
    """Write a whole checkpoint whose parts are others."""
    found = read_checkpoint(checkpoint)
    change(found.parts)
    write_checkpoint(checkpoint, found)


def test_sums_without_the_cost(checkpoint, runner):
    """The mean of the pass would be that of the batches after it."""

    def rename(parts):
        sums = parts["ForwardBackward"]["sums"]
        sums["error"] = sums.pop("cost")

    changed(checkpoint, rename)
    text = assert_refused(checkpoint, runner)
    assert "ForwardBackward: the sums of 4 samples lack the cost, there are error" in text


def test_a_place_in_a_pass_and_between_two(checkpoint, runner):
    changed(checkpoint, lambda parts: parts["Data"].update(reader={"passes": 1}))
    text = assert_refused(checkpoint, runner)
    assert "the place in the data is both in a pass and between two" in text


def test_a_restore_that_fails_keeps_the_place(checkpoint, runner):
    """Of a runner that is in a pass: the next batch is the one that it was."""
    runner.run_one_pass()
    runner._pass_begin(), runner._run_one_batch(runner.context)
    data = runner.context.data
    before = data.state()
    with pytest.raises(ZeroDivisionError), Undo(pd.default_session()) as undo:
        restore_items(read_checkpoint(checkpoint), runner.items, "", undo)
        raise ZeroDivisionError
    assert data.state() == before
    runner._run_one_batch(runner.context)
    assert runner.context.batch_id == 1


# ---- the newest whole one


def test_damaged_ones_are_passed_over(copied):
    cut(copied / "batch-00004", TENSORS)
    (copied / "batch-00003" / STATE).unlink()
    (copied / "batch-00099").mkdir()
    (copied / "batch-x").mkdir()
    (copied / "batch-00100").write_text("a file")
    with pytest.warns(CheckpointWarning) as warned:
        path, found = newest_checkpoint(copied)
    assert path.name == "batch-00002" and found.batches == 2
    texts = [str(w.message) for w in warned]
    assert len(texts) == 3 and all("a checkpoint is passed over: " in text for text in texts)
    names = ("batch-00099 is no", "batch-00004/tensors.safetensors has", "batch-00003 is no")
    assert all(name in text for name, text in zip(names, texts, strict=True))


def added(folder, name="tables/0/rank-0-of-2/part-0.npy"):
    """Write a file as ranks do, which have rows of tables; return its sum."""
    (folder / name).parent.mkdir(parents=True)
    (folder / name).write_bytes(b"rows")
    return sums(folder, [folder / name])


OF_RANKS = {
    "altered": (lambda file: file.write_bytes(b"raws"), "part-0.npy was altered"),
    "cut": (lambda file: file.write_bytes(b"row"), "part-0.npy was altered"),
    "removed": (lambda file: file.unlink(), "lacks tables/0/rank-0-of-2/part-0.npy"),
}


@pytest.mark.parametrize(("damage", "text"), OF_RANKS.values(), ids=OF_RANKS)
def test_rows_of_tables_have_sums(damage, text, tmp_path):
    """A checkpoint whose tables are damaged is passed over, like one whose state is."""
    for number in (1, 2):
        write_checkpoint(tmp_path / f"batch-{number}", Checkpoint({}, number), added)
    (file,) = (tmp_path / "batch-2").rglob("*.npy")
    damage(file)
    read_checkpoint(tmp_path / "batch-2", of_others=False)  # of a rank that does not check it
    with pytest.raises(pd.DamagedFile, match=text):
        read_checkpoint(tmp_path / "batch-2")
    with pytest.warns(CheckpointWarning, match=text):
        assert newest_checkpoint(tmp_path)[1].batches == 1


def test_files_of_others_are_not_read(tmp_path):
    (tmp_path / "other").write_text("secret")
    found = sums(tmp_path, [tmp_path / "other"])["other"]
    for name in ("../other", str(tmp_path / "other")):
        write_checkpoint(tmp_path / "one", Checkpoint({}), lambda folder: {name: found})  # noqa: B023
        with pytest.raises(pd.DamagedFile, match="which is none of its own"):
            read_checkpoint(tmp_path / "one")


def test_all_are_damaged(copied):
    for path in copied.iterdir():
        cut(path, STATE)
    with pytest.warns(CheckpointWarning), pytest.raises(pd.DamagedFile, match="no whole check"):
        newest_checkpoint(copied)


def test_none_is_there(tmp_path):
    assert newest_checkpoint(tmp_path) is None
    assert newest_checkpoint(tmp_path / "none") is None


@pytest.mark.parametrize("begin", [False, True])
def test_resume_from_the_newest_whole_one(begin, copied):
    cut(copied / "batch-00004", STATE)
    pd.reset(seed=3)
    resume = Resume(copied, begin=begin)
    with pytest.warns(CheckpointWarning, match="batch-00004"), runner_of([*items(), resume]):
        assert resume.resumed == copied / "batch-00003"
        assert resume.context.batches == 3


def test_resume_where_there_is_nothing(tmp_path):
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(FileNotFoundError) as caught:
            runner_of([*items(), Resume(path)]).__enter__()
        assert str(caught.value) == (
            f"Resume: there is no checkpoint in {path}\n"
            f"  hint: Resume({str(path)!r}, begin=True) begins a training if there is none"
        )
        pd.reset(seed=0)
        with runner_of([*items(), Resume(path, begin=True)]) as runner:
            assert runner.context.batches == 0
        pd.reset(seed=0)


@pytest.mark.parametrize("name", [STATE, TENSORS])
def test_resume_from_a_damaged_one(name, checkpoint):
    """It is not taken for a folder of checkpoints, in which a training would begin."""
    (checkpoint / name).unlink()
    with pytest.raises(pd.DamagedFile), runner_of([*items(), Resume(checkpoint, begin=True)]):
        pass


# ---- checkpoints of others


def refused(checkpoint, others):
    """The text with which other items refuse a checkpoint."""
    pd.reset(seed=7)
    with runner_of(others()) as runner:
        pd.default_session().store.initialize(pd.persistent_variables())
        return assert_refused(checkpoint, runner, pd.GraphError)


def test_a_checkpoint_of_another_network(checkpoint):
    assert "cannot take the restored float32[4, 4]" in refused(checkpoint, lambda: items(width=5))

    assert "it lacks fc_2.W, fc_2.B" in refused(checkpoint, deeper)


def deeper():
    rings = items()
    _x, y = rings[2].inputs
    scores = pd.layer.fc(rings[5].targets[0], 3)
    cost = pd.reduce_mean(pd.softmax_cross_entropy(scores, y))
    return [*rings[:3], ForwardBackward(cost), *rings[4:]]


def test_a_checkpoint_of_a_larger_network(checkpoint):
    """A parameter that is only in the checkpoint is another network, too."""

    def fewer():
        rings = items()
        rings[4] = Update(pd.AdamOptimizer(0.01), pd.trainable_variables()[:2])
        return rings

    text = refused(checkpoint, fewer)
    assert "the checkpoint is of another network" in text
    assert "parameters only in it: fc_1.B, fc_1.W" in text
    assert "parameters only here: none" in text


def test_a_checkpoint_of_another_optimizer(checkpoint):
    text = refused(checkpoint, lambda: items(optimizer=pd.MomentumOptimizer(0.1)))
    assert "the checkpoint was trained by AdamOptimizer, not by MomentumOptimizer" in text


def test_a_checkpoint_of_other_metrics(checkpoint):
    text = refused(checkpoint, lambda: items(metrics=["accuracy", "f1"]))
    assert "the checkpoint has the metrics accuracy, not accuracy, f1" in text


def test_a_checkpoint_of_other_items(checkpoint):
    text = refused(checkpoint, lambda: items()[:-1])
    assert "of a runner with other items: there is none for its ReduceRate" in text
    assert "this runner has Device, Counter, Data" in text
    text = refused(checkpoint, lambda: [*items(), StopEarly("cost")])
    assert "it has no state of StopEarly_2" in text
    assert "it has that of Device, Counter, Data" in text


# ---- mutants


def places(tree, path=()):
    """The path of every value in a JSON."""
    yield path
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from places(value, (*path, key))
    elif isinstance(tree, list):
        for k, value in enumerate(tree):
            yield from places(value, (*path, k))


OTHERS = [
    *(None, True, False, 0, -1, 1, 3.5, 10**30, -(10**30), 1e308, float("nan"), float("inf")),
    *("", "x", "../../x", "0", "\ud800", [], [1], {}, {"x": 1}, {"dict": {}}, {"list": []}),
    *({"tensor": "x"}, {"tensor": "../x"}, {"tensor": 3}, {"dict": []}, {"list": {"x": 1}}),
    *({"dict": {}, "list": []}, "9" * 400, {"dict": {"x": {"dict": {"x": {}}}}}),
]


def mutant(content, rng):
    """A copy of a JSON with something removed, replaced, renamed or exchanged; and what."""
    content = json.loads(json.dumps(content))
    *way, last = rng.choice([p for p in places(content) if p])
    holder = content
    for key in way:
        holder = holder[key]
    kind = rng.choice(["remove", "replace", "replace", "replace", "rename", "exchange"])
    value = rng.choice(OTHERS)
    if kind == "remove":
        del holder[last]
    elif kind == "rename" and isinstance(holder, dict):
        value = rng.choice(["x", "", "../x", "/x", f"{last}_", "tensor", "\ud800"])
        holder[value] = holder.pop(last)
    elif kind == "exchange":
        other = rng.choice([p for p in places(content) if p and p[: len(way) + 1] != (*way, last)])
        value = content
        for key in other:
            value = value[key]
        holder[last] = json.loads(json.dumps(value))
    else:
        holder[last] = value
    return content, (kind, (*way, last), str(value)[:60])


def accepts(path, runner):
    """Whether a checkpoint is taken; if not, it is refused with words, and nothing is changed."""
    try:
        found = read_checkpoint(path)
    except pd.DamagedFile as error:
        assert str(path) in str(error)
        return False
    try:
        restore(found, runner, str(path))
    except (pd.DamagedFile, pd.GraphError):
        return False
    return True


def run_a_pass(runner):
    """Go on with the restored pass; its place in the data may be none."""
    context = runner.context
    context.batches = context.samples = 0
    try:
        runner._pass_begin()
    except (pd.DamagedFile, pd.GraphError) as error:
        assert "the place in the data" in str(error)
    finally:
        runner.items[2]._resumed = None


@pytest.mark.parametrize("number, seed", thinned(itertools.product([3, 4], range(4)), 5))
def test_mutants_of_the_state(number, seed, copied, runner):
    path, rng = copied / f"batch-{number:05d}", random.Random(seed)
    original = json.loads((path / STATE).read_text())
    session, taken = pd.default_session(), 0
    values, before = session.state(), repr(snapshot(runner))
    good = read_checkpoint(path)
    for _ in range(250):
        content, what = mutant(original, rng)
        seal(path, content)
        try:
            if accepts(path, runner):
                taken += 1
                run_a_pass(runner)
                restore(good, runner)
                runner.items[2]._resumed = None
                values, before = session.state(), repr(snapshot(runner))
            else:
                assert_same_state(session.state(), values)
                assert repr(snapshot(runner)) == before
        except Exception as error:
            raise AssertionError(f"{what}: {error!r}") from error
    assert 10 < taken < 200
    files = {p.name for p in copied.parent.rglob("*") if p.is_file()}
    assert files == {STATE, TENSORS}


@pytest.mark.parametrize("name", [STATE, TENSORS])
def test_flipped_bytes(name, checkpoint):
    """Nothing but the same content is read: JSON has bytes without a meaning, such as spaces."""
    data, rng = (checkpoint / name).read_bytes(), random.Random(1)
    parts = repr(read_checkpoint(checkpoint))
    for _ in range(1500):
        damaged = bytearray(data)
        kind = rng.randrange(3)
        for _ in range(rng.choice([1, 1, 1, 5])):
            damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        if kind == 0:
            del damaged[rng.randrange(len(damaged)) :]
        elif kind == 1:
            damaged.insert(rng.randrange(len(damaged)), rng.randrange(256))
        (checkpoint / name).write_bytes(damaged)
        try:
            assert repr(read_checkpoint(checkpoint)) == parts
        except pd.DamagedFile as error:
            assert str(checkpoint) in str(error)


def test_mutants_of_the_tensors(checkpoint, runner):
    """Their header names types, shapes and places; sizes and sums are those of the file."""
    data, rng = (checkpoint / TENSORS).read_bytes(), random.Random(2)
    end = 8 + int.from_bytes(data[:8], "little")
    session, taken = pd.default_session(), 0
    values = session.state()
    for _ in range(700):
        damaged = bytearray(data)
        for _ in range(rng.choice([1, 1, 1, 4])):
            damaged[rng.randrange(end + 50)] ^= 1 << rng.randrange(8)
        if rng.random() < 0.1:
            del damaged[rng.randrange(len(damaged)) :]
        reseal_tensors(checkpoint, bytes(damaged))
        if accepts(checkpoint, runner):
            taken += 1
            runner.items[2]._resumed = None
            values = session.state()
        else:
            assert_same_state(session.state(), values)
    assert 5 < taken < 500


def test_tensors_of_other_types(checkpoint, runner):
    tensors = read_checkpoint(checkpoint).parts["Device"]["values"]
    kinds = [np.float64, np.float16, np.int8, np.bool_, np.uint64]
    for kind in kinds:
        data = tensor_bytes({f"Device/values/{n}": a.astype(kind) for n, a in tensors.items()}, {})
        reseal_tensors(checkpoint, data)
        text = assert_refused(checkpoint, runner)
        assert np.dtype(kind).name in text or "has an entry" in text


# ---- writing


def test_what_a_state_may_contain(tmp_path):
    parts = {
        "A": {"n": 3, "x": 0.5, "s": "é\ud800", "b": True, "none": None, "big": 10**40},
        "B": [1, [2, [np.arange(3)]], {"a": {"b": np.zeros((0, 2))}}, np.float32(1.5)],
        "C": {
            "nan": float("nan"),
            "inf": -float("inf"),
            "a/b": np.ones(1),
            "a": {"b": np.zeros(1)},
        },
        "D": np.array(3),
        "E": {"f64": np.float64(0.1), "bool": np.array([True]), "half": np.ones(2, np.float16)},
        "F": np.arange(6).reshape(2, 3).T,
    }
    write_checkpoint(tmp_path / "c", Checkpoint(parts, 3, 1))
    found = read_checkpoint(tmp_path / "c")
    assert repr(found.parts["A"]) == repr(parts["A"])
    assert repr(found.parts["C"]) == repr(parts["C"])
    assert found.parts["B"][1][1][0].tolist() == [0, 1, 2] and found.parts["B"][3] == 1.5
    assert found.parts["B"][2]["a"]["b"].shape == (0, 2) and found.parts["D"].shape == ()
    assert found.parts["E"]["half"].dtype == np.float16 and found.parts["E"]["f64"] == 0.1
    assert (found.parts["F"] == parts["F"]).all()


@pytest.mark.parametrize("value", [(1, 2), {1, 2}, object(), b"x", np.array(["x"]), 1j, {1: 2}])
def test_what_a_state_may_not_contain(value, tmp_path):
    write_checkpoint(tmp_path / "c", Checkpoint({"A": 1}))
    with pytest.raises(TypeError, match="checkpoint: "):
        write_checkpoint(tmp_path / "c", Checkpoint({"A": {"x": value}}))
    assert read_checkpoint(tmp_path / "c").parts == {"A": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["c"]


def test_what_is_no_checkpoint_is_not_replaced(tmp_path):
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "thesis").write_text("x")
    with pytest.raises(FileExistsError, match="exists and is no checkpoint, it is not replaced"):
        write_checkpoint(tmp_path / "c", Checkpoint({}))
    assert (tmp_path / "c" / "thesis").read_text() == "x"
