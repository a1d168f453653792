"""A plugin of pytest for `kernels`, which lets sanitizers see what fused kernels do.

Every tensor is a block of memory of its own, and small loops are divided into parts, too.
"""

import os
import re

import onnxruntime

from pd_core.backend.fused import build

# Work that is worth another part: in C, and in what writes C.
_FEW_PARTS = re.compile(r"#define (GRAIN|WORTH|LONG|COPIED|SUMMED) [\d.e]+|>= 131072\)")
_SMALL = {"GRAIN": "40", "WORTH": "40", "LONG": "64", "COPIED": "64", "SUMMED": "64"}

os.environ.pop("LD_PRELOAD", None)  # not for compilers and other processes


class SessionOptions(onnxruntime.SessionOptions):
    """Options of sessions that take the memory of each tensor from malloc."""

    def __init__(self) -> None:
        super().__init__()
        self.enable_cpu_mem_arena = False
        onnxruntime.SessionOptions.enable_mem_pattern.fset(self, False)

    @property
    def enable_mem_pattern(self) -> bool:
        """Whether the memory of a run is one block: never."""
        return False

    @enable_mem_pattern.setter
    def enable_mem_pattern(self, on: bool) -> None:
        pass


onnxruntime.SessionOptions = SessionOptions


def _small_parts(text: str) -> str:
    """C with parts of little work."""
    return _FEW_PARTS.sub(lambda m: f"#define {m[1]} {_SMALL[m[1]]}" if m[1] else ">= 64)", text)


if os.environ.get("PD_SMALL_PARTS"):
    _run = build._run

    def _run_small(command, text, given=""):
        if not given and text.exists():
            text.write_text(_small_parts(text.read_text(encoding="utf-8")), encoding="utf-8")
        _run(command, text, _small_parts(given))

    build._run = _run_small
