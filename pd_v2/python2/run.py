"""Run a script, a module or a command as Python would have done in 2017.

SystemExit and all other errors propagate. The process belongs to the program afterwards: sys.path,
sys.argv, the main module and sys.excepthook are set for it.
"""

import os
import sys
import types
from importlib.machinery import PathFinder
from importlib.util import find_spec

from pd_v2.python2 import importer, process, sources, tracebacks
from pd_v2.python2.importer import LocalLoader
from pd_v2.python2.shims.printing import finish_line
from pd_v2.python2.translate import parse


def launch(command):
    """Run a command line: ["script.py", …], ["-m", "module", …], ["-c", "text", …] or ["-", …]."""
    if command[0] == "-m":
        run_module(command[1], command[2:])
    elif command[0] == "-c":
        run_text(command[1], "<string>", command[:1] + command[2:])
    elif command[0] == "-":
        run_text(sys.stdin.read(), "<stdin>", command)
    else:
        run(command[0], command[1:])


def run(path, arguments=()):
    """Run a script, or the `__main__` of a folder or zip file, with its arguments in sys.argv."""
    if os.path.isdir(path) or importer.is_zip(path):
        return _run_folder(os.path.abspath(path), [path, *arguments])
    module = _set_up([path, *arguments], os.path.dirname(os.path.realpath(path)))
    module.__file__ = os.path.abspath(path)
    _execute(lambda: sources.load_program(module.__file__), module)


def run_text(text, filename, argv):
    """Run the text of a program."""
    _execute(lambda: parse(text + "\n", filename), _set_up(argv, ""), filename)


def run_module(name, arguments=()):
    """Run a module by its name, with its arguments in sys.argv."""
    module = _set_up(["-m", *arguments], os.getcwd())
    spec = _spec_to_run(name, name)
    sys.argv[0] = spec.origin
    _run_spec(spec, module)


def _run_folder(path, argv):
    """Run the `__main__` of a folder or zip file, which is put first on sys.path."""
    module = _set_up(argv, path)
    if sys.flags.safe_path:
        sys.path.insert(0, path)
    spec = PathFinder.find_spec("__main__", [path])
    if spec is None:
        _fail(f"can't find '__main__' module in {path!r}")
    _run_spec(spec, module)


def _set_up(argv, folder):
    """Set up the process for a program; return its main module."""
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = sys.modules["__mp_main__"] = module  # multiprocessing's name for it
    sys.argv = list(argv)
    if not sys.flags.safe_path:
        sys.path[0] = folder
    importer.install_finder()
    tracebacks.install_excepthook(module)
    process.set_lossless_streams()
    process.share_translation()
    return module


def _spec_to_run(name, requested):
    """Return the spec of a module, or of the `__main__` of a package."""
    try:
        spec = find_spec(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        spec = None
    if spec is None and name != requested:
        _fail(f"No module named {name}; {requested!r} is a package and cannot be directly executed")
    if spec is None:
        _fail(f"No module named {name}")
    if spec.submodule_search_locations is not None:
        return _spec_to_run(f"{name}.__main__", name)
    return spec


def _fail(message):
    """Exit like Python if it cannot find a module to run."""
    print(f"{sys.executable}: {message}", file=sys.stderr)
    sys.exit(1)


def _run_spec(spec, module):
    module.__spec__, module.__loader__, module.__package__ = spec, spec.loader, spec.parent
    module.__file__ = spec.origin
    if isinstance(spec.loader, LocalLoader):
        return _execute(spec.loader.load, module)
    exec(spec.loader.get_code(spec.name), vars(module))  # noqa: S102  the user's program


def _execute(load, module, filename=None):
    program = load()
    process.configure_for(program)
    try:
        importer.execute(program, filename or module.__file__, module)
    finally:
        finish_line()
