"""The classifier and the regressor of scikit-learn's interface."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils import column_or_1d, compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets

from .estimator import Estimator

# What makes probabilities of outputs, by the names of losses that take others than logits.
_PROBABILITIES: dict[Any, Callable[[np.ndarray], np.ndarray]] = {
    "cross_entropy": np.asarray,
    "nll": np.exp,
}


@dataclass(eq=False, repr=False, kw_only=True)
class Classifier(ClassifierMixin, Estimator):
    """A network that tells classes apart, with the interface of scikit-learn's classifiers.

    `layer(outputs)` returns a new layer with an output for each class, logits; by default it has
    100 hidden ReLUs. Labels are numbers or texts. `fit` begins with new initial values, which
    `random_state` determines, `partial_fit` and a `fit` with `warm_start` go on. It has a session
    of its own; a copy and a pickle of it hold the values of the layer and the optimizer's state,
    and make the layer again by its function.

    After `fit` there are `classes_`, `n_features_in_`, `n_iter_`, the epochs so far, `history_`,
    their numbers, `loss_`, the last cost, and `layer_`.

    Args:
        layer: a function of the number of outputs that returns a layer.
        loss: a loss of samples, see `Module.fit`; cross entropy of logits if it is None.
        optimizer: a name, or an optimizer, whose settings are copied.
        learning_rate: in the place of the optimizer's, if it is not None.
        epochs: passes of a `fit`.
        batch_size: samples of a step, and of a prediction.
        shuffle: whether each epoch has an order of its own.
        early_stopping: whether a part of the samples is held out, and training ends when their
            cost gets no better; the values of the best epoch stay.
        validation_fraction: the share that is held out.
        n_iter_no_change: epochs without a better cost before the end.
        tol: by how much a cost has to be better.
        callbacks: those of `Module.fit`.
        warm_start: whether `fit` goes on where the last one ended.
        random_state: a seed, a RandomState, or None for another one each time.
        device: one of `pd.devices()`.
        verbose: whether there is a bar for each epoch.
        class_weight: weights {class: weight}, "balanced", or None.
    """

    class_weight: Any = None

    usual_loss = "softmax_cross_entropy"

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Train for one epoch, from where the last fit ended.

        Args:
            X: samples [N, features], or of more axes.
            y: classes [N].
            classes: all classes there will be, with the first call; by default those of y.
            sample_weight: weights [N] of 0 or more.

        Returns:
            The estimator.
        """
        return self._fit(X, y, sample_weight, hasattr(self, "network_"), 1, classes)

    def _targets(self, y: np.ndarray, resumes: bool, classes: ArrayLike | None) -> np.ndarray:
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        if not resumes:
            self.classes_ = np.unique(y if classes is None else np.asarray(classes))
        elif classes is not None and not np.array_equal(self.classes_, np.unique(classes)):
            raise ValueError(f"partial_fit: classes are {self.classes_} since the first call")
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise ValueError(f"y has the classes {unknown}, which are not among {self.classes_}")
        return np.searchsorted(self.classes_, y).astype(np.int64)

    def _outputs(self, targets: np.ndarray) -> int:
        return len(self.classes_)

    def _weights(self, y: np.ndarray, sample_weight: np.ndarray | None) -> np.ndarray | None:
        if self.class_weight is None:
            return sample_weight
        weights = compute_sample_weight(self.class_weight, y)
        return weights if sample_weight is None else weights * sample_weight

    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """Return the probabilities of the classes, in the order of `classes_`.

        Outputs are logits, but for the losses "cross_entropy", of probabilities, and "nll", of
        their logarithms.

        Args:
            X: samples [N, features], or of more axes.

        Returns:
            Floats [N, classes], of the type of X if that is one.
        """
        outputs = self._predicted(X)
        return _PROBABILITIES.get(self.loss, _softmax)(outputs)

    def predict_log_proba(self, X: ArrayLike) -> np.ndarray:
        """Return the logarithms of `predict_proba`, finite where logits tell them.

        Args:
            X: samples [N, features], or of more axes.

        Returns:
            Floats [N, classes], of the type of X if that is one.
        """
        outputs = self._predicted(X)
        if self.loss == "nll":
            return outputs
        if self.loss == "cross_entropy":
            with np.errstate(divide="ignore"):
                return np.log(outputs)
        shifted = outputs - outputs.max(axis=1, keepdims=True)
        logarithms: np.ndarray = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
        return logarithms

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Return the class of the largest output for each sample.

        Args:
            X: samples [N, features], or of more axes.

        Returns:
            Classes [N].
        """
        places = self._predicted(X).argmax(axis=1)
        return self.classes_[places]


def _softmax(outputs):
    exps = np.exp(outputs - outputs.max(axis=1, keepdims=True))
    return exps / exps.sum(axis=1, keepdims=True)


@dataclass(eq=False, repr=False, kw_only=True)
class Regressor(RegressorMixin, Estimator):
    """A network that finds numbers, with the interface of scikit-learn's regressors.

    It is like `Classifier`, with an output for each number of a sample: y is [N], or [N, outputs].

    Args:
        layer: a function of the number of outputs that returns a layer.
        loss: a loss of samples, see `Module.fit`; the mean squared error if it is None.
        optimizer: a name, or an optimizer, whose settings are copied.
        learning_rate: in the place of the optimizer's, if it is not None.
        epochs: passes of a `fit`.
        batch_size: samples of a step, and of a prediction.
        shuffle: whether each epoch has an order of its own.
        early_stopping: whether a part of the samples is held out, and training ends when their
            cost gets no better; the values of the best epoch stay.
        validation_fraction: the share that is held out.
        n_iter_no_change: epochs without a better cost before the end.
        tol: by how much a cost has to be better.
        callbacks: those of `Module.fit`.
        warm_start: whether `fit` goes on where the last one ended.
        random_state: a seed, a RandomState, or None for another one each time.
        device: one of `pd.devices()`.
        verbose: whether there is a bar for each epoch.
    """

    usual_loss = "mse"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def partial_fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Train for one epoch, from where the last fit ended.

        Args:
            X: samples [N, features], or of more axes.
            y: numbers [N] or [N, outputs].
            sample_weight: weights [N] of 0 or more.

        Returns:
            The estimator.
        """
        return self._fit(X, y, sample_weight, hasattr(self, "network_"), 1)

    def _targets(self, y: np.ndarray, resumes: bool, classes: ArrayLike | None) -> np.ndarray:
        self._is_flat = y.ndim == 1
        return y.reshape(len(y), -1).astype(np.float32)

    def _outputs(self, targets: np.ndarray) -> int:
        return targets.shape[1]

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Return the numbers of each sample.

        Args:
            X: samples [N, features], or of more axes.

        Returns:
            Floats [N], or [N, outputs] where y had two axes, of the type of X if that is one.
        """
        outputs = self._predicted(X)
        return outputs[:, 0] if self._is_flat else outputs
