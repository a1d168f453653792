"""`python -m pd_core`: the command line."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence

import onnx

from ..backend.installed import ONNX_RUNTIME
from ..graph.errors import (
    BackendError,
    CompilerError,
    DamagedFile,
    ExportError,
    FeedError,
    GraphError,
    ModelError,
)
from ..run.session import fresh
from ..version import __version__
from . import artifacts, check, export, finetune, info, train_step
from .pipes import ends_with_reader

PROGRAM = "python -m pd_core"
_COMMANDS = (info, check, train_step, artifacts, finetune, export)
_MISTAKES = (
    *(BackendError, CompilerError, DamagedFile, ExportError, FeedError, GraphError, ModelError),
    *(OSError, TypeError, ValueError),
)
_EPILOG = """\
examples:
  python -m pd_core info model.onnx
  python -m pd_core check model.onnx
  python -m pd_core finetune model.onnx data.npz -o tuned.onnx --loss cross-entropy --epochs 3
  python -m pd_core finetune model.onnx data.npz -o tuned.onnx --lora 8 --target '*attn*'
  python -m pd_core finetune model.onnx data.npz -o tuned.onnx --qat --lr 1e-4
  python -m pd_core train-step model.onnx -o step.onnx --loss mse --optimizer adamw
  python -m pd_core artifacts model.onnx -o folder --loss cross-entropy
  python -m pd_core export model.onnx state.npz -o tuned.onnx

data.npz has one array for each input of the model, by its name, and one called `label`; the first
axis is the samples: numpy.savez("data.npz", images=images, label=labels). Each command has a
--help of its own.

exit codes: 0 done, 1 `check` found a parameter without a gradient, 2 a mistake, told in one line
"""


@ends_with_reader
def main(argv: Sequence[str] | None = None) -> int | None:
    """Run a command; return its exit code. A mistake is one line on stderr, and the code 2."""
    options = _parser().parse_args(argv)
    run: Callable[[argparse.Namespace], int] = options.run
    try:
        with fresh(seed=getattr(options, "seed", 0)):
            return run(options)
    except BrokenPipeError:
        raise
    except _MISTAKES as error:
        print(
            f"{PROGRAM} {options.command}: error: {_in_one_line(error, options)}", file=sys.stderr
        )
        return 2


def _in_one_line(error, options):
    """Return the text of an error in one line: its first one, and its hint if there is one.

    It begins with the option that had the value or the file which the error names.
    """
    if isinstance(error, OSError) and error.filename is not None:
        given = {os.path.abspath(v): v for v in _texts(options)}  # callbacks make paths absolute
        filename = given.get(str(error.filename), error.filename)
        names = _options_with(options, lambda value: value == filename)
        return " ".join([*names, f"{filename}: {error.strerror}"])
    lines = str(error).splitlines() or [type(error).__name__]
    hints = [line.strip() for line in lines[1:] if line.strip().startswith("hint:")]
    names = _options_with(options, lambda value: repr(value) in lines[0])
    return " ".join([*names, lines[0], *(f"({hint})" for hint in hints)])


def _options_with(options, fits):
    """Return the first option with a text that fits, as `--freeze:`, in a list; or none."""
    for name, value in vars(options).items():
        is_option = name not in ("command", "data", "model", "run", "values")
        if is_option and any(map(fits, _texts_of(value))):
            return [f"-{name}:" if len(name) == 1 else f"--{name.replace('_', '-')}:"]
    return []


def _texts(options):
    return [text for value in vars(options).values() for text in _texts_of(value)]


def _texts_of(value):
    return [v for v in (value if isinstance(value, list) else [value]) if isinstance(v, str)]


def _parser():
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Inspect, train and fine-tune ONNX models on stock ONNX Runtime.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=_EPILOG,
    )
    parser.add_argument("--version", action="version", version=_versions())
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for module in _COMMANDS:
        text = module.__doc__ or ""
        command = commands.add_parser(
            module.NAME,
            help=text.splitlines()[0],
            description=text,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_options(command)
        command.set_defaults(run=module.run)
    return parser


def _versions():
    return f"pd {__version__}, onnx {onnx.__version__}, onnxruntime {ONNX_RUNTIME}"
