"""The ring of ranks that write no checkpoints."""

import signal
import threading

from pd_core.training import RunnerItem

_TERMINATED = 128 + signal.SIGTERM  # the exit status of SaveEvery


class EndWithFirst(RunnerItem):
    """In the place of rank 0's SaveEvery, on the other ranks: after a SIGTERM they go on.

    They take part in the batch after which rank 0 writes its last checkpoint, and end with it.
    """

    def initialize(self, context, following):
        self._terminated, self._before = False, None
        super().initialize(context, following)
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGTERM, self._note) or signal.SIG_DFL

    def finalize(self, following):
        if self._before is not None:
            signal.signal(signal.SIGTERM, self._before)
        following()
        if self._terminated:
            raise SystemExit(_TERMINATED)

    def _note(self, number, frame):
        self._terminated = True
