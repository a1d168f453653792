"""Base of classifiers and regressors of scikit-learn's interface: settings, training."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from ...layers.containers import Sequential
from ...layers.dense import FC
from ...layers.layer import Layer
from ...optimizers.base import Optimizer
from ..control import StopEarly
from ..fit.criterion import Loss
from ..fit.fitting import Callbacks
from ..fit.history import History
from .network import Factory, Network

_CHECKS = {"dtype": [np.float32, np.float64], "allow_nd": True, "accept_sparse": "csr"}


def hidden_layer(outputs: int) -> Layer:
    """Return the layers of an estimator without others: a hidden one of 100 ReLUs."""
    return Sequential(FC(100, act="relu"), FC(outputs))


@dataclass(eq=False, repr=False, kw_only=True)
class Estimator(BaseEstimator, ABC):
    """Base of the estimators: their settings, training, and the outputs of the layer."""

    layer: Factory | None = field(default=None, kw_only=False)
    loss: Loss | None = None
    optimizer: str | Optimizer = "adam"
    learning_rate: Any = None
    epochs: int = 200
    batch_size: int = 200
    shuffle: bool = True
    early_stopping: bool = False
    validation_fraction: float = 0.1
    n_iter_no_change: int = 10
    tol: float = 0.0
    callbacks: Callbacks = ()
    warm_start: bool = False
    random_state: Any = None
    device: str = "cpu"
    verbose: bool = False

    usual_loss: ClassVar[Loss]  # without another

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # ---- what a subclass defines

    @abstractmethod
    def _targets(self, y: np.ndarray, resumes: bool, classes: ArrayLike | None) -> np.ndarray:
        """Return the array that the loss takes, of checked y; note what predictions need."""

    @abstractmethod
    def _outputs(self, targets: np.ndarray) -> int:
        """Return the number of outputs that the layer has."""

    def _weights(self, y: np.ndarray, sample_weight: np.ndarray | None) -> np.ndarray | None:
        """Return the weights of the samples, those of their classes included."""
        return sample_weight

    # ---- training

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Train on X [N, ...] and y for `epochs`; with `warm_start` from where the last fit ended.

        Args:
            X: samples [N, features], sparse ones too, or of more axes.
            y: classes [N]; numbers [N] or [N, outputs] of a regressor.
            sample_weight: weights [N] of 0 or more.

        Returns:
            The estimator.
        """
        resumes = self.warm_start and hasattr(self, "network_")
        return self._fit(X, y, sample_weight, resumes, self.epochs)

    def _fit(self, X, y, sample_weight, resumes, epochs, classes=None):
        tags, checks = self.__sklearn_tags__(), dict(_CHECKS)
        checks["multi_output"] = tags.target_tags.multi_output
        checks["y_numeric"] = tags.regressor_tags is not None
        x, y = validate_data(self, X, y, reset=not resumes, **checks)
        x = x.astype(np.float32)
        targets = self._targets(y, resumes, classes)
        if sample_weight is not None:
            sample_weight = _check_sample_weight(
                sample_weight, x, dtype=np.float32, ensure_non_negative=True
            )
        weights = self._weights(y, sample_weight)
        if weights is not None:
            weights = _of_mean_one(weights)
        outputs = self._outputs(targets)
        if resumes and outputs != self.network_.outputs:
            raise ValueError(f"y has {outputs} outputs, before it had {self.network_.outputs}")
        if not resumes:
            seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
            self.network_: Network = Network(
                self.layer or hidden_layer,
                outputs,
                x.shape[1:],
                self.optimizer,
                self.learning_rate,
                seed,
                self.device,
            )
        history = self._trained(x, targets, weights, epochs)
        self.n_iter_ = self.network_.epochs
        self.loss_ = history["cost"][-1]
        self.history_ = history
        return self

    def _trained(self, x, targets, weights, epochs) -> History:
        callbacks, validation = list(self.callbacks), None
        if self.early_stopping:
            stratify = targets if targets.dtype.kind == "i" else None
            rows, held_out = train_test_split(
                np.arange(x.shape[0]),
                test_size=self.validation_fraction,
                random_state=self.network_.seed,
                stratify=stratify,
            )
            validation = x[held_out], targets[held_out]
            x, targets = x[rows], targets[rows]
            weights = None if weights is None else weights[rows]
            patience = self.n_iter_no_change
            callbacks.append(StopEarly("val_cost", patience, min_delta=self.tol, restore_best=True))
        return self.network_.fit(
            x,
            targets,
            loss=self.loss or self.usual_loss,
            epochs=epochs,
            batch_size=self.batch_size,
            shuffle=self.shuffle,
            sample_weight=weights,
            validation_data=validation,
            callbacks=callbacks,
            verbose=self.verbose,
        )

    def _predicted(self, X: ArrayLike) -> np.ndarray:
        """Return the outputs of the layer [N, outputs], in the float type of X."""
        check_is_fitted(self)
        x = validate_data(self, X, reset=False, **_CHECKS)
        outputs = self.network_.predict(x.astype(np.float32), self.batch_size)
        return outputs.astype(x.dtype)

    @property
    def layer_(self) -> Layer:
        """A copy of the trained layer for any session, to be exported or put into a network."""
        check_is_fitted(self)
        return self.network_.layer


def _of_mean_one(weights):
    """Weights in the same proportions, so that the cost is a mean; ValueError if all are 0."""
    total = weights.sum()
    if not total > 0:
        raise ValueError("sample_weight: all weights of the samples, or of their classes, are 0")
    return (weights * (len(weights) / total)).astype(np.float32)
