"""A process that has imported everything, and forks a child for each `python -m pd_v2 …`.

A line on stdin is JSON: arguments, folder, environment, and files that are stdin, stdout and
stderr. A line on stdout is the exit status of the child, as of subprocess.
"""

import gc
import json
import os
import runpy
import sys

import pd_v2.as_paddle  # noqa: F401
from pd_v2 import __main__ as command
from pd_v2 import python2  # noqa: F401


def begun():
    """Fork a child for each line; return its order in a child, and exit at the end of stdin."""
    orders = open(os.dup(0), encoding="utf-8")  # noqa: SIM115  stdin itself is of the children
    while line := orders.readline():
        if not (child := os.fork()):
            orders.close()
            return json.loads(line)
        _, status = os.waitpid(child, 0)
        os.write(1, b"%d\n" % os.waitstatus_to_exitcode(status))
    sys.exit()


def enter(order):
    """Make this process what Python has at its start."""
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["environment"])
    for number, (path, flags) in enumerate(
        zip(order["files"], (os.O_RDONLY, os.O_WRONLY, os.O_WRONLY), strict=True)
    ):
        file = os.open(path, flags)
        os.dup2(file, number)
        os.close(file)
    sys.argv = ["-m", *order["arguments"]]
    sys.orig_argv = [sys.executable, "-m", "pd_v2", *order["arguments"]]


if __name__ == "__main__":
    del sys.modules[command.__name__]  # what it imports stays
    gc.freeze()
    enter(begun())
    runpy._run_module_as_main("pd_v2")  # what `-m` does
