"""Names of files as long as a file system takes them, 255 bytes."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pd_core as pd
from pd_core import nn
from pd_core.storage.folders import atomic_folder, remove_folder, remove_leftovers
from pd_core.storage.partial import is_partial, partial_path, stem
from pd_core.training.checkpoint import Checkpoint, read_checkpoint, write_checkpoint

ROOT = str(Path(__file__).parents[3])
LENGTHS = (199, 200, 201, 231, 232, 233, 254, 255)
NAMES = ["f" * n for n in LENGTHS] + ["é" * 127, "日" * 85, "." + "f" * 254]


def write_file(path):
    with pd.atomic_write(path) as file:
        file.write(b"1")
    assert path.read_bytes() == b"1"


def write_values(path):
    v = pd.Variable("v", data=[1.0])
    pd.save(path, v)
    assert pd.load(path, v).names == ["v"]


def write_model(path):
    pd.export_onnx(path, pd.Variable([None, 1], name="x") + 1.0)
    assert pd.import_onnx(path).outputs


def write_folder(path):
    with atomic_folder(path) as folder:
        (folder / "a").write_bytes(b"1")
    assert (path / "a").read_bytes() == b"1"


def write_state(path):
    write_checkpoint(path, Checkpoint({"item": {"w": np.ones(2)}}, 1, 0))
    assert read_checkpoint(path).parts["item"]["w"].tolist() == [1, 1]


@pytest.mark.parametrize(
    "write", [write_file, write_values, write_model, write_folder, write_state]
)
def test_written_and_written_again(write, tmp_path):
    for name in NAMES:
        for _ in range(2):
            with pd.fresh():
                write(tmp_path / name)
    assert sorted(os.listdir(tmp_path)) == sorted(NAMES)


def test_a_folder_is_removed(tmp_path):
    path = tmp_path / ("f" * 255)
    path.mkdir()
    remove_folder(path)
    assert not os.listdir(tmp_path)


def test_a_module(tmp_path):
    path = tmp_path / ("m" * (255 - len(".safetensors")))
    with pd.fresh():
        module = Net()
        module.compile([pd.Variable([None, 3], name="x")])
        module.save(path)
        assert module.load(path, strict=True) == {}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.FC(2)

    def forward(self, x):
        return self.fc(x)


@pytest.mark.skipif(os.name != "posix", reason="limits elsewhere are of characters")
def test_a_name_that_is_too_long_is_the_error_of_the_system(tmp_path):
    with pytest.raises(OSError) as caught, pd.atomic_write(tmp_path / ("f" * 256)):
        pass
    assert caught.value.errno == errno.ENAMETOOLONG and not os.listdir(tmp_path)


@pytest.mark.skipif(sys.platform == "win32", reason="kill -9")
@pytest.mark.parametrize("name", ["f", "f" * 255], ids=["short", "long"])
def test_what_a_killed_writer_left_is_removed_by_the_next(name, tmp_path):
    path = tmp_path / name
    program = (
        "import os, pd_core as pd\n"
        f"with pd.atomic_write({str(path)!r}) as file:\n    os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, timeout=60)
    (left,) = os.listdir(tmp_path)
    assert is_partial(left, str(path)) and not is_partial(left, str(path)[:-1] + "g")
    write_file(path)
    assert os.listdir(tmp_path) == [name]


def test_leftovers_of_folders(tmp_path):
    for name in ("f", "f" * 255):
        Path(partial_path(str(tmp_path / name))).mkdir()
    remove_leftovers(tmp_path)
    assert not os.listdir(tmp_path)


def test_names_for_parts_differ():
    paths = [f"folder/{name}" for name in NAMES]
    assert len({stem(path) for path in paths}) == len(paths)
    assert all(os.path.dirname(stem(path)) == "folder" for path in paths)
    assert all(len(os.fsencode(os.path.basename(partial_path(p)))) <= 255 for p in paths)
