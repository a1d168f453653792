"""The standard output of ranks that print what rank 0 prints."""

import os
import sys


class HiddenOutput:
    """Redirection of stdout to the null device, for this process and those that it starts.

    `show` ends that; what was hidden stays so.
    """

    def __init__(self):
        sys.stdout.flush()
        self._shown = os.dup(1)
        self._redirect(os.devnull)

    def show(self):
        """Show what is printed from now on."""
        sys.stdout.flush()
        os.dup2(self._shown, 1)
        os.close(self._shown)

    @staticmethod
    def _redirect(path):
        handle = os.open(path, os.O_WRONLY)
        os.dup2(handle, 1)
        os.close(handle)
