"""The rate of large matrix products, which no network can exceed."""

import time

import numpy as np

SIZE = 1024


class Peak:
    """Matrix products of float32 [SIZE, SIZE] in NumPy, a few now and then during a measurement."""

    def __init__(self):
        rng = np.random.default_rng(0)
        self._a, self._b = rng.normal(size=(2, SIZE, SIZE)).astype(np.float32)
        self._out = np.empty_like(self._a)
        self.gflops = []

    def measure(self, products=4):
        """Append the rate of the fastest of some products, in 1e9 operations per second."""
        seconds = []
        for _ in range(products):
            start = time.perf_counter()
            np.matmul(self._a, self._b, out=self._out)
            seconds.append(time.perf_counter() - start)
        self.gflops.append(2 * SIZE**3 / min(seconds) / 1e9)
