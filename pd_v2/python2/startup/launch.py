"""Runs a part of a program in a process that the program has started."""

import os
import sys

_ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))


def main():
    """Run what the arguments say: a path, or as in `-m module` and `-c text`."""
    _import_package()
    from pd_v2.python2 import launch

    launch(sys.argv[1:])


def find_modules():
    """Find and translate modules in a child of multiprocessing, which says itself what it runs."""
    _import_package()
    from pd_v2.python2 import importer, process

    importer.install_finder()
    process.let_bytes_through()
    process.share()


def _import_package():
    """Import the package of the parent, wherever it found it, and leave sys.path as it was."""
    sys.path.insert(0, _ROOT)
    try:
        import pd_v2.as_paddle  # noqa: F401  the program's names for pd_v2
    finally:
        sys.path.remove(_ROOT)


if __name__ == "__main__":
    main()
