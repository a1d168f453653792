"""Options of the command line for the trainings of unchanged programs."""

import argparse
import os
import sys
from pathlib import Path

import pd_core as pd
from pd_core.training.precision import PRECISIONS
from pd_v2 import settings
from pd_v2.program_name import program_name
from pd_v2.runner.checkpoint import Checkpoint
from pd_v2.runner.options import Options, set_options

# Options with a value, and without.
VALUES = ("--checkpoint", "--every", "--keep", "--logdir", "--max-restarts", "--workers")
VALUES += ("--monitor", "--patience", "--precision", "--save-best", "--min-workers", "--heartbeat")
VALUES += ("--compression", "--local-steps")
# Those of a job, which its ranks do not get.
OF_JOBS = ("--workers", "--max-restarts", "--min-workers", "--heartbeat")
_HISTOGRAMS_EVERY = 500  # batches
SWITCHES = ("--resume", "--progress", "--check-numerics", "--fused", "--all-output", "--own-files")
SWITCHES += ("--restore-best",)


def add_options(parser):
    """Add the options to a parser of the command line."""
    group = parser.add_argument_group("options of trainings, before the program")
    group.add_argument(
        "--checkpoint",
        metavar="DIR",
        help="write checkpoints of the program's trainings to this folder, after every pass; "
        "SIGTERM writes a last one after the current batch and ends the program",
    )
    group.add_argument("--every", metavar="N", type=positive, help="after every N batches instead")
    group.add_argument(
        "--keep", metavar="N", type=positive, help="how many of them to keep (default: 2)"
    )
    group.add_argument(
        "--resume",
        action="store_true",
        help="go on from the newest whole checkpoint, if there is one: the same command starts a "
        "training and goes on with one that was killed, as if it had not been",
    )
    group.add_argument(
        "--logdir", metavar="DIR", help="write event files for TensorBoard and for the report"
    )
    group.add_argument(
        "--progress", action="store_true", help="show a bar for each pass, on a terminal"
    )
    group.add_argument(
        "--check-numerics",
        action="store_true",
        help="stop at the first operator that makes a NaN or an infinity",
    )
    group.add_argument(
        "--precision",
        choices=list(PRECISIONS),
        help="what products of matrices and convolutions are computed in; parameters, the "
        "optimizer and checkpoints stay float32 (default: float32)",
    )
    group.add_argument(
        "--save-best",
        metavar="FILE",
        help="write the parameters of the best pass so far to this file, a tar for "
        "Parameters.from_tar if it is called .tar, else safetensors; those of a second call of "
        "train to FILE with -2 in its name",
    )
    group.add_argument(
        "--patience",
        metavar="N",
        type=positive,
        help="end a training that got no better in N passes",
    )
    group.add_argument(
        "--restore-best",
        action="store_true",
        help="end each training with the parameters of its best pass",
    )
    group.add_argument(
        "--monitor",
        metavar="METRIC",
        help="what these three watch, such as test/cost: a number of a pass, or with test/ of "
        "trainer.test in its event handler (default: the cost of tests, else that of the pass)",
    )
    group.add_argument(
        "--fused",
        action="store_true",
        help="compile kernels for the program with a C compiler, as PD_FUSE=1 does: steps are "
        "faster, and results differ by rounding",
    )
    group = parser.add_argument_group("options of jobs of several processes, before the program")
    group.add_argument(
        "--workers",
        metavar="N",
        type=positive,
        help="start mpiexec with N processes that train together, each on its slice of every "
        "batch; `mpiexec -n N pd-v2 SCRIPT`, on one machine or on many, is the same",
    )
    group.add_argument(
        "--max-restarts",
        metavar="N",
        type=positive,
        help="start all processes again if one is killed or fails, N times at most, from the "
        "newest checkpoint of --checkpoint DIR",
    )
    group.add_argument(
        "--min-workers",
        metavar="M",
        type=positive,
        help="let a job that fails again before it has written another checkpoint go on with one "
        "process less, down to M",
    )
    group.add_argument(
        "--heartbeat",
        metavar="SECONDS",
        type=seconds,
        help="end a job that makes no progress for so long, as if a process were killed: more than "
        "the longest step, test or checkpoint takes (default: no limit)",
    )
    group.add_argument(
        "--compression",
        choices=["int8", "top_k"],
        help="let less of the gradients travel, for slow networks: integers of 8 bits, or the "
        "largest hundredth; what is lost is added to the next ones",
    )
    group.add_argument(
        "--local-steps",
        metavar="K",
        type=positive,
        help="let each process update with the gradients of its own samples, and average "
        "parameters and the optimizer's state after every K steps, for slow networks (default: 1, "
        "which adds up gradients in every step)",
    )
    group.add_argument(
        "--all-output",
        action="store_true",
        help="show what all processes print to stdout, not only the first",
    )
    group.add_argument(
        "--own-files",
        action="store_true",
        help="let all processes write files, not only the first; without it the others see "
        "what they wrote themselves, in temporary folders",
    )


def without(argv, *names):
    """Return options of trainings without some that have a value."""
    kept, end = [], 0
    while end < len(argv):
        name, equals, _ = argv[end].partition("=")
        width = 2 if name in VALUES and not equals else 1
        kept += argv[end : end + width] if name not in names else []
        end += width
    return kept


def split(argv):
    """Split a command line into its leading options of trainings and the rest."""
    end = 0
    while end < len(argv):
        name, equals, _ = argv[end].partition("=")
        if name in VALUES:
            end += 1 if equals else 2
        elif name in SWITCHES and not equals:
            end += 1
        else:
            break
    return argv[:end], argv[end:]


def check(arguments, parser):
    """End the process, with a message, if the options do not fit together."""
    if arguments.checkpoint is None:
        for name in ("every", "keep", "resume", "max-restarts"):
            if getattr(arguments, name.replace("-", "_")):
                parser.error(f"--{name} needs --checkpoint DIR")
    if arguments.monitor and not _watches(arguments):
        parser.error("--monitor needs --save-best FILE, --patience N or --restore-best")
    if arguments.save_best is not None and Path(arguments.save_best).is_dir():
        parser.error(f"--save-best {arguments.save_best}: it is a folder, and needs a file")
    for name in ("max-restarts", "min-workers", "heartbeat"):
        if getattr(arguments, name.replace("-", "_")) and arguments.workers is None:
            parser.error(
                f"--{name} needs --workers N\n"
                f"  hint: {program_name('restart')} does it for a command, such as mpiexec"
            )
    if arguments.min_workers and not arguments.max_restarts:
        parser.error("--min-workers needs --max-restarts N")
    if arguments.min_workers and arguments.min_workers > arguments.workers:
        parser.error(
            f"--min-workers {arguments.min_workers} is above --workers {arguments.workers}"
        )
    for name in ("compression", "local-steps"):
        is_given = getattr(arguments, name.replace("-", "_")) is not None
        if is_given and arguments.workers is None and not pd.distributed.is_launched():
            parser.error(f"--{name} needs --workers N, or mpiexec")
    if arguments.compression and (arguments.local_steps or 1) > 1:
        parser.error(
            "--compression and --local-steps exclude each other: what travels after local steps "
            "are parameters, of which nothing may be lost"
        )
    if arguments.fused:
        try:
            with pd.fused():
                pass
        except pd.CompilerError as error:
            parser.error(f"--fused: {error}")


def apply(arguments):
    """Set the options of all trainings of this process."""
    for name in ("save_best", "logdir"):  # the program may change its folder
        if getattr(arguments, name):
            setattr(arguments, name, os.path.abspath(getattr(arguments, name)))
    checkpoint = None
    if arguments.checkpoint is not None:
        checkpoint = Checkpoint(
            arguments.checkpoint,
            arguments.every,
            arguments.keep or 2,
            resume=arguments.resume,
            on_sigterm=True,
        )
    set_options(Options(checkpoint, lambda number: _items(arguments, number)))
    if arguments.fused:
        os.environ["PD_FUSE"] = "1"  # of the sessions of this process, and of those that it starts
    if arguments.check_numerics:
        settings.set_flag("check_numerics", True)
    if arguments.precision is not None:
        settings.set_flag("precision", arguments.precision)


def _watches(arguments):
    """Whether an option watches a number of each pass."""
    return bool(arguments.save_best or arguments.patience or arguments.restore_best)


def _items(arguments, number):
    """Return the items of a training: those that show how it goes, and that keep what was best."""
    from pd_core.training import Log, Progress
    from pd_v2.runner.best import SaveBest, StopEarly

    items = [Progress()] if arguments.progress else []
    if arguments.logdir:
        items.append(Log(arguments.logdir, histograms_every=_HISTOGRAMS_EVERY))
    monitor = arguments.monitor
    if arguments.save_best:
        items.append(SaveBest(_numbered(arguments.save_best, number), monitor))
    if arguments.patience or arguments.restore_best:
        patience = arguments.patience or sys.maxsize  # all passes, and then the best of them
        items.append(StopEarly(monitor, patience, restore_best=arguments.restore_best))
    return items


def _numbered(path, number):
    """Return the path of the file of a training; the first has the number 0."""
    path = Path(path)
    return path if not number else path.with_name(f"{path.stem}-{number + 1}{path.suffix}")


def seconds(text):
    """Return the number of seconds that an option has; an error of argparse unless above 0."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0.0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a positive number of seconds")
    return number


def positive(text):
    """Return the number that an option has; an error of argparse unless it is one above 0."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return int(text)
