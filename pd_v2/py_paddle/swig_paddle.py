"""Options of the process, and the classes behind an event's `gm` and a DataFeeder."""

from .. import settings
from ..arguments import Arguments, IVector, Matrix, Vector
from ..training.gradient_machine import (
    PARAMETER_GRADIENT,
    PARAMETER_VALUE,
    PASS_TEST,
    PASS_TRAIN,
    GradientMachine,
)

__all__ = [
    "PARAMETER_GRADIENT", "PARAMETER_VALUE", "PASS_TEST", "PASS_TRAIN", "Arguments",
    "GradientMachine", "IVector", "Matrix", "Vector", "getTrainerCount", "initPaddle",
    "isGpuVersion", "isUsingGpu", "setUseGpu",
]  # fmt: skip


def initPaddle(*options):
    """Set options written as on a command line: `initPaddle("--use_gpu=false")`."""
    settings.init(**dict(_option(text) for text in options))


def isGpuVersion():
    """Return whether there is a GPU."""
    return settings.gpu_available()


def isUsingGpu():
    """Return whether a GPU is used."""
    return settings.current().use_gpu


def setUseGpu(useGpu):
    """Use a GPU from now on, or the CPU."""
    settings.init(use_gpu=useGpu)


def getTrainerCount():
    """Return the option `trainer_count`."""
    return settings.current().trainer_count


def _option(text):
    name, separator, value = text.removeprefix("--").partition("=")
    if not text.startswith("--") or not separator or not name:
        raise ValueError(f"initPaddle: an option is written --name=value, not {text!r}")
    return name, value
