"""Published programs of 2017, unedited.

PD_LEGACY_DIR names a checkout of the book, PD_LEGACY_MODELS_DIR one of the models. They are not
part of this project, so without its folder a test is skipped.
"""

import gzip
import io
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pd_v2 as paddle
from pd_v2.formats.proto import ParameterConfig

from .dataset import miniatures, originals

ROOT = Path(__file__).resolve().parents[2]

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


def checkout(variable, *names):
    """A path in the folder that an environment variable names; without it the test is skipped."""
    folder = os.environ.get(variable, "")
    if not folder:
        pytest.skip(f"{variable} names no folder")
    return Path(folder, *names)


def book(*names):
    return checkout("PD_LEGACY_DIR", *names)


def models(*names):
    return checkout("PD_LEGACY_MODELS_DIR", *names)


def launch(script, folder, home=ROOT / "demos" / "data", arguments=()):
    """Run a script in a folder as a user would: its stderr, then its stdout."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
        "PD_DATASET_HOME": str(home),
        "PD_DATASET_CHECK": "0",
    }
    command = [sys.executable, "-m", "pd_v2", str(script), *map(str, arguments)]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stderr + done.stdout


def test_costs(output):
    return [float(c) for c in re.findall(r"^Test.*Cost ([\d.]+)", output, re.M)]


test_costs.__test__ = False


def loaded(path):
    with open(path, "rb") as f:
        return paddle.parameters.Parameters.from_tar(f)


def test_fit_a_line(tmp_path):
    output = launch(book("01.fit_a_line", "train.py"), tmp_path)
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
    script.write_text(CHOOSE.format(folder=str(book("02.recognize_digits")), network=network))
    output = launch(script, tmp_path)
    costs = test_costs(output)
    assert len(costs) == 5 and min(costs[1:]) < costs[0]
    accuracy = re.search(r"^The classification accuracy is ([\d.]+)%$", output, re.M)
    assert float(accuracy[1]) > 50  # its rate is made for 60,000 digits; guessing has 10
    assert re.search(r"^Label of image/infer_3.png is: \d$", output, re.M)
    pool = loaded(tmp_path / "params_pass_4.tar")
    assert all(np.isfinite(pool[name]).all() for name in pool.names())


def test_recognize_digits_as_it_is(tmp_path):
    output = launch(book("02.recognize_digits", "train.py"), tmp_path)
    assert len(test_costs(output)) == 5 and len(list(tmp_path.glob("params_pass_*.tar"))) == 5
    assert re.search(r"^Label of image/infer_3.png is: \d$", output, re.M)


def launch_shorter(program, act, tmp_path, batches, passes):
    """Some passes of a program in a folder over a small data set: (output, costs)."""
    script = tmp_path / "shorter.py"
    head = SHORTER.format(folder=str(program), batches=batches, passes=passes)
    script.write_text(head + act)
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
    output, costs = launch_shorter(book("03.image_classification"), act, tmp_path, 1, 12)
    assert len(costs) == 12 and falls(costs)
    assert re.search(r"^Label of image/dog.png is: \d$", output, re.M)
    assert (tmp_path / "params_pass_11.tar").exists()


def test_word2vec(tmp_path):
    miniatures.imikolov(tmp_path)
    output, costs = launch_shorter(book("04.word2vec"), MAIN, tmp_path, 30, 4)
    assert len(costs) == 120 and falls(costs)
    assert len(re.findall(r"Testing metrics {'classification_error_evaluator'", output)) == 4
    table = np.loadtxt(tmp_path / "embedding_table", delimiter=",")
    assert np.array_equal(table.ravel(), loaded(tmp_path / "model_3.tar")["_proj"].ravel())


def test_recommender_system(tmp_path):
    miniatures.movielens(tmp_path)
    output, costs = launch_shorter(book("05.recommender_system"), MAIN, tmp_path, 7, 30)
    assert len(costs) == 210 and falls(costs)
    assert re.search(r"^\[\[ *[\d.]+\]\]$", output, re.M)  # the predicted stars


def test_understand_sentiment(tmp_path):
    miniatures.imdb(tmp_path)
    script = str(book("06.understand_sentiment", "train.py"))
    act = f"execfile({script!r})\n"
    output, costs = launch_shorter(book("06.understand_sentiment"), act, tmp_path, 3, 3)
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
    _, costs = launch_shorter(book("06.understand_sentiment"), act, tmp_path, 6, 2)
    assert len(costs) == 12 and falls(costs)


def test_label_semantic_roles(tmp_path):
    miniatures.conll05(tmp_path)
    output, costs = launch_shorter(book("07.label_semantic_roles"), MAIN, tmp_path, 8, 1)
    assert len(costs) == 8 and falls(costs)
    roles = re.findall(r"'(\S+?)'", output.splitlines()[-1])
    known = (tmp_path / "conll05st" / "targetDict.txt").read_text().split()
    assert len(roles) >= 4 and set(roles) <= set(known)


def test_machine_translation(tmp_path):
    miniatures.wmt14(tmp_path)
    _, costs = launch_shorter(book("08.machine_translation"), MAIN, tmp_path, 2, 1)
    assert len(costs) == 2 and np.isfinite(costs).all()
    names = loaded(tmp_path / "params_pass_00000.tar").names()
    assert "_target_language_embedding" in names and "_gru_decoder@decoder_group.w0" in names


def test_generation_of_translations(tmp_path):
    miniatures.wmt14(tmp_path)
    chapter = book("08.machine_translation")
    _, costs = launch_shorter(chapter, TRAIN_TRANSLATION, tmp_path, 3, 5)
    assert len(costs) == 15 and falls(costs)
    script = tmp_path / "generate.py"
    script.write_text(GENERATE.format(folder=str(chapter)))
    assert launch(script, tmp_path, tmp_path).splitlines()[-1] == "10 True True"


# ---- the models


def told(pattern, output):
    """The numbers that a program tells after these words."""
    return [float(number) for number in re.findall(pattern + r" (-?[\d.]+|nan|inf)", output)]


def clicks(path, count, labelled=True):
    """Lines of ids, weighted ids and a click, which the first of the ids decides."""
    draw = random.Random("clicks")
    with open(path, "w") as f:
        for _ in range(count):
            deep = [draw.randrange(20) for _ in range(4)]
            wide = [f"{draw.randrange(60)}:{draw.random():.2f}" for _ in range(3)]
            click = [str(int(deep[0] < 8))] if labelled else []
            f.write("\t".join([" ".join(map(str, deep)), " ".join(wide), *click]) + "\n")


@pytest.mark.parametrize("kind", [0, 1], ids=["classification", "regression"])
def test_click_through_rate(kind, tmp_path):
    program = models("ctr")
    clicks(tmp_path / "train.txt", 1000)
    clicks(tmp_path / "test.txt", 100)
    clicks(tmp_path / "infer.txt", 30, labelled=False)
    (tmp_path / "meta").write_text("dnn_input_dim:20\nlr_input_dim:60")
    arguments = "--train_data_path train.txt --test_data_path test.txt --data_meta_file meta"
    arguments += f" --model_type={kind} --batch_size 50 --num_passes 10"
    output = launch(program / "train.py", tmp_path, arguments=arguments.split())
    costs = told(r"Test \d+-0, Cost", output)
    assert len(costs) == 10 and falls(costs)
    (stored,) = tmp_path.glob("ctr_models-pass-9-*.tar.gz")
    arguments = f"--model_gz_path {stored} --data_path infer.txt --data_meta_path meta"
    arguments += f" --model_type={kind} --prediction_output_path rates"
    launch(program / "infer.py", tmp_path, arguments=arguments.split())
    rates = np.loadtxt(tmp_path / "rates")
    assert rates.shape == (30,) and (rates > 0).all() and (rates < 1).all()


def ranked_documents(home):
    """Queries of eight documents, the fourth feature of which is their relevance."""
    rng = np.random.default_rng(0)

    def documents(queries):
        features = [(query, rng.random(46)) for query in queries for _ in range(8)]
        return [(int(3 * row[3]), query, row) for query, row in features]

    originals.mq2007(home, documents(range(40)), documents(range(100, 108)))


@pytest.mark.parametrize("network", ["ranknet", "lambda_rank"])
def test_learning_to_rank(network, tmp_path):
    script = models("ltr", f"{network}.py")
    ranked_documents(tmp_path)
    (tmp_path / "models").mkdir()
    output = launch(script, tmp_path, tmp_path, ["--num_passes", 10])
    costs = told(r"Pass \d+ Batch 0 :? ?Cost", output)
    assert len(costs) == 10
    assert falls(costs) if network == "ranknet" else falls([-gain for gain in costs])
    stored = tmp_path / "models" / f"{network}_params_9.tar.gz"
    arguments = ["--run_type", "infer", "--test_model_path", stored]
    output = launch(script, tmp_path, tmp_path, arguments)
    assert len(re.findall(r"\[ *-?[\d.e-]+\]$", output, re.M)) == 8


def photograph(rng, kind):
    """A JPEG file of a disc of one of five colours in noise."""
    pillow = pytest.importorskip("PIL.Image")
    pixels = rng.normal(110, 20, (256, 280, 3))
    rows, columns = np.mgrid[:256, :280]
    inside = (columns - 140) ** 2 + (rows - 128) ** 2 < 90**2
    pixels[inside] += [(110, -80, -80), (-80, 110, -80), (-80, -80, 110), (110, 110, -80), 0][kind]
    content = io.BytesIO()
    pillow.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(content, "JPEG")
    return content.getvalue()


# Its rates are made for batches of 128. On ten pictures the cost rises before it falls.
@pytest.mark.parametrize(("network", "passes"), [("googlenet", 8), ("resnet", 4), ("alexnet", 1)])
def test_classification_of_photographs(network, passes, tmp_path):
    program = models("image_classification")
    rng = np.random.default_rng(1)
    kinds = [k % 5 for k in range(12)]
    photographs = [photograph(rng, kind) for kind in kinds]
    sets = {"tstid": range(1, 11), "valid": [11, 12], "trnid": [11]}
    originals.flowers(tmp_path, photographs, [1 + 20 * k for k in kinds], sets)
    act = f"sys.argv = ['train.py', {network!r}]\nimport train\ntrain.main()\n"
    output, costs = launch_shorter(program, act, tmp_path, 1, passes)
    assert len(costs) == passes and np.isfinite(costs).all()
    assert falls(costs) or passes == 1
    assert len(re.findall(r"^Test with Pass \d", output, re.M)) == passes
    (tmp_path / "flower.jpg").write_bytes(photographs[0])
    (tmp_path / "listing").write_text("flower.jpg\n")
    stored = f"params_pass_{passes - 1}.tar.gz"
    output = launch(program / "infer.py", tmp_path, arguments=["listing", network, stored])
    assert re.search(r"^Label of flower.jpg is: \d+$", output, re.M)


def scenes(folder):
    """Pictures with a coloured rectangle each, their XML files and the lists of both."""
    pillow = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(5)
    colours = {"aeroplane": (230, 40, 40), "bicycle": (40, 230, 40), "bird": (40, 40, 230)}
    for k, (kind, colour) in enumerate([*colours.items()] * 2):
        pixels = rng.normal(110, 25, (120, 140, 3))
        width, height = rng.integers(35, 70, 2)
        x, y = (int(rng.integers(1, room)) for room in (140 - width, 120 - height))
        pixels[y : y + height, x : x + width] = colour
        pillow.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(folder / f"{k}.jpg")
        (folder / f"{k}.xml").write_text(
            f"<a><object><name>{kind}</name><difficult>0</difficult><bndbox><xmin>{x}</xmin>"
            f"<ymin>{y}</ymin><xmax>{x + width}</xmax><ymax>{y + height}</ymax></bndbox>"
            "</object></a>"
        )
    names = [f"{k}.jpg {k}.xml\n" for k in range(6)]
    (folder / "trainval.txt").write_text("".join(names[:4]))
    (folder / "test.txt").write_text("".join(names[:2]))
    (folder / "infer.txt").write_text("0.jpg\n1.jpg\n")
    kinds = ["background", *colours, *(f"kind{k}" for k in range(17))]
    (folder / "label_list").write_text("\n".join(kinds))


def trained_filters(path):
    """A parameter file in the place of VGG's: filters that keep the deviation of what they see.

    The program's own start does not. Its stacks of convolutions share one attribute, so all start
    as the first of them; the cost is 20,000 then, and overflows at the program's rate.
    """
    rng = np.random.default_rng(0)
    pool, before = paddle.parameters.Parameters(), 3
    for block, (layers, filters) in enumerate([(2, 64), (2, 128), (3, 256), (3, 512), (3, 512)], 1):
        for k in range(1, layers + 1):
            _add_filters(pool, f"conv{block}_{k}", rng, filters, before, 9)
            before = filters
    _add_filters(pool, "fc6", rng, 1024, 512, 9)
    _add_filters(pool, "fc7", rng, 1024, 1024, 1)
    pool["_conv1_1.w0"] = pool["_conv1_1.w0"] / 60  # pixels are from -124 to 151
    with gzip.open(path, "wb", compresslevel=1) as f:
        pool.to_tar(f)


def _add_filters(pool, name, rng, filters, channels, cells):
    count = filters * channels * cells
    for kind, size, dims in (("w0", count, []), ("wbias", filters, [filters, 1])):
        config = ParameterConfig(name=f"_{name}.{kind}", size=size, dims=dims)
        pool.__append_config__(config)
    weights = rng.standard_normal((1, count), np.float32)
    pool[f"_{name}.w0"] = weights * np.float32(np.sqrt(2 / channels / cells))
    pool[f"_{name}.wbias"] = np.zeros((filters, 1), np.float32)


def test_detection(tmp_path):
    program = models("ssd")
    pytest.importorskip("easydict")  # which the program imports
    for name in ("data", "vgg", "checkpoints", "models"):
        (tmp_path / name).mkdir()
    scenes(tmp_path / "data")
    trained_filters(tmp_path / "vgg" / "vgg_model.tar.gz")
    script = str(program / "train.py")
    output, costs = launch_shorter(program, f"execfile({script!r})\n", tmp_path, 1, 6)
    assert len(costs) == 6 and falls(costs) and costs[0] < 60
    tests = told("TestCost:", output)
    assert len(tests) == 6 and tests[-1] < tests[0]
    stored = tmp_path / "checkpoints" / "params_pass_00005.tar.gz"
    stored.rename(tmp_path / "models" / "pass-00000.tar.gz")
    (again,) = told("TestCost:", launch(program / "eval.py", tmp_path))
    assert again == pytest.approx(tests[-1], abs=1e-4)
    launch(program / "infer.py", tmp_path)
    assert (tmp_path / "infer.res").exists()
