"""Parts of a training step: batches, the gradient machine, layer outputs."""
