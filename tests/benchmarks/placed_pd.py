"""pd on the device that PD_BENCHMARK_DEVICE names; imported first in a contender's process."""

import os

import onnxruntime

import pd_core as pd

pd.use_device(os.environ["PD_BENCHMARK_DEVICE"])
__version__ = f"{pd.__version__} on ONNX Runtime {onnxruntime.__version__}"
