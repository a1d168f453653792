"""Pickles read as data: what Python's own reader gives, or an error, and never anything else."""

import collections
import io
import os
import pickle
import random
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pd_core as pd
import pd_v2 as paddle
from pd_v2.formats.topology_file import TopologyFileError, read_topology
from pd_v2.pickles import load
from pd_v2.pickles.plain import is_plain
from pd_v2.reader import creator
from pd_v2.recordio.chunks import write_records

ROOT = str(Path(__file__).parents[3])
SHARED, TWICE = [1, "a"], np.arange(3)
OBJECTS = {
    "constants": [None, True, False, 0, 255, 256, -1, 2**31, -(2**40), 2**200],
    "floats": [1.5, -0.0, 1e300, float("inf")],
    "text": ["", "a", "é€\ud800", "x" * 31, "x" * 32, "x" * 300, "it's\n\\'\"\t"],
    "bytes": [b"", b"abc\xff", b"x" * 300, bytearray(b"\xfe\0"), bytearray()],
    "containers": [(), [], {}, (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4), [[[]]], {"a": {1: [2.5]}}],
    "sets": [{1, "a"}, set(), frozenset([3]), frozenset()],
    "others": [1j, collections.OrderedDict([("b", 1), ("a", [2])])],
    "shared": [SHARED, SHARED, (SHARED,)],
    "dense": [np.arange(6.0).reshape(2, 3), np.zeros((0, 5)), np.array(3), np.arange(9)[::2]],
    "columns first": np.asfortranarray(np.ones((2, 3), "f4")),
    "types": [np.arange(3, dtype=t) for t in ("i1", "u2", ">i4", "<u8", "f2", ">f8", "c8")],
    "truth": np.array([True, False]),
    "strings": [np.array(["ab", "c"]), np.array([b"x", b"yz"])],
    "scalars": [np.float32(3), np.bool_(True), np.int64(-1), np.str_("a")],
    "one array twice": [TWICE, TWICE],
}


def same(a, b):
    """Equal in values, types, and the order of arrays in memory."""
    if type(a) is not type(b):
        return False
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(map(same, a.values(), b.values()))
    if isinstance(a, np.ndarray):
        layout = a.dtype == b.dtype and a.shape == b.shape
        return layout and a.flags.fnc == b.flags.fnc and np.array_equal(a, b)
    return repr(a) == repr(b)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("name", OBJECTS)
def test_the_same_as_pythons_reader(name, protocol):
    content = pickle.dumps(OBJECTS[name], protocol)
    assert same(load("it", content), pickle.loads(content, encoding="latin1"))


def test_arrays_are_their_own_and_may_be_changed():
    first, second = load("it", pickle.dumps([TWICE, TWICE]))
    assert first is second
    first[0] = 7
    assert TWICE[0] == 0


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"c__builtin__\nset\np1\n((lp2\nI1\natRp3\n.", {1}),
        (b"\x80\x02c__builtin__\nfrozenset\nq\x01]q\x02K\x02a\x85Rq\x03.", frozenset([2])),
        (b"c__builtin__\ncomplex\np1\n(F0\nF1\ntRp2\n.", 1j),
        (b"\x80\x02c__builtin__\nbytearray\nq\x01X\x02\0\0\0abU\x07latin-1\x86Rq\x02.", b"ab"),
        (b"L1000000000000000000000000000000L\n.", 10**30),
        (
            b"\x80\x02ccollections\nOrderedDict\nq\x01]q\x02]q\x03(K\x01K\x02ea\x85Rq\x04.",
            collections.OrderedDict([(1, 2)]),
        ),
        (b"(lp1\n(S'caf\\xe9'\np2\nI1\ntp3\na.", [("café", 1)]),
        (b"(dp1\nS'a'\nI01\nsI3\nVb\\u20ac\nsNF1e-05\ns.", {"a": True, 3: "b€", None: 1e-05}),
    ],
)
def test_what_python_2_wrote(content, expected):
    """As cPickle of Python 2.7 writes them, in protocols 0 and 2."""
    found = load("it", content)
    assert type(found) in (type(expected), bytearray) and found == expected


def random_object(rng, depth=0):
    simple = [None, True, rng.randint(-(10**10), 10**10), rng.random(), "w" * rng.randrange(40)]
    if depth > 3 or rng.random() < 0.5:
        return rng.choice(simple)
    values = [random_object(rng, depth + 1) for _ in range(rng.randrange(5))]
    return rng.choice([values, tuple(values), dict.fromkeys("abc", values)])


def test_random_objects():
    rng, plain = random.Random(0), 0
    for _ in range(500):
        content = pickle.dumps(random_object(rng), rng.randrange(6))
        plain += is_plain(content, 1 << 30)
        assert same(load("it", content), pickle.loads(content))
    assert 100 < plain < 500  # both ways of reading were taken


# ---- what is refused


class Evil:
    def __reduce__(self):
        return print, ("evil",)


def array_pickle(state, kind=b"O8"):
    """An array whose dtype is built with a state of the attacker's choice."""
    dtype = b"cnumpy\ndtype\n(U%c%bK\0K\1tR" % (len(kind), kind) + state + b"b"
    empty = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\0\x85U\1btR"
    return b"\x80\2" + empty + b"(K\1K\1\x85" + dtype + b"\x89U\x08" + b"\x41" * 8 + b"tb."


OBJECT_STATE = b"(K\3U\1|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0t"
FIELDS = b"(K\3U\1|N(U\1at}U\1acnumpy\ndtype\n(U\2f8K\0K\1tRJ\0\0\0\x40\x86sK\x08K\1K\0t"


def laughs(depth):
    """Lists of two of the list below."""
    return b"]" + b"".join(b"q\0(h\0h\0l" for _ in range(depth)) + b"."


REFUSED = {
    "nothing": (b"", "of the pickle: it ends before the opcode STOP"),
    "cut off": (pickle.dumps("abc", 2)[:-1], "it ends before the opcode STOP"),
    "nothing to give": (b".", "IndexError"),
    "code": (pickle.dumps(Evil(), 2), r"__builtin__.print is not allowed"),
    "code in protocol 4": (pickle.dumps(Evil(), 4), r"builtins.print is not allowed"),
    "a class of old": (b"(ios\nsystem\n.", "the opcode INST is not carried out"),
    "persistent": (b"Pabc\n.", "the opcode PERSID is not carried out"),
    "a registered extension": (b"\x82\1.", "the opcode EXT1 is not carried out"),
    "no opcode": (b"\xff.", "the opcode 0xff is not carried out"),
    "a protocol to come": (b"\x80\6N.", "protocol 6 is unknown"),
    "an object array": (array_pickle(OBJECT_STATE), "arrays of the type 'O8' are not read"),
    "fields": (array_pickle(FIELDS, b"V8"), "arrays of the type 'V8' are not read"),
    "hidden fields": (array_pickle(FIELDS, b"f8"), "a structured array"),
    "a named array type": (array_pickle(OBJECT_STATE, b"object"), "type 'object'"),
    "too little data": (
        array_pickle(OBJECT_STATE, b"f8").replace(b"K\1\x85", b"K\2\x85"),
        "an array of 16 bytes has data of 8",
    ),
    "a state for a number": (b"K\1}b.", "a int has no state"),
    "a state for a name": (b"cnumpy\ndtype\n}U\1aK\1sb.", "a Name has no state"),
    "a bare name": (b"cnumpy\ndtype\n.", "it holds a name"),
    "half an array": (b"]cnumpy\ndtype\n(U\2f8K\0K\1tRa.", "it holds a name, or half an object"),
    "a string that is called": (b"U\1a)R.", "what is called is no name"),
    "a huge place in the memo": (b"\x80\2Nr\xff\xff\xff\xff.", "the memo has no place 4294967295"),
    "a huge place in decimal": (b"Np99999999999\n.", "the memo has no place 99999999999"),
    "an empty place": (b"h\7.", "the memo has nothing in place 7"),
    "huge bytes": (
        b"\x8e" + struct.pack("<Q", 6 << 30) + b".",
        "6442450944 bytes are announced, 1 are left",
    ),
    "huge text": (b"X\xff\xff\xff\x7f.", "2147483647 bytes are announced, 1 are left"),
    "negative text": (b"T\xff\xff\xff\xff.", "-1 bytes are announced"),
    "a huge frame": (b"\x80\4\x95" + b"\xff" * 8 + b"N.", "a frame of 18446744073709551615 bytes"),
    "a frame of gigabytes": (
        b"\x80\4\x95" + struct.pack("<Q", 6 << 30) + b"N.",
        "a frame of 6442450944 bytes is announced, 2 are left",
    ),
    "a list key": (b"}]K\1s.", "a list is a key or in a set"),
    "a tuple key": (b"})K\1s.", "a tuple is a key or in a set"),
    "a large key": (b"}\x8a\x0a" + b"\1" * 10 + b"K\1s.", "a key of more than 64 bits"),
    "a key alone": (b"}(K\1u.", "a key without a value"),
    "a list in a list": (b"]q\0h\0a.", "levels deep, or holds itself"),
    "deep": (b"]" * 200 + b"a" * 199 + b".", "more than 100 levels deep"),
    "deeper": (b")" + b"\x85" * 100_000 + b".", "more than 100 levels deep"),
    "a billion values": (laughs(40), r"it holds \d+ values in 322 bytes"),
    "no list to append to": (b")K\1a.", "a tuple takes no such values"),
    "a mark that is missing": (b"K\1t.", "there is no mark"),
    "no escape": (b"S'\\q'\n.", r"a string with the escape b'q'"),
    "no quotes": (b"Sabc\n.", "a string without its quotes"),
    "no number": (b"Iabc\n.", "ValueError: invalid literal for int"),
    "a very long number": (b"L" + b"9" * 5000 + b"L\n.", "ValueError: Exceeds the limit"),
    "no utf-8": (b"X\1\0\0\0\xff.", "UnicodeDecodeError"),
}


@pytest.mark.parametrize(("content", "message"), REFUSED.values(), ids=REFUSED)
def test_refused(content, message, capsys):
    with pytest.raises(pd.DamagedFile, match=r"(?s)^it is damaged: byte \d+ .*" + message):
        load("it", content)
    assert capsys.readouterr().out == ""


# Reads what would take gigabytes, in a process that may have 300 MB more than it has now.
SMALL_MEMORY = """
import re, resource, sys
from pd_core import DamagedFile
from pd_v2.pickles import load
now = int(re.search(r"VmSize:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) << 10
resource.setrlimit(resource.RLIMIT_AS, (now + (300 << 20),) * 2)
for content in (
    b"Nr\\xff\\xff\\xff\\x7f.",
    b"\\x8e" + (6 << 30).to_bytes(8, "little") + b".",
    b"\\x8d" + (6 << 30).to_bytes(8, "little") + b".",
    b"\\x96" + (6 << 30).to_bytes(8, "little") + b".",
    b"B" + b"\\xff\\xff\\xff\\xff" + b".",
    b"\\x80\\4\\x95" + (6 << 30).to_bytes(8, "little") + b"N.",
    b"]" * 12_000_000 + b".",
    b"\\x8f" * 12_000_000 + b".",
):
    try:
        load("it", content)
    except DamagedFile as error:
        print("refused", error)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory")
def test_memory_stays_in_bounds():
    done = subprocess.run(
        [sys.executable, "-c", SMALL_MEMORY],
        env={**os.environ, "PYTHONPATH": ROOT, "PD_PICKLE_LIMIT": str(100 << 20)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("refused it is damaged") == 8


def test_the_limit_can_be_raised(monkeypatch):
    content = pickle.dumps([[] for _ in range(1000)], 2)
    monkeypatch.setenv("PD_PICKLE_LIMIT", "10000")
    with pytest.raises(pd.DamagedFile, match=r"more than 10000 bytes\n  hint: .*PD_PICKLE_LIMIT"):
        load("it", content)
    monkeypatch.setenv("PD_PICKLE_LIMIT", "1000000")
    assert load("it", content) == [[]] * 1000
    monkeypatch.setenv("PD_PICKLE_LIMIT", "much")
    with pytest.raises(ValueError, match=r"PD_PICKLE_LIMIT is a number of bytes, not 'much'"):
        load("it", content)


def test_a_refused_topology_changes_nothing():
    """BUILD with the state of slots sets attributes of whatever it is given, classes too."""
    before = dict(vars(paddle.data_type.InputType))
    name = b"cpd_v2.data_type\nInputType\n"
    for state in (b"N}U\3dimK\7s\x86", b"}U\3dimK\7s", b"N}U\x08__init__K\7s\x86"):
        with pytest.raises(TopologyFileError, match="a Name has no state"):
            read_topology(io.BytesIO(b"\x80\2" + name + state + b"b."))
    assert dict(vars(paddle.data_type.InputType)) == before
    assert paddle.data_type.dense_vector(3).dim == 3


# ---- samples


def test_samples_of_a_class_are_read_where_the_file_is_trusted(tmp_path):
    path = tmp_path / "samples-00000"
    content = pickle.dumps(paddle.data_type.dense_vector(3), 2)
    write_records(path, [content])
    with pytest.raises(pd.DamagedFile) as caught:
        list(creator.recordio(str(path))())
    assert f"recordio: {path}, record 1 is damaged" in str(caught.value)
    assert "pd_v2.data_type.InputType is not allowed" in str(caught.value)
    assert "hint: with trusted=True" in str(caught.value)
    (sample,) = creator.recordio(str(path), trusted=True)()
    assert sample == paddle.data_type.dense_vector(3)
    (sample,) = creator.cloud_reader(str(path), "trusting", trusted=True)()
    assert sample == paddle.data_type.dense_vector(3)
    with pytest.raises(pd.DamagedFile, match=r"a record of .* is damaged"):
        list(creator.cloud_reader(str(path), "wary")())


def test_split_files_are_read_like_records(tmp_path):
    (tmp_path / "0").write_bytes(pickle.dumps([paddle.data_type.dense_vector(3)], 2))
    reader = paddle.dataset.common.cluster_files_reader
    with pytest.raises(pd.DamagedFile, match=r"cluster_files_reader: .*0 is damaged.*not allowed"):
        list(reader(str(tmp_path / "*"), 1, 0)())
    (sample,) = reader(str(tmp_path / "*"), 1, 0, trusted=True)()
    assert sample.dim == 3
    (tmp_path / "0").write_bytes(pickle.dumps(3))
    with pytest.raises(pd.DamagedFile, match="0: expected a list of samples, found int"):
        list(reader(str(tmp_path / "*"), 1, 0)())
