"""Runner: trainings, tests and inference put together from rings, see `pd_core.training`."""

from pd_core.training import (
    Counter,
    Evaluate,
    Log,
    Progress,
    ReduceRate,
    Resume,
    Runner,
    RunnerContext,
    RunnerItem,
    SaveEvery,
    StopEarly,
    TestEvery,
    runner_of,
)

from .checkpoint import Checkpoint
from .items import Data, Device, Forward, ForwardBackward, Update

__all__ = [
    "Checkpoint",
    "Counter",
    "Data",
    "Device",
    "Evaluate",
    "Forward",
    "ForwardBackward",
    "Log",
    "Progress",
    "ReduceRate",
    "Resume",
    "Runner",
    "RunnerContext",
    "RunnerItem",
    "SaveEvery",
    "StopEarly",
    "TestEvery",
    "Update",
    "runner_of",
]
