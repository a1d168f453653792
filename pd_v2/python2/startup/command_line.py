"""Decides from the command line of a starting interpreter whether it runs a part of a program.

It is loaded by its path, before anything of this package is imported.
"""

import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec, spec_from_file_location

_FOLDER = os.path.dirname(os.path.abspath(__file__))

# Modules of the standard library that import and run modules of a program.
_RUNNERS = ("doctest", "unittest")

_SPAWN_CODE = ("multiprocessing.spawn import spawn_main", "multiprocessing.forkserver import main")
_TRACKER_CODE = "multiprocessing.resource_tracker import main"


def startup_action():
    """Return the function to call before the interpreter goes on, or None outside of programs."""
    if not _is_interpreter(sys.orig_argv):
        return None
    options, target, arguments = split(sys.orig_argv, sys.argv)
    if target[0] == "-c" and any(words in target[1] for words in (*_SPAWN_CODE, _TRACKER_CODE)):
        return _do_nothing if _TRACKER_CODE in target[1] else _find_modules
    if _is_of_program(target):
        return lambda: _restart(options, [*target, *arguments])
    return None


def _is_interpreter(command):
    """Return whether Python was started, and not a program that embeds it."""
    return bool(command) and "py" in os.path.basename(command[0]).lower()


def split(command, argv):
    """Split a command into the interpreter's options, its target and the target's arguments.

    The target is [path], ["-m", name], ["-c", text] or ["-"].
    """
    arguments = argv[1:]
    leading = command[1 : len(command) - len(arguments)]
    if argv[0] not in ("-c", "-m"):
        options = leading[:-1] if argv[0] else leading
        return options, [argv[0] or "-"], arguments
    letter = argv[0][1]
    *options, last = leading
    if options and _ends_options(options[-1], letter):
        letters = options.pop()[:-1]
    else:  # -cpass
        letters, _, last = last.partition(letter)
    return options + [letters] * (letters != "-"), [argv[0], last], arguments


def _ends_options(word, letter):
    """Return whether the word after one such as -m or -um is the target."""
    return word[0] == "-" and word[1:2] != "-" and word.find(letter) == len(word) - 1


def _is_of_program(target):
    if target[0] == "-m":
        return target[1] in _RUNNERS or _is_module_of_program(target[1])
    if target[0] in ("-c", "-"):
        return target[0] == "-c" or (sys.stdin is not None and not sys.stdin.isatty())
    return os.path.exists(target[0]) and not _installed().is_command(target[0])


def _is_module_of_program(name):
    top = name.partition(".")[0]
    try:
        spec = PathFinder.find_spec(top, [os.getcwd(), *sys.path])
    except SyntaxError:  # zipimport compiles the source
        return True
    if spec is None:
        return False
    paths = [spec.origin] if spec.has_location else list(spec.submodule_search_locations or [])
    return bool(paths) and not _installed().is_installed(paths[0], name)


def _installed():
    return _loaded("_pd_v2_installed", os.path.join(os.path.dirname(_FOLDER), "installed.py"))


def _loaded(name, path):
    spec = spec_from_file_location(name, path)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _restart(options, target):
    command = [sys.executable, *options, os.path.join(_FOLDER, "launch.py"), *target]
    if os.name == "nt":  # exec would end the process that the program waits for
        import subprocess

        os._exit(subprocess.call(command))  # noqa: S603  itself
    os.execv(sys.executable, command)  # noqa: S606  itself


def _do_nothing():
    """Do nothing: the resource tracker of multiprocessing runs no code of the program."""


def _find_modules():
    _loaded("_pd_v2_launch", os.path.join(_FOLDER, "launch.py")).find_modules()
