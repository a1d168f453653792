"""`python -m pd_v2 script.py args`: runs a script of 2017 as it is; also the command pd-v2.

`python -m pd_v2 export …` writes a network with its parameters as ONNX, `python -m pd_v2 check …`
lists what programs use that pd_v2 lacks.
"""

import argparse
import os
import sys

_NAME = "python -m pd_v2"


def main(argv=None):
    """Run a script, or show its translation. Errors of the script are left to the interpreter."""
    argv = sys.argv[1:] if argv is None else list(argv)
    if argv[:1] == ["export"]:
        return _export(argv[1:])
    if argv[:1] == ["check"]:
        return _check(argv[1:])
    options = _parser().parse_args(argv)
    try:
        open(options.script, "rb").close()
    except OSError as error:
        place = os.path.abspath(options.script)
        reason = f"[Errno {error.errno}] {error.strerror}"
        print(f"{_NAME}: can't open file {place!r}: {reason}", file=sys.stderr)
        return 2
    if options.translate:
        return _show(options.script)
    return _run(options.script, options.arguments)


def _parser():
    parser = argparse.ArgumentParser(
        prog=_NAME,
        description="Run a paddle.v2 script, Python 2 included, on this Python.",
        epilog=f"{_NAME} export --help tells how to write a network as ONNX, and "
        f"{_NAME} check --help how to ask what programs use that pd_v2 lacks.",
    )
    parser.add_argument("script", metavar="SCRIPT", help="the program to run")
    parser.add_argument(
        "arguments", metavar="ARGS", nargs=argparse.REMAINDER, help="the arguments of the program"
    )
    parser.add_argument(
        "--translate", action="store_true", help="print the program as it is run, and do not run it"
    )
    return parser


def _export(argv):
    from pd_v2 import export

    return export.main(argv)


def _check(argv):
    from pd_v2 import check

    return check.main(argv)


def _run(script, arguments):
    import pd_v2.as_paddle  # noqa: F401  the script's names for pd_v2
    from pd_v2.python2 import run

    run(script, arguments)


def _show(script):
    from pd_v2.python2 import read_source, translate

    try:
        print(translate(read_source(script), os.path.abspath(script)), end="")
    except SyntaxError as error:
        sys.excepthook(type(error), error.with_traceback(None), None)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
