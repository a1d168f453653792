"""Metrics of text: perplexity of a language model, BLEU of translations."""

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from ...graph.errors import ShapeError
from .base import Metric, Sums
from .mean import MeanMetric
from .samples import integers, numbers, weights_of

Inputs = Literal["probabilities", "logits", "cross_entropy"]


class Perplexity(MeanMetric):
    """exp of the mean cross entropy per token.

    `inputs` says what predictions are: "probabilities" or "logits" [..., C] of classes, or the
    "cross_entropy" [...] of each token, in nats. Tokens whose label is `ignore_index` do not count.

    Args:
        inputs: "probabilities", "logits" or "cross_entropy".
        ignore_index: the label of tokens that do not count.
        name: the name in logs.

    Raises:
        ValueError: `inputs` is another.
    """

    def __init__(
        self,
        inputs: Inputs = "probabilities",
        ignore_index: int | None = None,
        name: str = "perplexity",
    ):
        kinds = ("probabilities", "logits", "cross_entropy")
        if inputs not in kinds:
            raise ValueError(f"{name}: inputs are {inputs!r}, not one of {kinds}")
        self.inputs, self.ignore_index = inputs, ignore_index
        super().__init__(name, inputs=inputs, ignore_index=ignore_index)

    def update(
        self, prediction: ArrayLike, label: ArrayLike | None = None, weight: ArrayLike | None = None
    ) -> None:
        """Add a batch with labels [...] or [..., 1] and weights of tokens.

        Cross entropies need labels only to find those that are ignored.

        Args:
            prediction: floats [..., C], or [...] of cross entropies.
            label: classes [...] or [..., 1], integers.
            weight: numbers [...], at least 0; 1 by default.

        Raises:
            DTypeError: the prediction, label or weight are no numbers.
            ShapeError: the label does not have the shape of the tokens.
            TypeError: probabilities or logits come without labels.
            ValueError: probabilities do not sum to 1, a label is no class, or a weight negative.
        """
        p = np.atleast_1d(numbers(self.name, "prediction", prediction))
        has_costs = self.inputs == "cross_entropy"
        if label is None:
            if not has_costs:
                raise TypeError(f"{self.name}: {self.inputs} need labels")
            self.add_mean(p, weight)
            return
        y = np.atleast_1d(numbers(self.name, "label", label))
        if has_costs and p.ndim == y.ndim + 1 and p.shape[-1] == 1:
            p = p[..., 0]
        tokens = p.shape if has_costs else p.shape[:-1]
        y = y[..., 0] if y.ndim == len(tokens) + 1 and y.shape[-1] == 1 else y
        if y.shape != tokens:
            raise ShapeError(
                f"{self.name}: {self.inputs} have shape {np.shape(prediction)}, "
                f"label has shape {np.shape(label)}"
            )
        w = weights_of(self.name, weight, tokens)
        used = np.ones(tokens, bool) if w is None else w > 0
        if self.ignore_index is not None:
            used &= y != self.ignore_index
        costs = p[used]
        if not has_costs:
            costs = self._costs(costs, integers(self.name, y[used], p.shape[-1]))
        self.add_mean(costs, None if w is None else w[used])

    def _costs(self, p: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Cross entropies [N] of labels [N], of predictions [N, C]."""
        own = np.take_along_axis(p, y[:, None], 1)[:, 0].astype(np.float64)
        if self.inputs == "logits":
            p = p.astype(np.result_type(p, np.float32), copy=False)  # float16 has too few digits
            with np.errstate(invalid="ignore"):  # an infinite logit: nan
                top = p.max(1)
                sums = np.exp(p - top[:, None]).sum(1, dtype=np.float64)
                return np.log(sums) + top - own
        sums = p.sum(1, dtype=np.float64)
        wrong = (abs(sums - 1) > 0.01) | (p < 0).any(1)
        if wrong.any():
            raise ValueError(
                f"{self.name}: prediction is no distribution, its sum is {sums[wrong][0]:.6g}\n"
                '  hint: Perplexity("logits") takes what softmax is applied to'
            )
        with np.errstate(divide="ignore"):  # probability 0: infinite
            return -np.log(own)

    def result(self) -> float:
        """Return the perplexity, nan before the first token; infinite if it exceeds float64."""
        with np.errstate(over="ignore"):
            return float(np.exp(self.mean()))


class BLEU(Metric):
    """BLEU of a corpus of translations, from 0 to 100 (Papineni et al. 2002), by sacrebleu.

    The options are those of `sacrebleu.BLEU`, and so is the result.

    Args:
        tokenize: the name of a tokenizer.
        lowercase: whether case does not count.
        smooth_method: the name of a method.
        max_ngram_order: the longest n-gram.
        effective_order: whether longer n-grams than there are do not count.
        name: the name in logs.
    """

    def __init__(
        self,
        tokenize: str = "13a",
        lowercase: bool = False,
        smooth_method: str = "exp",
        max_ngram_order: int = 4,
        effective_order: bool = False,
        name: str = "bleu",
    ):
        try:
            from sacrebleu.metrics import BLEU as Scorer
        except ImportError as error:
            raise ImportError(
                f"{name}: the package sacrebleu is missing\n  hint: pip install sacrebleu"
            ) from error
        for given, known in (
            (tokenize, Scorer.TOKENIZERS),
            (smooth_method, Scorer.SMOOTH_DEFAULTS),
        ):
            if given not in known:
                raise ValueError(f"{name}: {given!r} is not one of {', '.join(known)}")
        options: dict[str, Any] = {
            "lowercase": lowercase,
            "max_ngram_order": max_ngram_order,
            "effective_order": effective_order,
        }
        self.smooth_method, self.effective_order = smooth_method, effective_order
        self.max_ngram_order = max_ngram_order
        # Smoothing changes the numbers that are added up, so it has to wait for the result.
        self._scorer = Scorer(tokenize=tokenize, smooth_method="none", **options)
        super().__init__(name, tokenize=tokenize, smooth_method=smooth_method, **options)

    def initial_sums(self) -> Sums:
        """Return the numbers of matching and of all n-grams, and the lengths in tokens."""
        zeros = np.zeros(self.max_ngram_order, np.int64)
        lengths = {"length": np.asarray(0), "reference_length": np.asarray(0)}
        return {"matches": zeros, "ngrams": zeros, **lengths}

    def update(
        self, prediction: Sequence[str], label: Sequence[str | Sequence[str]], weight: None = None
    ) -> None:
        """Add sentences, with a reference each, or a list of several.

        Args:
            prediction: sentences.
            label: a sentence, or a list of several, for each.
            weight: None.
        """
        if weight is not None:
            raise TypeError(f"{self.name}: sentences have no weights")
        if isinstance(prediction, str) or isinstance(label, str):
            raise TypeError(f"{self.name}: prediction and label are lists of sentences, not one")
        references = [[text] if isinstance(text, str) else [*text] for text in label]
        if len(prediction) != len(references):
            raise ShapeError(
                f"{self.name}: {len(prediction)} predictions, {len(references)} labels"
            )
        if not all(references):
            raise ValueError(f"{self.name}: label {references.index([])} is a list of no sentence")
        if not references:
            return
        score = self._scorer.corpus_score([*prediction], [*zip_longest(*references)])
        self.add(
            {
                "matches": np.asarray(score.counts),
                "ngrams": np.asarray(score.totals),
                "length": np.asarray(score.sys_len),
                "reference_length": np.asarray(score.ref_len),
            }
        )

    def result(self) -> float:
        """Return the BLEU, nan before the first sentence."""
        matches, ngrams, length, reference_length = (v.tolist() for v in self.sums.values())
        if not length + reference_length:
            return float("nan")
        score = self._scorer.compute_bleu(
            matches,
            ngrams,
            length,
            reference_length,
            smooth_method=self.smooth_method,
            effective_order=self.effective_order,
            max_ngram_order=self.max_ngram_order,
        )
        return float(score.score)
