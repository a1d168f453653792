"""That the fuzzer sees what it looks for: planted defects, and mutants of every kind."""

import gzip
import io
import json
import tarfile
import zipfile

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.campaign.plan import Plan, Row, table

from . import mutators, worker
from .formats import Format
from .watch import Worker


def planted(monkeypatch, tmp_path, read, **options):
    """The trials of a format that is read by a function."""

    def write(home):
        home.mkdir()
        (home / "f").write_bytes(bytes(range(200)))

    form = Format(write, "*", lambda home: read((home / "f").read_bytes()), **options)
    monkeypatch.setitem(worker.FORMATS, "planted", form)
    return worker.Trials("planted", Plan(), tmp_path)


def refuse(data):
    if data != bytes(range(200)):
        raise ValueError("damaged")


def hoard(data):
    if data != bytes(range(200)):
        raise MemoryError


@pytest.mark.parametrize(
    ("read", "options", "outcomes"),
    [
        (lambda data: data, {}, {"other result"}),
        (lambda data: data, {"checked": True}, {"silent difference"}),
        (lambda data: 0, {"checked": True}, {"same result"}),
        (refuse, {}, {"wrong error"}),
        (refuse, {"errors": (ValueError,)}, {"wrong error"}),  # it does not name the file
        (refuse, {"errors": (ValueError,), "named": False}, {"clear error"}),
        (hoard, {}, {"memory"}),
    ],
)
def test_outcomes(read, options, outcomes, monkeypatch, tmp_path):
    trials = planted(monkeypatch, tmp_path, read, **options)
    found = {trials.run(number)[0] for number in range(30)}
    assert outcomes <= found <= outcomes | {"same result"}  # a mutant may be the file itself


PROGRAMS = {
    "crash": "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
    "hang": "import time; time.sleep(60)",
}


@pytest.mark.parametrize("outcome", PROGRAMS)
def test_workers_that_end_or_hang(outcome, monkeypatch):
    monkeypatch.setattr("tests.campaign.fuzz.watch.DEADLINE", 0.2)
    program = f'input(); print(\'[0, "same result", ""]\', flush=True); {PROGRAMS[outcome]}'
    w = Worker(["-c", program])
    try:
        found = list(w.trials("planted", 0, 2))
    finally:
        w.close()
    assert [each[:2] for each in found] == [(0, "same result"), (1, outcome)]
    assert "SIG" in found[1][2]


def archive():
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as file:
        member = tarfile.TarInfo("name")
        member.size = 100
        file.addfile(member, io.BytesIO(b"a" * 100))
    return packed.getvalue()


def zipped():
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        file.writestr("name", b"a" * 100)
    return packed.getvalue()


def model():
    node = helper.make_node("Relu", ["x"], ["y"], name="relu")
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
    return helper.make_model(helper.make_graph([node], "g", [value], [value])).SerializeToString()


def opens(kind, data):
    """Whether a mutant still has the form of its format."""
    try:
        if kind == "json":
            json.loads(data)
        elif kind == "gzip":
            gzip.decompress(data)
        elif kind == "zip":
            zipfile.ZipFile(io.BytesIO(data)).testzip()
        elif kind == "tar":
            with tarfile.open(fileobj=io.BytesIO(data)) as file:
                file.getmembers()
        else:
            return bool(mutators._fields(data))
    except Exception:
        return False
    return True


FILES = {
    "json": json.dumps({"a": [1, {"b": None}], "c": "text"}).encode(),
    "gzip": gzip.compress(bytes(1000)),
    "zip": zipped(),
    "tar": archive(),
    "protobuf": model(),
}


@pytest.mark.parametrize("kind", FILES)
def test_some_mutants_keep_the_form(kind):
    """Bytes alone hardly do in sums, lengths and quotes."""
    data = FILES[kind]
    made = [mutators.mutated(np.random.default_rng(n), data)[0] for n in range(100)]
    assert len(set(made)) > 40
    assert sum(opens(kind, each) for each in made if each != data) > 20
    again = [mutators.mutated(np.random.default_rng(n), data)[0] for n in range(100)]
    assert again == made or kind == "zip"  # which has the time in it


def test_digests():
    assert worker.digest([1, {"a": np.ones(2)}]) == worker.digest([1, {"a": np.ones(2)}])
    assert worker.digest([np.ones(2)]) != worker.digest([np.ones(2, np.float32)])
    assert worker.digest([[1], 2]) != worker.digest([1, [2]])


def test_rows():
    row = Row("fuzz", "ONNX")
    row.add("clear error")
    row.add("crash", "trial 7")
    assert row.defects == ["crash: trial 7"]
    assert "| fuzz | ONNX | 2 | 1 clear error, 1 crash |  |" in table([row])
    assert json.loads(json.dumps(row.as_json()))["trials"] == 2
