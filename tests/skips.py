"""Which tests may be skipped: their reasons, counted at the end, and an exit code for any other.

`python -m pytest --expected-skips` fails if a test was skipped for a reason that is not in
`EXPECTED`: where a comparison has no peer to compare with, nobody sees that it is not made.
"""

import re
from collections import Counter

import pytest

EXPECTED = (
    # other devices and runtimes
    "there is no CUDA device here",
    "PD_TEST_DEVICE names no device",
    "there is no node here",
    "no (onnxruntime-(node|web)|typescript) here",
    "tests in a browser run with PD_BROWSER_TESTS=1",
    "there is no Chromium here",
    "there is no Graphviz here",
    "there is no transformers here",
    "there is no C compiler here",
    "there is no oneDNN here",
    "there are no headers of Python here",
    "there is no compiler of C or C\\+\\+ here",
    "this ONNX Runtime has no shared library to link with",
    "this CPU has no such kernels",
    # programs of 2017, in folders of their own
    "PD_LEGACY(_MODELS)?_DIR names no (folder|checkout)",
    # packages that one demo needs, of the extra `peers`
    "could not import '(aiohttp|dp_accounting)'",
    # packages with which chunks are read from S3
    "could not import '(fsspec|s3fs|moto.server)'",
    # what schedules jobs, and its files
    "could not import '(ray|yaml)'",
    # packages that are large: .ci/run leaves them out
    "could not import '(albumentations|datasets|pandas|tokenizers)'",
    # checks of scikit-learn's estimators
    "pandas is not installed",
    "SCIPY_ARRAY_API is not set",
    # platforms
    "root may write",
    "no (modes on this platform|/proc here)",
    "no (fork|forkserver) on this platform",
    # rows of the tables of ops that are not for every way of running them
    "ties=.all. needs known sizes",
    "random draws, which are others for each example",
)


def reason(report):
    """Return why a test was skipped."""
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")


def unexpected(reasons):
    """Return the reasons that are not on the list."""
    return [text for text in reasons if not any(re.match(e, text) for e in EXPECTED)]


def pytest_addoption(parser):
    """Add the option."""
    text = "fail if a test is skipped for a reason that is not in tests/skips.py"
    parser.addoption("--expected-skips", action="store_true", help=text)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    """Fail after tests that passed, if one of them was skipped for another reason."""
    reporter = session.config.pluginmanager.getplugin("terminalreporter")
    if reporter is None or not session.config.getoption("--expected-skips"):
        return
    if session.exitstatus == 0 and unexpected(map(reason, reporter.stats.get("skipped", []))):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter, config):
    """Print how many tests were skipped, by reason."""
    counts = Counter(map(reason, terminalreporter.stats.get("skipped", [])))
    if not counts or not config.getoption("--expected-skips"):
        return
    terminalreporter.section(f"{sum(counts.values())} skipped")
    for text, count in counts.most_common():
        mark = "  <- not in tests/skips.py" if unexpected([text]) else ""
        terminalreporter.write_line(f"{count:6}  {text}{mark}")
