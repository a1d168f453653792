"""Sentiment classification with the 2017 book's LSTM, of texts of 100 words.

The LSTM is that of torch.nn.LSTM: it has no peepholes, and its bias is that of the projection of
the input.
"""

from tests.benchmarks import texts

TITLE = f"text LSTM {texts.HIDDEN}, {texts.LONGEST} words, batch {texts.BATCH}, Adam"
KIND = "train"
RTOL = 1e-4
FLOPS = texts.flops(texts.LONGEST * texts.BATCH)
ours, jax = texts.ours, texts.jax


def batches():
    """Return batches of words of all texts, lengths [n] and labels [n]."""
    return texts.batches(texts.LONGEST)


def pytorch(parameters, compiled):
    """Return the loop of PyTorch, which pads nothing."""
    return texts.pytorch(parameters, compiled, ragged=False)
