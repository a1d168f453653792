"""`pd-v2 restart`: a command, such as mpiexec or srun, that is started again if it fails."""

import argparse
import os
import re
import shlex
import shutil
from pathlib import PurePath

from pd_v2.job.supervise import Policy, supervise
from pd_v2.program_name import print_error, program_name
from pd_v2.runner.command_line import positive, seconds

_COUNT = re.compile(r"(-n|-np|--np|--ntasks)(?:=(\d+))?")  # of mpiexec, mpirun and srun
_NO_COMMAND = "there is no command, such as mpiexec -n 4 pd-v2 --checkpoint DIR --resume train.py"


def main(argv):
    """Run a command, and again if it fails; return its exit status."""
    options, parser = _options(argv)
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        parser.error(_NO_COMMAND)
    if shutil.which(command[0]) is None:
        parser.error(f"there is no command {command[0]!r}")
    checkpoint = options.checkpoint or _checkpoint(command)
    if _is_ours(command) and _checkpoint(command) and "--resume" not in command:
        parser.error(
            "the command does not go on from its checkpoints\n"
            f"  hint: {shlex.join(_resuming(command))}"
        )
    place = _place_of_count(command)
    if options.min_workers is not None:
        _check_count(options, command, place, checkpoint, parser)
    workers = 1 if place is None else _count(command, place)
    policy = Policy(
        options.max_restarts, options.min_workers, options.heartbeat, checkpoint, is_local=False
    )

    def with_count(count):
        return command if count == workers else _with_count(command, place, count)

    def line(count):
        return shlex.join([*shlex.split(program_name("restart")), *own, *with_count(count)])

    own = argv[: len(argv) - len(command)]
    try:
        return supervise(
            lambda count, is_again: (with_count(count), dict(os.environ)), line, workers, policy
        )
    except OSError as error:
        print_error(f"{error}", "restart")
        return 1


def _options(argv):
    parser = argparse.ArgumentParser(
        prog=program_name("restart"),
        usage="%(prog)s [-h] [options] COMMAND ...",
        description="Run a command, such as mpiexec or srun, and run it again if it fails. The "
        "command goes on from its newest checkpoint: pd-v2 does with --checkpoint DIR --resume, "
        "a program on pd_core with Resume.",
        allow_abbrev=False,
    )
    parser.add_argument("command", metavar="COMMAND", nargs=argparse.REMAINDER)
    parser.add_argument(
        "--max-restarts",
        metavar="N",
        type=positive,
        default=3,
        help="run it again N times at most (default: 3)",
    )
    parser.add_argument(
        "--heartbeat",
        metavar="SECONDS",
        type=seconds,
        help="end a job that makes no progress for so long: more than the longest step, test or "
        "checkpoint takes (default: no limit). Its ranks call pd.distributed.init, as pd-v2 does",
    )
    parser.add_argument(
        "--checkpoint",
        metavar="DIR",
        help="where the command writes checkpoints, a folder that all machines see (default: that "
        "of --checkpoint in the command)",
    )
    parser.add_argument(
        "--min-workers",
        metavar="M",
        type=positive,
        help="run a command that fails again before it has written another checkpoint with one "
        "process less, down to M: the number of its option -n, -np or --ntasks is changed",
    )
    return parser.parse_args(argv), parser


def _checkpoint(command):
    """The folder of checkpoints that a command line has, or None."""
    for k, argument in enumerate(command):
        name, equals, value = argument.partition("=")
        if name == "--checkpoint":
            return value if equals else next(iter(command[k + 1 :]), None)
    return None


def _is_ours(command):
    return "pd_v2" in command or any(PurePath(a).name == "pd-v2" for a in command)


def _resuming(command):
    k = next(k for k, a in enumerate(command) if a.partition("=")[0] == "--checkpoint")
    return [*command[:k], "--resume", *command[k:]]


def _place_of_count(command):
    """The place of the option of a launcher that says how many processes it starts, or None."""
    for k, argument in enumerate(command[1:], 1):
        found = _COUNT.fullmatch(argument)
        if found and (found[2] or "".join(command[k + 1 : k + 2]).isdecimal()):
            return k
    return None


def _count(command, place):
    return int(_COUNT.fullmatch(command[place])[2] or command[place + 1])


def _with_count(command, place, count):
    name, given = _COUNT.fullmatch(command[place]).groups()
    if given:
        return [*command[:place], f"{name}={count}", *command[place + 1 :]]
    return [*command[: place + 1], str(count), *command[place + 2 :]]


def _check_count(options, command, place, checkpoint, parser):
    if place is None:
        parser.error(f"--min-workers: {command[0]} has no option -n, -np or --ntasks with a number")
    if options.min_workers > _count(command, place):
        parser.error(
            f"--min-workers {options.min_workers} is above {' '.join(command[place : place + 2])}"
        )
    if checkpoint is None:
        parser.error("--min-workers needs --checkpoint DIR")
