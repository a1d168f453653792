"""Runner: trainings, tests and inference put together from items, see `pd_core.training`."""

from pd_core.training import (
    CallEvery,
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
    StopAtNaN,
    TestEvery,
    runner_of,
)

from .best import SaveBest, StopEarly
from .checkpoint import Checkpoint
from .items import Data, Forward, ForwardBackward, Update

__all__ = [
    "CallEvery",
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
    "SaveBest",
    "SaveEvery",
    "StopAtNaN",
    "StopEarly",
    "TestEvery",
    "Update",
    "runner_of",
]
