"""What is the same for a whole process that runs a program, and for those that it starts."""

import functools
import multiprocessing
import os
import sys
import types

import numpy as np

STARTUP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "startup")

# In which Python `startup.sitecustomize` has something to do.
VARIABLE = "PD_V2_PYTHON"

_state = types.SimpleNamespace(
    chose_fork=False,  # here, not in the program
    shares=False,
)


def adapt_to(program):
    """Print numbers, read lines and start processes as the Python of a program did."""
    if not program.is_python2:
        return
    np.set_printoptions(legacy="1.13")  # arrays and their elements look as they did
    if hasattr(sys.stdin, "reconfigure"):
        sys.stdin.reconfigure(newline="\n")  # a carriage return is a character
    _start_processes_by_fork()


def _start_processes_by_fork():
    """Make multiprocessing fork, which was the only way on POSIX: functions need no pickle."""
    methods = multiprocessing.get_all_start_methods()
    chosen = multiprocessing.get_start_method(allow_none=True)
    if chosen is None and "fork" in methods and methods[0] != "fork":
        multiprocessing.set_start_method("fork")
        _state.chose_fork = True


def set_start_method(method, force=False):
    """`multiprocessing.set_start_method(...)`, which a program may call once."""
    multiprocessing.set_start_method(method, force or _state.chose_fork)
    _state.chose_fork = False


def let_bytes_through():
    """Text of the program may hold bytes that are no UTF-8, which go out as they came in."""
    for stream in (sys.stdin, sys.stdout):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="surrogateescape")


def share():
    """Let the Python processes that this one starts translate what they run, from now on."""
    _state.shares = True
    os.environ.update(_shared(os.environ))


def sharing(environment):
    """The environment of a process to start: None, for this one's, or a mapping."""
    if not _state.shares:
        return environment
    share()  # the program may have set PYTHONPATH
    return environment and {**environment, **_shared(environment)}


def _shared(environment):
    path = environment.get("PYTHONPATH")
    entries = path.split(os.pathsep) if path else []
    entries = [STARTUP, *(entry for entry in entries if entry != STARTUP)]
    python = f"{sys.hexversion:x}:{sys.prefix}"
    return {"PYTHONPATH": os.pathsep.join(entries), VARIABLE: python}


def with_sharing(function):
    """A function that starts processes, which are to translate what they run."""

    @functools.wraps(function)
    def starting(*args, **keywords):
        sharing(None)
        return function(*args, **keywords)

    return starting
