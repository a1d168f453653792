"""Programs as they run, with the values of their inputs."""

from contextlib import contextmanager
from dataclasses import dataclass
from unittest import mock

import numpy as np
from onnx import helper

from pd_core.backend import bound, stage_models
from pd_core.backend.graph_optimizers import unwanted_optimizers


@dataclass
class Recorded:
    """A program: its model, the types of its values, equal sizes, and the values of its inputs.

    `without` are the runtime's graph optimizers that it goes without.
    """

    model: bytes
    kinds: dict
    equal: tuple
    without: list
    values: dict


@contextmanager
def recorded():
    """Give a dict, by a number for each program that runs inside, of its `Recorded`."""
    found = {}
    make, bind, run = stage_models.StageModel.__init__, bound.Bound.__init__, bound.Bound.run

    def making(self, *arguments):
        make(self, *arguments)
        types = {
            name: (helper.np_dtype_to_tensor_dtype(v.dtype), tuple(v.dims))
            for name, v in self.lowered.values.items()
        }
        without = list(unwanted_optimizers(self.lowered, "cpu"))
        self.recorded = self.lowered.model.SerializeToString(), types, self.equal, without

    def binding(self, session, part, device, states, updates, *recorder):
        bind(self, session, part, device, states, updates, *recorder)
        self.own_states = states

    def running(self, feeds, seed, handed, fetched, keep, after):
        part = self.part
        values = {name: np.array(feeds[k]) for k, name in part.feeds}
        values |= {name: handed[slot].numpy() for slot, name in part.given}
        values |= {
            n: np.array(v.numpy()) for (_, n), v in zip(part.states, self.own_states, strict=True)
        }
        if part.seed is not None:
            values[part.seed] = np.array(seed)
        found[id(part)] = Recorded(*part.recorded, values)
        run(self, feeds, seed, handed, fetched, keep, after)

    with (
        mock.patch.object(stage_models.StageModel, "__init__", making),
        mock.patch.object(bound.Bound, "__init__", binding),
        mock.patch.object(bound.Bound, "run", running),
    ):
        yield found
