"""Published scripts of 2017, unedited: PD_LEGACY_DIR names a checkout of the book.

They are not part of this project, so without the folder these tests are skipped.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pd_v2 as paddle

ROOT = Path(__file__).resolve().parents[2]
BOOK = os.environ.get("PD_LEGACY_DIR", "")
pytestmark = pytest.mark.skipif(not BOOK, reason="PD_LEGACY_DIR does not name the book's folder")

# What a user does who picks another of the networks that chapter 2 defines.
CHOOSE = """
import random, sys
sys.path.insert(0, {folder!r})
import train
random.seed(1)  # reader.shuffle draws from it, and the script seeds nothing
train.convolutional_neural_network = train.{network}
train.main()
"""


def launch(script, folder):
    """Run a script in a folder as a user would: its output, stdout and stderr together."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PD_DATASET_HOME": str(ROOT / "demos" / "data"),
        "PD_DATASET_CHECK": "0",
    }
    command = [sys.executable, "-m", "pd_v2", str(script)]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_costs(output):
    return [float(c) for c in re.findall(r"^Test.*Cost ([\d.]+)", output, re.M)]


test_costs.__test__ = False


def loaded(path):
    with open(path, "rb") as f:
        return paddle.parameters.Parameters.from_tar(f)


def test_fit_a_line(tmp_path):
    output = launch(Path(BOOK) / "01.fit_a_line" / "train.py", tmp_path)
    costs = test_costs(output)
    assert len(costs) == 30 and costs[-1] < 0.5 * costs[0]
    assert len(re.findall(r"^label=[\d.]+, predict=[\d.]+", output, re.M)) == 5
    pool = loaded(tmp_path / "params_pass_20.tar")
    assert pool.names() == ["___fc_layer_0__.w0", "___fc_layer_0__.wbias"]
    assert np.abs(pool["___fc_layer_0__.w0"]).max() > 1
    assert (tmp_path / "inference_topology.pkl").stat().st_size > 100


@pytest.mark.parametrize(
    "network", ["softmax_regression", "multilayer_perceptron", "convolutional_neural_network"]
)
def test_recognize_digits(network, tmp_path):
    script = tmp_path / "choose.py"
    script.write_text(
        CHOOSE.format(folder=str(Path(BOOK) / "02.recognize_digits"), network=network)
    )
    output = launch(script, tmp_path)
    costs = test_costs(output)
    assert len(costs) == 5 and min(costs[1:]) < costs[0]
    accuracy = re.search(r"^The classification accuracy is ([\d.]+)%$", output, re.M)
    assert float(accuracy[1]) > 50  # its rate is made for 60,000 digits; guessing has 10
    assert re.search(r"^Label of image/infer_3.png is: \d$", output, re.M)
    pool = loaded(tmp_path / "params_pass_4.tar")
    assert all(np.isfinite(pool[name]).all() for name in pool.names())


def test_recognize_digits_as_it_is(tmp_path):
    output = launch(Path(BOOK) / "02.recognize_digits" / "train.py", tmp_path)
    assert len(test_costs(output)) == 5 and len(list(tmp_path.glob("params_pass_*.tar"))) == 5
    assert re.search(r"^Label of image/infer_3.png is: \d$", output, re.M)
