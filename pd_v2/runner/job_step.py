"""The training step of a network on several processes: each has a part of every batch."""

from contextlib import contextmanager
from hashlib import blake2b
from zlib import crc32

import numpy as np

import pd_core as pd
from pd_core.training.generators import generators_state, set_generators

from ..job.joining import is_joined
from ..job.ranks import cut, from_rank_zero
from ..training.gradient_machine import GradientMachine
from ..training.layer_outputs import FIELDS
from .step import NetworkStep

_HINT = (
    "  hint: with is_local=True every rank reads all samples, in the same order; is_local=False is "
    "for readers that give each trainer samples of its own"
)


def network_step(*args, is_local=True, **kwargs):
    """Return a NetworkStep; in an MPI job one that takes part in the steps of all processes."""
    if pd.distributed.world_size() == 1:
        return NetworkStep(*args, **kwargs)
    return JobStep(*args, is_local=is_local, **kwargs)


def runner_step(*args, **kwargs):
    """Return the step of a Runner: of the launcher's job, if there is one."""
    return (network_step if is_joined() else NetworkStep)(*args, **kwargs)


class JobStep(NetworkStep):
    """The steps of a network that all ranks of an MPI job take together.

    With `is_local` all ranks read the same batches, and each computes its slice of the samples;
    else each reads batches of its own, and those whose pass has ended take part without samples
    until all have ended. Either way the gradients are added up, and costs and metrics are of the
    samples of all ranks. Moving statistics are the means over the ranks, by numbers of samples.
    """

    def __init__(self, *args, is_local=True, **kwargs):
        if pd.distributed.reduction() != "sum":
            raise ValueError(
                'SGD: trainers of 2017 add gradients up, but init(reduce="mean") was called\n'
                '  hint: pd.distributed.init(reduce="sum"), or start the script by pd-v2'
            )
        self.has_own_data = not is_local
        self._rank, self._ranks = pd.distributed.rank(), pd.distributed.world_size()
        self.prints = self._rank == 0
        super().__init__(*args, **kwargs)
        assigned = [a.variable for a in pd.effects(self.topology.layers)]
        self._moving = [v for v in dict.fromkeys(assigned) if v.dtype.kind == "f"]
        self._is_first = self._is_empty = False

    def _machine(self, learned):
        if self.has_own_data:
            return super()._machine(learned)
        return SlicedMachine(self.topology, self.parameters, learned)

    def converter(self, feeding=None):
        """Return the function that converts this rank's samples of a batch to feeds.

        It returns None if there are none.
        """
        convert = super().converter(feeding)
        if self.has_own_data:
            return convert

        def convert_slice(samples):
            own = cut(samples)
            return convert(own) if len(own) else None

        return convert_slice

    # ---- training

    def start_training(self):
        """Begin to train, all ranks from the values of rank 0."""
        self._share_values()
        super().start_training()

    def _share_values(self):
        """Give all ranks the values of rank 0 where they differ."""
        named = self.variables()
        own = {name: _digest(self.session.get(v)) for name, v in named.items()}
        every = pd.distributed.allgather(own)
        if any(other.keys() != own.keys() for other in every):
            raise pd.GraphError("train: the ranks train networks with other parameters")
        differing = [n for n in own if any(other[n] != every[0][n] for other in every)]
        if differing:
            with self.session:
                pd.distributed.broadcast([named[name] for name in differing])

    def start_pass(self):
        """Begin a pass; what all ranks read alike is drawn alike."""
        self._is_first = True
        if not self.has_own_data:
            set_generators(from_rank_zero(generators_state))

    def admit(self, batch):
        """Meet the other ranks before a batch; None if no rank has one.

        While others have one, this takes part in their steps.
        """
        while True:
            if batch is not None:
                batch.check()
            if not self.has_own_data:
                return self._agreed(batch)
            sizes = pd.distributed.allgather(None if batch is None else len(batch.samples))
            total = sum(size for size in sizes if size is not None)
            if batch is not None:
                batch.total = total
                return batch
            if all(size is None for size in sizes):
                return None
            self._take_part(total)

    def _agreed(self, batch):
        """Return a batch that all ranks have read.

        The first one of a pass is compared now, so is its end; the others after their step.
        """
        if batch is None:
            with _explaining("the pass"):
                check_same(pd.distributed.allgather(None), "the pass")
        elif self._is_first:
            self._is_first = False
            with _explaining(batch.place):
                own = len(batch.samples), trace(batch.samples)
                check_same(pd.distributed.allgather(own), batch.place)
        return batch

    def _take_part(self, total):
        """Take part in a step of other ranks, on `total` samples."""
        self.batch_metrics.reset()
        feeds = {}
        if self.updater is not None:
            self.updater.start_batch(total)
            feeds = self.updater.feeds()
        self._step_without_samples(feeds)
        self._count([result for _, result in self._shared(None, 0, None)])

    def start_batch(self, batch, keep_rows, rate_factor=None):
        """Start the step of a batch; return its feeds."""
        self._is_empty = batch.to_feeds() is None
        if not self._is_empty:
            return super().start_batch(batch, keep_rows, rate_factor)
        self.batch_metrics.reset()
        self.machine.begin_without_samples()
        if self.updater is None:
            return {}
        self.updater.start_batch(len(batch))
        return self.updater.feeds(rate_factor)

    def run(self, batch, feeds):
        """Run the step of a batch; return its cost per sample, of all ranks."""
        with _explaining(batch.place):
            if self._is_empty:
                self._step_without_samples(feeds)
                own, samples = None, 0
            else:
                own, samples = self._train(batch, feeds), self._own_samples(batch)
            parts = self._shared(own, samples, batch)
        self._receive(_joined([result.arrays for _, result in parts]))
        return self._count([result for _, result in parts]) / len(batch)

    def _own_samples(self, batch):
        return len(batch.samples if self.has_own_data else cut(batch.samples))

    def _step_without_samples(self, feeds):
        if self.updater is not None:
            with self.session:
                pd.distributed.empty_step(self.update, feeds)

    def _shared(self, result, samples, batch):
        """Return (samples, Result) of all ranks that have samples; their statistics move on."""
        moved = None if result is None else [self.session.get(v) for v in self._moving]
        size = None if self.has_own_data else (len(batch), None)
        every = pd.distributed.allgather((size, (samples, result, moved)))
        if not self.has_own_data:
            check_same([size for size, _ in every], batch.place)
        parts = [part for _, part in every if part[1] is not None]
        total = sum(samples for samples, _, _ in parts)
        for k, v in enumerate(self._moving):
            mean = sum(values[k].astype(np.float64) * (n / total) for n, _, values in parts)
            self.session.set(v, mean.astype(v.dtype))
        return [(n, each) for n, each, _ in parts]

    # ---- tests

    def _tested(self, batches, attached):
        if self.has_own_data:  # of this rank alone
            yield from super()._tested(batches, attached)
            return
        for batch in batches:
            feeds = batch.to_feeds()
            batches.read_ahead()
            if feeds is None:
                self.machine.begin_without_samples()
                own = None
            else:
                own = self._test(batch, feeds, attached)
            every = pd.distributed.allgather(((len(batch), None), own))
            check_same([size for size, _ in every], f"test: {batch.place}")
            yield batch, [result for _, result in every if result is not None]
        every = pd.distributed.allgather((None, None))
        check_same([size for size, _ in every], "test: the pass")

    # ---- what handlers ask for

    def gradients(self):
        """Compute {name: gradient} of all trained parameters, for the samples of this rank."""
        if not self._is_empty:
            return super().gradients()
        found = {} if self.updater is None else self.updater.gradients
        return {name: self._no_gradient(name) for name in found}

    def _gradient_value(self, name):
        own = self._no_gradient(name) if self._is_empty else super()._gradient_value(name)
        return own if self.has_own_data else pd.distributed.allreduce(own)

    def _no_gradient(self, name):
        return np.zeros(int(self.parameters.__param_conf__[name].size), np.float32)

    def _check_parameters(self, pass_id):
        if self._rank == 0:  # they are the same on all ranks
            super()._check_parameters(pass_id)


class SlicedMachine(GradientMachine):
    """The GradientMachine of a rank that computes a slice of each batch."""

    _is_sliced = _is_empty = False

    def begin(self, feeds, training, keep_rows=False):
        """Start a batch, of which these are the feeds of this rank."""
        super().begin(feeds, training, keep_rows)
        self._is_sliced, self._is_empty = True, False

    def begin_without_samples(self):
        """Start a batch of which this rank has no samples."""
        self._is_sliced = self._is_empty = True

    def getLayerOutputs(self, layerNames):
        """Return {name: {'value', 'id', 'prob'}} of layers for the last batch.

        All ranks ask for the same; the rows are those of all of them, in their order.
        """
        if not self._is_sliced:
            return super().getLayerOutputs(layerNames)
        own = None if self._is_empty else super().getLayerOutputs(layerNames)
        parts = [part for part in pd.distributed.allgather(own) if part is not None]
        return {
            name: {field: _concatenated([part[name][field] for part in parts]) for field in FIELDS}
            for name in parts[0]
        }

    def _forward(self, arguments, training, extra_targets=()):
        self._is_sliced = False  # a handler's own batch
        return super()._forward(arguments, training, extra_targets)


def _digest(array):
    return blake2b(array.tobytes(), digest_size=16).digest()


def _joined(parts):
    """Join nested lists of arrays, one for each rank, along the rows."""
    if isinstance(parts[0], list | tuple):
        return [_joined(list(each)) for each in zip(*parts, strict=True)]
    return _concatenated(parts)


def _concatenated(arrays):
    return None if arrays[0] is None else np.concatenate(arrays)


def trace(samples):
    """A number that tells other samples apart, or None if they have no text of their own."""
    text = repr(samples[0]) if isinstance(samples, list | tuple) else ""
    return None if " at 0x" in text else crc32(text.encode(errors="surrogatepass"))


def check_same(every, place):
    """Raise a GraphError if ranks have read (number of samples, trace) that is not rank 0's."""
    for rank, one in enumerate(every):
        if one != every[0]:
            sizes = [_size(every[0]), _size(one)]
            if sizes[0] == sizes[1]:
                sizes = ["samples", "others"]
            raise pd.GraphError(
                f"{place}: the ranks have not read the same: rank 0 has {sizes[0]}, rank {rank} "
                f"{sizes[1]}"
            )


@contextmanager
def _explaining(place):
    """Tell where it was that the ranks disagreed."""
    try:
        yield
    except pd.GraphError as error:
        error.add_note(f"  in {place}\n{_HINT}")
        raise


def _size(one):
    return "no batch left" if one is None else f"{one[0]} samples"
