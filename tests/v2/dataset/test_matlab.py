import struct

import numpy as np
import pytest

from pd_v2.dataset.matlab import read_arrays

from . import originals

ARRAYS = {
    "labels": np.arange(1, 8, dtype=np.uint8).reshape(1, 7),
    "few": np.array([[1], [2]], np.uint8),
    "trnid": np.arange(600, dtype=np.uint16).reshape(20, 30),
    "mean": np.array([[0.5, -1e300]]),
    "none": np.empty((0, 3)),
}


@pytest.mark.parametrize("compressed", [False, True])
def test_arrays(tmp_path, compressed):
    found = read_arrays(originals.matlab(tmp_path / "tiny.mat", ARRAYS, compressed))
    assert set(found) == set(ARRAYS)
    for name, expected in ARRAYS.items():
        np.testing.assert_array_equal(found[name], expected)


@pytest.mark.parametrize("compressed", [False, True])
def test_arrays_that_scipy_wrote(tmp_path, compressed):
    io = pytest.importorskip("scipy.io")
    everything = {**ARRAYS, "text": "abc", "complex": np.array([1j]), "integers": np.int64([[5]])}
    io.savemat(tmp_path / "tiny.mat", everything, do_compression=compressed)
    found = read_arrays(tmp_path / "tiny.mat")
    assert set(found) == {*ARRAYS, "integers"}
    for name in found:
        np.testing.assert_array_equal(found[name], everything[name])


def test_big_endian(tmp_path):
    matrix = b"".join(
        [
            struct.pack(">IIII", 6, 8, 9, 0),
            struct.pack(">IIii", 5, 8, 1, 2),
            struct.pack(">HH4s", 1, 1, b"x"),
            struct.pack(">HHhh", 4, 3, 300, -2),
        ]
    )
    head = b"".ljust(124) + struct.pack(">H", 0x0100) + b"MI"
    (tmp_path / "tiny.mat").write_bytes(head + struct.pack(">II", 14, len(matrix)) + matrix)
    np.testing.assert_array_equal(read_arrays(tmp_path / "tiny.mat")["x"], [[300, -2]])


@pytest.mark.parametrize("size", [0, 100, 127])
def test_no_matlab_file(tmp_path, size):
    path = originals.matlab(tmp_path / "tiny.mat", ARRAYS)
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(ValueError, match=r"tiny.mat is no MATLAB file of level 5"):
        read_arrays(path)


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("size", [130, 150, 180, -3])
def test_a_damaged_file(tmp_path, size, compressed):
    path = originals.matlab(tmp_path / "tiny.mat", ARRAYS, compressed)
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(ValueError, match=r"tiny.mat is damaged: "):
        read_arrays(path)
