"""`python -m tests.benchmarks`: training and inference in pd, PyTorch and JAX, side by side."""
