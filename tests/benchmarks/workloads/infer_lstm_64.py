"""Inference of a classifier with an LSTM, in batches."""

from tests.benchmarks.models import lstm as model

BATCH = 64

TITLE = f"LSTM 128, 100 words, batch {BATCH}"
KIND = "infer"
RTOL = 1e-4
FLOPS = model.flops(BATCH)
ours, pytorch, jax = model.ours, model.pytorch, model.jax


def batches():
    """Return batches of words [n, 100]."""
    return model.batches(BATCH)
