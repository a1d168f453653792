"""Exchange of the first gradients of a step while the others are computed."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from .buffers import Bucket, Buffer, finish


class Overlap:
    """The buckets of buffers, exchanged in a thread as soon as their arrays are there.

    All ranks exchange them in the same order, that of the buffers. The thread naps between its
    questions to MPI: the core belongs to the program, which computes meanwhile.
    """

    def __init__(self, buffers: Sequence[Buffer]):
        self.buckets = [b for buffer in buffers for b in buffer.buckets]
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="pd.distributed")
        self._begun: list[Future[None]] = []
        self._filled: set[tuple[Buffer, int]] = set()
        self._failed = False

    def fill(self, arrays: Mapping[tuple[Buffer, int], np.ndarray], factor: float) -> None:
        """Write arrays of this rank, times `factor`, and exchange the buckets that are full.

        Arrays are given by their places: a buffer, and their number in it.
        """
        for (buffer, k), array in arrays.items():
            buffer.fill(k, array, factor)
        self._filled.update(arrays)
        for bucket in self.buckets[len(self._begun) :]:
            if not all((bucket.buffer, k) in self._filled for k in bucket.members):
                break
            self._begun.append(self._executor.submit(self._sum, bucket))

    def finish(self) -> None:
        """Wait for all buckets; the next `fill` belongs to another step.

        Raises the first error of an exchange.
        """
        try:
            for begun in self._begun:
                begun.result()
        finally:
            self.reset()

    def reset(self) -> None:
        """Forget the arrays of a step that has ended or failed."""
        for begun in self._begun:
            begun.cancel()
        self._executor.submit(lambda: None).result()  # the one that was running has ended
        self._begun, self._filled, self._failed = [], set(), False

    def _sum(self, bucket: Bucket) -> None:
        if self._failed:
            return
        try:
            bucket.begin()
            finish([bucket], spin=0.0)
        except BaseException:
            self._failed = True
            raise
