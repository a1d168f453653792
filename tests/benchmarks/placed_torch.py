"""PyTorch whose tensors from numpy are on a GPU; imported first in a contender's process.

The workloads make parameters and batches by `torch.from_numpy`, and the rest where it is made by
default. A step ends with the loss on
the host, so that its time includes all kernels.
"""

import os

import torch

DEVICE = os.environ["PD_BENCHMARK_DEVICE"]
__version__ = f"{torch.__version__} on {torch.cuda.get_device_name(DEVICE)}"

torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False  # as in pd
torch.set_default_device(DEVICE)
_on_host = torch.from_numpy
torch.from_numpy = lambda array: _on_host(array).to(DEVICE)
