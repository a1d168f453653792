"""The command line `python -m pd_v2 check`."""

import argparse
import json
import os

from ..program_name import print_error, program_name
from .report import check


def main(argv):
    """Print the report; return 0 if nothing is lacking, else 1, or 2 if a path does not exist."""
    options = _parser().parse_args(argv)
    missing = [path for path in options.paths if not os.path.lexists(path)]
    if missing:
        print_error(f"there is no {missing[0]!r}", "check")
        return 2
    report = check(options.paths)
    print(json.dumps(report.as_json(), indent=2) if options.json else report.as_text())
    return 0 if report.complete else 1


def _parser():
    parser = argparse.ArgumentParser(
        prog=program_name("check"),
        description="List what programs use of paddle that pd_v2 lacks, without running them.",
        epilog="Exits with 0 if nothing is lacking, with 1 if something is, or a file does not "
        "parse. Keywords that a program collects in a dict are not seen.",
    )
    parser.add_argument(
        "paths", nargs="+", metavar="PATH", help="a program, a notebook, or a folder of them"
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    return parser
