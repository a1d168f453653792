"""Inference of LeNet, in batches."""

from tests.benchmarks.models import lenet as model

BATCH = 64

TITLE = f"LeNet, batch {BATCH}"
KIND = "infer"
RTOL = 1e-4
FLOPS = model.flops(BATCH)
ours, pytorch, jax = model.ours, model.pytorch, model.jax


def batches():
    """Return batches of images [n, 1, 28, 28]."""
    return model.batches(BATCH)
