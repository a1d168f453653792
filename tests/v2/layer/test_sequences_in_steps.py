"""Sequence layers of the sub-sequences that a step sees, against the same layers outside."""

import numpy as np
import pytest

import pd_core as pd
import pd_v2 as paddle
from pd_v2 import build
from pd_v2.attr import Param

A, L, P, T = paddle.activation, paddle.layer, paddle.pooling, paddle.data_type

SAMPLES, STEPS = np.array([2, 0, 1, 2]), np.array([2, 0, 3, 1, 4])


def hidden(s, name="w"):
    return L.fc(input=s, size=2, param_attr=Param(name=name), bias_attr=Param(name="b"))


def total(x):
    return L.pooling(input=x, pooling_type=P.Sum())


# fmt: off
ROW_OF_A_SEQUENCE = {
    "max": lambda s: L.pooling(input=hidden(s)),
    "mean": lambda s: L.pooling(input=hidden(s), pooling_type=P.Avg()),
    "root": lambda s: L.pooling(input=hidden(s), pooling_type=P.SquareRootN()),
    "last": lambda s: L.last_seq(input=hidden(s)),
    "first": lambda s: L.first_seq(input=hidden(s)),
    "context": lambda s: total(L.mixed(
        input=L.context_projection(hidden(s), 3, padding_attr=Param(name="p")))),
    "row_conv": lambda s: total(L.row_conv(hidden(s), 3, param_attr=Param(name="r"))),
    "expand": lambda s: total(L.mixed(
        input=L.dotmul_operator(L.expand(input=L.last_seq(hidden(s)), expand_as=s), hidden(s)))),
    "softmax": lambda s: total(L.scaling(
        input=hidden(s),
        weight=L.fc(s, size=1, act=A.SequenceSoftmax(), param_attr=Param(name="v"),
                    bias_attr=False))),
}
OTHER_LENGTHS = {
    "seq_concat": lambda s: L.seq_concat(a=hidden(s), b=hidden(s)),
    "seq_reshape": lambda s: L.seq_reshape(hidden(s), reshape_size=1),
    "sub_seq": lambda s: L.sub_seq(
        input=s, offsets=L.max_id(L.last_seq(s)), sizes=L.max_id(L.last_seq(s))),
    "seq_slice": lambda s: L.seq_slice(s, starts=L.last_seq(s), ends=None),
    "windows": lambda s: L.pooling(input=s, stride=2),
}
# fmt: on


def with_memory(row):
    """A step that needs a loop."""
    memory = L.memory(name="out", size=2)
    attrs = [Param(name="u"), Param(name="m")]
    return L.fc(input=[row, memory], size=2, name="out", param_attr=attrs, bias_attr=False)


def inside(make):
    x = L.data(name="x", type=T.dense_vector_sub_sequence(3))

    def step(s):
        return with_memory(make(s))

    y = L.recurrent_group(step=step, input=L.SubsequenceInput(x))
    return y, x.inputs


def outside(make):
    """The sub-sequences as samples; their rows as the sequences of a group."""
    x = L.data(name="x", type=T.dense_vector_sequence(3))
    row = make(x)
    samples = pd.Variable([None], dtype="int64")
    row.levels = (pd.Segments(samples, row.dims[0]),)
    y = L.recurrent_group(step=with_memory, input=row)
    return y, [x, samples, *x.inputs[1:]]


def results(network, make, rows):
    """The output, and the gradients by all parameters."""
    pd.reset()
    with build.fresh():
        y, inputs = network(make)
        names = sorted(paddle.parameters.create(y).names())
        parameters = [pd.get_variable(name) for name in names]
        rng = np.random.default_rng(1)
        for v in parameters:
            pd.eval(pd.assign(v, rng.standard_normal(v.dims).astype(np.float32)))
        cost = pd.reduce_sum(pd.square(pd.identity(y)))
        fed = dict(zip(inputs, [rows, SAMPLES, STEPS], strict=True))
        return dict(
            zip(["y", *names], pd.eval([y, *pd.gradients(cost, parameters)], fed), strict=True)
        )


@pytest.mark.parametrize("kind", ROW_OF_A_SEQUENCE)
def test_the_same_as_outside(kind, rng):
    make, rows = ROW_OF_A_SEQUENCE[kind], rng.standard_normal((10, 3)).astype(np.float32)
    found, wanted = (results(network, make, rows) for network in (inside, outside))
    assert found.keys() == wanted.keys()
    for name, array in found.items():
        np.testing.assert_allclose(array, wanted[name], rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("kind", OTHER_LENGTHS)
def test_other_lengths_are_refused(kind):
    with pytest.raises(
        pd.GraphError, match="the sub-sequences that a step sees cannot get other l"
    ):
        inside(OTHER_LENGTHS[kind])
