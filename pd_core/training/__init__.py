"""Long trainings: runners and their items, checkpoints, metrics, logs."""

# isort: skip_file
# fmt: off
from . import metrics
from .average import Average
from .batch_statistics import refresh_batch_norm
from .batches import ArrayReader
from .checkpoint import (
    Checkpoint, CheckpointWarning, newest_checkpoint, read_checkpoint, write_checkpoint,
)
from .context import RunnerContext
from .control import Observe, PruneTrial, ReduceRate, SaveBest, StopEarly
from .data import Data
from .evaluate import Evaluate, TestEvery, TestResult
from .finite import StopAtNaN
from .functions import CallEvery
from .item import RunnerItem
from .items import Counter, Device
from .log import Log, LogWarning
from .progress import Progress
from .report import write_report
from .runner import Runner, runner_of
from .saving import Resume, SaveEvery
from .steps import Forward, ForwardBackward, Step, TrainStep, Update

__all__ = [
    "ArrayReader", "Average", "CallEvery", "Checkpoint", "CheckpointWarning", "Counter", "Data",
    "Device", "Evaluate", "Forward", "ForwardBackward", "Log", "LogWarning", "Observe", "Progress",
    "PruneTrial", "ReduceRate", "Resume", "Runner", "RunnerContext", "RunnerItem", "SaveBest",
    "SaveEvery", "Step", "StopAtNaN", "StopEarly", "TestEvery", "TestResult", "TrainStep", "Update",
    "newest_checkpoint", "read_checkpoint", "refresh_batch_norm", "runner_of", "write_checkpoint",
    "write_report",
]
