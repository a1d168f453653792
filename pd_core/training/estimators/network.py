"""The network of an estimator: a layer with values of its own, which can be copied and pickled."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import numpy as np
from scipy.sparse import issparse

from ...graph.errors import ShapeError
from ...graph.names import fresh_names
from ...graph.variable import Variable, describe
from ...layers.layer import Layer
from ...optimizers.base import Optimizer
from ...optimizers.named import optimizer_named
from ...run.session import Session, default_session
from ..batches import ArrayReader
from ..fit.history import History
from ..module import Module

Factory = Callable[[int], Layer]  # number of outputs -> layer
Arrays = dict[str, np.ndarray]


class _Whole(Module):
    """A layer as a module of so many outputs."""

    def __init__(self, layer: Layer, outputs: int):
        super().__init__("network")
        self.layer, self.outputs = layer, outputs

    def forward(self, x: Any) -> Any:
        y = self.layer(x)
        if not isinstance(y, Variable) or y.rank != 2 or y.shape[1] not in (None, self.outputs):
            raise ShapeError(
                f"layer: returns {y!r} for {describe(x)}, not [N, {self.outputs}], an output for "
                "each class or target"
            )
        return y


class Dense:
    """A reader of dense batches of a sparse matrix and arrays beside it, or of the matrix alone."""

    def __init__(self, batch_size: int, x: Any, *others: np.ndarray, **options: Any):
        self.x, self.others = x, others
        self.rows = ArrayReader(np.arange(x.shape[0]), batch_size=batch_size, **options)

    def __call__(self) -> Iterator[Any]:
        for (rows,) in self.rows():
            x = self.x[rows].toarray()
            yield (x, *[a[rows] for a in self.others]) if self.others else x


class Network:
    """A layer and its optimizer in a session of their own, whatever session is in force.

    What is copied and pickled are arrays: those of the layer and of the optimizer's state. The
    layer is made again by its factory when it is used, so the factory has to be picklable.

    Args:
        make: a function that returns a new layer for a number of outputs.
        outputs: that number.
        shape: that of the inputs without the samples.
        optimizer: the name of an optimizer, or one.
        learning_rate: in the place of the optimizer's, unless it is None.
        seed: of initial values, draws and the order of samples.
        device: of the session.
    """

    def __init__(
        self,
        make: Factory,
        outputs: int,
        shape: Sequence[int],
        optimizer: str | Optimizer,
        learning_rate: Any = None,
        seed: int = 0,
        device: str = "cpu",
    ):
        self.make, self.outputs, self.shape = make, outputs, tuple(shape)
        self.optimizer = _own_optimizer(optimizer, learning_rate)
        self.seed, self.device = seed, device
        self.epochs = 0  # that were trained
        self._values: tuple[Arrays, Arrays, Counter[int]] | None = None
        self._live: tuple[Session, Module] | None = None
        self._copy: Layer | None = None

    @contextmanager
    def _module(self):
        """The module in a `with`, in which its session and names of its own are in force."""
        if self._live is None:
            session = Session(self.device, self.seed)
            with fresh_names(), session:
                module = self._made()
                if self._values is not None:
                    values, state, draws = self._values
                    module.load_dict(values)
                    self.optimizer.load_state(state)
                    session.draws = draws
            self._live, self._values = (session, module), None
        session, module = self._live
        with fresh_names(), session:
            yield module

    def _made(self):
        """A new module, with parameters for the shape."""
        if isinstance(self.make, Layer) or not callable(self.make):
            raise _no_factory(f"not {self.make!r}")
        layer = self.make(self.outputs)
        if not isinstance(layer, Layer):
            raise _no_factory(f"this one returns {layer!r}")
        module = _Whole(layer, self.outputs)
        module.compile([(None, *self.shape)])
        return module

    @property
    def layer(self) -> Layer:
        """A copy of the trained layer, the same until the next `fit`.

        Its initial values, in whatever session, are the trained ones.
        """
        if self._copy is None:
            with self._module() as module:
                session = default_session()
            with session:  # and the names of the caller
                self._copy = deepcopy(module.layer)
        return self._copy

    def fit(self, x: np.ndarray, y: np.ndarray, **options: Any) -> History:
        """Train by `Module.fit`, with its options; return the numbers of each epoch.

        x may be a sparse matrix [N, features], whose batches are made dense.
        """
        self._copy, seed = None, self.seed + self.epochs
        validation = options.get("validation_data")
        if validation is not None and issparse(validation[0]):
            options["validation_data"] = Dense(options["batch_size"], *validation)
        data: tuple[Any, ...] = x, y
        if not issparse(x):
            options["seed"] = seed
        else:  # a reader has an order of its own
            names = ("batch_size", "shuffle", "sample_weight")
            batch_size, shuffle, weights = (options.pop(name) for name in names)
            columns = [x, y] if weights is None else [x, y, weights]
            data = (Dense(batch_size, *columns, shuffle=shuffle, seed=seed),)
        with self._module() as module:
            history = module.fit(*data, optimizer=self.optimizer, **options)
        self.epochs += history.epochs
        return history

    def predict(self, x: np.ndarray, batch_size: int) -> np.ndarray:
        """Return the outputs [N, outputs] in evaluation mode."""
        with self._module() as module:
            if issparse(x):
                outputs: np.ndarray = module.predict(Dense(batch_size, x))
            else:
                outputs = module.predict(x, batch_size=batch_size)
        return outputs

    def __getstate__(self) -> dict[str, Any]:
        values = self._values
        if self._live is not None:
            session, module = self._live
            with session:
                state, draws = self.optimizer.state(), Counter(session.draws)
                values = module.state_dict(), state, draws
        return {**vars(self), "_live": None, "_copy": None, "_values": values}


def _own_optimizer(optimizer, learning_rate):
    """A new optimizer of a name, or a copy of one, with a learning rate."""
    if not isinstance(optimizer, (str, Optimizer)):
        raise TypeError(f"optimizer: a name such as 'adam', or an optimizer, not {optimizer!r}")
    if isinstance(optimizer, str):
        own = optimizer_named("optimizer", optimizer)
    else:
        own = deepcopy(optimizer)
    if learning_rate is not None:
        own.learning_rate = learning_rate
    return own


def _no_factory(text):
    return TypeError(
        f"layer: is a function of the number of outputs that returns a new layer; {text}\n"
        "  hint: layer=lambda outputs: pd.nn.FC(outputs)"
    )
