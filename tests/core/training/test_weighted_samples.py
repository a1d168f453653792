"""ArrayReader with weights: which samples are drawn."""

import numpy as np
import pytest

import pd_core as pd
from pd_core.training import ArrayReader


def drawn(reader):
    """The samples of a pass."""
    return np.concatenate([batch[0] for batch in reader()])


def test_samples_are_drawn_in_proportion_to_their_weights():
    weights = np.repeat([0.0, 1.0, 3.0], [2000, 6000, 2000])
    reader = ArrayReader(np.arange(10_000), batch_size=128, weights=weights, seed=4)
    passes = [drawn(reader) for _ in range(3)]
    assert len(reader) == 79 and [len(p) for p in passes] == [10_000] * 3
    for samples in passes:
        assert samples.min() >= 2000
        share = np.mean(samples >= 8000)  # 0.5, with a standard deviation of 0.005
        assert abs(share - 0.5) < 0.025
        # with replacement: a sample of weight 3 comes 2.5 times, Poisson, and is missed with e^-2.5
        assert abs(1 - len(np.unique(samples[samples >= 8000])) / 2000 - np.exp(-2.5)) < 0.03
    assert (passes[0] != passes[1]).any()


def test_the_seed_determines_what_is_drawn():
    def one(**options):
        return drawn(ArrayReader(np.arange(50), weights=np.ones(50), **options)).tolist()

    assert one(seed=1) == one(seed=1, batch_size=7) == one(seed=1, shuffle=True) != one(seed=2)


def test_rare_classes_in_fit():
    x = np.concatenate([np.full((90, 1), -1.0), np.full((10, 1), 1.0)]).astype(np.float32)
    y = (x[:, 0] > 0).astype(np.int64)
    seen = []

    class Net(pd.nn.Module):
        def __init__(self):
            super().__init__()
            self.out = pd.nn.FC(2)

        def forward(self, x):
            return self.out(x)

    def note(context):
        seen.append(context.samples)

    reader = ArrayReader(x, y, weights=1.0 / np.bincount(y)[y])
    options = {"loss": pd.nn.SoftmaxCrossEntropy(), "optimizer": pd.SGDOptimizer(0.0)}
    assert abs(np.mean(next(iter(reader()))[1]) - 0.5) < 0.3
    Net().fit(reader, **options, callbacks=[note], epochs=2)
    assert seen == [100, 200]


@pytest.mark.parametrize(
    "weights, error, text",
    [
        ([1.0], pd.ShapeError, r"ArrayReader: weights \[1\] for 3 samples"),
        ([1.0, -2.0, 0.0], ValueError, r"some above 0; weights\[1\] is -2.0"),
        ([1.0, 0.0, np.nan], ValueError, r"some above 0; weights\[2\] is nan"),
        ([0, 0, 0], ValueError, "some above 0; all are 0"),
    ],
)
def test_weights_that_are_none(weights, error, text):
    with pytest.raises(error, match=text):
        ArrayReader(np.arange(3), weights=weights)
