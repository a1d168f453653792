"""NaN and infinite values: one warning, which says where they come from."""

import io

import numpy as np
import pytest

import pd_core as pd
import pd_v2 as paddle
from pd_core.backend.fused.build import available
from pd_v2 import settings
from pd_v2.attr import Param
from pd_v2.not_finite import NotFiniteWarning, quoted
from pd_v2.parameters import Parameters

A, L, T = paddle.activation, paddle.layer, paddle.data_type
NAN, INF = float("nan"), float("inf")


def trainer(cost, rate=0.0, pool=None):
    pool = paddle.parameters.create(cost) if pool is None else pool
    return paddle.trainer.SGD(cost, pool, paddle.optimizer.Momentum(learning_rate=rate)), pool


def line(**options):
    """y = x w, from w = 1, and e = exp(y), against t; its cost."""
    x, t = (L.data(name=n, type=T.dense_vector(1)) for n in "xt")
    y = L.fc(x, 1, A.Linear(), "y", Param(initializer=one, **options), False)
    e = L.fc(y, 1, A.Exp(), "e", Param(initializer=one, **options), False)
    return L.square_error_cost(e, label=t)


def one(name):
    return np.ones((1, 1), np.float32)


def batches_of(*values):
    def read_values():
        yield from ([([1.0], [1.0]), ([v], [1.0])] for v in values)

    return read_values


def where(batch, pass_id=0):
    return rf"in batch {batch} of pass {pass_id}, from the reader batches_of.* \(.*\.py:\d+\)\n"


@pytest.mark.parametrize(
    ("value", "cost", "first"),
    [
        (NAN, "nan", r"nan at \[1, 0\] of data layer 'x'$"),
        (INF, "inf", r"inf at \[1, 0\] of data layer 'x'$"),
        (1e39, "inf", r"inf at \[1, 0\] of data layer 'x'$"),
        (100.0, "inf", r"inf at \[1, 0\] of layer 'e' \(fc\)$"),
        (50.0, "inf", r"inf at \[1, 0\] of layer '__square_error_cost_0__' \(square_error\)$"),
    ],
)
def test_a_training_says_once_where_it_began(value, cost, first):
    sgd, _ = trainer(line(is_static=True))
    match = f"(?m)train: the cost is {cost} {where(1)}  the first value that is not finite: {first}"
    costs = []

    def handler(event):
        if isinstance(event, paddle.event.EndIteration):
            costs.append(event.cost)

    with pytest.warns(UserWarning, match=match) as caught:
        sgd.train(batches_of(1.0, value, value, 1.0), num_passes=2, event_handler=handler)
    assert len(caught) == 1 and caught[0].filename == __file__
    assert np.isfinite(costs).tolist() == [True, False, False, True] * 2
    with pytest.warns(UserWarning, match=where(0)):
        sgd.train(batches_of(value))


def test_a_parameter_that_is_no_number_any_more():
    sgd, pool = trainer(line(), rate=1e38)
    first = "the first value that is not finite: .* of parameter '_[ye].w0'\n"
    after = "  parameters that are not finite after it: '_y.w0', '_e.w0'\n  hint: SGD"
    with pytest.warns(NotFiniteWarning, match=where(1) + "  " + first + after):
        sgd.train(batches_of(1.0, 1.0))
    assert not np.isfinite(pool["_y.w0"]).all()


def test_a_sum_that_no_float_holds():
    sgd, _ = trainer(L.sum_cost(L.data(name="x", type=T.dense_vector(1))))
    with pytest.warns(UserWarning, match="train: the cost is inf in batch 0") as caught:
        sgd.train(lambda: iter([[([3e38],), ([3e38],)]]))
    assert "first" not in str(caught[0].message)


def test_rows_that_are_updated_in_place():
    """The layers cannot be computed again from the rows as they were; data and the rest can."""
    word, t = (
        L.data(name=n, type=k) for n, k in [("w", T.integer_value(9)), ("t", T.dense_vector(1))]
    )
    row = L.embedding(word, 2, param_attr=Param(name="table", sparse_update=True))
    sgd, _ = trainer(L.square_error_cost(L.fc(row, 1), label=t), rate=0.1)
    with pytest.warns(UserWarning, match=r"(?m)nan at \[1, 0\] of data layer 't'$") as caught:
        sgd.train(lambda: iter([[(1, [0.0]), (2, [NAN])]]))
    assert len(caught) == 1


def test_layers_of_a_sequence_and_of_a_group():
    x = L.data(name="x", type=T.dense_vector_sequence(1))

    def step(value):
        last = L.memory(name="h", size=1)
        return L.mixed(
            size=1,
            name="h",
            input=[L.identity_projection(value), L.identity_projection(last)],
            act=A.Exp(),
        )

    h = L.recurrent_group(step=step, input=x, name="group")
    sgd, _ = trainer(L.sum_cost(L.last_seq(h)))
    with pytest.warns(UserWarning, match=r"(?m)inf at \[4, 0\] of layer 'h' \(gather_agent\)$"):
        sgd.train(lambda: iter([[([[0.0]] * 2,), ([[2.0]] * 3,)]]))


def test_networks_with_all_that_trains_otherwise(rng):
    """Moving statistics, dropout and images: the search computes what the step did."""
    image, label = (
        L.data(name="i", type=T.dense_vector(64)),
        L.data(name="l", type=T.integer_value(2)),
    )
    conv = L.img_conv(image, filter_size=3, num_filters=2, num_channels=1, padding=1)
    norm = L.batch_norm(conv, act=A.Relu(), name="norm")
    p = L.fc(L.dropout(norm, 0.5), 2, A.Softmax())
    sgd, _ = trainer(L.classification_cost(p, label=label), rate=0.1)
    good, bad = rng.standard_normal((2, 64)).astype(np.float32)
    bad[3] = NAN
    sgd.train(lambda: iter([[(good, 0), (-good, 1)]] * 2))
    with pytest.warns(UserWarning, match=r"nan at \[1, 3\] of data layer 'i'"):
        sgd.train(lambda: iter([[(good, 0), (bad, 1)]]))
    with pytest.warns(UserWarning, match=r"of parameter '_norm\.w0'|of parameter '___conv_0__.w0'"):
        sgd.train(lambda: iter([[(good, 0), (good, 1)]]))


def test_a_parameter_that_breaks_behind_finite_costs():
    """The last step overflows, so that no cost shows it."""
    sgd, pool = trainer(line(), rate=1e38)
    at_the_end = (
        "^train: at the end of pass 0 parameters are not finite: '_y.w0', '_e.w0'\n  hint: "
    )
    with pytest.warns(NotFiniteWarning, match=at_the_end) as caught:
        sgd.train(batches_of(1.0))
    assert len(caught) == 1 and caught[0].filename == __file__
    pool["_y.w0"] = np.array([[1.0]])
    with pytest.warns(NotFiniteWarning, match="'_e.w0'"):
        sgd.train(batches_of(1.0))


def test_names_of_many_parameters_are_cut_off():
    assert quoted([str(k) for k in range(10)]).endswith("'6', '7' and 2 more")


def test_parameters_that_are_large_but_finite():
    x = L.data(name="x", type=T.dense_vector(2))
    y = L.fc(x, 1, A.Linear(), "y", Param(is_static=True), False)
    sgd, pool = trainer(L.sum_cost(y))
    pool["_y.w0"] = np.full((2, 1), 3e38)  # the sum is no float
    sgd.train(lambda: iter([[([0.0, 0.0],)]]))


def test_finite_costs_take_a_look_once_a_pass():
    sgd, _ = trainer(line(), rate=0.01)
    sgd.train(batches_of(1.0))
    before = pd.stats()
    sgd.train(batches_of(1.0, 2.0, 3.0))
    after = pd.stats()
    changed = {name: after[name] - before[name] for name in before}
    assert (changed["evaluations"], changed["compiled"], changed["read"]) == (3 + 1, 0, 0)


# ---- check_numerics


@pytest.mark.parametrize("by_init", [True, False])
def test_a_checked_training_stops_at_the_layer(by_init, monkeypatch):
    monkeypatch.setattr(settings, "_process", settings._Process())
    if by_init:
        paddle.init(check_numerics=True)
    cost = line()
    pool = paddle.parameters.create(cost)
    momentum = paddle.optimizer.Momentum(learning_rate=1e-6)
    options = {} if by_init else {"check_numerics": True}
    sgd = paddle.trainer.SGD(cost, pool, momentum, **options)
    values = []

    def handler(event):
        if isinstance(event, paddle.event.EndIteration):
            values.append(pool["_y.w0"].tolist())

    exp = r"(?s)^Exp in 'e': its output has 0 NaN and 1 Inf of 2 elements, the first at \[1, 0\]\n"
    where_built = rf"  node   Exp, built at {__file__}:\d+\n"
    with pytest.raises(pd.NumericError, match=exp + where_built + ".* from .* to 99") as caught:
        sgd.train(batches_of(1.0, 100.0, 1.0), event_handler=handler)
    assert caught.value.__notes__[0].startswith("  in batch 1 of pass 0, from the reader batches")
    assert values == [pool["_y.w0"].tolist()]
    with pytest.raises(pd.NumericError, match="Exp in 'e'"):
        sgd.test(batches_of(100.0))
    with pytest.raises(pd.NumericError, match=r"the feed x: .* is not finite: 1 NaN and 0 Inf"):
        sgd.train(batches_of(NAN))


def test_the_keyword_of_a_trainer_wins_over_init(monkeypatch):
    monkeypatch.setattr(settings, "_process", settings._Process())
    paddle.init(check_numerics=True)
    cost = line(is_static=True)
    momentum = paddle.optimizer.Momentum(learning_rate=0.0)
    sgd = paddle.trainer.SGD(cost, paddle.parameters.create(cost), momentum, check_numerics=False)
    with pytest.warns(NotFiniteWarning, match="the cost is inf"):
        sgd.train(batches_of(100.0))


# ---- files


@pytest.mark.parametrize("save", ["save_parameter_to_tar", "to_tar"])
@pytest.mark.parametrize("to", ["handle", "path"])
def test_a_file_with_such_values_is_written_with_a_warning(save, to, tmp_path):
    sgd, pool = trainer(line())
    pool["_y.w0"], pool["_e.w0"] = np.array([[NAN]]), np.array([[-INF]])
    target = tmp_path / "values.tar" if to == "path" else io.BytesIO()
    function = pool.to_tar if save == "to_tar" else sgd.save_parameter_to_tar
    with pytest.warns(
        UserWarning, match="values that are not finite .* '_y.w0', '_e.w0'$"
    ) as caught:
        function(target)
    assert len(caught) == 1 and caught[0].filename == __file__
    if to == "handle":
        target.seek(0)
    again = Parameters.from_tar(target)
    assert np.isnan(again["_y.w0"]).all() and again["_e.w0"].tolist() == [[-INF]]


@pytest.mark.skipif(not available(), reason="there is no C compiler here")
def test_fused_steps_keep_the_values_before():
    """They may write parameters in place: the search is among those of the batch."""
    pool = paddle.parameters.create(cost := line())
    sgd = paddle.trainer.SGD(cost, pool, paddle.optimizer.Adam(learning_rate=0.5))
    outputs = []

    def handler(event):
        if isinstance(event, paddle.event.EndIteration) and event.batch_id == 1:
            outputs.append(event.gm.getLayerOutputs("y")["y"]["value"])

    first = r"inf at \[1, 0\] of layer 'e' \(fc\)\n"
    with pd.fused(), pytest.warns(NotFiniteWarning, match=where(1) + "  .* finite: " + first):
        sgd.train(batches_of(1.0, 1000.0), event_handler=handler)
    assert np.isfinite(outputs[0]).all()
