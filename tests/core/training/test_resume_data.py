"""Resume with other data, or other batches of the same: exact by sample, or refused by name."""

import functools
import warnings

import numpy as np
import pytest

import pd_core as pd
from pd_core.training import (
    ArrayReader,
    Counter,
    Data,
    Device,
    Resume,
    RunnerItem,
    SaveEvery,
    StopEarly,
    TrainStep,
    runner_of,
)

from .resuming import arrays

N = 24
X = np.arange(2 * N, dtype=np.float32).reshape(N, 2)
Y = np.arange(N) % 3
HINT = r"\n  hint: .*Resume\(\.\.\., new_data=True\)"


class Sees(RunnerItem):
    """Every batch that a training sees: the numbers of its samples, first column / 2."""

    def __init__(self):
        self.batches = []

    def on_batch_begin(self, following):
        batch = self.context.batch
        if following():
            return True
        x = batch["x"] if isinstance(batch, dict) else batch[0]
        self.batches.append((np.asarray(x)[:, 0] / 2).astype(int).tolist())
        return False


def run(data, *more, passes=2, **options):
    """The samples of a training, by batch; and its context."""
    pd.reset(seed=0)
    sees = Sees()
    step = TrainStep(lambda *batch: 1.0)
    with runner_of([Device(), Counter(), Data(data, **options), sees, step, *more]) as runner:
        context = runner.run(passes)
    return sees.batches, context


def listed(x=X, y=Y, size=4):
    return [(x[k : k + size], y[k : k + size]) for k in range(0, len(x), size)]


def as_reader(x=X, y=Y, size=4):
    batches = listed(x, y, size)
    return lambda: (batch for batch in batches)


def as_dicts(x=X, y=Y, size=4):
    return [{"x": a, "y": b} for a, b in listed(x, y, size)]


class Sized:
    """An iterable such as torch.utils.data.DataLoader: shuffled by the global generators."""

    def __init__(self, x=X, y=Y, size=4, shuffle=False):
        self.x, self.y, self.size, self.shuffle = x, y, size, shuffle

    def __len__(self):
        return -(-len(self.x) // self.size)

    def __iter__(self):
        order = np.random.permutation(len(self.x)) if self.shuffle else np.arange(len(self.x))
        for k in range(0, len(order), self.size):
            rows = order[k : k + self.size]
            yield self.x[rows], self.y[rows]


class Own(Sized):
    """An iterable whose iterators know their place."""

    def __iter__(self):
        return OwnIterator(self)


class OwnIterator:
    def __init__(self, data):
        self.data, self.place = data, 0

    def __iter__(self):
        return self

    def __next__(self):
        first, self.place = self.place, self.place + self.data.size
        if first >= len(self.data.x):
            raise StopIteration
        return self.data.x[first : self.place], self.data.y[first : self.place]

    def state(self):
        return {"place": self.place}

    def restore(self, state):
        self.place = state["place"]


def array_reader(x=X, y=Y, size=4, **options):
    return ArrayReader(x, y, batch_size=size, **options)


def shuffled(x=X, y=Y, size=4, **options):
    return ArrayReader(x, y, batch_size=size, **{"shuffle": True, **options})


def weighted(x=X, y=Y, size=4, **options):
    return ArrayReader(x, y, batch_size=size, **{"weights": np.arange(len(x)), **options})


KINDS = {
    "arrays": array_reader,
    "shuffled arrays": shuffled,
    "weighted arrays": weighted,
    "a list": listed,
    "dicts": as_dicts,
    "a reader": as_reader,
    "an iterable": Sized,
    "a shuffled iterable": lambda *args, **options: Sized(*args, **options, shuffle=True),
    "iterators with a place": Own,
}


@pytest.fixture(autouse=True)
def no_warning_of_reading_again():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "read again from the beginning")
        yield


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A function of a source: a folder, and the samples of a training that is saved in it.

    It has a checkpoint after each batch of two passes, of batches of 4.
    """

    @functools.cache
    def made(make):
        folder = tmp_path_factory.mktemp("saved")
        np.random.seed(3)
        batches, _ = run(make(), SaveEvery(1, folder, keep=None))
        return folder, [k for batch in batches for k in batch]

    return made


def path(folder, batches):
    return folder / f"batch-{batches:05d}"


@pytest.mark.parametrize("size", [1, 4, 8])
@pytest.mark.parametrize("done", [2, 6, 8])
@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_batches_of_another_size(make, done, size, saved):
    """No sample is left out, none comes twice, whatever kind of source it is."""
    folder, order = saved(make)
    np.random.seed(5)
    batches, context = run(make(size=size), Resume(path(folder, done)))
    assert [k for batch in batches for k in batch] == order[4 * done :]
    assert context.samples == 2 * N
    assert make is not array_reader or done == 8 or context.pass_batches == N // size


@pytest.mark.parametrize("make", [array_reader, shuffled, weighted])
def test_arrays_go_on_at_any_sample(make, saved):
    folder, order = saved(make)
    batches, _ = run(make(size=7), Resume(path(folder, 2)))
    assert [len(batch) for batch in batches] == [7, 7, 2, 7, 7, 7, 3]
    assert [k for batch in batches for k in batch] == order[8:]


@pytest.mark.parametrize("name", ["a list", "dicts", "a reader", "an iterable"])
def test_a_size_that_does_not_end_there(name, saved):
    folder, _ = saved(KINDS[name])
    text = "is behind 8 samples in 2 batches; those of the reader .* end at 7 and 14" + HINT
    with pytest.raises(pd.GraphError, match=text):
        run(KINDS[name](size=7), Resume(path(folder, 2)))


TYPES = r"arrays float32\[2\], int64\[\], here "
OTHERS = {
    "length": ({"x": X[:20], "y": Y[:20]}, "samples 24, here 20"),
    "dtype": ({"x": X.astype(np.float64)}, rf"{TYPES}float64\[2\], int64\[\]"),
    "shape": ({"x": X[:, :1]}, rf"{TYPES}float32\[1\], int64\[\]"),
    "values": ({"x": X + 1}, "as many samples, of other values"),
    "the last value": ({"y": np.append(Y[:-1], 0)}, "as many samples, of other values"),
    "shuffle": ({"shuffle": True}, "shuffle False, here True; seed None, here 0"),
    "weights": ({"weights": np.ones(len(X))}, "weights None, here [0-9a-f]{16}; seed None, here 0"),
}


@pytest.mark.parametrize("done", [2, 6, 8])
@pytest.mark.parametrize(("given", "text"), OTHERS.values(), ids=OTHERS)
def test_other_arrays(given, text, done, saved):
    folder, _ = saved(array_reader)
    with pytest.raises(pd.GraphError, match=f"the checkpoint is of other data: {text}{HINT}"):
        run(array_reader(**given), Resume(path(folder, done)))


def test_another_seed(saved):
    folder, _ = saved(shuffled)
    with pytest.raises(pd.GraphError, match="is of other data: seed 0, here 1"):
        run(shuffled(seed=1), Resume(path(folder, 2)))


@pytest.mark.parametrize("make", [listed, as_dicts, as_reader, Sized])
def test_other_data_that_are_read_again(make, saved):
    folder, _ = saved(make)
    text = "gives other samples than those of the checkpoint: already the first one differs" + HINT
    for given in ({"x": X + 1}, {"y": Y + 1}, {"x": X.astype(np.float64)}, {"x": X[:, :1]}):
        with pytest.raises(pd.GraphError, match=text):
            run(make(**given), Resume(path(folder, 4)))
    with pytest.raises(pd.GraphError, match="ends after 12 samples, the checkpoint is behind 16"):
        run(make(x=X[:12]), Resume(path(folder, 4)))
    if make is not as_reader:
        with pytest.raises(pd.GraphError, match="a pass of 6 batches, here 5" + HINT):
            run(make(x=X[:20]), Resume(path(folder, 4)))


def test_a_pass_that_ended_and_goes_on(tmp_path):
    """The checkpoint is behind the last batch, which the reader did not know to be the last."""

    class Asks(RunnerItem):
        def on_batch_end(self, following):
            if self.context.batches == 6:
                next(self.context.data._iterator, None)
            return following()

    np.random.seed(3)
    run(as_reader(), SaveEvery(1, tmp_path, keep=None), Asks(), passes=1)
    longer = as_reader(np.concatenate([X, X]), np.concatenate([Y, Y]))
    with pytest.raises(pd.GraphError, match="goes on behind 24 samples, with which the pass of"):
        run(longer, Resume(path(tmp_path, 6)))


def test_an_unseeded_order(tmp_path):
    def reader():
        order = np.random.default_rng().permutation(N)
        return ((X[rows], Y[rows]) for rows in order.reshape(-1, 4))

    np.random.seed(3)
    run(reader, SaveEvery(1, tmp_path, keep=None))
    for done in (2, 4):
        try:
            run(reader, Resume(path(tmp_path, done)))
        except pd.GraphError as error:
            assert "already the first one differs" in str(error)
            return
    raise AssertionError("one of 576 times")


@pytest.mark.parametrize("done", [2, 6, 8])
@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_new_data_on_request(make, done, saved):
    """The pass that was going on goes on with all of them."""
    folder, _ = saved(make)
    resume = Resume(path(folder, done), new_data=True)
    batches, context = run(make(x=X[:10], y=Y[:10]), resume)
    every = sorted(k for batch in batches for k in batch)
    passes = 1 if done > 6 else 2
    if make is weighted:  # draws some samples twice
        assert len(every) == 10 * passes and set(every) <= set(range(10))
    else:
        assert every == sorted(list(range(10)) * passes)
    assert context.samples == 4 * done + 10 * passes


def test_a_failure_changes_nothing(saved):
    """Whether other data are found before anything is restored, or when they are read again."""
    for make in (array_reader, as_reader):
        folder, _ = saved(make)
        reader, counter = make(x=X + 1), Counter()
        items = [Device(), counter, Data(reader), Sees(), TrainStep(lambda *b: 1.0)]
        pd.reset(seed=5)
        with pytest.raises(pd.GraphError), runner_of([*items, Resume(path(folder, 4))]) as runner:
            runner.run(2)
        assert pd.default_session().seed == 5 and counter.context.batches == 0


def test_places_of_older_checkpoints():
    """0.2.0 counted batches, and said nothing of the data."""
    reader = array_reader()
    items = reader()
    items.restore({"pass": 3, "place": 2})
    assert next(items)[0][0, 0] == 16 and reader.state()["passes"] == 4
    reader.restore({"passes": 7})
    assert reader.passes == 7
    for state, text in (
        ({"pass": 0, "sample": 25}, "no place 25 in 24 samples"),
        ({"pass": 0, "sample": -1}, "no place -1 in 24 samples"),
        ({"pass": 0, "sample": "x"}, "'sample' in the state is 'x': "),
        ({"passes": None}, "'passes' in the state is None"),
        ({"passes": 1, "places": 3}, "the state has 'places'"),
    ):
        with pytest.raises(ValueError, match=text):
            (items if "pass" in state else reader).restore(state)


def test_large_arrays_are_sampled():
    """A digest costs a millisecond; it has the first sample and the last."""
    x = np.zeros((300_000, 8), np.float32)
    before = ArrayReader(x).data()
    for place in (0, -1):
        x[place, 3] = 1
        assert ArrayReader(x).data() != before
        x[place, 3] = 0
    assert ArrayReader(x).data() == before


def test_fit_names_what_differs(tmp_path):
    x, y = arrays()

    def fit(*callbacks, x=x, y=y, **options):
        with pd.fresh(seed=1):
            net = pd.nn.Sequential(pd.nn.FC(3), name="net")
            settings = {"loss": pd.nn.SoftmaxCrossEntropy(), "optimizer": pd.SGDOptimizer(0.1)}
            settings |= {"batch_size": 4, "epochs": 2, "callbacks": callbacks, **options}
            module = Wrapped(net)
            module.fit(x, y, **settings)
            return module.state_dict()

    fit(SaveEvery(1, tmp_path, keep=None))
    for options, text in (
        ({"x": x[:8], "y": y[:8]}, "samples 12, here 8"),
        ({"y": 2 - y}, "of other values"),
        ({"shuffle": False}, "shuffle True, here False"),
        ({"seed": 3}, "seed 0, here 3"),
        ({"validation_split": 0.5}, "samples 12, here 6"),
        ({"sample_weight": np.ones(12, np.float32)}, "arrays float32"),
    ):
        with pytest.raises(pd.GraphError, match=text):
            fit(Resume(path(tmp_path, 2)), **options)
    fit(Resume(path(tmp_path, 2)), batch_size=6)


class Wrapped(pd.nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        return self.net(x)


@pytest.mark.parametrize(("monitor", "best"), [("cost", 3.0), ("accuracy", 0.1)])
def test_another_number_is_watched_anew(monitor, best, tmp_path):
    """The best cost says nothing of the accuracy."""

    def watched(cost, passes, watch, *more):
        pd.reset(seed=0)
        step = TrainStep(lambda *batch: {"cost": cost})
        rings = [Device(), Counter(), Data([listed()[0]]), Tells(), step, watch, *more]
        with runner_of(rings) as runner:
            runner.run(passes)

    watched(3.0, 2, StopEarly("cost", patience=9), SaveEvery(passes=2, path=tmp_path))
    watch = StopEarly(monitor, patience=9)
    watched(5.0, 3, watch, Resume(tmp_path))
    assert (watch.watched, watch.best, watch.waited) == (monitor, best, 2 * (monitor == "cost"))


class Tells(RunnerItem):
    """An accuracy of each pass."""

    def on_pass_end(self, following):
        self.context.pass_metrics["accuracy"] = 0.1
        following()
