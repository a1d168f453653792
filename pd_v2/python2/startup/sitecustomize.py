"""Makes the Python processes that a program starts translate their programs.

A script, module or command of the program is restarted by `launch`. Children of multiprocessing
only get the finder of its modules. Installed programs, and every other Python that reads this file,
even a Python 2, go on as if it did not exist, and so do their child processes.
"""

import os
import sys

_FOLDER = os.path.dirname(os.path.abspath(__file__))


def _start():
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != _FOLDER]
    action = _startup_action() if _is_same_python() else _clean_environment
    action()
    _run_next_sitecustomize()


def _is_same_python():
    return os.environ.get("PD_V2_PYTHON") == "%x:%s" % (sys.hexversion, sys.prefix)  # noqa: UP031


def _clean_environment():
    """Remove this package from the environment."""
    path = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    path = os.pathsep.join(entry for entry in path if os.path.abspath(entry) != _FOLDER)
    os.environ.pop("PD_V2_PYTHON", None)
    os.environ.pop("PYTHONPATH", None)
    if path:
        os.environ["PYTHONPATH"] = path


def _startup_action():
    """Return the function to call before the interpreter goes on."""
    from importlib.util import module_from_spec, spec_from_file_location

    path = os.path.join(_FOLDER, "command_line.py")
    spec = spec_from_file_location("_pd_v2_command_line", path)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.startup_action() or _clean_environment


def _run_next_sitecustomize():
    """Run the sitecustomize that this one shadows."""
    this = sys.modules.pop("sitecustomize")
    try:
        __import__("sitecustomize")
    except ImportError as error:
        if getattr(error, "name", "sitecustomize") != "sitecustomize":
            raise
        sys.modules["sitecustomize"] = this


_start()
