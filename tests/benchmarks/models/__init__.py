"""Networks that several workloads share, in pd, PyTorch and JAX."""
