"""The trainer: passes over a reader, one compiled step per batch, and events in between."""

from collections.abc import Iterator
from contextlib import nullcontext

import pd_core as pd
from pd_core.graph.errors import concise
from pd_core.graph.handlers import check_takes

from . import settings
from .deprecated_keywords import deprecated_keywords
from .job.chunks import share_chunks
from .job.joining import become_trainer
from .optimizer import Optimizer
from .parameters import Parameters
from .runner import Counter, Data, runner_of
from .runner.items import BackwardEvent, PassEvents, TrainNetwork
from .runner.options import current_options
from .runner.step import NetworkStep
from .runner.thread import TrainingThread
from .topology import Topology
from .warning import warn

__all__ = ["SGD"]


def default_event_handler(event):
    """Do nothing."""


class SGD:
    """Trainer of the network behind some cost layers, with any optimizer of `paddle.optimizer`.

    Gradients are summed over the batch. As in 2017 they begin at each cost layer of the network,
    whatever is computed from its value; in a network without any, the layers in `cost` are
    minimised. The cost of an event is the sum of the values of `cost`, before the update, divided
    by the number of samples. `extra_layers` are computed as well, for their evaluators; costs among
    them are trained on, but are not part of the reported cost.

    In an MPI job (`mpiexec -n 4 pd-v2 train.py`) all processes make the steps together, with the
    sums of their gradients. With `is_local` each reads all samples and computes its slice of every
    batch, so that the numbers are those of one process. With `is_local=False` each reads samples of
    its own, as one trainer of a cluster in 2017; there are no parameter servers.

    With `check_numerics`, which 2017 did not have, `train` and `test` raise a pd.NumericError at
    the first operator that makes a NaN or an infinity, before anything is stored; by default
    `paddle.init(check_numerics=...)` decides. Otherwise a warning tells that a cost or a parameter
    is not finite.

    With `precision="mixed_float16"`, or `paddle.init(precision=...)`, products of matrices and
    convolutions are computed in float16, and gradients are those of scaled costs; parameters, the
    optimizer and checkpoints stay float32.
    """

    def __init__(
        self,
        cost,
        parameters,
        update_equation,
        extra_layers=None,
        is_local=True,
        pserver_spec=None,
        use_etcd=True,
        *,
        check_numerics=None,
        precision=None,
    ):
        if not isinstance(parameters, Parameters):
            raise TypeError("parameters should be parameters")
        if not isinstance(update_equation, Optimizer):
            raise TypeError("update equation parameter must be paddle.v2.optimizer.Optimizer")
        if not is_local:
            _check_trainers()
            _warn_of_asynchronous(update_equation, pserver_spec)
            become_trainer()
        self.__topology__ = Topology(cost, extra_layers)
        self.__optimizer__, self.__parameters__ = update_equation, parameters
        self._step = NetworkStep(
            self.__topology__,
            parameters,
            update_equation,
            check_numerics,
            is_local=is_local,
            precision=precision,
        )
        self.__gradient_machine__ = self._step.machine
        self._context = None  # of the training that goes on

    def get_topology_proto(self):
        """Return the ModelConfig of the trained network."""
        return self.__topology__.proto()

    def save_parameter_to_tar(self, f):
        """Write the parameters as a tar; see `Parameters.to_tar`.

        With a ModelAverage the averages are written, as soon as there are any. In a job of several
        processes one of them may call it alone, as may others at the same time.
        """
        self._step.saving(lambda: self.__parameters__.to_tar(f))

    @concise
    @deprecated_keywords(reader_dict="feeding")
    def train(self, reader, num_passes=1, event_handler=None, feeding=None, *, checkpoint=None):
        """Train for some passes over a reader of minibatches.

        `reader` is a function that returns an iterator of lists of samples; `feeding` maps data
        layers to fields of a sample. The handler sees BeginPass, then for each batch
        BeginIteration, EndForwardBackward and EndIteration, then EndPass.

        With a `paddle.Checkpoint`, which 2017 did not have, the training is saved as it goes on,
        and goes on from the newest whole checkpoint if there is one.
        """
        handler = default_event_handler if event_handler is None else event_handler
        if not self._step.is_local and pd.distributed.world_size() > 1:
            share_chunks()
        _check_arguments(reader, handler)
        options = current_options()
        checkpoint = options.checkpoint if checkpoint is None else checkpoint
        begun = nullcontext([]) if checkpoint is None else checkpoint.training(self._step)
        with options.training() as number, begun as saving:
            if saving is None:  # it had ended when the checkpoint was written
                return
            step = self._step
            items = [
                *saving,
                Counter(),
                Data(reader, feeding, tracks=bool(saving), split=step.is_local),
                *options.items(number),
                PassEvents(handler, step),
                # a handler may ask gm for a layer for the first time after the first update
                TrainNetwork(step, handler is not default_event_handler, not saving),
                BackwardEvent(handler, step),
            ]
            try:
                with runner_of(items) as runner:
                    self._context = runner.context
                    runner.run(num_passes)
            finally:
                self._context = None

    def in_thread(self, *args, **kwargs):
        """Start `train` with these arguments in a thread, and return it.

        Its `join` raises what the training raised.
        """
        return TrainingThread(self.train, args, kwargs)

    @concise
    @deprecated_keywords(reader_dict="feeding")
    def test(self, reader, feeding=None):
        """Compute cost and metrics over a reader, in inference mode, as a TestResult.

        In an event handler they are also those of the log and of the progress bar.
        """
        result = self._step.test(reader, feeding)
        if self._context is not None:
            self._context.test_metrics = {**result.metrics, "cost": result.cost}
        return result


def _check_arguments(reader, handler):
    if not callable(reader) or not isinstance(reader(), Iterator):
        raise TypeError("train_data_reader should be a function, which can return a iterator")
    if not callable(handler):
        raise TypeError("event handler should be a function")
    check_takes("the event handler", handler, "event")


def _check_trainers():
    """Check that the other trainers of a cluster, with `is_local=False`, are in the same job."""
    if pd.distributed.world_size() > 1:
        return
    flags = settings.current().flags
    trainers, number = flags.get("num_gradient_servers", 1), flags.get("trainer_id", 0)
    if trainers != 1 or number != 0:
        count = max(trainers, number + 1)
        raise ValueError(
            f"SGD: is_local=False for trainer {number} of {trainers}, but no other trainer was "
            f"started with this one\n  hint: pd-v2 --workers {count} train.py, or on several "
            f"machines mpiexec -n {count} pd-v2 train.py: they set both numbers"
        )


def _warn_of_asynchronous(optimizer, pserver_spec):
    """Warn of settings by which trainers did not wait for each other in 2017."""
    given = [] if pserver_spec is None else [f"pserver_spec={pserver_spec!r}"]
    given += ["is_async=True"] if optimizer.is_async else []
    if given and pd.distributed.rank() == 0:
        warn(
            f"SGD: {' and '.join(given)}: in 2017 the gradients of each trainer were applied at "
            "once; here all trainers update together, with the sum of their gradients"
        )
