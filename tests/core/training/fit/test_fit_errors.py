"""What Module.fit, evaluate and predict refuse, and how they say it."""

import numpy as np
import pytest

import pd_core as pd


class Linear(pd.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = pd.nn.FC(1)

    def forward(self, x):
        return self.fc(x)


class Stepping(Linear):
    def train_one_batch(self, x, y):
        return pd.reduce_mean(self(x))


OPTIONS = {"optimizer": pd.SGDOptimizer(0.1), "loss": pd.nn.MSE()}
X = np.random.default_rng(0).standard_normal((20, 3)).astype("float32")
Y = X.sum(1, keepdims=True)
NAN = np.where(np.arange(20)[:, None] < 3, np.nan, Y)
WRONG = {
    "no loss": ((X, Y), {"loss": None}, TypeError, r"fit: needs a loss, such as loss=pd\.nn"),
    "no such loss": ((X, Y), {"loss": "mes"}, ValueError, "fit: no loss 'mes'; there are mse, l1"),
    "a loss of Keras": (
        (X, Y),
        {"loss": "mean_squared_error"},
        ValueError,
        "fit: no loss 'mean_squared_error'; here it is mse",
    ),
    "no such optimizer": (
        (X, Y),
        {"optimizer": "Adm"},
        ValueError,
        "fit: there is no optimizer 'Adm', but sgd, momentum, adam, ",
    ),
    "a number as loss": ((X, Y), {"loss": 3}, TypeError, "a function .* -> cost, not 3"),
    "no optimizer": (
        (X, Y),
        {"optimizer": None},
        TypeError,
        "fit: needs an optimizer, .* not None",
    ),
    "metric": ((X, Y), {"metrics": ["acuracy"]}, ValueError, "no metric 'acuracy', but accuracy"),
    "two metrics": ((X, Y), {"metrics": ["mse", "mse"]}, ValueError, "two metrics of one name"),
    "nan": ((X, NAN), {}, ValueError, r"fit: y \(20, 1\) is nan in 3 of 20 samples"),
    "nan of a reader": (([(X, NAN)],), {}, ValueError, r"y \(20, 1\) is nan in 3 of 20"),
    "no y": ((X,), {}, TypeError, r"fit: y is missing, x has the shape \(20, 3\)"),
    "no y of two": (
        ([X, X],),
        {},
        TypeError,
        r"y is missing, x has the shape \(20, 3\), \(20, 3\)",
    ),
    "y of a reader": ((list, Y), {}, TypeError, r"x is a reader of batches \(x, y\), y is"),
    "no samples": ((X[:0], Y[:0]), {}, pd.ShapeError, r"no samples: x \(0, 3\), y \(0, 1\)"),
    "no batches": (([],), {}, ValueError, "fit: the reader gives no batches"),
    "an empty batch": (([(X[:0], Y[:0])],), {}, pd.ShapeError, "there are no samples: x"),
    "lengths": ((X, Y[1:]), {}, pd.ShapeError, r"of samples: x \(20, 3\), y \(19, 1\)"),
    "several lengths": (((X, X[1:]), Y), {}, pd.ShapeError, r"x\[0\] \(20, 3\), x\[1\] \(19, 3\)"),
    "shape of y": (
        (X, np.hstack([Y, Y])),
        {},
        pd.ShapeError,
        r"MSE: .*\[\?, 1\] for targets float32\[\?, 2\]",
    ),
    "ragged": (([[1.0], [1.0, 2.0]], Y[:2]), {}, pd.ShapeError, "fit: x is no array: .*inhomogen"),
    "strings": ((X, [["a"]] * 20), {}, pd.DTypeError, "fit: y holds <U1 values, which are no num"),
    "an iterator": ((iter([(X, Y)]),), {}, TypeError, "an iterable for several passes, not"),
    "a sample": (([(X[0], 1)],), {}, pd.ShapeError, "y is the number 1, the .*\n.* not samples"),
    "samples": (
        ([[(X[0], 1)] * 4],),
        {},
        TypeError,
        r"\(x, y\) or .*not list of 4\n.*stacked",
    ),
    "two samples": (
        ([[(X[0], 1)] * 2],),
        {},
        pd.ShapeError,
        "(?s)x is no array.*, not samples",
    ),
    "an array": (([X],), {}, TypeError, "a batch is .*, not ndarray"),
    "other sizes": (
        ([(X, Y), (X[:, :2], Y)],),
        {},
        pd.ShapeError,
        r"a batch has x \(20, 2\), those before had \(\?, 3\); no graph is for both:\nfc",
    ),
    "other rank": (
        ([(X, Y), (X[:, 0], Y)],),
        {},
        pd.ShapeError,
        r"a batch has x \(20,\), those before had \(\?, 3\)",
    ),
    "other arrays": (
        ([(X, Y), ((X, X), Y)],),
        {},
        TypeError,
        r"x\[0\], x\[1\], y, those .* x, y",
    ),
    "no weights": (
        ([(X, Y, X[:, 0]), (X, Y)],),
        {},
        TypeError,
        "of x, y, those before .* x, y, w",
    ),
    "split of all": ((X, Y), {"validation_split": 1.0}, ValueError, r"is within \(0, 1\), not 1.0"),
    "split of one": ((X, Y), {"validation_split": 0.99}, ValueError, "of 20 samples leaves 0 for"),
    "split of a reader": (([(X, Y)],), {"validation_split": 0.1}, TypeError, "for arrays x and y"),
    "two validations": (
        (X, Y),
        {"validation_split": 0.1, "validation_data": (X, Y)},
        TypeError,
        "validation_split or validation_data, not both",
    ),
    "validation": (
        (X, Y),
        {"validation_data": (X, Y[1:])},
        pd.ShapeError,
        r"fit: validation_data: different numbers of samples: x \(20, 3\), y \(19, 1\)",
    ),
    "inputs of a validation": (
        (X, Y),
        {"validation_data": ((X, X), Y)},
        TypeError,
        "fit: a batch of 3 arrays, not of x, y",
    ),
    "weights of a validation": (
        (X, Y),
        {"validation_data": [(X, Y, X[:, 0])]},
        TypeError,
        "fit: a validation's reader has weights, and the training has none",
    ),
    "class weights": ((X, Y), {"class_weight": {0: 2.0}}, ValueError, r"y is float32 \(20, 1\)"),
    "list of weights": ((X, Y), {"class_weight": [1.0]}, TypeError, r"\{class: weight\}, not \[1"),
    "a negative weight": (
        (X, Y > 0),
        {"class_weight": {1: -2.0}},
        ValueError,
        "weights of 0 or more by class, not 1: -2.0",
    ),
    "number of weights": ((X, Y), {"sample_weight": X[1:, 0]}, pd.ShapeError, r"weight \(19,\)"),
    "rank of weights": (
        (X, Y),
        {"sample_weight": np.ones((20, 1, 1))},
        pd.ShapeError,
        r"fit: weights float32\[\?, 1, 1\] for a loss float32\[\?, 1\]",
    ),
    "weights of a reduced loss": (
        (X, Y),
        {"sample_weight": X[:, 0], "loss": lambda x, y: pd.reduce_mean(x - y)},
        pd.ShapeError,
        "a loss with weights has an element for each sample, reduction='none'",
    ),
    "weights of two": (
        (X, (Y, Y)),
        {"class_weight": {1: 2.0}},
        TypeError,
        "class_weight is for one y, there are 2",
    ),
    "sample weights of a reader": (
        ([(X, Y)],),
        {"sample_weight": X[:, 0]},
        TypeError,
        r"sample_weight is for arrays, a reader gives \(x, y, weights\)",
    ),
    "weights twice": (
        (X, Y[:, 0] > 0),
        {"loss": pd.nn.SoftmaxCrossEntropy(ignore_index=1), "class_weight": {1: 2.0}},
        ValueError,
        "ignore_index of its own",
    ),
    "a callback": ((X, Y), {"callbacks": pd.training.StopEarly()}, TypeError, "a list of items"),
    "a function": ((X, Y), {"callbacks": print}, TypeError, "a list of items"),
    "no callback": ((X, Y), {"callbacks": [3]}, TypeError, "a RunnerItem or a function of the"),
    "a function of more": (
        (X, Y),
        {"callbacks": [lambda context, epoch: None]},
        TypeError,
        r"fit: a callback is called with \(context\); <lambda>\(context, epoch\) does not take",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_named(case):
    data, options, error, text = WRONG[case]
    with pytest.raises(error, match=text):
        Linear().fit(*data, **{**OPTIONS, **options})


def test_what_is_wrong_with_a_step_of_the_module():
    module = Stepping()
    with pytest.raises(TypeError, match="train_one_batch has an optimizer of its own, SGDOpt"):
        module.fit(X, Y, optimizer=pd.SGDOptimizer())
    with pytest.raises(TypeError, match="train_one_batch computes the cost, it takes no weights"):
        module.fit(X, Y, sample_weight=X[:, 0])
    with pytest.raises(TypeError, match="fit: needs a loss"):
        module.fit(X, Y, validation_split=0.5)

    class Wrong(Linear):
        def train_one_batch(self, x, y):
            return self(x)

    with pytest.raises(TypeError, match=r"returns the cost, a scalar, or \(output, cost\), not"):
        Wrong().fit(X, Y)


def test_a_forward_that_looks_at_values_needs_a_step():
    class Looking(Linear):
        def forward(self, x):
            return self.fc(x) if float(pd.reduce_sum(x)) > 0 else self.fc(-x)

    with pytest.raises(TypeError, match="has no number while the graph is built") as found:
        Looking().fit(X, Y, **OPTIONS)
    (note,) = found.value.__notes__
    assert note == "  hint: fit builds a static graph; if forward looks at values, define " + (
        "train_one_batch()"
    )


def test_what_evaluate_and_predict_refuse():
    module = Linear()
    with pytest.raises(TypeError, match="evaluate: needs a loss"):
        module.evaluate(X, Y)
    with pytest.raises(TypeError, match="evaluate: y is missing"):
        module.evaluate(X, loss=pd.nn.MSE())
    with pytest.raises(ValueError, match="evaluate: the reader gives no batches"):
        module.evaluate([], loss=pd.nn.MSE())
    with pytest.raises(pd.ShapeError, match=r"evaluate: there are no samples: x \(0, 3\), y"):
        module.evaluate(X[:0], Y[:0], loss=pd.nn.MSE())
    with pytest.raises(TypeError, match=r"evaluate: a batch is \(x, y\), of arrays"):
        module.evaluate([(X, Y, X)], loss=pd.nn.MSE())
    with pytest.raises(ValueError, match="predict: the reader gives no batches"):
        module.predict(list)
    with pytest.raises(
        TypeError, match=r"a batch has 2 arrays, Linear\.forward\(x\): .*\n.*labels"
    ):
        module.predict([(X, Y)])
    with pytest.raises(pd.ShapeError, match=r"predict: there are no samples: x \(0, 3\)"):
        module.predict(X[:0])
