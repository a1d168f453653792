"""Words of PyTorch and Keras: every entry names what exists, and is asked for where theirs is."""

import inspect
import pydoc
import re
import traceback
from pathlib import Path

import numpy as np
import pytest

import pd_core as pd
from pd_core.graph import other_words
from pd_core.graph.other_words import (
    ARGUMENTS,
    FUNCTIONS,
    LAYER,
    LAYERS,
    NAMES,
    OPTIMIZER,
    OPTIMIZERS,
    VARIABLE,
)


def words(text):
    """The words of a text."""
    return text.split()


# Layers of PyTorch 2.13 for which there is neither a layer nor a function here.
WITHOUT = words("""
    AdaptiveLogSoftmaxWithLoss AlphaDropout Bilinear ChannelShuffle CircularPad1d CircularPad2d
    CircularPad3d CosineSimilarity CrossMapLRN2d Dropout1d Dropout2d Dropout3d EmbeddingBag
    FeatureAlphaDropout FractionalMaxPool2d FractionalMaxPool3d Hardshrink
    HingeEmbeddingLoss LPPool1d LPPool2d LPPool3d
    LogSigmoid MaxUnpool1d MaxUnpool2d MaxUnpool3d MultiLabelMarginLoss
    MultiLabelSoftMarginLoss MultiMarginLoss NLLLoss2d PairwiseDistance ParameterDict
    ParameterList RNNBase RNNCell RNNCellBase RReLU SoftMarginLoss Softmin Softshrink Threshold
    Transformer TripletMarginWithDistanceLoss LinearCrossEntropyLoss
""")
# Names of Keras 3: layers, losses, optimizers, callbacks, schedules, and of its top level.
KERAS = words("""
    Activation AveragePooling1D AveragePooling2D AveragePooling3D BatchNormalization
    Bidirectional Concatenate Conv1D Conv1DTranspose Conv2D Conv2DTranspose Conv3D
    Conv3DTranspose Dense DepthwiseConv2D GlobalAveragePooling2D GlobalMaxPooling2D
    GroupNormalization Identity Input LayerNormalization MaxPooling1D MaxPooling2D MaxPooling3D
    Model Permute RMSNormalization Reshape SimpleRNN UpSampling2D ZeroPadding2D
    BinaryCrossentropy CategoricalCrossentropy SparseCategoricalCrossentropy KLDivergence
    MeanAbsoluteError MeanSquaredError Adadelta Adafactor Adagrad Adam AdamW Adamax Lamb Lion
    LossScaleOptimizer Nadam RMSprop SGD EarlyStopping ModelCheckpoint TensorBoard
    PiecewiseConstantDecay callbacks losses models utils
""")
KERAS_METHODS = words("""
    add_weight build call compile count_params evaluate fit get_weights layers load_weights
    predict save_weights set_weights trainable_variables trainable_weights variables weights
    apply_gradients assign
""")
KERAS_ARGUMENTS = words("""
    activation beta_1 beta_2 bias_initializer clipnorm data_format decay_rate dilation_rate
    filepath global_clipnorm input_dim input_shape keepdims kernel_initializer kernel_size min_lr
    num_heads output_dim output_size pool_size restore_best_weights return_sequences
    save_best_only strides training units use_bias workers
""")
# of PyTorch's GradScaler and WeightedRandomSampler
OTHER_ARGUMENTS = words("init_scale num_samples num_channels")
# what people type who remember a part of a name, or TensorFlow's shape(x)
PARTS = ["BatchNorm", "DataParallel", "EMA", "ExponentialMovingAverage", "absolute", "shape"]


def torch_names():
    """The names of PyTorch's modules, and of its layers."""
    torch = pytest.importorskip("torch")
    from torch import nn, optim

    functional = nn.functional
    faces = [torch, nn, functional, nn.init, nn.utils, optim, optim.lr_scheduler, torch.utils.data]
    faces += [torch.amp, torch.optim.lr_scheduler, optim.swa_utils]
    return {name for face in faces for name in dir(face)}


def path_of(here):
    """The expression at the beginning of an entry, without a call."""
    return re.match(r"[\w.]+", here)[0]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_stands_for_what_there_is(name):
    assert eval(path_of(NAMES[name]), {"pd": pd}) is not None
    assert name not in pd.__all__ and name not in pd.nn.__all__
    for face in (pd, pd.nn):
        with pytest.raises(AttributeError) as raised:
            getattr(face, name)
        assert str(raised.value).endswith(f" has no {name!r}; here it is {NAMES[name]}")


def test_the_tables_have_no_name_twice():
    assert len(NAMES) == len(FUNCTIONS) + len(OPTIMIZERS) + len(LAYERS)


def test_each_name_is_one_of_theirs():
    assert set(NAMES) <= torch_names() | set(KERAS) | set(PARTS)


def test_each_layer_of_pytorch_is_here_or_has_an_entry():
    torch = pytest.importorskip("torch")
    for name, layer in vars(torch.nn).items():
        if isinstance(layer, type) and issubclass(layer, torch.nn.Module):
            known = [hasattr(pd.nn, name), name in NAMES, name in WITHOUT]
            known[0] = known[0] or name in ("Module", "Container")
            assert sum(known) == 1, f"{name}: {known}"
    for name in KERAS:
        assert name in NAMES or hasattr(pd.nn, name), name


OBJECTS = {
    "x": lambda: pd.Variable(data=np.zeros((2, 3))),
    "layer": lambda: pd.nn.Sequential(pd.nn.FC(3)),
    "optimizer": lambda: pd.AdamOptimizer(),
}
PLACES = [
    *((OBJECTS["x"], name, here) for name, here in VARIABLE.items()),
    *((OBJECTS["layer"], name, here) for name, here in LAYER.items()),
    *((OBJECTS["optimizer"], name, here) for name, here in OPTIMIZER.items()),
]


@pytest.mark.parametrize(("make", "name", "here"), PLACES, ids=[p[1] for p in PLACES])
def test_a_method_stands_for_what_there_is(make, name, here):
    x = make()
    with pytest.raises(AttributeError) as raised:
        getattr(x, name)
    assert str(raised.value) == f"{type(x).__name__} has no {name!r}; here it is {here}"
    assert not hasattr(x, name) and name not in dir(x)
    values = {name: make() for name, make in OBJECTS.items()} | {"y": x}
    path = path_of(here)
    if not here.startswith(f"{path} = "):  # an attribute of the user's
        eval(path, {"pd": pd, **values})


def test_each_method_is_one_of_theirs():
    torch = pytest.importorskip("torch")
    theirs = [torch.Tensor, torch.nn.Module, torch.optim.Optimizer]
    known = {name for cls in theirs for name in dir(cls)} | set(KERAS_METHODS)
    known |= {"add", "submodules", "param_groups", "lr"}  # of objects, and of tf.Module
    assert {*VARIABLE, *LAYER, *OPTIMIZER} <= known


def torch_arguments():
    """The names of arguments of PyTorch's layers, optimizers and functions."""
    torch = pytest.importorskip("torch")
    found = {"lr", "params", "dim", "keepdim", "dims", "unbiased", "requires_grad", "device", "p"}
    classes = [*vars(torch.nn).values(), *vars(torch.optim).values()]
    for cls in classes:
        if inspect.isclass(cls):
            with_signature = inspect.signature(cls).parameters if callable(cls) else ()
            found |= set(with_signature)
    return found


def test_each_argument_is_one_of_theirs():
    assert set(ARGUMENTS) <= torch_arguments() | set(KERAS_ARGUMENTS) | set(OTHER_ARGUMENTS)


def test_each_argument_stands_for_one_that_there_is():
    own = set()
    for face in (pd, pd.nn, pd.layer, pd.training):
        for x in vars(face).values():
            if callable(x) and getattr(x, "__module__", "").startswith("pd_core"):
                try:
                    own |= set(inspect.signature(x).parameters)
                except ValueError:  # of errors
                    continue
    for name, ours in ARGUMENTS.items():
        for word in ours:
            assert word in own or " " in word, f"{name}: {word}"


X = np.ones((2, 3), np.float32)
CALLS = [
    (
        lambda: pd.AdamOptimizer(lr=0.1),
        "AdamOptimizer: no argument 'lr'; it is called learning_",
    ),
    (lambda: pd.AdamWOptimizer(lr=0.1), "AdamWOptimizer: no argument 'lr'; it is called learning_"),
    (lambda: pd.AdamOptimizer(epsilom=1), "AdamOptimizer: no argument 'epsilom'; did you mean eps"),
    (lambda: pd.SGDOptimizer(bogus=1), "SGDOptimizer: no argument 'bogus'; it has learning_rate, "),
    (
        lambda: pd.AdamOptimizer(params=[]),
        "no argument 'params'; the parameters are found from ",
    ),
    (
        lambda: pd.training.StopEarly(restore_best_weights=True),
        "StopEarly: no argument 'restore_best_weights'; it is called restore_best",
    ),
    (lambda: pd.training.SaveBest("f", save_best_only=True), "save_best_only'; SaveBest(path) has"),
    (
        lambda: pd.training.ArrayReader(np.ones(3), num_samples=2),
        "ArrayReader: no argument 'num_samples'; it is called samples",
    ),
    (
        lambda: pd.LossScaler(pd.AdamOptimizer(), init_scale=2.0),
        "LossScaler: no argument 'init_scale'; it is called initial_scale",
    ),
    (lambda: pd.nn.FC(units=3), "FC: no argument 'units'; it is called size"),
    (lambda: pd.nn.LSTM(units=3), "LSTM: no argument 'units'; it is called hidden"),
    (lambda: pd.nn.FC(3, activation="relu"), "FC: no argument 'activation'; it is called act"),
    (
        lambda: pd.nn.FC(in_features=3),
        "FC: no argument 'in_features'; sizes are those of the f",
    ),
    (
        lambda: pd.nn.Conv2d(3, kernel_size=3),
        "Conv2d: no argument 'kernel_size'; it is called k",
    ),
    (lambda: pd.nn.Dropout(p=0.5), "Dropout: no argument 'p'; it is called rate"),
    (lambda: pd.reduce_sum(X, dim=0), "reduce_sum: no argument 'dim'; it is called axis"),
    (
        lambda: pd.ones([2]).sum(keepdim=True),
        "reduce_sum: no argument 'keepdim'; it is called kee",
    ),
    (
        lambda: pd.layer.fc(X, 3, activation="relu"),
        "no argument 'activation'; it is called act",
    ),
    (lambda: Net().fit(X, X, lr=0.1), "fit: no argument 'lr'; the optimizer has the learning_rate"),
    (lambda: Net().compile(loss="mse"), "compile: no argument 'loss'; fit(x, y, optimizer=…, loss"),
]


class Net(pd.nn.Module):
    """A line."""

    def __init__(self):
        super().__init__()
        self.line = pd.nn.FC(3)

    def forward(self, x):
        return self.line(x)


@pytest.mark.parametrize(("call", "text"), CALLS, ids=range(len(CALLS)))
def test_arguments(call, text):
    with pytest.raises(TypeError) as raised:
        call()
    assert text in str(raised.value)


def test_arguments_where_values_are_at_hand():
    with pd.guard():
        x = pd.to_variable(X)
        with pytest.raises(TypeError, match="reduce_mean: no argument 'dim'; it is called axis"):
            x.mean(dim=0)
        assert x.mean(axis=0).numpy().tolist() == [1.0, 1.0, 1.0]


def test_other_type_errors_stay_as_they_are():
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'size'"):
        pd.nn.FC()

    class Own(pd.nn.Layer):
        def __init__(self, **options):
            super().__init__()
            self.options = options

    assert Own(units=3).options == {"units": 3}
    assert list(inspect.signature(Own).parameters) == ["options"]
    assert list(inspect.signature(pd.nn.FC).parameters)[:2] == ["size", "act"]


@pytest.mark.parametrize(
    ("face", "name", "text"),
    [
        (pd, "reduce_summ", "pd has no 'reduce_summ'; did you mean 'reduce_sum'?"),
        (pd, "Sequential", "pd has no 'Sequential'; here it is pd.nn.Sequential"),
        (pd.nn, "dropout", "pd.nn has no 'dropout'; did you mean 'Dropout'?"),
        (pd, "qqqqq", "pd has no 'qqqqq'"),
    ],
)
def test_typos(face, name, text):
    with pytest.raises(AttributeError) as raised:
        getattr(face, name)
    assert str(raised.value) == text
    assert not hasattr(face, "__wrapped__")


def test_users_own_names_come_first():
    class Own(pd.nn.Layer):
        def to(self):
            return "mine"

    layer = Own()
    layer.weights = [1, 2]
    assert (layer.to(), layer.weights) == ("mine", [1, 2])
    with pytest.raises(AttributeError, match="Own has no 'cuda'"):
        layer.cuda()


def test_a_setting_of_theirs_is_not_set_in_vain():
    optimizer, w = pd.AdamOptimizer(), pd.Variable("w", data=X)
    with pytest.raises(AttributeError, match="no 'lr'; here it is optimizer"):
        optimizer.lr = 0.1
    with pytest.raises(AttributeError, match="has no 'requires_grad'; here it is x"):
        w.requires_grad = False


def test_the_text_is_made_when_it_is_asked_for(monkeypatch):
    def fails(*args):
        raise AssertionError

    monkeypatch.setattr(other_words, "_close", fails)
    assert getattr(pd, "reduce_summ", None) is None


def test_item():
    total = pd.reduce_sum(pd.Variable("w", data=X))
    with pytest.raises(TypeError, match="has no number while the graph is built"):
        total.item()
    with pd.guard():
        number = pd.to_variable(X).sum().item()
    assert (number, type(number)) == (6.0, float)
    with pd.guard(), pytest.raises(TypeError, match="has 6 elements and no single number"):
        pd.to_variable(X).item()


def test_tracebacks_end_in_the_line_of_the_user():
    with pytest.raises(TypeError) as raised:
        pd.reduce_sum(X, dim=0)
    assert "it is called axis" in "".join(traceback.format_exception(raised.value))
    assert raised.value.__cause__ is None


def test_the_page_is_fresh():
    path = Path(pd.__file__).parents[1] / "docs" / "other_words.md"
    again = "make it again: python -m pd_core.graph.other_words > docs/other_words.md"
    assert path.read_text(encoding="utf-8") == other_words.page(), again


def test_what_people_look_for_is_found():
    """In the page of words, and in what `help` prints of our classes."""
    page = other_words.page()
    for word in ("BatchNorm", "Linear", "Dense", "CrossEntropyLoss", "lr", "keepdims"):
        assert f"| `{word}` |" in page
    assert "Linear" in pydoc.render_doc(pd.nn.FC) and "Dense" in pydoc.render_doc(pd.nn.FC)
    assert "CrossEntropyLoss" in pydoc.render_doc(pd.nn.SoftmaxCrossEntropy)
    text = pydoc.plain(pydoc.render_doc(pd.nn.BatchNorm2d))
    assert "Batch normalisation" in text and "BatchNorm2d(*, momentum: float = 0.9" in text
    assert "view = <here it is x.reshape(shape)>" in pydoc.plain(pydoc.render_doc(pd.Variable))


def test_a_name_of_another_public_module_is_told():
    """Whatever is public somewhere is found from everywhere: in pd, and in its modules."""
    alike = {*map(str.lower, pd.__all__)}  # these are taken for the names of pd itself
    faces = {name: x for name in pd.__all__ if inspect.ismodule(x := getattr(pd, name))}
    assert {"nn", "training", "schedules", "metrics", "distributions", "layer"} <= {*faces}
    for name, face in faces.items():
        public = getattr(face, "__all__", ["CosineDecay"] if name == "schedules" else ["fc"])
        for each in [n for n in public if n.lower() not in alike and n not in NAMES]:
            with pytest.raises(AttributeError, match=r"; here it is pd\.\w+\.") as caught:
                getattr(pd, each)
            assert path_of(caught.value.here)
        other = faces["metrics" if name == "nn" else "nn"]
        from_there = next(n for n in other.__all__ if not hasattr(face, n))
        for asked, here in (("reshape", "pd."), ("Adam", "pd.AdamOptimizer"), (from_there, "pd.")):
            with pytest.raises(AttributeError, match=re.escape(f"here it is {here}")):
                getattr(face, asked)
