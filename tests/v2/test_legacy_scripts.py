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

from .dataset import miniatures

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

# Says each cost, and trains for so many passes of so many batches.
SHORTER = """
import sys
sys.path.insert(0, {folder!r})
import random
random.seed(1)
import paddle.v2 as paddle
whole = paddle.trainer.SGD.train


def shorter(self, reader, num_passes=1, event_handler=None, feeding=None):
    def saying(event):
        if isinstance(event, paddle.event.EndIteration):
            print "\\ncost:", event.cost
        event_handler(event)

    few = paddle.reader.firstn(reader, {batches})
    whole(self, few, {passes}, saying, feeding)


paddle.trainer.SGD.train = shorter
"""

# What a user does who sets is_generating in chapter 8, with a vocabulary of nine words.
TRAIN_TRANSLATION = """
import train
cost = train.seq_to_seq_net(9, 9, False)
parameters = paddle.parameters.create(cost)
trainer = paddle.trainer.SGD(cost, parameters, paddle.optimizer.Adam(learning_rate=5e-4))
reader = paddle.batch(paddle.dataset.wmt14.train(9), 20)
trainer.train(reader, 100, lambda event: None)
train.save_model(trainer, parameters, 'params.tar')
"""
GENERATE = """
import sys
sys.path.insert(0, {folder!r})
import paddle.v2 as paddle
import train
beam_gen = train.seq_to_seq_net(9, 9, True, beam_size=2, max_length=8)
with open('params.tar') as f:
    parameters = paddle.parameters.Parameters.from_tar(f)
samples = [[sample[0]] for sample in paddle.dataset.wmt14.gen(9)()]
prob, ids = paddle.infer(beam_gen, parameters, samples, field=['prob', 'id'])
ends = [i for i, word in enumerate(ids) if word == -1]
print len(ends), prob.shape == (len(samples), 2), (prob[:, 0] >= prob[:, 1]).all()
start = 0
for end in ends:
    assert ids[start] == end - start - 1
    start = end + 1
"""


def launch(script, folder, home=ROOT / "demos" / "data"):
    """Run a script in a folder as a user would: its output, stdout and stderr together."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PD_DATASET_HOME": str(home),
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


def launch_shorter(chapter, act, tmp_path, batches, passes):
    """Some passes of a chapter's script over a small data set: (output, costs)."""
    script = tmp_path / "shorter.py"
    folder = str(Path(BOOK) / chapter)
    script.write_text(SHORTER.format(folder=folder, batches=batches, passes=passes) + act)
    output = launch(script, tmp_path, tmp_path)
    return output, [float(cost) for cost in re.findall(r"^cost: (\S+)$", output, re.M)]


def falls(costs):
    """Whether the costs of the last third are below those of the first one."""
    third = max(1, len(costs) // 3)
    return np.isfinite(costs).all() and np.mean(costs[-third:]) < np.mean(costs[:third])


MAIN = "import train\ntrain.main()\n"


@pytest.mark.parametrize("network", ["vgg_bn_drop", "resnet_cifar10"])
def test_image_classification(network, tmp_path):
    miniatures.cifar(tmp_path)
    act = f"import train\ntrain.vgg_bn_drop = train.{network}\ntrain.main()\n"
    output, costs = launch_shorter("03.image_classification", act, tmp_path, 1, 12)
    assert len(costs) == 12 and falls(costs)
    assert re.search(r"^Label of image/dog.png is: \d$", output, re.M)
    assert (tmp_path / "params_pass_11.tar").exists()


def test_word2vec(tmp_path):
    miniatures.imikolov(tmp_path)
    output, costs = launch_shorter("04.word2vec", MAIN, tmp_path, 30, 4)
    assert len(costs) == 120 and falls(costs)
    assert len(re.findall(r"Testing metrics {'classification_error_evaluator'", output)) == 4
    table = np.loadtxt(tmp_path / "embedding_table", delimiter=",")
    assert np.array_equal(table.ravel(), loaded(tmp_path / "model_3.tar")["_proj"].ravel())


def test_recommender_system(tmp_path):
    miniatures.movielens(tmp_path)
    output, costs = launch_shorter("05.recommender_system", MAIN, tmp_path, 7, 30)
    assert len(costs) == 210 and falls(costs)
    assert re.search(r"^\[\[ *[\d.]+\]\]$", output, re.M)  # the predicted stars


def test_understand_sentiment(tmp_path):
    miniatures.imdb(tmp_path)
    script = str(Path(BOOK) / "06.understand_sentiment" / "train.py")
    act = f"execfile({script!r})\n"
    output, costs = launch_shorter("06.understand_sentiment", act, tmp_path, 3, 3)
    assert len(costs) == 9 and falls(costs)
    assert len(re.findall(r"^Test with Pass \d", output, re.M)) == 3


def test_understand_sentiment_with_lstm_layers(tmp_path):
    miniatures.imdb(tmp_path)
    act = """
import train
words = paddle.dataset.imdb.word_dict()
cost, output = train.stacked_lstm_net(len(words), hid_dim=64)
parameters = paddle.parameters.create(cost)
trainer = paddle.trainer.SGD(cost, parameters, paddle.optimizer.Adam(learning_rate=2e-3))
trainer.train(paddle.batch(paddle.dataset.imdb.train(words), 50), 2, lambda event: None)
"""
    _, costs = launch_shorter("06.understand_sentiment", act, tmp_path, 6, 2)
    assert len(costs) == 12 and falls(costs)


def test_label_semantic_roles(tmp_path):
    miniatures.conll05(tmp_path)
    output, costs = launch_shorter("07.label_semantic_roles", MAIN, tmp_path, 8, 1)
    assert len(costs) == 8 and falls(costs)
    roles = re.findall(r"'(\S+?)'", output.splitlines()[-1])
    known = (tmp_path / "conll05st" / "targetDict.txt").read_text().split()
    assert len(roles) >= 4 and set(roles) <= set(known)


def test_machine_translation(tmp_path):
    miniatures.wmt14(tmp_path)
    _, costs = launch_shorter("08.machine_translation", MAIN, tmp_path, 2, 1)
    assert len(costs) == 2 and np.isfinite(costs).all()
    names = loaded(tmp_path / "params_pass_00000.tar").names()
    assert "_target_language_embedding" in names and "_gru_decoder@decoder_group.w0" in names


def test_generation_of_translations(tmp_path):
    miniatures.wmt14(tmp_path)
    chapter = "08.machine_translation"
    _, costs = launch_shorter(chapter, TRAIN_TRANSLATION, tmp_path, 3, 5)
    assert len(costs) == 15 and falls(costs)
    script = tmp_path / "generate.py"
    script.write_text(GENERATE.format(folder=str(Path(BOOK) / chapter)))
    assert launch(script, tmp_path, tmp_path).splitlines()[-1] == "10 True True"
