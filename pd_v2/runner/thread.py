"""Training in a thread of its own."""

import contextvars
import threading
import time

_SECONDS_TO_ASSIGN = 0.05


class TrainingThread(threading.Thread):
    """A started thread that trains; `join` raises what the training raised.

    It sees the session and the build that were in force where it was started.
    """

    def __init__(self, train, args, kwargs):
        super().__init__(name="pd_v2.training", daemon=True)
        self._train = lambda: train(*args, **kwargs)
        self._context, self._error = contextvars.copy_context(), None
        self.start()

    def run(self):
        """Train."""
        # Event handlers may use names that are assigned together with this thread.
        time.sleep(_SECONDS_TO_ASSIGN)
        try:
            self._context.run(self._train)
        except BaseException as error:
            self._error = error

    def join(self, timeout=None):
        """Wait for the end of the training, for `timeout` seconds at most."""
        super().join(timeout)
        if self._error is not None and not self.is_alive():
            error, self._error = self._error, None
            raise error
