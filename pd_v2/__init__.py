"""The 2017 `paddle.v2` API on ONNX Runtime: same names, shapes, numbers and checkpoints."""

# isort: skip_file
# fmt: off
from . import search_path, hash_seed  # before anything else is imported

# isort: split
from . import (
    activation, attr, build, config_base, data_feeder, data_type, dataset, evaluator, event, image,
    inference, layer, master, minibatch, networks, op, optimizer, parameters, plot, pooling, reader,
    runner, settings, topology, trainer,
)
from .inference import infer
from .minibatch import batch
from .runner import Checkpoint
from .settings import init, set_omp_mkl_env_vars

settings.configure_logging()

__all__ = [
    "Checkpoint",
    *("activation", "attr", "batch", "build", "config_base", "data_feeder", "data_type"),
    *("dataset", "evaluator", "event", "image", "infer", "inference", "init", "layer"),
    *("master", "minibatch", "networks", "op", "optimizer", "parameters", "plot", "pooling"),
    *("reader", "runner", "set_omp_mkl_env_vars", "settings", "topology", "trainer"),
]
