"""Runs a script, module or command of a program in a process that the program has started."""

import os
import sys

_ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))


def main():
    """Run the arguments: a path, `-m module` or `-c text`."""
    _import_package()
    from pd_v2.python2 import launch

    launch(sys.argv[1:])


def find_modules():
    """Install the finder of modules in a child of multiprocessing, which has its own main code."""
    _import_package()
    from pd_v2.python2 import importer, process

    importer.install_finder()
    process.set_lossless_streams()
    process.share_translation()


def _import_package():
    """Import the same package as the parent process, without changing sys.path."""
    sys.path.insert(0, _ROOT)
    try:
        import pd_v2.as_paddle  # noqa: F401  makes `paddle` importable
    finally:
        sys.path.remove(_ROOT)


if __name__ == "__main__":
    main()
