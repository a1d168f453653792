"""Runner: trainings, tests and inference put together from items, see `pd_core.training`."""

from pd_core.training import (
    Counter,
    Device,
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
from .items import Data, Forward, ForwardBackward, Update

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
