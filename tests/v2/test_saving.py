"""Parameters saved to paths: what was there before survives an error and a kill at any moment."""

import gzip
import io
import os
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pd_v2 as paddle
from pd_v2.formats.proto import ParameterConfig
from pd_v2.parameters import Parameters

ROOT = str(Path(__file__).parents[2])


def pool_of(number, size=4):
    """Two parameters whose elements are all `number`."""
    pool = Parameters()
    for name in ("a", "b"):
        pool.__append_config__(ParameterConfig(name=name, size=size, dims=[1, size]))
        pool[name] = np.full((1, size), number)
    return pool


def test_a_path_is_as_good_as_a_file(tmp_path):
    path, f = tmp_path / "p.tar", io.BytesIO()
    pool_of(3).to_tar(path)
    pool_of(3).to_tar(f)
    assert path.read_bytes() == f.getvalue()
    assert Parameters.from_tar(str(path))["b"].tolist() == [[3] * 4]
    other = pool_of(5)
    other.init_from_tar(path, exclude_params=["a"])
    assert other["a"].tolist() == [[5] * 4] and other["b"].tolist() == [[3] * 4]


def test_the_file_of_a_path_may_be_compressed(tmp_path):
    with gzip.open(tmp_path / "p.tar.gz", "wb") as f:
        pool_of(3).to_tar(f)
    assert Parameters.from_tar(tmp_path / "p.tar.gz")["a"].tolist() == [[3] * 4]


def test_a_trainer_saves_to_a_path(tmp_path):
    x = paddle.layer.data(name="x", type=paddle.data_type.dense_vector(2))
    cost = paddle.layer.sum_cost(paddle.layer.fc(x, size=3, name="y"))
    pool = paddle.parameters.create(cost)
    trainer = paddle.trainer.SGD(cost, pool, paddle.optimizer.Momentum())
    trainer.save_parameter_to_tar(tmp_path / "p.tar")
    found = Parameters.from_tar(tmp_path / "p.tar")
    np.testing.assert_array_equal(found["_y.w0"].ravel(), pool["_y.w0"])


def test_a_pool_that_cannot_be_written_leaves_the_file(tmp_path, monkeypatch):
    path = tmp_path / "p.tar"
    pool_of(3).to_tar(path)
    broken = pool_of(4)
    monkeypatch.delitem(broken.__param_conf__, broken.names()[-1])
    monkeypatch.setattr(broken, "keys", pool_of(4).keys)
    with pytest.raises(ValueError, match="No such parameter"):
        broken.to_tar(path)
    assert Parameters.from_tar(path)["a"].tolist() == [[3] * 4]


# Saves the numbers 1, 2, 3, … as tars over each other, in children that are killed in between.
KILLER = """
import os, random, signal, sys, time
from tests.v2.test_saving import pool_of
from pd_v2.parameters import Parameters

path, kills, number = sys.argv[1], int(sys.argv[2]), 1
random.seed(2017)
pool_of(number, 100_000).to_tar(path)
halves, longest = 0, 0.01  # seconds; they grow until about every other kill comes after a save
for _ in range(kills):
    ready, say = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(say, b"x")
        while True:
            number += 1
            pool_of(number, 100_000).to_tar(path)
    os.read(ready, 1)
    time.sleep(random.uniform(0.0, longest))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(ready), os.close(say)
    found = Parameters.from_tar(path)
    values = {float(v) for name in "ab" for v in found[name].ravel()}
    assert found.names() == ["a", "b"] and len(values) == 1, values
    (last,) = values
    assert last >= number, (last, number)
    longest *= 0.8 if last > number else 1.3
    number = int(last)
    left = [name for name in os.listdir(os.path.dirname(path)) if name.endswith(".part")]
    assert len(left) <= 1, left  # each save removes what a killed one has left
    halves += len(left)
pool_of(number, 100_000).to_tar(path)
print(number, halves)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_killed_fifty_times_in_the_middle_of_saving(tmp_path):
    path = tmp_path / "p.tar"
    done = subprocess.run(
        [sys.executable, "-c", KILLER, str(path), "50"],
        env={**os.environ, "PYTHONPATH": ROOT},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    saved, halves = map(int, done.stdout.split())
    assert saved > 1 and halves >= 5  # many kills met a file that was not complete
    assert os.listdir(tmp_path) == ["p.tar"]
    assert stat.S_ISREG(path.stat().st_mode)
