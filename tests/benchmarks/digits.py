"""The handwritten digits of the demos."""

import numpy as np


def digits(batch_size):
    """Return batches of MNIST: pixels in [-1, 1], float32 [n, 784], and int64 labels [n]."""
    from pd_v2.dataset import mnist

    pixels, labels = zip(*mnist.train(), strict=True)
    pixels, labels = np.stack(pixels), np.array(labels)
    starts = range(0, len(labels) - batch_size + 1, batch_size)
    return [(pixels[k : k + batch_size], labels[k : k + batch_size]) for k in starts]
