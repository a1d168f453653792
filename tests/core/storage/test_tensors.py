"""Files of named tensors."""

import os

import numpy as np
import pytest
from safetensors.numpy import load_file, save

import pd_core as pd
from pd_core.storage.tensors import read_tensors, write_tensors

TENSORS = {
    "matrix": np.arange(6, dtype=np.float32).reshape(2, 3),
    "columns": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "strided": np.arange(10)[::3],
    "scalar": np.array(2.5, np.float32),
    "empty": np.zeros((0, 4), np.float16),
    "flags": np.array([True, False]),
    "bytes": np.arange(3, dtype=np.uint8),
}


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and (a == b).all()


def test_what_is_written_is_read(tmp_path):
    path = tmp_path / "values.safetensors"
    write_tensors(path, TENSORS, {"note": "ü"})
    tensors, metadata = read_tensors(path)
    assert metadata == {"note": "ü"} and tensors.keys() == TENSORS.keys()
    assert all(same(tensors[name], TENSORS[name]) for name in TENSORS)
    assert all(same(a, TENSORS[name]) for name, a in load_file(path).items())
    assert os.listdir(tmp_path) == ["values.safetensors"]


def test_pytorch_reads_them(tmp_path):
    pytest.importorskip("torch")
    from safetensors.torch import load_file as load_torch

    path = tmp_path / "values.safetensors"
    write_tensors(path, TENSORS, {})
    assert all(same(t.numpy(), TENSORS[name]) for name, t in load_torch(path).items())


def test_damaged_files(tmp_path):
    path = tmp_path / "values.safetensors"
    whole = save({"a": np.ones(4, np.float32)})
    for data in (b"", b"no tensors at all", whole[:-3], whole + b"0", whole[:20]):
        path.write_bytes(data)
        with pytest.raises(pd.DamagedFile, match=r"values\.safetensors"):
            read_tensors(path)
    path.write_bytes(whole.replace(b'"F32"', b'"I99"'))
    with pytest.raises(pd.DamagedFile, match="I99"):
        read_tensors(path)
    with pytest.raises(FileNotFoundError):
        read_tensors(tmp_path / "absent")
