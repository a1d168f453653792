"""Commands in processes of their own: closed pipes, logs of tests, names of files in messages."""

import os
import subprocess
import sys

import numpy as np
import onnx
import pytest

from pd_core.training.report.charts import charts_of
from pd_core.training.report.runs import read_runs
from tests.core.distributed import jobs
from tests.core.training.tuning import models

LINES = "for k in xrange(20000):\n    print 'line', k\n"

TRAINING = """
import paddle.v2 as paddle

x = paddle.layer.data(name='x', type=paddle.data_type.dense_vector(1))
cost = paddle.layer.square_error_cost(paddle.layer.fc(x, 1), x)
trainer = paddle.trainer.SGD(cost, paddle.parameters.create(cost), paddle.optimizer.Adam())
reader = paddle.batch(lambda: iter([([float(k)],) for k in range(40)]), 4)

def handler(event):
    if isinstance(event, paddle.event.EndPass):
        print '%.6g' % trainer.test(reader).cost

trainer.train(reader, 2, handler)
"""


@pytest.fixture
def folder(tmp_path):
    """A folder with programs of 2017 and a model."""
    (tmp_path / "lines.py").write_text(LINES)
    (tmp_path / "train.py").write_text(TRAINING)
    onnx.save(models.perceptron(), str(tmp_path / "model.onnx"))
    np.savez(tmp_path / "data.npz", **models.samples(64))
    return tmp_path


def start(folder, command, **options):
    """Start `python -m` with the words of a command in a folder."""
    environment = {**os.environ, "PYTHONPATH": str(jobs.ROOT), "OMP_NUM_THREADS": "1"}
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    line = [sys.executable, "-m", *command.split()]
    return subprocess.Popen(line, cwd=folder, env=environment, text=True, **options)


def test_nobody_reads_the_output(folder):
    """As in `… | head` when head has ended; 141 as of usual tools, 0 where argparse prints."""
    reads, writes = os.pipe()
    os.close(reads)
    commands = {
        "pd_core --help": 0,
        "pd_core info model.onnx": 141,
        "pd_v2 check lines.py": 141,
        "pd_v2 lines.py": 141,
    }
    processes = [start(folder, command, stdout=writes) for command in commands]
    os.close(writes)
    ends = {
        command: (process.communicate(timeout=jobs.LIMIT)[1], process.returncode)
        for command, process in zip(commands, processes, strict=True)
    }
    assert ends == {command: ("", code) for command, code in commands.items()}


def test_tests_of_a_handler_are_logged(folder, zygote):
    environment = {**os.environ, "PYTHONPATH": str(jobs.ROOT), "OMP_NUM_THREADS": "1"}
    done = zygote(["--logdir", "logs", "train.py"], folder, environment, "")
    assert done.returncode == 0, done.stderr
    (chart, *_) = charts_of(read_runs([folder / "logs"]))
    curves = {series.kind: series.points for series in chart.series}
    assert list(curves) == ["train", "train mean", "test"]
    assert [f"{cost:.4g}" for _, cost in curves["test"]] == [
        f"{float(line):.4g}" for line in done.stdout.split()
    ]
    assert [batch for batch, _ in curves["test"]] == [10, 20]


def test_no_folder_for_the_model(folder):
    command = "pd_core finetune model.onnx data.npz -o none/x --epochs 1000000"
    process = start(folder, command)
    out, err = process.communicate(timeout=jobs.LIMIT)
    assert process.returncode == 2 and "epoch" not in out
    assert err.endswith("none/x: No such file or directory\n")
