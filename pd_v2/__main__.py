"""`python -m pd_v2 script.py args`: run an unchanged program of 2017; also the command pd-v2.

`-m module` and `-c text` work as with Python, and so does a folder or zip file with a __main__.py.
Started by mpiexec, it joins the job first, see `pd_v2.job`. `python -m pd_v2 export …` writes a
network with its parameters as ONNX, `python -m pd_v2 check …` lists the names that programs use and
pd_v2 lacks, `python -m pd_v2 report …` writes a page about trainings, `python -m pd_v2 master …`
hands out chunks of data to workers, `python -m pd_v2 restart …` starts a job again that fails.
"""

import argparse
import os
import sys
from importlib import import_module

import pd_core as pd
from pd_core.commands import ends_with_reader
from pd_v2.job import joining, workers
from pd_v2.job.supervise import Policy
from pd_v2.program_name import print_error, program_name
from pd_v2.runner import command_line

_DATA = "pd_v2.dataset.common"

_EPILOG = """\
examples:
  pd-v2 train.py                                  a program with its arguments
  pd-v2 --checkpoint saved --resume train.py      goes on after a kill
  pd-v2 --workers 4 train.py                      on four processes of this machine
  pd-v2 --workers 4 --checkpoint saved --max-restarts 3 train.py
                                                  starts again by itself if one is killed
  mpiexec -n 16 --hostfile hosts pd-v2 train.py   on several machines
  pd-v2 restart --max-restarts 3 mpiexec -n 16 --hostfile hosts \
    pd-v2 --checkpoint saved --resume train.py    and there, too, starts again by itself

other commands:
  pd-v2 export --help   write a network as ONNX
  pd-v2 check --help    list names that programs use and pd_v2 lacks
  pd-v2 report --help   write a page about trainings
  pd-v2 master --help   hand out chunks of data to workers
  pd-v2 restart --help  start a command again that fails, such as mpiexec
"""

# First arguments that are not a script: the module whose main() takes the other arguments.
_SUBCOMMANDS = {
    "check": "pd_v2.check",
    "export": "pd_v2.export",
    "master": "pd_v2.master.command",
    "report": "pd_v2.report",
    "restart": "pd_v2.restart",
}


@ends_with_reader
def main(argv=None):
    """Run a program, or show its translation. Errors of the program are not caught."""
    is_command = argv is None
    argv = sys.argv[1:] if is_command else list(argv)
    if argv and argv[0] in _SUBCOMMANDS:
        return import_module(_SUBCOMMANDS[argv[0]]).main(argv[1:])
    leading, argv = command_line.split(argv)
    if leading and not argv:
        _parser().error("there is no program to train with")
    if is_command:
        joining.share_hash_seed()
    if argv[:1] in (["-m"], ["-c"]) and len(argv) > 1:
        return _launch(argv, leading)
    options = _parser().parse_args(argv)
    if options.script == "-" and not options.translate:
        return _launch(["-", *options.arguments], leading)
    if not _can_open(options.script):
        return 2
    if options.translate:
        return _show(options.script)
    return _launch([options.script, *options.arguments], leading)


class _HelpFormatter(argparse.HelpFormatter):
    """Wraps all text but the examples at the end."""

    def _fill_text(self, text, width, indent):
        return text if text == _EPILOG else super()._fill_text(text, width, indent)


def _parser():
    parser = argparse.ArgumentParser(
        prog=program_name(),
        usage="%(prog)s [-h] [--translate] [options of trainings] "
        "SCRIPT | -m MODULE | -c TEXT [ARGS ...]",
        description="Run a paddle.v2 program, Python 2 included, on this Python.",
        formatter_class=_HelpFormatter,
        epilog=_EPILOG,
    )
    parser.add_argument(
        "script", metavar="SCRIPT", help="a file, or a folder or zip file with a __main__.py"
    )
    parser.add_argument(
        "arguments", metavar="ARGS", nargs=argparse.REMAINDER, help="the arguments of the program"
    )
    parser.add_argument("-m", metavar="MODULE", help="run the module of this name")
    parser.add_argument("-c", metavar="TEXT", help="run this text")
    parser.add_argument(
        "--translate", action="store_true", help="print the script as it is run, and do not run it"
    )
    parser.add_argument("--version", action="version", version=f"pd {pd.__version__}")
    command_line.add_options(parser)
    return parser


def _can_open(path):
    """Return whether a script can be opened; if not, print the error."""
    try:
        if not os.path.isdir(path):
            open(path, "rb").close()
    except OSError as error:
        reason = f"[Errno {error.errno}] {error.strerror}"
        print_error(f"can't open file {os.path.abspath(path)!r}: {reason}")
        return False
    return True


def _launch(command, leading):
    parser = _parser()
    options = parser.parse_args([*leading, "-"])
    command_line.check(options, parser)
    if options.workers is not None:
        own = command_line.without(leading, *command_line.OF_JOBS)
        return _start_workers(options, own, command, parser)
    command_line.apply(options)
    if pd.distributed.is_launched():
        # downloads are for all ranks
        shared = [import_module(_DATA).DATA_HOME]
        joining.join(
            options.all_output,
            options.own_files,
            shared,
            compression=options.compression,
            local_steps=options.local_steps or 1,
        )
    import pd_v2.as_paddle  # noqa: F401  makes `paddle` importable
    from pd_v2.python2 import launch

    launch(command)


def _start_workers(options, leading, command, parser):
    if pd.distributed.is_launched():
        parser.error("--workers starts mpiexec, which has started this process already")
    policy = Policy(
        options.max_restarts or 0, options.min_workers, options.heartbeat, options.checkpoint
    )
    try:
        return workers.start(options.workers, leading, command, policy)
    except ValueError as error:
        parser.error(str(error))


def _show(script):
    from pd_v2.python2 import read_source, translate

    try:
        source = read_source(script)
        translated = translate(source, os.path.abspath(script))
        print(translated, end="", flush=True)
    except SyntaxError as error:
        sys.excepthook(type(error), error.with_traceback(None), None)
        return 1
    if translated != source:
        print_error("to be read, not run: functions and modules of Python 2 exist only in pd-v2")
    return 0


if __name__ == "__main__":
    sys.exit(main())
