"""Options of the command line for the trainings of unchanged programs."""

import argparse

from pd_v2 import settings
from pd_v2.runner.checkpoint import Checkpoint
from pd_v2.runner.options import Options, set_options

# Options with a value, and without.
VALUES = ("--checkpoint", "--every", "--keep", "--logdir", "--max-restarts", "--workers")
_HISTOGRAMS_EVERY = 500  # batches
SWITCHES = ("--resume", "--progress", "--check-numerics", "--all-output", "--own-files")


def add_options(parser):
    """Add the options to a parser of the command line."""
    group = parser.add_argument_group("options of trainings, before the program")
    group.add_argument(
        "--checkpoint",
        metavar="DIR",
        help="write checkpoints of the program's trainings to this folder, after every pass; "
        "SIGTERM writes a last one after the current batch and ends the program",
    )
    group.add_argument("--every", metavar="N", type=_positive, help="after every N batches instead")
    group.add_argument(
        "--keep", metavar="N", type=_positive, help="how many of them to keep (default: 2)"
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
    group = parser.add_argument_group("options of jobs of several processes, before the program")
    group.add_argument(
        "--workers",
        metavar="N",
        type=_positive,
        help="start mpiexec with N processes that train together, each on its slice of every "
        "batch; `mpiexec -n N pd-v2 SCRIPT`, on one machine or on many, is the same",
    )
    group.add_argument(
        "--max-restarts",
        metavar="N",
        type=_positive,
        help="start all processes again if one is killed or fails, N times at most, from the "
        "newest checkpoint of --checkpoint DIR",
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


def without(argv, name):
    """Return options of trainings without one that has a value."""
    kept = list(argv)
    while any(argument.partition("=")[0] == name for argument in kept):
        k = next(k for k, argument in enumerate(kept) if argument.partition("=")[0] == name)
        del kept[k : k + (1 if "=" in kept[k] else 2)]
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
    if arguments.max_restarts and arguments.workers is None:
        parser.error("--max-restarts needs --workers N")


def apply(arguments):
    """Set the options of all trainings of this process."""
    checkpoint = None
    if arguments.checkpoint is not None:
        checkpoint = Checkpoint(
            arguments.checkpoint,
            arguments.every,
            arguments.keep or 2,
            resume=arguments.resume,
            on_sigterm=True,
        )
    set_options(Options(checkpoint, lambda: _items(arguments)))
    if arguments.check_numerics:
        settings.set_flag("check_numerics", True)


def _items(arguments):
    """Return the items of a training that show how it goes."""
    from pd_core.training import Log, Progress

    items = [Progress()] if arguments.progress else []
    return (
        [*items, Log(arguments.logdir, histograms_every=_HISTOGRAMS_EVERY)]
        if arguments.logdir
        else items
    )


def _positive(text):
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return int(text)
