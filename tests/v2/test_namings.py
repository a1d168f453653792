"""Several networks of one process: recurring names, and pools with values of their own."""

import copy
import io

import numpy as np
import pytest

import pd_core as pd
import pd_v2 as paddle
from pd_v2 import build
from pd_v2.attr import Param
from pd_v2.topology import Topology

A, L, T = paddle.activation, paddle.layer, paddle.data_type


def dense(name, size=2):
    return L.data(name=name, type=T.dense_vector(size))


def network(outputs=1):
    """Two layers with automatic names, and a cost: (prediction, cost)."""
    hidden = L.fc(input=dense("x"), size=3)
    y = L.fc(input=hidden, size=outputs, act=A.Linear())
    return y, L.square_error_cost(input=y, label=dense("label", outputs))


def trained(cost, pool, rate=0.1):
    optimizer = paddle.optimizer.Momentum(learning_rate=rate, momentum=0.0)
    trainer = paddle.trainer.SGD(cost, pool, optimizer)
    trainer.train(lambda: iter([[([1.0, 2.0], [3.0])]]), num_passes=3)
    return trainer


def test_a_second_network_gets_the_names_of_the_first():
    """Train, describe the same again, infer."""
    y, cost = network()
    pool = paddle.parameters.create(cost)
    trained(cost, pool)
    expected = paddle.infer(y, pool, [([1.0, 2.0],)])
    again, _ = network()
    assert again is not y and again.name == y.name == "__fc_layer_1__"
    np.testing.assert_array_equal(paddle.infer(again, pool, [([1.0, 2.0],)]), expected)


def test_without_a_topology_between_it_is_one_network():
    """A data layer that is declared twice is one; automatic names go on."""
    x, y = dense("x"), dense("x")
    assert x is y
    first, second = L.fc(input=x, size=1), L.fc(input=y, size=1)
    assert [first.name, second.name] == ["__fc_layer_0__", "__fc_layer_1__"]
    topology = Topology([first, second])
    assert topology.data_type() == [("x", T.dense_vector(2))]


def test_layers_on_top_of_what_a_topology_has_are_numbered_on():
    y, _ = network()
    Topology(y)
    z = L.fc(input=y, size=1)
    assert z.name == "__fc_layer_2__"
    assert len(Topology(z).parameters) == 6


def test_named_layers_may_recur():
    """Each topology has its own; what both have in common they share."""
    x = dense("x")
    costs = [L.sum_cost(input=L.fc(input=x, size=2, name="q")) for _ in range(2)]
    tops = [Topology(cost) for cost in costs]
    assert [[p.config.name for p in t.parameters] for t in tops] == [["_q.w0", "_q.wbias"]] * 2
    assert tops[0].parameters[0].variable is tops[1].parameters[0].variable
    with pytest.raises(pd.NameConflict, match=r"two layers 'q', built at .*namings.py:\d+ and "):
        Topology(costs)


def test_sizes_are_those_of_each_network():
    small, _ = network(1)
    first = paddle.parameters.create(small)
    large, _ = network(4)
    second = paddle.parameters.create(large)
    shapes = [p.get_shape("___fc_layer_1__.w0") for p in (first, second)]
    assert shapes == [(3, 1), (3, 4)]
    assert first["___fc_layer_1__.w0"].shape == (3, 1)
    assert second["___fc_layer_1__.w0"].shape == (3, 4)


def test_a_network_has_one_parameter_of_a_name():
    first, _ = network(1)
    Topology(first)
    second, _ = network(4)
    message = r"two (layers|parameters) '.*'"
    with pytest.raises(pd.GraphError, match=message):
        Topology([first, second])


def test_attributes_are_those_of_each_network():
    """Frozen in one network, trained by another: the values are the same."""

    def cost(**attributes):
        attr = Param(name="w", initial_std=0.0, initial_mean=1.0, **attributes)
        y = L.fc(input=dense("x"), size=1, act=A.Linear(), param_attr=attr, bias_attr=False)
        return L.square_error_cost(input=y, label=dense("label", 1))

    frozen = cost(is_static=True)
    pool = paddle.parameters.create(frozen)
    first = trained(frozen, pool)
    assert pool["w"].tolist() == [1, 1]
    second = trained(cost(learning_rate=0.5), pool, rate=0.2)
    assert pool["w"].tolist() == [1, 1]  # the error is 0 there, so begin elsewhere
    pool["w"] = np.float32([0.0, 0.0])
    second.train(lambda: iter([[([1.0, 0.0], [1.0])]]))
    assert pool["w"] == pytest.approx([0.5 * 0.2 * 2, 0.0])
    before = pool["w"]
    first.train(lambda: iter([[([1.0, 0.0], [1.0])]]))
    np.testing.assert_array_equal(pool["w"], before)


def test_pools_of_one_network_have_values_of_their_own():
    """Folds of a cross-validation do not see each other."""
    _, cost = network()
    first, second = paddle.parameters.create(cost), paddle.parameters.create(cost)
    name = "___fc_layer_0__.w0"
    trained(cost, first)
    learned = first[name]
    trainer = trained(cost, second)
    np.testing.assert_array_equal(first[name], learned)
    assert (second[name] != learned).any()
    second[name] = np.zeros((2, 3), np.float32)
    assert trainer.test(lambda: iter([[([1.0, 2.0], [3.0])]])).cost > 0
    np.testing.assert_array_equal(first[name], learned)


def test_two_trainers_of_one_pool_share_its_values():
    _, cost = network()
    paddle.parameters.create(cost)
    pool = paddle.parameters.create(cost)
    trained(cost, pool)
    learned = pool["___fc_layer_0__.w0"]
    trained(cost, pool)
    assert (pool["___fc_layer_0__.w0"] != learned).any()


def test_an_initializer_runs_for_every_pool_and_once():
    attr = Param(name="w", initializer=lambda name: np.float32([[7.0], [8.0]]))
    y = L.fc(input=dense("x"), size=1, param_attr=attr, bias_attr=False, act=A.Linear())
    first = paddle.parameters.create(y)
    first["w"] = np.float32([[1.0], [2.0]])
    assert paddle.parameters.create(y)["w"].ravel().tolist() == [7, 8]
    trained(L.square_error_cost(input=y, label=dense("label", 1)), first, rate=0.0)
    assert first["w"].tolist() == [1, 2]


def test_a_pool_moves_to_the_network_that_was_described_anew():
    """Values follow their names to another network of the same process."""
    y, cost = network()
    pool = paddle.parameters.create(cost)
    trained(cost, pool)
    kept = {name: pool[name] for name in pool.names()}
    file = io.BytesIO()
    pool.to_tar(file)
    _, again = network()
    trained(again, pool, rate=0.0)
    for name, value in kept.items():
        np.testing.assert_array_equal(pool[name], value)
    file.seek(0)
    np.testing.assert_array_equal(
        paddle.infer(y, paddle.parameters.Parameters.from_tar(file), [([1.0, 2.0],)]),
        paddle.infer(y, pool, [([1.0, 2.0],)]),
    )


def test_sample_fields_follow_the_declarations_of_each_network():
    Topology([dense("a", 1), dense("b", 1)])
    b, a = dense("b", 1), dense("a", 1)
    assert [name for name, _ in Topology([a, b]).data_type()] == ["b", "a"]


def test_a_naming_begins_where_its_own_data_recur():
    """What an earlier network declared is new to this one."""
    y, _ = network()
    Topology(y)
    again = L.fc(input=dense("x"), size=3)
    Topology(again)
    L.square_error_cost(input=again, label=dense("label", 3))
    assert [again.name, L.fc(input=again, size=1).name] == ["__fc_layer_0__", "__fc_layer_1__"]


def test_a_network_that_was_described_anew_can_go():
    """Describing in a loop keeps the last network only."""
    import gc
    import weakref

    gone = []
    for _ in range(3):
        y, _ = network()
        pool = paddle.parameters.create(y)
        paddle.infer(y, pool, [([1.0, 2.0],)])
        gone.append(weakref.ref(y))
        del y, pool
    gc.collect()
    assert [ref() is None for ref in gone] == [True, True, False]


def test_recurring_groups_link_their_own_layers():
    def group():
        def step(row):
            before = L.memory(name="h", size=2)
            return L.fc(input=[row, before], size=2, name="h")

        x = L.data(name="s", type=T.dense_vector_sequence(2))
        return L.recurrent_group(step=step, input=x, name="g")

    first = L.last_seq(input=group())
    pool = paddle.parameters.create(first)
    second = L.last_seq(input=group())
    rows = [([[1.0, 2.0], [3.0, 4.0]],)]
    np.testing.assert_array_equal(paddle.infer(first, pool, rows), paddle.infer(second, pool, rows))

    def without(row):
        L.memory(name="h", size=2)
        return L.fc(input=row, size=2, name="other")

    with pytest.raises(pd.GraphError, match="no layer of the step is called 'h'"):
        x = L.data(name="s", type=T.dense_vector_sequence(2))
        L.recurrent_group(step=without, input=x, name="g")


# ---- boot layers


def test_a_boot_layer_may_be_made_inside_the_step():
    """What a step makes of outside layers only stands outside."""
    x = L.data(name="s", type=T.dense_vector_sequence(2))
    start = dense("start", 2)

    def step(row):
        boot = L.fc(input=start, size=2, act=A.Tanh(), name="boot", bias_attr=False)
        before = L.memory(name="h", size=2, boot_layer=L.dropout(boot, 0.5))
        return L.addto(input=[row, before], name="h", act=A.Linear(), bias_attr=False)

    last = L.last_seq(input=L.recurrent_group(step=step, input=x, name="g"))
    topology = Topology(last)
    names = {x.full_name for x in topology._members}
    assert "boot" in names and "boot@g" not in names
    pool = paddle.parameters.create(last)
    pool["_boot.w0"] = np.eye(2)
    found = paddle.infer(last, pool, [([[1.0, 2.0], [3.0, 4.0]], [0.5, -0.5])])
    expected = np.float32([[4.0, 6.0]]) + 0.5 * np.tanh(np.float32([[0.5, -0.5]]))
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_a_data_layer_in_a_step_is_outside():
    x = L.data(name="s", type=T.dense_vector_sequence(1))

    def step(row):
        before = L.memory(name="h", size=1, boot_layer=dense("start", 1))
        return L.addto(input=[row, before], name="h", act=A.Linear(), bias_attr=False)

    last = L.last_seq(input=L.recurrent_group(step=step, input=x))
    pool = paddle.parameters.create(last)
    assert paddle.infer(last, pool, [([[1.0], [2.0]], [10.0])]).tolist() == [[13.0]]


def test_a_boot_layer_inside_a_step_of_a_step():
    x = L.data(name="s", type=T.dense_vector_sub_sequence(1))
    start = dense("start", 1)

    def outer(rows):
        def inner(row):
            boot = L.slope_intercept(input=start, slope=2.0)
            before = L.memory(name="h", size=1, boot_layer=boot)
            return L.addto(input=[row, before], name="h", act=A.Linear(), bias_attr=False)

        return L.last_seq(input=L.recurrent_group(step=inner, input=rows))

    last = L.last_seq(input=L.recurrent_group(step=outer, input=x))
    pool = paddle.parameters.create(last)
    samples = [([[[1.0], [2.0]], [[4.0]]], [10.0]), ([[[7.0]]], [30.0])]
    assert paddle.infer(last, pool, samples).tolist() == [[24.0], [67.0]]


def test_an_outside_layer_is_no_layer_of_the_step():
    x = L.data(name="s", type=T.dense_vector_sequence(2))
    start = dense("start", 2)
    with pytest.raises(pd.GraphError, match="hint: give it to the step as StaticInput"):
        L.recurrent_group(step=lambda row: L.addto(input=[row, L.fc(input=start, size=2)]), input=x)
    with pytest.raises(pd.GraphError, match="the step returns '__fc_layer_1__', which is outside"):
        L.recurrent_group(step=lambda row: L.fc(input=start, size=2), input=x)


# ---- layers are objects


def test_a_layer_is_an_ordinary_object():
    x, y = dense("x"), dense("y")
    assert bool(x)
    assert x == x and x != y and x != None  # noqa: E711
    assert x in [y, x] and y not in [x] and [y, x].index(x) == 1
    assert {x: 1, y: 2}[y] == 2 and len({x, y, x}) == 2
    assert sorted([y, x]) == [x, y] and x < y and y >= x and max(x, y) is y
    assert sorted([(1, y), (1, x)]) == [(1, x), (1, y)]
    assert "x" in repr(x) and "x" in f"{x}"
    with pytest.raises(TypeError):
        x < 3  # noqa: B015


def test_the_core_compares_variables_of_the_face():
    x = dense("x", 1)
    assert isinstance(pd.less_than(x, 1.0), pd.Variable)
    with pytest.raises(TypeError, match="has no value while the graph is built"):
        bool(pd.Variable([None, 2]))


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_a_copy_is_the_same_layer_with_attributes_of_its_own(copied):
    x = dense("x")
    h = L.fc(input=x, size=3, act=A.Linear())
    twin = copied(h)
    assert twin is not h and twin != h and twin.name == h.name
    twin.num_filters = 3
    assert h.num_filters is None
    both = L.addto(input=[h, twin], act=A.Linear(), bias_attr=False)
    topology = Topology([both, twin])
    assert [layer.name for layer in topology.proto().layers] == ["x", h.name, both.name]
    assert list(topology.proto().output_layer_names) == [both.name, h.name]
    pool = paddle.parameters.create(both)
    once, twice = (paddle.infer(v, pool, [([1.0, 2.0],)]) for v in (twin, both))
    np.testing.assert_allclose(twice, 2 * once)
    assert len(copied([h, {"k": x}])) == 2


def test_a_copy_inside_a_step():
    x = L.data(name="s", type=T.dense_vector_sequence(1))

    def step(row):
        before = L.memory(name="h", size=1)
        inputs = [copy.copy(row), copy.deepcopy(before)]
        return L.addto(input=inputs, name="h", act=A.Linear(), bias_attr=False)

    last = L.last_seq(input=L.recurrent_group(step=step, input=x))
    pool = paddle.parameters.create(last)
    assert paddle.infer(last, pool, [([[1.0], [2.0], [4.0]],)]).tolist() == [[7.0]]


def test_forgetting_the_network_forgets_its_naming():
    network()
    Topology(L.get_layer("x"))
    with build.fresh():
        assert not build.current().naming.in_use and not build.current().naming.data


@pytest.mark.parametrize(
    "fails",
    [
        lambda x: paddle.layer.fc(input=x, size=3, act="relu"),
        lambda x: paddle.layer.fc(input="x", size=3),
        lambda x: paddle.layer.fc(input=x, size=3, param_attr="w"),
        lambda x: paddle.layer.addto(input=[x, 3]),
        lambda x: paddle.layer.dropout(input=x, dropout_rate="half"),
    ],
)
def test_a_call_that_fails_uses_up_no_name(fails):
    x = paddle.layer.data(name="x", type=paddle.data_type.dense_vector(4))
    paddle.layer.fc(input=x, size=2)
    current = build.current()
    before = dict(current.naming.counters), list(current.layers), list(current.parameters)
    with pytest.raises((TypeError, ValueError, AttributeError)):
        fails(x)
    after = dict(current.naming.counters), list(current.layers), list(current.parameters)
    assert after == before
    assert paddle.layer.fc(input=x, size=2).name == "__fc_layer_1__"
