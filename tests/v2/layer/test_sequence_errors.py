"""What a user is told whose sequence layers do not fit, when they are built and when they run."""

import numpy as np
import pytest

import pd_core as pd
import pd_v2 as paddle

from .sequence_rows import A, Data, L, P

# Columns: what is built, and words of the error.
# fmt: off
MISTAKES = [
    (lambda z, **_: L.pooling(input=z),
     "pooling layer '__seq_pooling_0__', inputs .'z'.: 'z' has no sequences"),
    (lambda x, **_: L.pooling(input=x, agg_level="seq"),
     "'x' has sequences of rows, none in sequences"),
    (lambda x, **_: L.last_seq(input=x, agg_level="all"),
     "agg_level is one of AggregateLevel, not 'all'"),
    (lambda x, **_: L.last_seq(input=x, stride=0),
     "stride is a whole number of at least 1, not 0"),
    (lambda n, **_: L.first_seq(input=n, stride=2),
     "a stride is for sequences of rows, 'n' is nested"),
    (lambda n, **_: L.pooling(input=n, stride=2, agg_level="seq"),
     "a stride is for TO_NO_SEQUENCE only"),
    (lambda z, **_: L.expand(input=z, expand_as=z), "expand layer .* 'z' has no sequences"),
    (lambda x, z, **_: L.expand(input=z, expand_as=x, expand_level="seq"),
     "'x' has sequences of rows, none in"),
    (lambda n, z, **_: L.expand(input=z, expand_as=n, expand_level="seq"),
     "'z' is no sequence with a row for each sub"),
    (lambda x, z, **_: L.expand(input=z, expand_as=x, expand_level="all"),
     "expand_level is one of ExpandLevel"),
    (lambda x, one, **_: L.seq_concat(a=x, b=one), "'x' is 3 wide, 'one' 1"),
    (lambda x, z, **_: L.seq_concat(a=x, b=z), "'z' has no sequences"),
    (lambda x, w, **_: L.seq_concat(a=x, b=w), "'w' holds ids"),
    (lambda z, **_: L.seq_reshape(input=z, reshape_size=2),
     "'z' is 3 wide, which is not rows of 2"),
    (lambda x, **_: L.seq_reshape(input=x, reshape_size=0),
     "reshape_size is a whole number of at least 1, not 0"),
    (lambda z, **_: L.row_conv(input=z, context_len=2), "'z' has no sequences"),
    (lambda x, **_: L.row_conv(input=x, context_len=0),
     "context_len is a whole number of at least 1, not 0"),
    (lambda z, **_: L.mixed(input=L.context_projection(z, context_len=2)), "'z' has no sequences"),
    (lambda x, **_: L.context_projection(x, context_len=0),
     "context_len is a whole number of at least 1, not 0"),
    (lambda x, **_: L.context_projection(x, 2, context_start=0.5),
     "context_start is a whole number, not 0.5"),
    (lambda x, z, **_: L.seq_slice(input=x, starts=None, ends=None),
     "starts and ends cannot both be None"),
    (lambda x, z, one, **_: L.seq_slice(input=x, starts=z, ends=one),
     "'z' has 3 steps in a row, 'one' 1"),
    (lambda x, w, **_: L.seq_slice(input=x, starts=w, ends=None),
     "'w' has rows of numbers, not w: int64"),
    (lambda x, z, **_: L.sub_nested_seq(input=x, selected_indices=z),
     "'x' has sequences of rows, none in"),
    (lambda x, z, **_: L.sub_seq(input=x, offsets=z, sizes=z),
     "'z' holds rows of numbers, no ids"),
    (lambda x, **_: L.kmax_seq_score(input=x), "a score is 1 number, 'x' is 3 wide"),
    (lambda one, **_: L.kmax_seq_score(input=one, beam_size=0),
     "beam_size is a whole number of at least 1, not 0"),
    (lambda z, **_: L.block_expand(input=z, num_channels=3, block_x=1, block_y=1, stride_x=1),
     "stride_y is a whole"),
    (lambda x, one, **_: L.lambda_cost(input=one, score=x), "an item has 1 number, 'x' is 3 wide"),
    (lambda one, **_: L.lambda_cost(input=one, score=one, NDCG_num=5, max_sort_size=3),
     "max_sort_size is -1 or at"),
    (lambda z, **_: L.fc(z, size=1, act=A.SequenceSoftmax()),
     "sequence_softmax is over the steps of a sequence"),
]
# fmt: on


@pytest.fixture
def net():
    """Layers by name: z rows, x sequences, n nested ones of 3; one, sequences of 1; w of ids."""
    kinds = {"z": Data(3, 0), "x": Data(3), "n": Data(3, 2), "one": Data(1), "w": Data(5, 1, "ids")}
    return {name: kind.layer(name) for name, kind in kinds.items()}


@pytest.mark.parametrize(("mistake", "message"), MISTAKES)
def test_mistake(net, mistake, message):
    with pytest.raises(pd.GraphError, match=message):
        mistake(**net)


def test_mistaken_types(net):
    x = net["x"]
    with pytest.raises(TypeError, match="layer '__seq_pooling_0__': pooling_type is one of Max, A"):
        L.pooling(input=x, pooling_type=P.CudnnMax())
    with pytest.raises(TypeError, match="seq_slice: starts and ends are layers or None, not 3"):
        L.seq_slice(input=x, starts=3, ends=None)
    with pytest.raises(TypeError, match="a projection is of a layer, not of 3"):
        L.context_projection(3, context_len=2)


def test_rows_that_do_not_divide_when_it_runs(net):
    x = net["x"]
    y = L.seq_reshape(input=x, reshape_size=2)
    fed = dict(zip(x.inputs, [np.zeros((4, 3)), [1, 3]], strict=True))
    with pytest.raises(pd.BackendError, match="Reshape"):
        pd.eval(y, fed)


def test_steps_that_are_not_a_row_for_each_sample_when_it_runs(net):
    x, one = net["x"], net["one"]
    y = L.expand(input=x, expand_as=one)
    lengths = {x.inputs[1]: [1, 2], one: np.zeros((3, 1)), one.inputs[1]: [2, 1]}
    with pytest.raises(pd.BackendError, match=r"the elements of \[3, 3\] do not fit \[2, 3\]"):
        pd.eval(y, {x: np.zeros((3, 3)), **lengths})


def test_sequences_that_differ_when_it_runs(net):
    x, one = net["x"], net["one"]
    y = L.scaling(input=x, weight=one)
    rows = [np.zeros((4, 3)), [1, 3], np.zeros((4, 1))]
    fed = dict(zip([*x.inputs, one], rows, strict=True))
    assert pd.eval(y, {**fed, one.inputs[1]: [1, 3]}).shape == (4, 3)
    with pytest.raises(pd.ShapeError, match="sequence 0 has 2 by 'one"):
        pd.eval(y, {**fed, one.inputs[1]: [2, 2]})


def test_a_label_of_other_sequences_is_found_out_in_training(net):
    x, label = net["x"], net["w"]
    cost = L.classification_cost(input=L.fc(x, size=5, act=A.Softmax()), label=label)
    trainer = paddle.trainer.SGD(
        cost, paddle.parameters.create(cost), paddle.optimizer.Momentum(momentum=0)
    )
    samples = [([[0.0] * 3] * 2, [1, 2]), ([[0.0] * 3], [3])]
    trainer.train(lambda: iter([samples]), feeding={"x": 0, "w": 1})
    samples = [([[0.0] * 3] * 2, [1]), ([[0.0] * 3], [3, 2])]
    with pytest.raises(pd.ShapeError, match="sequence 0 has"):
        trainer.train(lambda: iter([samples]), feeding={"x": 0, "w": 1})


def test_relevance_of_other_lists(net):
    s, r = net["one"], Data(1).layer("r")
    y = L.lambda_cost(input=s, score=r)
    fed = dict(zip([*s.inputs, r], [np.zeros((4, 1)), [1, 3], np.zeros((4, 1))], strict=True))
    assert pd.eval(y, {**fed, r.inputs[1]: [1, 3]}).shape == (4, 1)
    with pytest.raises(pd.ShapeError, match="rows of different sequences meet: sequence 0 has"):
        pd.eval(y, {**fed, r.inputs[1]: [2, 2]})
