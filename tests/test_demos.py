"""Pieces of the demos; as whole programs they run with --quick in CI."""

import importlib.util
import logging
import os
import sys
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

import pd_core as pd
import pd_v2 as paddle
from pd_v2.dataset import common

DEMOS = Path(__file__).resolve().parents[1] / "demos"
WITH_DATA = (
    *("recognize_digits", "fit_a_line", "fit_digits", "mnist_core", "gan_core", "early_exit"),
    "cluster_digits",
)
NAMES = (
    *WITH_DATA,
    "several_networks",
    "translate",
    "char_transformer",
    "reinforce",
    "cycle_gan",
    "online_learning",
)


@pytest.fixture(autouse=True)
def a_process_of_its_own(monkeypatch):
    """What a demo changes in its process comes back: environment, data, settings, log level."""
    monkeypatch.setattr(common, "DATA_HOME", str(DEMOS / "data"))
    monkeypatch.setattr(paddle.settings, "_process", paddle.settings._Process())
    logger = logging.getLogger("paddle")
    level = logger.level
    logger.setLevel(logging.WARNING)
    monkeypatch.syspath_prepend(DEMOS)  # they import picture.py
    with mock.patch.dict(os.environ, PD_DATASET_CHECK="0"), paddle.build.fresh():
        yield
    logger.setLevel(level)


def demo(name):
    """A demo as a module."""
    spec = importlib.util.spec_from_file_location(f"demo_{name}", DEMOS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", NAMES)
def test_a_demo_explains_itself(name, capsys):
    with pytest.raises(SystemExit) as stop:
        demo(name).main(["--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    assert "--quick" in text
    assert "--out" in text


@pytest.mark.parametrize("name", WITH_DATA)
def test_data_beside_the_demo_unless_the_user_has_other(name):
    with mock.patch.dict(os.environ):
        os.environ.pop("PD_DATASET_HOME", None)
        demo(name)
        assert os.environ["PD_DATASET_HOME"] == str(DEMOS / "data")
        os.environ["PD_DATASET_HOME"] = "elsewhere"
        demo(name)
        assert os.environ["PD_DATASET_HOME"] == "elsewhere"


# ---- recognize_digits


def pixel():
    return paddle.layer.data(name="pixel", type=paddle.data_type.dense_vector(784))


@pytest.mark.parametrize(
    ("network", "sizes"),
    [
        ("softmax", [7840, 10]),
        ("mlp", [784 * 128, 128, 128 * 64, 64, 640, 10]),
        ("lenet", [20 * 25, 20, 50 * 20 * 25, 50, 800 * 10, 10]),
    ],
)
def test_networks_have_the_parameters_of_the_book(network, sizes):
    prediction = demo("recognize_digits").NETWORKS[network].build(pixel())
    parameters = paddle.parameters.create(prediction)
    assert sorted(parameters[name].size for name in parameters.names()) == sorted(sizes)


def test_the_exported_network_is_compared(tmp_path, capsys):
    digits = demo("recognize_digits")
    prediction = digits.softmax_regression(pixel())
    parameters = paddle.parameters.create(prediction)
    images = list(np.random.default_rng(0).random((3, 784), np.float32))
    found = paddle.infer(prediction, parameters, input=[(image,) for image in images])
    digits.export(prediction, parameters, images, found, tmp_path / "a.onnx")
    assert "gives the same probabilities" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="gives other probabilities"):
        digits.export(prediction, parameters, images, found[::-1], tmp_path / "a.onnx")


def test_digits_not_learned_is_a_failure(tmp_path, monkeypatch):
    digits = demo("recognize_digits")
    monkeypatch.setattr(digits, "QUICK_PASSES", 1)
    monkeypatch.setattr(digits, "QUICK_BOUND", 0.0)
    with pytest.raises(SystemExit, match=r"did not learn, test error: softmax \d+\.\d%"):
        digits.main(["--quick", "--network", "softmax", "--out", str(tmp_path)])
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "softmax.onnx",
        "softmax.png",
        "softmax.tar",
    ]


# ---- fit_a_line


def test_prices_are_learned_saved_and_loaded(tmp_path, monkeypatch, capsys):
    line = demo("fit_a_line")
    monkeypatch.setattr(line, "QUICK_PASSES", 2)
    line.main(["--quick", "--out", str(tmp_path)])
    assert "thousand dollars" in capsys.readouterr().out
    assert {p.name for p in tmp_path.iterdir()} == {"cost.png", "prices.png", "fit_a_line.tar"}


def test_prices_not_learned_is_a_failure(tmp_path, monkeypatch):
    line = demo("fit_a_line")
    monkeypatch.setattr(line, "QUICK_PASSES", 1)
    monkeypatch.setattr(line, "BOUND", 1.0)
    with pytest.raises(SystemExit, match=r"did not learn: test cost \d+\.\d, more than 1\.0"):
        line.main(["--quick", "--out", str(tmp_path)])


def test_saved_parameters_with_other_predictions_fail(tmp_path, monkeypatch):
    line = demo("fit_a_line")
    monkeypatch.setattr(line, "QUICK_PASSES", 1)
    monkeypatch.setattr(paddle, "infer", lambda *_, input: np.zeros((len(input), 1)))
    with pytest.raises(SystemExit, match="saved parameters give other predictions"):
        line.main(["--quick", "--out", str(tmp_path)])


# ---- mnist_core


def test_arrays_are_grey_levels_and_columns_of_labels():
    samples = [(np.float32([-1, 0, 1]), 7), (np.float32([1, 1, 1]), 3)]
    pixels, labels = demo("mnist_core").arrays(samples)
    assert pixels.tolist() == [[0, 0.5, 1], [1, 1, 1]]
    assert pixels.dtype == np.float32
    assert labels.tolist() == [[7], [3]]


def test_batches_are_full_and_have_no_sample_twice(rng):
    images = np.arange(150)[:, None]
    found = list(demo("mnist_core").batches(images, images * 2, rng))
    assert [len(x) for x, _ in found] == [64, 64]
    drawn = np.concatenate([x for x, _ in found])[:, 0]
    assert len(set(drawn)) == 128
    assert list(drawn) != sorted(drawn)
    assert all((y == x * 2).all() for x, y in found)


def test_a_perceptron_that_did_not_learn_is_a_failure(tmp_path, monkeypatch):
    core = demo("mnist_core")
    monkeypatch.setattr(core, "QUICK_PASSES", 1)
    monkeypatch.setattr(core, "BOUND", 0.0)
    with pytest.raises(SystemExit, match=r"did not learn: test error \d+\.\d%, more than 0%"):
        core.main(["--quick", "--out", str(tmp_path)])
    assert (tmp_path / "mnist_core.onnx").exists()


# ---- gan_core


def test_the_discriminator_has_its_parameters_once():
    gan = demo("gan_core")
    z, x = pd.Variable([None, gan.NOISE]), pd.Variable([None, 784])
    fake = gan.generator(z)
    probability, logit = gan.discriminator(x)
    gan.discriminator(fake)
    assert fake.shape == (None, 784)
    assert probability.shape == logit.shape == (None, 1)
    assert [v.name for v in pd.trainable_variables()] == [
        *(f"generator/{name}" for name in ("W1", "b1", "W2", "b2")),
        *(f"discriminator/{name}" for name in ("W1", "b1", "W2", "b2")),
    ]


def test_the_picture_has_rows_of_six(tmp_path):
    from PIL import Image

    digits = np.zeros((36, 784), np.float32)
    digits[7] = 1.0
    demo("gan_core").draw(digits, tmp_path / "a.png")
    with Image.open(tmp_path / "a.png") as picture:
        assert picture.size == (504, 504)
        assert picture.getbbox() == (1 * 84, 1 * 84, 2 * 84, 2 * 84)


@pytest.mark.parametrize(
    ("program", "module", "package"),
    [
        ("gan_core", "PIL", "pillow"),
        ("recognize_digits", "matplotlib", "matplotlib"),
        ("fit_a_line", "matplotlib", "matplotlib"),
        ("online_learning", "matplotlib", "matplotlib"),
    ],
)
def test_a_missing_package_is_named_before_any_work(
    program, module, package, tmp_path, monkeypatch
):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(SystemExit, match=f"^{package} must be installed, .* install {package}$"):
        demo(program).main(["--out", str(tmp_path / "out")])
    assert not list(tmp_path.iterdir())


def test_distance_sees_wrong_means_and_missing_variety(rng):
    distance = demo("gan_core").distance
    images = rng.random((400, 50))
    assert distance(images[::2], images[1::2]) < 0.05
    assert distance(images + 0.3, images) == pytest.approx(0.3)
    same = np.repeat(images.mean(0, keepdims=True), 400, 0)
    assert distance(same, images) == pytest.approx(images.std(0).mean())


def test_a_gan_that_did_not_learn_is_a_failure(tmp_path, monkeypatch):
    gan = demo("gan_core")
    monkeypatch.setattr(gan, "QUICK_STEPS", 8)
    with pytest.raises(
        SystemExit, match=r"did not learn: the distance from real digits is above 0\.22"
    ):
        gan.main(["--quick", "--out", str(tmp_path)])
    assert len(list(tmp_path.glob("gan_*.png"))) == gan.PICTURES
    assert (tmp_path / "gan.png").exists()


# ---- fit_digits


def test_a_network_that_fit_does_not_teach_is_a_failure(tmp_path, monkeypatch, capsys):
    digits = demo("fit_digits")
    monkeypatch.setattr(digits, "QUICK_EPOCHS", 1)
    monkeypatch.setattr(digits, "QUICK_BOUND", 0.0)
    with pytest.raises(SystemExit, match=r"did not learn: test error \d+\.\d%, more than 0%"):
        digits.main(["--quick", "--out", str(tmp_path)])
    files = {"fit_digits.onnx", "fit_digits.safetensors", "fit_digits.png", "confusion.png"}
    assert {p.name for p in tmp_path.iterdir()} == files
    assert "epoch  1  cost" in capsys.readouterr().out


# ---- the core in both modes


def in_both_modes(monkeypatch, losses):
    """losses(False) and losses(True) from the same seed, the latter without `pd.eval`."""

    def in_one_mode(dynamic):
        with pd.fresh(seed=1), monkeypatch.context() as patch:
            if dynamic:
                patch.delattr(pd, "eval")
            return np.array(losses(dynamic))

    return in_one_mode(False), in_one_mode(True)


def digits(rng, n=200):
    """Pixels and labels, of each class as many."""
    return rng.random((n, 784), np.float32), np.arange(n)[:, None] % 10


def test_the_perceptron_in_both_modes(monkeypatch, rng):
    core, (images, labels) = demo("mnist_core"), digits(rng)

    def losses(dynamic):
        image, label = pd.Variable([None, 784]), pd.Variable([None, 1], dtype="int64")
        _, *measures = core.network(image, label)
        train, test = core.dynamic() if dynamic else core.static(image, label, *measures)
        return [train(images, labels) for _ in range(4)] + list(test(images, labels))

    static, dynamic = in_both_modes(monkeypatch, losses)
    assert static[3] < static[0]
    np.testing.assert_allclose(dynamic, static, rtol=1e-5)


def test_the_gan_in_both_modes(monkeypatch, rng):
    gan, (images, _) = demo("gan_core"), digits(rng, 30)
    noise, ones = rng.random((30, gan.NOISE), np.float32), np.ones((30, 1), np.float32)

    def losses(dynamic):
        train_D, train_G, generated = gan.dynamic() if dynamic else gan.static()
        steps = [(train_D(images, noise, ones, 0 * ones), train_G(noise, ones)) for _ in range(4)]
        return [*np.ravel(steps), generated(noise).std()]

    static, dynamic = in_both_modes(monkeypatch, losses)
    assert static[6] < static[0]
    np.testing.assert_allclose(dynamic, static, rtol=1e-5)


@pytest.mark.parametrize("example", ["side_by_side", "ranking", "halves", "chain"])
def test_several_networks_in_both_modes(example, monkeypatch, rng):
    several, data = demo("several_networks"), digits(rng)
    functions = several.functions

    def losses(dynamic):
        found = []

        def recorded(*args):
            step, results = functions(*args)
            return lambda *arrays: found.append(step(*arrays)), results

        monkeypatch.setattr(several, "functions", recorded)
        results = getattr(several, example)(data, data, 3, dynamic)
        return found + [float(np.mean(value)) for value in results.values()]

    static, dynamic = in_both_modes(monkeypatch, losses)
    assert len(set(static)) > 3
    np.testing.assert_allclose(dynamic, static, rtol=1e-5)


# ---- translate


def test_numbers_in_words():
    translate = demo("translate")
    words = {n: " ".join(translate.in_words(n)) for n in (0, 13, 20, 85, 100, 407, 990)}
    assert words == {
        0: "zero",
        13: "thirteen",
        20: "twenty",
        85: "eighty five",
        100: "one hundred",
        407: "four hundred seven",
        990: "nine hundred ninety",
    }
    assert translate.sample(21) == ([2, 1], [0, 22, 3], [22, 3, 1])


def test_words_not_learned_are_a_failure(tmp_path, monkeypatch):
    translate = demo("translate")
    monkeypatch.setattr(translate, "QUICK_PASSES", 1)
    monkeypatch.setattr(translate, "TRAINING_NUMBERS", 960)  # the others are translated
    with pytest.raises(SystemExit, match="did not learn: less than 80% right"):
        translate.main(["--quick", "--out", str(tmp_path)])
    assert {p.name for p in tmp_path.iterdir()} == {"translate.onnx", "translate.png"}


# ---- char_transformer


def trained(chars, train, steps):
    """A new model and its losses."""
    letters, ids = chars.encoded()
    model = chars.CharTransformer(len(letters))
    return model, list(getattr(chars, train)(model, chars.batches(ids, steps)))


def test_both_graphs_of_a_transformer_lose_the_same():
    chars = demo("char_transformer")
    assert chars.DROPOUT > 0.0
    with pd.fresh(seed=1):
        _, dynamic = trained(chars, "dynamic_losses", 6)
    with pd.fresh(seed=1):
        _, static = trained(chars, "static_losses", 6)
    assert dynamic[-1] < dynamic[0] - 1.0
    np.testing.assert_allclose(static, dynamic, rtol=1e-5)


def test_characters_are_drawn_with_a_cache_as_without(rng):
    chars = demo("char_transformer")
    model, _ = trained(chars, "dynamic_losses", 2)
    x = rng.integers(0, 60, (chars.LINES, 5))
    whole = model.eval()(x).numpy()
    caches = [layer.self_attention.empty_cache(chars.LINES) for layer in model.layers]
    for t in range(5):
        logits, caches = model(x[:, t : t + 1], start=t, caches=caches)
        np.testing.assert_allclose(logits.numpy()[:, 0], whole[:, t], rtol=1e-4, atol=1e-5)
    before = pd.stats()["compiled"]
    assert chars.sample(model, 0, rng).shape == (chars.LINES, chars.CONTEXT)
    assert pd.stats()["compiled"] - before <= 3  # for any length of the cache


@pytest.mark.parametrize("options", [[], ["--static"]])
def test_characters_not_learned_are_a_failure(tmp_path, monkeypatch, options):
    chars = demo("char_transformer")
    monkeypatch.setattr(chars, "QUICK_STEPS", 10)
    monkeypatch.setattr(chars, "QUICK_BOUND", 0.0)
    with pytest.raises(SystemExit, match=r"did not learn: the loss is \d\.\d\d, more than 0"):
        chars.main(["--quick", "--out", str(tmp_path), *options])
    assert [p.name for p in tmp_path.iterdir()] == ["char_transformer.png"]


# ---- reinforce


@pytest.mark.parametrize("action", [0, 1])
def test_the_pole_moves_by_the_equations_of_motion(action, rng):
    cart = demo("reinforce").CartPole(rng)
    cart.state = _, v, angle, spin = 0.3, -0.5, 0.1, 0.7
    state, fell = cart.step(action)
    # Newton's equations of a cart of 1 kg and a pole of 0.1 kg and 2 x 0.5 m, pushed by 10 N
    sin, cos, force = np.sin(angle), np.cos(angle), 10 * (2 * action - 1)
    masses = [[1.1, 0.05 * cos], [cos, 0.5 * 4 / 3]]
    rates = np.linalg.solve(masses, [force + 0.05 * spin**2 * sin, 9.8 * sin])
    rates = np.array([v, rates[0], spin, rates[1]])
    assert state == pytest.approx(np.array([0.3, v, angle, spin]) + 0.02 * rates, abs=1e-6)
    assert not fell
    cart.state = 0.0, 0.0, 0.22, 0.0  # more than 12 degrees
    assert cart.step(action)[1]


def test_returns_are_discounted_and_normalized():
    r = demo("reinforce").returns(3, discount=0.5)
    sums = np.array([1.75, 1.5, 1.0])
    assert r == pytest.approx((sums - sums.mean()) / sums.std(), abs=1e-4)


def test_a_policy_in_both_modes(monkeypatch):
    pole = demo("reinforce")

    def numbers(dynamic):
        rng, policy = np.random.default_rng(0), pole.Policy("policy")
        act, learn = (pole.dynamic if dynamic else pole.static)(policy)
        cart, found = pole.CartPole(rng), []
        for _ in range(4):
            states, actions = pole.play(act, cart, rng)
            chosen = np.eye(2, dtype=np.float32)[actions]
            found += [len(states), learn(states, chosen, pole.returns(len(states)))]
        return found

    static, dynamic = in_both_modes(monkeypatch, numbers)
    assert len(set(static[::2])) > 1  # lengths of the episodes
    np.testing.assert_allclose(dynamic, static, rtol=1e-4, atol=1e-6)


def test_episodes_of_any_length_are_one_program(rng):
    pole = demo("reinforce")
    act, learn = pole.dynamic(pole.Policy())
    for n in (5, 7, 12, 31):
        states = rng.random((n, 4), np.float32)
        assert act(states[0]).shape == (1, 2)
        learn(states, np.eye(2, dtype=np.float32)[np.arange(n) % 2], pole.returns(n))
        if n == 7:
            compiled = pd.stats()["compiled"]
    assert pd.stats()["compiled"] == compiled


@pytest.mark.parametrize("options", [[], ["--static"]])
def test_a_pole_that_falls_is_a_failure(tmp_path, monkeypatch, options):
    pole = demo("reinforce")
    monkeypatch.setattr(pole, "EPISODES", 12)
    with pytest.raises(SystemExit, match=r"did not learn: \d+ steps, less than 60"):
        pole.main(["--quick", "--out", str(tmp_path), *options])
    assert [p.name for p in tmp_path.iterdir()] == ["reinforce.png"]


# ---- early_exit


def test_the_second_network_runs_for_unsure_digits_only(monkeypatch, rng):
    early = demo("early_exit")
    first, second = early.First().eval(), early.Second().eval()
    image = rng.random((1, 1, 28, 28), np.float32)
    answers = []
    for sure in (1.1, 0.0):  # never, always
        monkeypatch.setattr(early, "SURE", sure)
        ways = {name: way(first, second) for name, way in early.WAYS.items()}
        runs = [way(image) for way in ways.values()]
        np.testing.assert_allclose(runs[1:], [runs[0]] * 2, rtol=1e-5, atol=1e-6)
        before = pd.stats()["operators"]
        ways["if, dynamic"](image)
        answers.append((runs[0], pd.stats()["operators"] - before))
    (unsure, both), (sure, one) = answers
    assert not np.allclose(unsure, sure)
    assert one < both


def test_digits_that_are_not_learned_are_a_failure(tmp_path, monkeypatch):
    early = demo("early_exit")
    monkeypatch.setattr(early, "QUICK_PASSES", 0)
    monkeypatch.setattr(early, "WAYS", {"both, static": early.always_both})
    with pytest.raises(SystemExit, match=r"did not learn: error \d+\.\d%"):
        early.main(["--quick", "--out", str(tmp_path)])
    assert [p.name for p in tmp_path.iterdir()] == ["early_exit.png"]


# ---- cycle_gan


def test_points_lie_on_a_ring_and_a_square(rng):
    gan = demo("cycle_gan")
    assert abs(np.linalg.norm(gan.ring(200, rng), axis=1) - 1).max() < 0.3
    assert abs(abs(gan.square(200, rng) - [3, 1]).max(1) - 1).max() < 0.3


def test_two_generators_in_both_modes(monkeypatch):
    gan = demo("cycle_gan")

    def costs(dynamic):
        make_step = gan.dynamic_step if dynamic else gan.static_step
        return gan.train(gan.CycleGAN(), make_step, 5)

    static, dynamic = in_both_modes(monkeypatch, costs)
    assert static[4, 1] < static[0, 1]
    np.testing.assert_allclose(dynamic, static, rtol=1e-5)


@pytest.mark.parametrize("mode", ["dynamic", "static"])
def test_each_optimizer_has_its_own_parameters(mode, monkeypatch, rng):
    module = demo("cycle_gan")
    rates = iter([0.0, 0.1])  # of the generators, of the discriminators
    adam = pd.AdamOptimizer
    monkeypatch.setattr(pd, "AdamOptimizer", lambda _, beta1: adam(next(rates), beta1=beta1))
    gan = module.CycleGAN()
    step = getattr(module, f"{mode}_step")(gan)
    values = []
    for _ in range(2):
        step(module.ring(8, rng), module.square(8, rng))
        values.append([[v.val() for v in vs] for vs in (gan.generators(), gan.discriminators())])
    (g, d), (new_g, new_d) = values
    assert all((a == b).all() for a, b in zip(g, new_g, strict=True))
    assert all((a != b).any() for a, b in zip(d, new_d, strict=True))


def test_points_not_learned_are_a_failure(tmp_path, monkeypatch, capsys):
    gan = demo("cycle_gan")
    monkeypatch.setattr(gan, "QUICK_STEPS", 50)
    monkeypatch.setattr(gan, "QUICK_BOUND", 0.0)
    with pytest.raises(SystemExit, match=r"did not learn: \d\.\d+, more than 0\.0"):
        gan.main(["--quick", "--static", "--out", str(tmp_path)])
    assert "costs of 50 dynamic steps differ by" in capsys.readouterr().out
    assert [p.name for p in tmp_path.iterdir()] == ["cycle_gan.png"]


# ---- online_learning


def test_samples_say_whether_points_are_in_the_circle(rng):
    online = demo("online_learning")
    samples = online.points((0.5, 0.3), 4000, rng)
    xy, inside = np.array([x for x, _ in samples]), np.array([label for _, label in samples])
    assert abs(xy).max() <= 1
    np.testing.assert_array_equal(inside, np.hypot(*(xy - [0.5, 0.3]).T) < 0.5)
    assert inside.mean() == pytest.approx(np.pi * 0.5**2 / 4, abs=0.02)


def test_a_curve_that_is_drawn_while_it_grows(tmp_path, monkeypatch):
    monkeypatch.setattr((online := demo("online_learning")), "EVERY", 2)
    curve = online.Curve(tmp_path / "a.png")
    for k in range(19):
        curve.add(k, k)
    assert curve.errors == [0.5 + 2 * k for k in range(9)]
    assert not (tmp_path / "a.png").exists()
    curve.add(19, 19)
    assert (tmp_path / "a.png").exists()


def test_circles_not_learned_are_a_failure(tmp_path, monkeypatch):
    online = demo("online_learning")
    monkeypatch.setattr(online, "QUICK_SAMPLES", 10 * online.EVERY * online.BATCH)
    monkeypatch.setattr(online, "QUICK_BOUND", 0.0)
    with pytest.raises(SystemExit, match=r"did not learn: error \d+\.\d%, more than 0%"):
        online.main(["--quick", "--out", str(tmp_path)])
    assert {p.name for p in tmp_path.iterdir()} == {"online_learning.png", "online_models"}
    assert {p.name for p in tmp_path.glob("*/*")} == {"first", "second", "final"}


# ---- cluster_digits


@pytest.mark.parametrize(("options", "status"), [([], 2), (["--quick"], 0)])
def test_cluster_digits_says_what_it_needs(options, status, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit) as stop:
        demo("cluster_digits").main([*options, "--out", str(tmp_path)])
    assert stop.value.code == status
    assert "skipped: needs mpi4py" in capsys.readouterr().out


def test_all_rows_of_a_batch_are_used_after_a_loss(monkeypatch):
    cluster = demo("cluster_digits")
    for ranks in (3, 2):
        monkeypatch.setattr(pd.distributed, "world_size", lambda ranks=ranks: ranks)
        parts = []
        for rank in range(ranks):
            monkeypatch.setattr(pd.distributed, "rank", lambda rank=rank: rank)
            parts.append(cluster.own_rows(np.arange(8)))
        assert np.concatenate(parts).tolist() == list(range(8))
