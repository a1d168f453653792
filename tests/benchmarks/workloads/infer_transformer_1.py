"""Inference of a language model over characters, one sample at a time."""

from tests.benchmarks.models import transformer as model

BATCH = 1

TITLE = f"char transformer, 4 layers of 128, 128 characters, batch {BATCH}"
KIND = "infer"
RTOL = 1e-4
FLOPS = model.flops(BATCH, model.CONTEXT)
ours, pytorch, jax = model.ours, model.pytorch, model.jax


def batches():
    """Return batches of characters [n, T]."""
    return [(ids,) for ids in model.letters(BATCH, model.CONTEXT, 8)]
