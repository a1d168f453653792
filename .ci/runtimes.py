"""Fail if a package other than pd needs or brings a runtime that pd-onnx-cpu does not have.

    python .ci/runtimes.py REPORT

Looks at all packages of this environment, and at those that pip would install by its REPORT.
"""

import json
import re
import sys
from importlib.metadata import distributions
from pathlib import Path

OTHER = re.compile(r"onnxruntime[-_.]")  # such as onnxruntime-gpu
OURS = "pd-onnx", "pd-onnx-cpu"


def main(path):
    """Exit with what was found, if anything was."""
    needs = [(package.name, package.requires) for package in distributions()]
    brought = [each["metadata"] for each in json.loads(Path(path).read_text("utf-8"))["install"]]
    needs += [(package["name"], package.get("requires_dist")) for package in brought]
    found = [
        f"{name} needs {needed}"
        for name, all_needed in needs
        for needed in all_needed or ()
        if OTHER.match(needed) and "extra ==" not in needed and name not in OURS
    ]
    found += [f"{p['name']} is installed" for p in brought if p["name"].startswith("onnxruntime")]
    if found:
        sys.exit(f"an extra brings another runtime: {'; '.join(sorted(found))}")


main(sys.argv[1])
