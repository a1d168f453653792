"""Translation with attention as in the 2017 book, 5 to 35 words, which PyTorch and JAX pad."""

from tests.benchmarks import sentences

SHORTEST, LONGEST = 5, 35

TITLE = (
    f"translation, {SHORTEST} to {LONGEST} words, GRU {sentences.WIDTH}, "
    f"batch {sentences.BATCH}, Adam"
)
KIND = "train"
RTOL = 1e-5
FLOPS = None  # as many as there are words
ours, pytorch, jax = sentences.ours, sentences.pytorch, sentences.jax


def batches():
    """Return batches of (words, lengths) of source and target, and the next words."""
    return sentences.batches(SHORTEST, LONGEST)
