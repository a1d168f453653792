"""Folders in Hugging Face's layout: written, read, damaged, and hostile."""

import json
import os
import re
import struct
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import pd_core as pd
from pd_core.interchange import ModelFolder, write_model_folder

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
TENSORS = {
    "h.0.weight": np.arange(12, dtype=np.float32).reshape(3, 4),
    "h.0.bias": np.arange(4, dtype=np.float64),
    "h.1.weight": np.linspace(-1, 1, 12, dtype=np.float16).reshape(4, 3),
    "ids": np.arange(5),
    "mask": np.array([True, False]),
    "scalar": np.array(2.5, np.float32),
    "empty": np.zeros((0, 3), np.float32),
}
CONFIG = {"model_type": "gpt2", "n_embd": 4, "name": "ü"}


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


@pytest.mark.parametrize("size", [None, 1, 60, "0.1KB", "64B", "5GB"])
def test_what_is_written_is_read(size, tmp_path):
    options = {} if size is None else {"max_shard_size": size}
    files = write_model_folder(tmp_path / "m", TENSORS, CONFIG, **options)
    folder = ModelFolder(tmp_path / "m")
    assert folder.config == CONFIG and folder.keys() == TENSORS.keys() and len(folder) == 7
    assert all(same(folder[name], TENSORS[name]) for name in TENSORS)
    assert all(
        folder.shape(k) == v.shape and folder.dtype(k) == v.dtype for k, v in TENSORS.items()
    )
    assert folder["ids"].flags.writeable and "nothing" not in folder
    assert folder.metadata == {"format": "pt"}
    names = {"config.json", *files} | ({INDEX} if len(files) > 1 else set())
    assert {p.name for p in (tmp_path / "m").iterdir()} == names
    assert sorted(set(folder.files.values())) == files
    assert len(files) == 1 or list(folder) == list(TENSORS)  # the order of the index
    limit = {None: 5e9, "0.1KB": 100, "64B": 64, "5GB": 5e9}.get(size, size)
    for file in files:  # the safetensors package reads them, too
        tensors = load_file(tmp_path / "m" / file)
        assert len(tensors) == 1 or sum(a.nbytes for a in tensors.values()) <= limit
        assert all(same(a, TENSORS[name]) for name, a in tensors.items())
        with safe_open(tmp_path / "m" / file, "numpy") as opened:
            assert opened.metadata() == {"format": "pt"}
    if len(files) > 1:
        assert files[0] == f"model-00001-of-{len(files):05}.safetensors"
        index = json.loads((tmp_path / "m" / INDEX).read_text())
        assert index["weight_map"] == folder.files
        assert index["metadata"] == {"total_size": sum(a.nbytes for a in TENSORS.values())}


@pytest.mark.parametrize("stored", ["bfloat16", "float16", "float8_e4m3fn", "float64", None])
@pytest.mark.parametrize("read", ["float32", "bfloat16", None])
def test_floats_of_other_types(stored, read, tmp_path):
    write_model_folder(tmp_path, {k: TENSORS[k] for k in ("h.0.bias", "ids")}, dtype=stored)
    folder = ModelFolder(tmp_path, dtype=read)
    value = TENSORS["h.0.bias"]
    assert (folder["h.0.bias"].astype(np.float64) == value).all()  # small numbers are exact
    assert folder["h.0.bias"].dtype.name == (read or stored or "float64")
    assert folder["ids"].dtype == np.int64
    assert folder.dtype("h.0.bias").name == (stored or "float64")


def raw(entries, data, extra=b""):
    """The bytes of a file, from its header on."""
    header = json.dumps(entries).encode() + extra
    return struct.pack("<Q", len(header)) + header + data


def test_bytes_written_by_hand(tmp_path):
    """BF16 is the upper half of float32, byte by byte."""
    data = bytes([0x80, 0x3F, 0x20, 0xC0]) + struct.pack("<2e", 0.5, -2.0) + bytes([0x38, 0x7E])
    entries = {
        "a": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]},
        "b": {"dtype": "F16", "shape": [1, 2], "data_offsets": [4, 8]},
        "c": {"dtype": "F8_E4M3", "shape": [2], "data_offsets": [8, 10]},
        "__metadata__": {"format": "pt"},
    }
    (tmp_path / "model.safetensors").write_bytes(raw(entries, data, b"  "))
    folder = ModelFolder(tmp_path, dtype="float32")
    assert folder["a"].tolist() == [1.0, -2.5] and folder["b"].tolist() == [[0.5, -2.0]]
    assert folder["c"].tolist() == [1.0, 448.0]
    assert all(v.dtype == np.float32 for v in folder.values())
    as_stored = ModelFolder(tmp_path)
    assert as_stored["a"].dtype == ml_dtypes.bfloat16 and as_stored["b"].dtype == np.float16
    layer = pd.nn.FC(2, bias=False)
    layer.load_dict({"W": ModelFolder(tmp_path)["a"].reshape(1, 2)})
    assert layer.infer_shape((None, 1)) == (None, 2)
    assert layer.W.val().tolist() == [[1.0, -2.5]] and layer.W.dtype == np.float32


def test_one_file_is_read_alone(tmp_path):
    save_file({"a": np.ones(2)}, tmp_path / "adapter.safetensors")
    folder = ModelFolder(tmp_path / "adapter.safetensors")
    assert folder.config == {} and folder["a"].tolist() == [1, 1]
    assert repr(folder).endswith("1 tensors in 1 file)")
    with pytest.raises(KeyError, match=r"has no tensor 'A'; there is 'a'"):
        folder["A"]
    with pytest.raises(FileNotFoundError, match=r"but adapter.safetensors\n  hint: ModelFolder"):
        ModelFolder(tmp_path)


def test_other_files_of_the_folder_stay(tmp_path):
    path = tmp_path / "m"
    write_model_folder(path, TENSORS, CONFIG, max_shard_size=64)
    (path / "tokenizer.json").write_text("{}")
    (path / "onnx").mkdir()
    (path / "onnx" / "model.onnx").write_text("x")
    (path / "link").symlink_to("tokenizer.json")
    assert write_model_folder(path, {"a": np.ones(2)}) == ["model.safetensors"]
    kept = {"tokenizer.json", "onnx", "link", "config.json", "model.safetensors"}
    assert {p.name for p in path.iterdir()} == kept
    assert (path / "onnx" / "model.onnx").read_text() == "x" and (path / "link").is_symlink()
    assert ModelFolder(path).config == CONFIG and list(ModelFolder(path)) == ["a"]
    write_model_folder(path, {"a": np.ones(2)}, {"n": 1})
    assert ModelFolder(path).config == {"n": 1}


def test_a_failed_write_changes_nothing(tmp_path):
    path = tmp_path / "m"
    write_model_folder(path, TENSORS, CONFIG)
    before = {p.name: p.read_bytes() for p in path.iterdir()}

    class Lazy(dict):
        reads = 0

        def __getitem__(self, name):
            if name == "b":
                Lazy.reads += 1
                if Lazy.reads > 1:
                    raise OSError("gone")
            return super().__getitem__(name)

    with pytest.raises(OSError, match="gone"):
        write_model_folder(path, Lazy(a=np.ones(2), b=np.ones(2)), {}, max_shard_size=8)
    assert {p.name: p.read_bytes() for p in path.iterdir()} == before
    assert os.listdir(tmp_path) == ["m"]


@pytest.mark.parametrize(
    ("tensors", "options", "kind", "message"),
    [
        ({}, {}, ValueError, "there are no tensors"),
        ({"a": "text"}, {}, pd.DTypeError, "'a' is <U4, not numbers"),
        ({"a": np.ones(1, np.complex128)}, {}, pd.DTypeError, "'a' is complex128, which"),
        ({"a": [1.0]}, {"max_shard_size": 0}, ValueError, "such as '5GB', not 0"),
        ({"a": [1.0]}, {"max_shard_size": "5XB"}, ValueError, "such as '5GB', not '5XB'"),
        ({"a": [1.0]}, {"max_shard_size": True}, ValueError, "such as '5GB', not True"),
        ({"a": [1.0]}, {"dtype": "int8"}, TypeError, "dtype is one of floats, not int8"),
        ({"a": [1.0]}, {"dtype": "float"}, None, ""),
        ({"a": [1.0]}, {"config": {"a": np.ones(2)}}, TypeError, "config is no JSON: "),
    ],
)
def test_what_cannot_be_written(tensors, options, kind, message, tmp_path):
    if kind is None:
        assert write_model_folder(tmp_path / "m", tensors, **options)
        return
    with pytest.raises(kind, match=message):
        write_model_folder(tmp_path / "m", tensors, **options)
    assert not (tmp_path / "m").exists()


def test_a_file_in_the_place_of_the_folder(tmp_path):
    (tmp_path / "m").write_text("mine")
    with pytest.raises(NotADirectoryError):
        write_model_folder(tmp_path / "m", {"a": np.ones(1)})
    assert (tmp_path / "m").read_text() == "mine"


NARROW = {  # {dtype: (what it holds, the largest in size that it does not hold)}
    "float16": ([65504.0, -np.inf, np.nan, 1e-9], [7e4, -8e4, np.inf], -8e4),
    "bfloat16": ([3e38, np.inf], [-1e39, 1e38], -1e39),
    "float8_e4m3fn": ([448.0, np.nan, 0.0], [500.0, 448.0], 500.0),
    "float8_e4m3fnuz": ([240.0, -1.0], [1.0, np.inf], np.inf),
    "float8_e5m2": ([57344.0, np.inf], [1e5], 1e5),
    "float8_e5m2fnuz": ([57344.0, np.nan], [-1e5], -1e5),
    "float8_e8m0fnu": ([2.0, 0.25], [2.0, 0.0, -4.0], -4.0),
}


@pytest.mark.parametrize("dtype", NARROW)
def test_numbers_that_a_dtype_does_not_hold(dtype, tmp_path):
    held, others, largest = NARROW[dtype]
    write_model_folder(tmp_path / "narrow", {"a": np.array(held)}, dtype=dtype)
    read = ModelFolder(tmp_path / "narrow", dtype="float64")["a"]
    want = np.array(held)
    np.testing.assert_allclose(read, want, rtol=0.1, atol=1e-7)
    assert ModelFolder(tmp_path / "narrow").dtype("a").name == dtype
    message = re.escape(f"'a' has {largest:g}, which {dtype} does not hold")
    with pytest.raises(pd.DTypeError, match=message):
        write_model_folder(tmp_path / "m", {"a": np.array(others)}, dtype=dtype)
    assert not (tmp_path / "m").exists()
    write_model_folder(tmp_path / "m", {"a": np.array(others), "b": np.ones(1)})
    folder = ModelFolder(tmp_path / "m", dtype=dtype)
    with pytest.raises(pd.DTypeError, match=message):
        folder["a"]
    assert folder["b"] == 1


def test_the_dtype_of_reading():
    with pytest.raises(TypeError, match="dtype is one of floats, not int32"):
        ModelFolder(".", dtype="int32")


# ---- damaged and hostile folders

OUTSIDE = ["../secret.safetensors", "/etc/x.safetensors", "a/b.safetensors", "a\\b.safetensors"]
OUTSIDE += [
    "..",
    "",
    ".hidden.safetensors",
    "C:x.safetensors",
    "pytorch_model.bin",
    "x\0.safetensors",
    "x" * 300 + ".safetensors",
]


@pytest.fixture
def sharded(tmp_path):
    path = tmp_path / "m"
    write_model_folder(path, TENSORS, CONFIG, max_shard_size=64)
    save_file({"h.0.weight": np.zeros(1)}, tmp_path / "secret.safetensors")
    return path


@pytest.mark.parametrize("name", [*OUTSIDE, 3, None])
def test_an_index_cannot_lead_outside(name, sharded):
    index = json.loads((sharded / INDEX).read_text())
    index["weight_map"]["h.0.weight"] = name
    (sharded / INDEX).write_text(json.dumps(index))
    with pytest.raises(pd.DamagedFile, match=r"'h.0.weight' is in .*, which is no .safetensors"):
        ModelFolder(sharded)


def set_index(path, text):
    (path / INDEX).write_text(text)


SHARD = "model-00001-of-00003.safetensors"
DAMAGES = {
    "no JSON": (lambda p: set_index(p, "{"), r"index.json cannot be read as JSON"),
    "deep": (lambda p: set_index(p, "[" * 100_000), "cannot be read as JSON"),
    "a list": (lambda p: set_index(p, "[]"), "is a JSON list, not a dict"),
    "no map": (lambda p: set_index(p, "{}"), "has no weight_map"),
    "a list of it": (lambda p: set_index(p, '{"weight_map": []}'), "has no weight_map"),
    "twice": (lambda p: set_index(p, '{"a": 1, "a": 2}'), "a key is there twice"),
    "bytes": (lambda p: (p / INDEX).write_bytes(b"\xff\xfe{"), "cannot be read as JSON"),
    "no shard": (lambda p: (p / SHARD).unlink(), f"lacks {SHARD}, 1 of the 3 files"),
    "empty shard": (lambda p: (p / SHARD).write_bytes(b""), f"{SHARD} is no file of tensors"),
    "cut shard": (
        lambda p: (p / SHARD).write_bytes((p / SHARD).read_bytes()[:-1]),
        f"{SHARD} is no file of tensors",
    ),
    "long header": (
        lambda p: (p / SHARD).write_bytes(struct.pack("<Q", 1 << 62) + b"{}"),
        f"{SHARD} is no file of tensors",
    ),
    "another shard": (
        lambda p: save_file({"x": np.ones(1)}, p / SHARD),
        f"{SHARD} lacks 'h.0.weight', which model.safetensors.index.json says it has",
    ),
    "both": (
        lambda p: save_file({"x": np.ones(1)}, p / "model.safetensors"),
        "has both model.safetensors and",
    ),
    "config": (lambda p: (p / "config.json").write_text("{]"), "config.json cannot be read"),
    "a folder": (lambda p: in_its_place(p / "config.json", os.mkdir), "config.json is no file"),
}


def in_its_place(path, function):
    path.unlink()
    function(path)


if hasattr(os, "mkfifo"):  # whoever opens one waits for somebody who writes
    DAMAGES |= {
        "a pipe": (lambda p: in_its_place(p / INDEX, os.mkfifo), "index.json is no file"),
        "shard pipe": (lambda p: in_its_place(p / SHARD, os.mkfifo), f"lacks {SHARD}, 1 of the 3"),
        "only pipe": (lambda p: p.joinpath(INDEX).unlink() or os.mkfifo(p / SINGLE), "is no file"),
    }


@pytest.mark.parametrize("kind", DAMAGES)
def test_damage_is_named(kind, sharded):
    damage, message = DAMAGES[kind]
    damage(sharded)
    with pytest.raises(pd.DamagedFile, match=message):
        ModelFolder(sharded)


ENTRIES = {
    "beyond the end": ([0, 8], [2], "F32", 4),
    "another size": ([0, 4], [2], "F32", 4),
    "negative": ([-4, 4], [2], "F32", 8),
    "backwards": ([4, 0], [1], "F32", 4),
    "a gap": ([4, 8], [1], "F32", 8),
    "unknown elements": ([0, 4], [1], "X32", 4),
    "many": ([0, 4], [2**40, 2**40], "F32", 4),
}


@pytest.mark.parametrize("kind", ENTRIES)
def test_entries_that_lie(kind, tmp_path):
    offsets, shape, dtype, size = ENTRIES[kind]
    entries = {"a": {"dtype": dtype, "shape": shape, "data_offsets": offsets}}
    (tmp_path / "model.safetensors").write_bytes(raw(entries, bytes(size)))
    with pytest.raises(pd.DamagedFile, match=r"model\.safetensors is no file of tensors"):
        ModelFolder(tmp_path)


def test_every_byte_of_a_header_may_be_damaged(tmp_path):
    """Each flip is an error of one kind, or the file is read, perhaps under another name."""
    path = tmp_path / "model.safetensors"
    save_file({"weight": np.arange(3, dtype=np.float32)}, path)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for k in range(len(whole) - 12):
        data = bytearray(whole)
        data[k] ^= 1 << int(rng.integers(8))
        path.write_bytes(data)
        try:
            folder = ModelFolder(tmp_path)
            assert all(folder[name].size == 3 for name in folder)
        except pd.DamagedFile as error:
            assert str(path) in str(error)


def test_a_file_that_shrinks_meanwhile(tmp_path):
    write_model_folder(tmp_path, {"a": np.ones(4, np.float32)})
    folder = ModelFolder(tmp_path)
    path = tmp_path / "model.safetensors"
    os.truncate(path, path.stat().st_size - 4)
    with pytest.raises(pd.DamagedFile, match="it has become shorter, and lacks 'a'"):
        folder["a"]


def test_pickles_are_not_read(tmp_path):
    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80\x04.")
    with pytest.raises(FileNotFoundError, match=r"but pytorch_model.bin\n  hint: .bin files are"):
        ModelFolder(tmp_path)
    with pytest.raises(FileNotFoundError, match="there is no "):
        ModelFolder(tmp_path / "absent")


def test_links_of_a_cache_are_followed(tmp_path):
    """A cache of downloads has the files elsewhere, and links to them in the folder."""
    blobs, folder = tmp_path / "blobs", tmp_path / "snapshot"
    folder.mkdir()
    write_model_folder(blobs, TENSORS, CONFIG, max_shard_size=64)
    for k, file in enumerate(sorted(blobs.iterdir())):
        blob = file.rename(blobs / f"blob{k}")
        (folder / file.name).symlink_to(Path("..") / "blobs" / blob.name)
    read = ModelFolder(folder)
    assert all(same(read[name], TENSORS[name]) for name in TENSORS) and read.config == CONFIG


def test_pd_load_takes_such_files_too(tmp_path):
    y = pd.fc(pd.Variable("x", shape=[None, 2]), 1, W="w", B="b")
    values = {"w": np.array([[1.5], [2]]), "b": np.array([3.0])}
    write_model_folder(tmp_path, values, dtype="bfloat16")
    found = pd.load(tmp_path / "model.safetensors", y)
    assert found.names == ["w", "b"] and found.missing_keys == found.unexpected_keys == []
    assert pd.eval(y, {"x": [[1.0, 2.0]]}).tolist() == [[8.5]]
