"""Translation with attention as in the 2017 book, 20 words to 20 words."""

from tests.benchmarks import sentences

LENGTH = 20

TITLE = f"translation, {LENGTH} words, GRU {sentences.WIDTH}, batch {sentences.BATCH}, Adam"
KIND = "train"
RTOL = 1e-5
FLOPS = sentences.flops(LENGTH * sentences.BATCH, LENGTH * sentences.BATCH)
ours, pytorch, jax = sentences.ours, sentences.pytorch, sentences.jax


def batches():
    """Return batches of (words, lengths) of source and target, and the next words."""
    return sentences.batches(LENGTH, LENGTH)
