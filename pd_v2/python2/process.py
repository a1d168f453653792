"""Settings of a process that runs a program, and of the processes that it starts."""

import functools
import io
import multiprocessing
import os
import sys
import types
import warnings

import numpy as np

from pd_v2.files import given

STARTUP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "startup")

# Identifies the Python for which `startup.sitecustomize` is active.
VARIABLE = "PD_V2_PYTHON"

_state = types.SimpleNamespace(
    chose_fork=False,  # whether this package has set the start method, not the program
    shares_translation=False,
)


def configure_for(program):
    """Set up the process for a Python 2 Program: how it prints numbers, reads lines, starts others.

    And the files that its functions are given, and its warnings.
    """
    if not program.is_python2:
        return
    from pd_v2.python2.shims.files import File, StandardInput  # the shims import this module

    given.wrap_by(File.wrap)
    if not sys.warnoptions:  # what Python 3 has deprecated; Python 2.7 said nothing of its own
        warnings.filterwarnings("ignore", category=DeprecationWarning)
    np.set_printoptions(legacy="1.13")  # the format of arrays and scalars in 2017
    if type(sys.stdin) is io.TextIOWrapper:
        coding = {"encoding": sys.stdin.encoding, "errors": sys.stdin.errors}
        # no newline translation
        sys.stdin = sys.__stdin__ = StandardInput(sys.stdin.detach(), newline="\n", **coding)
    _start_processes_by_fork()


def _start_processes_by_fork():
    """Let multiprocessing fork, the only method in 2017 on POSIX; functions need no pickle."""
    methods = multiprocessing.get_all_start_methods()
    chosen = multiprocessing.get_start_method(allow_none=True)
    if chosen is None and "fork" in methods and methods[0] != "fork":
        multiprocessing.set_start_method("fork")
        _state.chose_fork = True


def set_start_method(method, force=False):
    """`multiprocessing.set_start_method(...)`, which the program may still call once."""
    multiprocessing.set_start_method(method, force or _state.chose_fork)
    _state.chose_fork = False


def set_lossless_streams():
    """Let stdin and stdout preserve bytes that are not UTF-8, as lone surrogates."""
    for stream in (sys.stdin, sys.stdout):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="surrogateescape")


def share_translation():
    """Let the Python processes that this one starts translate their programs, from now on."""
    _state.shares_translation = True
    os.environ.update(_sharing_variables(os.environ))


def child_environment(environment):
    """Return the environment of a child process, from a mapping or None for this process's."""
    if not _state.shares_translation:
        return environment
    share_translation()  # the program may have set PYTHONPATH
    return environment and {**environment, **_sharing_variables(environment)}


def _sharing_variables(environment):
    path = environment.get("PYTHONPATH")
    entries = path.split(os.pathsep) if path else []
    entries = [STARTUP, *(entry for entry in entries if entry != STARTUP)]
    python = f"{sys.hexversion:x}:{sys.prefix}"
    return {"PYTHONPATH": os.pathsep.join(entries), VARIABLE: python}


def sharing_translation(function):
    """Decorate a function that starts processes, which then translate their programs."""

    @functools.wraps(function)
    def starting(*args, **keywords):
        child_environment(None)
        return function(*args, **keywords)

    return starting
