"""`python -m pd_v2 report`: the logs of trainings as one HTML page."""

import argparse
import warnings

from pd_core.training import write_report

from .program_name import print_error, program_name


def main(argv):
    """Write the page and print which runs it shows; errors and damaged records in a line each."""
    options = _options(argv)
    try:
        with warnings.catch_warnings(record=True) as damages:
            warnings.simplefilter("always")
            runs = write_report(options.output, options.logdirs)
    except OSError as error:
        print_error(error, "report")
        return 1
    for damage in damages:
        print_error(damage.message, "report")
    print(f"{options.output}: {', '.join(run.name for run in runs)}")
    return 0


def _options(argv):
    parser = argparse.ArgumentParser(
        prog=program_name("report"),
        description="Write the curves, settings and parameters of trainings as one HTML page, from "
        "the event files that they logged for TensorBoard.",
    )
    parser.add_argument(
        "logdirs", metavar="LOGDIR", nargs="+", help="a folder with event files in it or below"
    )
    parser.add_argument("-o", "--output", default="report.html", help="by default report.html")
    return parser.parse_args(argv)
