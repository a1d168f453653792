"""The best pass of a network of 2017's layers: its parameters in a file, and back at the end."""

from contextlib import nullcontext

import pd_core as pd
from pd_core import training
from pd_core.run.states import maybe


def _average(item):
    """Return the Average of what the runner of an item trains, None if there is none."""
    updater = getattr(getattr(item.context.forward, "step", None), "updater", None)
    return None if updater is None else updater.average


class StopEarly(training.StopEarly):
    """The end of a training that gets no better, see `pd_core.training.StopEarly`.

    With `restore_best` a ModelAverage is that of the best pass, too.
    """

    def begin(self):
        super().begin()
        self._window = None  # the counts of the averages of the best pass

    def kept(self, may_be_unbuilt=False):
        found, average = super().kept(may_be_unbuilt), _average(self)
        sums = [] if average is None else average.variables()
        return {**found, **{v.name: v for v in sums}}

    def improve(self):
        super().improve()
        average = _average(self)
        self._window = None if average is None else average.window.state()

    def finalize(self, following):
        average, window = _average(self), self._window
        if self.restore_best and window is not None:
            average.window.restore(window)
        super().finalize(following)

    def state(self):
        return {**super().state(), "window": self._window} if self.restore_best else super().state()

    kinds = {**training.StopEarly.kinds, "window": maybe(dict)}
    optional = (*training.StopEarly.optional, "window")

    def check(self, state):
        super().check(state)
        average, window = _average(self), state.get("window")
        if self.restore_best and average is not None and window is not None:
            average.window.check(window)

    def restore(self, state):
        super().restore(state)
        if self.restore_best and self._values is not None:
            self._window = state.get("window")


class SaveBest(training.SaveBest):
    """A file with the parameters of the best pass so far, see `pd_core.training.SaveBest`.

    One that is called `.tar` is written as `Parameters.to_tar` does. With a ModelAverage the
    averages are written, as `SGD.save_parameter_to_tar` does.
    """

    def initialize(self, context, following):
        super().initialize(context, following)
        if self._is_tar and getattr(context.forward, "step", None) is None:
            raise pd.GraphError(
                f"SaveBest: {self.path} is for parameters of layers of paddle.v2, and there "
                "are none\n  hint: a file that is called .safetensors"
            )

    @property
    def _is_tar(self):
        return self.path.suffix == ".tar"

    def write(self):
        average = _average(self)
        with nullcontext() if average is None else average.applied():
            if self._is_tar:
                self.context.forward.step.parameters.to_tar(self.path)
            else:
                super().write()
