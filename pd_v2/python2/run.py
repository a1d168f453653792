"""Run a script as `python script args` would have done in 2017."""

import os
import sys
import types

import numpy as np

from pd_v2.python2 import importer, sources, tracebacks
from pd_v2.python2.shims.printing import finish_line


def run(path, arguments=()):
    """Run a script as the main module of this process, with its arguments in sys.argv.

    SystemExit and every other error leave it as they would leave the script. The process is the
    script's afterwards: sys.path, sys.argv, the main module and how errors are shown.
    """
    filename = os.path.abspath(path)
    module = _main_module(filename)
    sys.argv = [path, *arguments]
    folder = os.path.dirname(os.path.realpath(path))
    if not sys.flags.safe_path:
        sys.path[0] = folder
    importer.install_finder(folder)
    tracebacks.show_as_of(module)
    _let_bytes_through()
    program = sources.load_program(filename)
    if program.is_python2:
        np.set_printoptions(legacy="1.13")  # arrays and their elements look as they did
        if hasattr(sys.stdin, "reconfigure"):
            sys.stdin.reconfigure(newline="\n")  # a carriage return is a character
    try:
        importer.execute(program, filename, module)
    finally:
        finish_line()


def _main_module(filename):
    module = types.ModuleType("__main__")
    module.__file__ = filename
    sys.modules["__main__"] = module
    return module


def _let_bytes_through():
    """Text of the program may hold bytes that are no UTF-8, which go out as they came in."""
    for stream in (sys.stdin, sys.stdout):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="surrogateescape")
