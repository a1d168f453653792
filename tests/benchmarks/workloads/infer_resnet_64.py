"""Inference of ResNet-20, in batches."""

from tests.benchmarks.models import resnet as model

BATCH = 64

TITLE = f"ResNet-20, 32 x 32, batch {BATCH}"
KIND = "infer"
RTOL = 1e-4
FLOPS = model.flops(BATCH)
ours, pytorch, jax = model.ours, model.pytorch, model.jax


def batches():
    """Return batches of images [n, 3, 32, 32]."""
    return model.batches(BATCH)
