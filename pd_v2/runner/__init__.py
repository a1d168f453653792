"""Runner: trainings, tests and inference put together from rings, see `pd_core.training`."""

from pd_core.training import (
    Counter,
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
    "Forward",
    "ForwardBackward",
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
