"""Lines written for PyTorch, Keras or NumPy by habit: the same numbers here, or an error."""

import inspect

import numpy as np
import pytest

import pd_core as pd

torch = pytest.importorskip("torch")
F = torch.nn.functional
X = np.random.default_rng(0).normal(size=(2, 3)).astype("float32")
IMAGE = np.ones((1, 2, 4, 4), "float32")
TWO, LABEL = np.ones(2, "float32"), np.array([0, 2])

# ---- positions of the functions that both have

OURS = {  # PyTorch's words in ours
    "dim": "axis",
    "eps": "epsilon",
    "input": "x",
    "kernel_size": "block",
    "input1": "x",
    "input2": "y",
    "negative_slope": "alpha",
    "num_groups": "groups",
    "output_size": "size",
    "p": "rate",
    "padding_idx": "padding_id",
    "weight": "scale",
    "bias": "shift",
}
SAME = [n for n in dir(F) if n in pd.__all__ and inspect.isfunction(getattr(F, n))]
OTHERS = {  # other words for the same, or arguments of other types, which are refused
    "affine_grid", "batch_norm", "binary_cross_entropy", "cosine_embedding_loss", "cross_entropy",
    "ctc_loss", "embedding", "gaussian_nll_loss", "grid_sample", "gru_cell", "huber_loss",
    "interpolate", "l1_loss", "layer_norm", "lstm_cell", "margin_ranking_loss", "one_hot", "pad",
    "poisson_nll_loss", "prelu", "rms_norm",
}  # fmt: skip


def positions(function):
    parameters = inspect.signature(inspect.unwrap(function)).parameters.values()
    return [p.name for p in parameters if p.kind == p.POSITIONAL_OR_KEYWORD]


@pytest.mark.parametrize("name", [n for n in SAME if n not in OTHERS])
def test_positions_are_those_of_pytorch(name):
    ours, theirs = positions(getattr(pd, name)), positions(getattr(F, name))
    for own, other in zip(ours, theirs, strict=False):
        assert own in (other, OURS.get(other)), (ours, theirs)


REFUSALS = {  # each runs elsewhere
    "std of all": lambda x: pd.std(x, 1, False),
    "var of all": lambda x: x.var(0, False),
    "full": lambda x: pd.poisson_nll_loss(x, x, True, False),
    "full of normals": lambda x: pd.gaussian_nll_loss(x, x, x, False),
    "statistics": lambda x: pd.instance_norm(IMAGE, TWO, TWO),
    "replacement": lambda x: pd.multinomial(np.abs(X), 2),
    "decay_steps": lambda x: pd.schedules.ExponentialDecay(0.1, 1000, 0.96),
    "decay_rate": lambda x: pd.schedules.InverseTimeDecay(0.1, 1000, 0.5),
    "alpha": lambda x: pd.schedules.CosineDecay(0.1, 1000, 0.1),
    "m_mul": lambda x: pd.schedules.CosineRestarts(0.1, 1000, 2, 1.0),
    "momentum of RMSprop": lambda x: pd.RMSPropOptimizer(0.1, 0.9, 0.9),
    "accumulator": lambda x: pd.AdaGradOptimizer(0.1, 0.1),
    "epsilon_1": lambda x: pd.AdaFactorOptimizer(0.1, -0.8, 1e-30),
    "min_delta": lambda x: pd.training.StopEarly("val_cost", 1, 10),
    "ignore_index": lambda x: pd.nn.NLL(None, True, -100),
    "size_average": lambda x: pd.nn.SoftmaxCrossEntropy(None, None, -100),
    "exchange": lambda x: x.transpose(0, 1),
    "exchange from the end": lambda x: x.transpose(-2, -1),
    "all repeated": lambda x: x.repeat(2),
    "place in all": lambda x: x.argmax(),
    "smallest of all": lambda x: x.argmin(keep_dim=False),
    "sums of all": lambda x: x.cumsum(),
    "products of all": lambda x: x.cumprod(),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_other_meanings_are_errors(name):
    with pytest.raises(TypeError):
        REFUSALS[name](pd.constant(X))
    with pd.guard(), pytest.raises(TypeError):
        REFUSALS[name](pd.to_variable(X))


def test_errors_of_methods_say_what_to_write():
    x = pd.constant(X)
    for call, text in [
        (lambda: x.argmax(), r"argmax: needs an axis of .*; .* x.reshape\(-1\)"),
        (lambda: x.repeat(2), r"repeat: needs an axis of .*; .* x.reshape\(-1\)"),
        (lambda: x.transpose(0, 1), r"\(0, 1\) changes nothing; x.T and x.mT exchange two"),
    ]:
        with pytest.raises(TypeError, match=text):
            call()
    wanted = [X.max(1), X.repeat(2, axis=1), X.reshape(-1).argmax(), X.cumsum(0), X.argmax(1)]
    found = [x.max(1), x.repeat(2, 1), x.reshape(-1).argmax(), x.cumsum(0), x.argmax(1)]
    for value, want in zip(pd.eval(found), wanted, strict=True):
        np.testing.assert_allclose(value, want, rtol=1e-6)
    assert (pd.constant([1, 2]).repeat(2).eval() == [1, 1, 2, 2]).all()


def test_softmax_has_the_axis_second():
    a, b = pd.eval([pd.softmax(X, 0), pd.constant(X).softmax(0)])
    wanted = F.softmax(torch.tensor(X), 0).numpy()
    np.testing.assert_allclose(a, wanted, rtol=1e-6)
    np.testing.assert_allclose(b, wanted, rtol=1e-6)


def test_statistics_in_the_place_of_factors():
    """PyTorch and TensorFlow have mean and variance before scale and shift."""
    moving = [pd.Variable(data=TWO, trainable=False) for _ in range(2)]
    trained = [pd.Variable(data=TWO) for _ in range(2)]
    with pytest.raises(ValueError, match="are x, scale, shift, mean, variance"):
        pd.batch_norm(IMAGE, *moving, *trained)
    assert pd.batch_norm(IMAGE, *trained, *moving).shape == IMAGE.shape


def test_words_of_pixels_have_the_numbers_of_pytorch():
    x = np.arange(64, dtype="float32").reshape(1, 4, 4, 4)
    found = pd.eval(
        [
            pd.depth_to_space(x, 2, mode="CRD"),
            pd.reshape(pd.unfold(x, 2, strides=2), [1, 16, 2, 2]),
        ]
    )
    wanted = F.pixel_shuffle(torch.tensor(x), 2), F.pixel_unshuffle(torch.tensor(x), 2)
    for value, want in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(value, want.numpy())


# ---- scores where a loss takes probabilities


class Scores(pd.nn.Layer):
    """Scores of three classes."""

    def __init__(self):
        super().__init__()
        self.line = pd.nn.FC(3)

    def forward(self, x):
        return self.line(x)


@pytest.mark.parametrize("at_hand", [False, True])
def test_scores_are_no_probabilities(at_hand):
    with pd.fresh():
        net = Scores()

        def losses(x):
            for loss, label, of_scores in [
                (pd.cross_entropy, LABEL, "softmax_cross_entropy"),
                (pd.nn.CrossEntropy(), LABEL, "softmax_cross_entropy"),
                (pd.binary_cross_entropy, np.ones_like(X), "sigmoid_cross_entropy"),
            ]:
                with pytest.warns(UserWarning, match=f"the scores of a layer; .* is {of_scores}"):
                    loss(pd.reshape(net(x), [2, 3]), label)
            pd.cross_entropy(pd.softmax(net(x)), LABEL)
            pd.binary_cross_entropy(pd.sigmoid(net(x)), np.ones_like(X))
            for loss in (pd.softmax_cross_entropy, pd.nn.SigmoidCrossEntropy()):
                loss(net(x), np.eye(3, dtype="float32")[LABEL])
                with pytest.raises(ValueError, match="the scores come first"):
                    loss(np.eye(3, dtype="float32")[LABEL], net(x))

        if at_hand:
            with pd.guard():
                losses(X)
        else:
            losses(pd.Variable([2, 3]))


@pytest.mark.parametrize("norm", [pd.nn.BatchNorm1d, pd.nn.BatchNorm2d, pd.nn.BatchNorm3d])
def test_the_momentum_of_pytorch_is_warned_of(norm):
    with pytest.warns(UserWarning, match=r"momentum=0.1 is 0.9 here"):
        norm(momentum=0.1)
    for momentum in (0.0, 0.5, 0.9, 0.99):
        norm(momentum=momentum)
