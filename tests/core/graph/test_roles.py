"""The attributes of Variables: few, with a record for each role that only some Variables have."""

import gc
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

import pd_core as pd
from pd_core.graph import roles

ATTRIBUTES = {
    *("name", "dims", "dtype", "node", "value", "initial", "trainable", "site"),
    *("eager_value", "source", "tracked", "literal"),  # while values are at hand
    *("options", "feed", "storage", "history"),  # records
}
NOT_ITS_OWN = {
    "content",
    "entries",
    "type_key",
    "state_key",
    "attached",
}  # caches, and what `Attached` keeps with it


def test_variables_have_sixteen_attributes():
    assert set(pd.Variable.__annotations__) == ATTRIBUTES
    assert len(ATTRIBUTES) == 16


def everything():
    """Variables in all of their roles."""
    x, lengths = pd.Variable([None, 3]), pd.Variable([None], dtype="int64")
    w = pd.Variable("w", shape=[3, 2], learning_rate=2.0)
    rows = pd.gather(pd.Variable("rows", shape=[5, 2], row_sparse=True), np.array([1, 3]))
    packed = pd.Segments(lengths).mean(x @ w + pd.reduce_sum(rows))
    adam = pd.AdamOptimizer(0.1, clip=pd.ClipGlobalNorm(1.0))
    update = adam.minimize(pd.reduce_mean(packed))
    pd.eval(update, {x: np.ones((2, 3)), lengths: [2]})
    adam.learning_rate = 0.2
    pd.eval(update, {x: np.ones((2, 3)), lengths: [2]})
    with pd.guard():
        layer, sgd = pd.nn.FC(2), pd.SGDOptimizer(0.1)
        for _ in range(2):
            loss = pd.reduce_mean(layer(np.ones((2, 3), np.float32)) * 0.5)
            loss.backward(retain_graph=True)
            sgd.minimize(loss)
            loss.numpy()
    return x, lengths, packed, update, adam, layer, loss


def test_no_module_adds_an_attribute():
    alive = everything()
    variables = [v for v in gc.get_objects() if type(v) is pd.Variable]
    assert len(variables) > 30 and alive
    assert set().union(*map(vars, variables)) <= ATTRIBUTES | NOT_ITS_OWN


def test_variables_without_a_role_share_its_record():
    x, w = pd.Variable([None, 3]), pd.Variable(shape=[3])
    assert x.options is w.options is roles.NO_OPTIONS
    assert x.feed is w.feed is roles.NO_FEED
    assert not {"options", "feed", "storage", "history"} & {*vars(x), *vars(w), *vars(x * w)}


def test_roles_are_replaced_and_never_changed():
    w, other = pd.Variable(shape=[3]), pd.Variable(shape=[3])
    w.learning_rate, w.clip = 0.5, lambda g, w: g
    assert (w.learning_rate, w.options.clip) == (0.5, w.clip)
    assert (other.learning_rate, other.clip) == (1.0, None)
    with pytest.raises(FrozenInstanceError):
        w.options.learning_rate = 2.0
