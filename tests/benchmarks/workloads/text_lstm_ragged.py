"""Sentiment classification with the 2017 book's LSTM, of texts of 5 to 100 words.

PyTorch and JAX pad the texts and mask the padding, which takes less than half the time of packed
sequences in PyTorch.
"""

from tests.benchmarks import texts

SHORTEST = 5

TITLE = f"text LSTM {texts.HIDDEN}, {SHORTEST} to {texts.LONGEST} words, batch {texts.BATCH}, Adam"
KIND = "train"
RTOL = 1e-4
FLOPS = None  # as many as there are words
ours, jax = texts.ours, texts.jax


def batches():
    """Return batches of words of all texts, lengths [n] and labels [n]."""
    return texts.batches(SHORTEST)


def pytorch(parameters, compiled):
    """Return the loop of PyTorch, which masks the padding."""
    return texts.pytorch(parameters, compiled, ragged=True)
