"""How a network that is made again from its ModelConfig is compared with the first one."""

import io
import pickle

import numpy as np

import pd_v2 as paddle
from pd_v2 import build
from pd_v2.described import outputs_of
from pd_v2.inference import Inference
from pd_v2.parameters import Parameters
from pd_v2.topology import Topology

from ..layer.layer_checks import filled


def samples(kind, rng):
    """Two values of a data layer."""
    return [_sample(kind, lengths, rng) for lengths in ((2, 1), (1, 3))]


def _sample(kind, lengths, rng):
    shape = lengths[: kind.seq_type]
    if kind.seq_type == 2:
        return [_sample(_without_level(kind), (n,), rng) for n in (3, 2)[: lengths[0]]]
    if kind.type == paddle.data_type.DataType.Index:
        ids = rng.integers(0, kind.dim, (*shape, 1)[:1])
        return [int(i) for i in ids] if shape else int(ids[0])
    if kind.type != paddle.data_type.DataType.Dense:
        return sorted({1, kind.dim - 2})
    return rng.uniform(0.1, 1, (*shape, kind.dim))


def _without_level(kind):
    return type(kind)(kind.dim, kind.seq_type - 1, kind.type)


def old_pickle(topology):
    """The file of 2017: a ModelConfig and data types."""
    content = {"protobin": topology.proto().SerializeToString(), "data_type": topology.data_type()}
    return pickle.dumps(content, 2)


def without_evaluators(config):
    """A ModelConfig but for what computes nothing of its outputs."""
    del config.evaluators[:]
    del config.sub_models[0].evaluator_names[:]
    return config


def check_same_network(outputs, rng, fields=("value",)):
    """From bytes alone, in a build of its own: the same configuration, the very same results.

    Returns the fields of each output. The program itself may round otherwise than the same
    computation from a file, so that it is compared approximately.
    """
    outputs = outputs if isinstance(outputs, list) else [outputs]
    topology, (pool, _) = Topology(outputs), filled(outputs, rng)
    columns = [samples(kind, rng) for _, kind in topology.data_type()]
    options = {"input": list(zip(*columns, strict=True)), "field": list(fields)}
    expected = list(Inference(pool, outputs).iter_infer_field(**options))
    stored = io.BytesIO()
    topology.serialize_for_inference(stored)
    with build.fresh():
        again = Topology(outputs_of(topology.proto(), dict(topology.data_type()))).proto()
    assert again.layers == topology.proto().layers
    assert again.sub_models == without_evaluators(topology.proto()).sub_models
    computed, found = (_loaded(pool, f, options) for f in (stored.getvalue(), old_pickle(topology)))
    assert len(found) == len(expected) == len(outputs)
    for ours, same, near in zip(found, computed, expected, strict=True):
        for a, b, c in zip(ours, same, near, strict=True):
            if c is None:
                assert a is None
                continue
            assert np.isfinite(a).all()
            np.testing.assert_array_equal(a, b)
            np.testing.assert_allclose(a, c, rtol=1e-5, atol=1e-6)
    return found


def _loaded(pool, topology, options):
    tar = io.BytesIO()
    pool.to_tar(tar)
    with build.fresh():
        parameters = Parameters.from_tar(io.BytesIO(tar.getvalue()))
        inference = Inference(parameters, fileobj=io.BytesIO(topology))
        return list(inference.iter_infer_field(**options))
