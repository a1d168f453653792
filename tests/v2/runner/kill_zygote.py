"""A process that has imported everything and forks a child for each run of a program.

A line on stdin is JSON: the function `main` or `path`, the arguments, and a file for stderr. Lines
on stdout are `pid N` when a child begins, what the child writes, and `ended STATUS`; after the next
line on stdin the number of the process is given back.
"""

import json
import os
import runpy
import sys
import traceback

import pd_v2.as_paddle  # noqa: F401
from pd_core import training  # noqa: F401
from pd_v2 import __main__ as command
from pd_v2 import python2  # noqa: F401


def main():
    with open(os.dup(0), encoding="utf-8") as orders:  # stdin itself is left to the programs
        while line := orders.readline():
            order = json.loads(line)
            child = os.fork()
            if not child:
                _run(order)
            os.write(1, f"pid {child}\n".encode())
            found = os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
            status = found.si_status if found.si_code == os.CLD_EXITED else -found.si_status
            os.write(1, f"ended {status}\n".encode())
            if not orders.readline():  # its number may still be killed until now
                break
            os.waitpid(child, 0)


def _run(order):
    """Run a program and end the process as Python would."""
    status = 1
    try:
        errors = os.open(order["errors"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(errors, 2)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        if order["kind"] == "main":
            command.main(order["arguments"])
        else:
            sys.argv = order["arguments"]
            runpy.run_path(sys.argv[0], run_name="__main__")
        status = 0
    except SystemExit as end:
        status = end.code or 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush(), sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    main()
