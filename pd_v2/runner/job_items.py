"""The ring of ranks that write no checkpoints."""

import signal
import threading
from contextlib import contextmanager

from pd_core.training import RunnerItem

_TERMINATED = 128 + signal.SIGTERM  # the exit status of SaveEvery


class EndWithFirst(RunnerItem):
    """In the place of rank 0's SaveEvery, on the other ranks: after a SIGTERM they go on.

    They take part in the batch after which rank 0 writes its last checkpoint, and end when they
    find that it has ended.
    """

    def initialize(self, context, following):
        self._terminated, self._before = False, None
        super().initialize(context, following)
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGTERM, self._note) or signal.SIG_DFL

    def on_pass_begin(self, following):
        with self._ending():
            following()

    def on_batch_begin(self, following):
        with self._ending():
            return following()

    def on_pass_end(self, following):
        with self._ending():
            following()

    def finalize(self, following):
        if self._before is not None:
            signal.signal(signal.SIGTERM, self._before)
        following()

    @contextmanager
    def _ending(self):
        try:
            yield
        except RuntimeError as error:
            if self._terminated:
                raise SystemExit(_TERMINATED) from error
            raise

    def _note(self, number, frame):
        self._terminated = True
