"""What the tests of evaluators share: data layers, and metrics over batches of feeds."""

import numpy as np

import pd_core as pd
import pd_v2 as paddle
from pd_v2.evaluator import Accumulator, fetched

L, T = paddle.layer, paddle.data_type


def rows(name="x", size=4):
    return L.data(name=name, type=T.dense_vector(size))


def ids(name="label", size=4):
    return L.data(name=name, type=T.integer_value(size))


def row_sequences(name="x", size=4):
    return L.data(name=name, type=T.dense_vector_sequence(size))


def id_sequences(name="label", size=4):
    return L.data(name=name, type=T.integer_value_sequence(size))


def sparse_rows(name="label", size=4):
    return L.data(name=name, type=T.sparse_binary_vector(size))


def columns(name, dense):
    """Feeds of sparse data for a dense matrix of zeros and ones."""
    return {name: np.nonzero(dense)[1], f"{name}.counts": np.count_nonzero(dense, axis=1)}


def metrics(batches):
    """The metrics of all evaluators of this build over some batches of feeds."""
    known = paddle.build.current()
    layers = [x for x in known.layers.values() if x.data_type is not None]
    slots = {v.name: v for x in layers for v in x.inputs}
    accumulator = Accumulator(known.evaluators)
    for batch in batches:
        feeds = {slots[name]: array for name, array in batch.items()}
        accumulator.update(pd.eval(fetched(known.evaluators), feeds))
    return accumulator.metrics()


def metric(*batches):
    """The only metric."""
    (found,) = metrics(batches).values()
    return found


def packed(name, sequences):
    """Feeds of a data layer for a list of sequences."""
    lengths = np.array([len(s) for s in sequences], np.int64)
    return {name: np.concatenate([np.asarray(s) for s in sequences]), f"{name}.lengths": lengths}
