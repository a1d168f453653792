"""The C compiler of this machine, and what tells one result of it from another."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from ...graph.errors import CompilerError

_NAMES = ("cc", "gcc", "clang")
_INSTALL = "install one, or python -m pip install 'pd-onnx[fast]', or name one in PD_CC"
# Rounding is that of the C source: no -ffast-math, and no products and sums in one instruction,
# which would make an element's value depend on whether a loop's vector part or its rest has it.
# -O1 vectorizes the loops that are marked for it. -O3 takes 1.7 times as long, for kernels that ran
# no faster in any of four training steps. What newer compilers refuse is an error with all of them.
FLAGS = (
    *("-O1", "-std=gnu11", "-fvisibility=hidden", "-fwrapv", "-fno-math-errno"),
    *("-fno-trapping-math", "-ffp-contract=off", "-fno-sanitize=all", "-fopenmp-simd"),
    *("-Werror=implicit-function-declaration", "-Werror=incompatible-pointer-types"),
    *("-Werror=int-conversion", "-Werror=return-type"),
)


@dataclass(frozen=True)
class Compiler:
    """A command that takes the arguments of a C compiler; `identity` differs between versions.

    `options` are those at the end of `PD_CC`: they come after all of ours, so they have the last
    word, as `-O0` has, or what sanitizers need.
    """

    command: tuple[str, ...]
    identity: str
    options: tuple[str, ...] = ()

    def __str__(self) -> str:
        return shlex.join([*self.command, *self.options])


def compiler() -> Compiler:
    """Return the C compiler: `PD_CC`, cc, gcc, clang, or that of the package ziglang.

    Raises CompilerError, which says what to install, if there is none.
    """
    found, why = _found(os.environ.get("PD_CC", ""), os.environ.get("PATH", ""))
    if found is None:
        raise CompilerError(f"{why}\n  hint: {_INSTALL}")
    return found


def why_not() -> str:
    """Return one line that says why nothing can be compiled here; empty if it can."""
    found, why = _found(os.environ.get("PD_CC", ""), os.environ.get("PATH", ""))
    return "" if found is not None else f"{why}: {_INSTALL}"


def available() -> bool:
    """Return whether there is a C compiler."""
    return not why_not()


@cache
def _found(named: str, path: str) -> tuple[Compiler | None, str]:
    """The compiler, or None and why there is none."""
    if named:
        command = shlex.split(named, posix=os.name == "posix")
        program = shutil.which(command[0], path=path) if command else None
        if program is None:
            return None, f"PD_CC={named!r} is no command"
        if command[1:]:
            return _asked(command)
        return Compiler((program,), _stamp(program)), ""
    for name in _NAMES:
        program = shutil.which(name, path=path)
        if program is not None:
            return Compiler((program,), _stamp(program)), ""
    spec = find_spec("ziglang")
    if spec is None or not spec.submodule_search_locations:
        return None, f"there is no C compiler ({', '.join(_NAMES)} or the package ziglang)"
    folder = next(iter(spec.submodule_search_locations))
    zig = Path(folder, "zig.exe" if os.name == "nt" else "zig")
    return Compiler((sys.executable, "-m", "ziglang", "cc"), _stamp(zig)), ""


def _asked(command: Sequence[str]) -> tuple[Compiler | None, str]:
    """The compiler of a command of several words, whose first one tells nothing of its version."""
    asked = [*command, "--version"]
    try:
        done = subprocess.run(asked, capture_output=True, text=True, errors="replace")  # noqa: S603
    except OSError as error:
        return None, f"PD_CC: {error}"
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        return None, f"PD_CC: {shlex.join(asked)} failed: {''.join(last) or done.returncode}"
    count = len(command)
    while command[count - 1].startswith("-"):  # the first word is the program
        count -= 1
    return Compiler(tuple(command[:count]), done.stdout, tuple(command[count:])), ""


def _stamp(path: str | Path) -> str:
    """A fingerprint of an executable: its path, size and time of change.

    Asking it for its version takes 5 ms.
    """
    real = os.path.realpath(path)
    status = os.stat(real)
    return f"{real} {status.st_size} {status.st_mtime_ns}"


def machine_flags() -> tuple[str, ...]:
    """Return the flags for this processor and system."""
    native = "-mcpu=native" if machine() in ("aarch64", "arm64") else "-march=native"
    return (native,) if os.name == "nt" else (native, "-fPIC")


def suffix() -> str:
    """Return the end of the names of shared libraries."""
    return {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")


def machine() -> str:
    """Return the architecture, such as x86_64."""
    if hasattr(os, "uname"):
        return os.uname().machine
    return os.environ.get("PROCESSOR_ARCHITECTURE", "")


@cache
def processor() -> str:
    """Return what the flags of `machine_flags` stand for here.

    A library for other instructions must not be loaded, be it from a home folder that several
    machines share.
    """
    named = [sys.platform, machine(), os.environ.get("PROCESSOR_IDENTIFIER", "")]
    if hasattr(os, "confstr") and "CS_GNU_LIBC_VERSION" in os.confstr_names:
        named.append(os.confstr("CS_GNU_LIBC_VERSION") or "")
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                if not line.strip():  # the end of the first of the processors
                    break
                key = line.partition(":")[0].strip().lower()
                if key in ("flags", "features", "model", "model name", "cpu family") or (
                    key.startswith("cpu ") and key != "cpu mhz"
                ):
                    named.append(line.strip())
    except OSError:
        pass  # not Linux
    return "\n".join(named)
