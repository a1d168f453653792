"""Pools of parameters: initial values from 2017's stream, views on networks, and tar files."""

import io
import math
import struct
import tarfile

import numpy as np
import pytest

import pd_core as pd
import pd_v2 as paddle
from pd_v2 import build, settings
from pd_v2.attr import Param
from pd_v2.formats.proto import ParameterConfig
from pd_v2.parameters import Parameters
from pd_v2.rand_r import RandR

L, T = paddle.layer, paddle.data_type


def line(**options):
    """x [2] -> y [3] with the parameters _y.w0, _y.wbias, and its cost."""
    x = L.data(name="x", type=T.dense_vector(2))
    t = L.data(name="t", type=T.dense_vector(3))
    y = L.fc(x, size=3, name="y", act=paddle.activation.Linear(), **options)
    return L.square_error_cost(input=y, label=t)


def trainer(cost, pool, **options):
    return paddle.trainer.SGD(cost, pool, paddle.optimizer.Momentum(**options))


def batches(*samples):
    return lambda: iter([list(samples)])


SAMPLE = ([1.0, 2.0], [0.0, 0.0, 0.0])


def tar_of(pool):
    f = io.BytesIO()
    pool.to_tar(f)
    return f.getvalue()


def config(name, *dims, size=None):
    size = int(np.prod(dims)) if size is None else size
    return ParameterConfig(name=name, size=size, dims=dims)


# ---- initial values


def test_values_are_drawn_in_the_order_of_creation():
    cost = line(
        param_attr=Param(initial_min=-1.0, initial_max=1.0), bias_attr=Param(initial_std=0.01)
    )
    pool = paddle.parameters.create(cost)
    trainer(cost, pool)
    stream = RandR(0)
    np.testing.assert_array_equal(pool.get("_y.w0"), stream.uniform(0.0, 1.0, 6))
    np.testing.assert_array_equal(pool.get("_y.wbias"), stream.normal(0.0, 0.01, 3))


def test_the_first_values_of_seed_1_are_those_of_glibc():
    x = L.data(name="x", type=T.dense_vector(1))
    a = L.fc(x, size=4, name="a", param_attr=Param(initial_std=1.0), bias_attr=False)
    b = L.fc(a, size=3, name="b", bias_attr=Param(initial_std=0.01), param_attr=Param(name="w"))
    pool = paddle.parameters.create(b)
    trainer(b, pool)
    expected = [1.19825101, -3.72605467, 0.470652074, -0.487358242]
    np.testing.assert_allclose(pool.get("_a.w0"), expected, rtol=1e-6)


def test_a_start_of_std_0_takes_its_share_of_the_stream():
    cost = line()
    after = L.fc(L.get_layer("y"), size=2, name="z", bias_attr=False)
    pool = paddle.parameters.create(after)
    trainer(after, pool)
    stream = RandR(0)
    np.testing.assert_array_equal(pool.get("_y.w0"), stream.normal(0, 1 / np.sqrt(2), 6))
    stream.normal(0, 0, 3)
    np.testing.assert_array_equal(pool.get("_z.w0"), stream.normal(0, 1 / np.sqrt(3), 6))
    assert pool.get("_y.wbias").tolist() == [0, 0, 0]
    assert cost.name == "__square_error_cost_0__"


def test_seed(monkeypatch):
    monkeypatch.setattr(settings._process, "settings", settings.Settings(seed=42))
    cost = line(bias_attr=False)
    pool = paddle.parameters.create(cost)
    trainer(cost, pool)
    np.testing.assert_array_equal(pool.get("_y.w0"), RandR(41).normal(0, 1 / np.sqrt(2), 6))


def test_seed_0_is_the_time(monkeypatch):
    monkeypatch.setattr(settings._process, "settings", settings.Settings(seed=0))
    monkeypatch.setattr(build.time, "time", lambda: 1500000000.5)
    assert build.current().random.state == 1499999999


def test_a_second_trainer_goes_on_in_the_stream():
    first = line(bias_attr=False)
    trainer(first, paddle.parameters.create(first))
    z = L.fc(L.get_layer("x"), size=3, name="z", bias_attr=False)
    pool = paddle.parameters.create(z)
    trainer(z, pool)
    stream = RandR(0)
    stream.normal(0, 1, 6)
    np.testing.assert_array_equal(pool.get("_z.w0"), stream.normal(0, 1 / np.sqrt(2), 6))


def test_reading_a_value_early_leaves_the_stream_as_it_is():
    """What a trainer draws afterwards is what it would have drawn, also for further layers."""
    cost = line(bias_attr=False)
    aside = L.fc(L.get_layer("y"), size=2, name="z", bias_attr=False)
    pool = paddle.parameters.create(cost)
    early = pool["_y.w0"]
    paddle.trainer.SGD(cost, pool, paddle.optimizer.Momentum(), extra_layers=aside)
    stream = RandR(0)
    np.testing.assert_array_equal(pool["_y.w0"], stream.normal(0, 1 / np.sqrt(2), 6))
    np.testing.assert_array_equal(pool["_y.w0"], early.ravel())
    np.testing.assert_array_equal(pool["_z.w0"], stream.normal(0, 1 / np.sqrt(3), 6))


def test_a_seed_after_the_first_values_changes_nothing(monkeypatch):
    first = line(bias_attr=False)
    trainer(first, paddle.parameters.create(first))
    monkeypatch.setattr(settings._process, "settings", settings.Settings(seed=42))
    z = L.fc(L.get_layer("x"), size=3, name="z", bias_attr=False)
    pool = paddle.parameters.create(z)
    trainer(z, pool)
    stream = RandR(0)
    stream.normal(0, 1, 6)
    np.testing.assert_array_equal(pool["_z.w0"], stream.normal(0, 1 / np.sqrt(2), 6))


def given_by_set(cost):
    pool = paddle.parameters.create(cost)
    pool.set("_y.w0", np.full((2, 3), 0.5, np.float32))
    return pool


def given_by_tar(cost):
    pool = Parameters()
    pool.__append_config__(config("_y.w0", 2, 3))
    pool["_y.w0"] = np.full((2, 3), 0.5)
    given = paddle.parameters.create(cost)
    given.init_from_tar(io.BytesIO(tar_of(pool)), exclude_params=["_y.wbias"])
    return given


@pytest.mark.parametrize("given", [given_by_set, given_by_tar])
def test_a_given_value_wins_and_still_consumes_the_stream(given):
    cost = line(bias_attr=Param(initial_std=1.0))
    pool = given(cost)
    trainer(cost, pool)
    assert pool.get("_y.w0").tolist() == [0.5] * 6
    stream = RandR(0)
    stream.normal(0, 1, 6)
    np.testing.assert_array_equal(pool.get("_y.wbias"), stream.normal(0, 1, 3))


def test_an_initializer_wins_and_still_consumes_the_stream():
    asked = []

    def initial(name):
        asked.append(name)
        return np.arange(6.0).reshape(2, 3)

    cost = line(param_attr=Param(initializer=initial), bias_attr=Param(initial_std=1.0))
    pool = paddle.parameters.create(cost)
    assert pool.get("_y.w0").tolist() == [[0, 1, 2], [3, 4, 5]]
    trainer(cost, pool)
    assert pool.get("_y.w0").tolist() == [0, 1, 2, 3, 4, 5]
    stream = RandR(0)
    stream.normal(0, 1, 6)
    np.testing.assert_array_equal(pool.get("_y.wbias"), stream.normal(0, 1, 3))
    assert asked == ["_y.w0"]


def test_an_initializer_does_not_run_over_trained_values():
    cost = line(param_attr=Param(initializer=lambda name: np.zeros((2, 3))), bias_attr=False)
    pool = given_by_tar(cost)
    trainer(cost, pool, learning_rate=0.1).train(batches(SAMPLE))
    trained = pool.get("_y.w0")
    assert (trained != 0).all()
    trainer(cost, pool)
    np.testing.assert_array_equal(pool.get("_y.w0"), trained)
    assert not paddle.parameters.create(L.get_layer("y")).get("_y.w0").any()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.zeros((3, 2)), r"parameter '_y.w0' is \(2, 3\), the value \(3, 2\)"),
        ([[0.0] * 3] * 2, "Must return ndarray, not list"),
    ],
)
def test_an_initializer_gives_an_array_of_the_shape(value, message):
    cost = line(param_attr=Param(initializer=lambda name: value))
    with pytest.raises(ValueError, match=message):
        paddle.parameters.create(cost)


# ---- values


def test_get_is_shaped_before_a_trainer_and_flat_after():
    cost = line()
    pool = paddle.parameters.create(cost)
    before = pool.get("_y.w0")
    assert before.shape == (2, 3) and pool["_y.wbias"].shape == (1, 3)
    trainer(cost, pool)
    after = pool.get("_y.w0")
    assert after.shape == (6,) and after.dtype == np.float32
    np.testing.assert_array_equal(before.ravel(), after)
    assert pool.get_shape("_y.w0") == (2, 3)


@pytest.mark.parametrize("make", [paddle.parameters.create, lambda cost: given_by_tar(cost)])
def test_get_is_a_copy(make):
    pool = make(line())
    pool.get("_y.w0")[:] = 7
    assert (pool.get("_y.w0") != 7).all()


def test_a_pool_draws_its_values_where_its_network_is():
    pool = paddle.parameters.create(line())
    with build.fresh():
        found = pool["_y.w0"]
    np.testing.assert_array_equal(pd.get_variable("_y.w0").val(), found)


def test_a_pool_shows_the_network_that_it_was_bound_to_last():
    """Its values go along."""
    pool = paddle.parameters.create(line())
    pool["_y.w0"] = np.full((2, 3), 0.5)
    with build.fresh():
        cost = line()
        trained = trainer(cost, pool, learning_rate=0.1)
        assert pool["_y.w0"].tolist() == [0.5] * 6
        trained.train(batches(SAMPLE))
        found = pool.session.get(pd.get_variable("_y.w0"))
    np.testing.assert_array_equal(pool["_y.w0"], found.ravel())
    assert (found != 0.5).all()


@pytest.mark.parametrize("with_trainer", [False, True])
@pytest.mark.parametrize("shape", [(2, 3), (6,)])
def test_set_takes_the_shape_or_a_flat_array(with_trainer, shape):
    cost = line()
    pool = paddle.parameters.create(cost)
    if with_trainer:
        trainer(cost, pool)
    pool["_y.w0"] = np.arange(6.0).reshape(shape)
    assert pool["_y.w0"].ravel().tolist() == [0, 1, 2, 3, 4, 5]
    np.testing.assert_array_equal(pd.get_variable("_y.w0").val().ravel(), np.arange(6))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("_y.w0", np.zeros((3, 2)), r"parameter '_y.w0' is \(2, 3\), the value \(3, 2\)"),
        ("_y.w0", np.zeros(5), r"parameter '_y.w0' is \(2, 3\), the value \(5,\)"),
        ("_y.w0", 1.0, "Must return ndarray, not float"),
        ("w", np.zeros(1), "No such parameter w"),
        (3, np.zeros(1), "a parameter name is a str, not 3"),
    ],
)
def test_set_refuses(name, value, message):
    pool = paddle.parameters.create(line())
    with pytest.raises(ValueError, match=message):
        pool.set(name, value)


def test_filters_have_no_dims():
    im = L.data(name="im", type=T.dense_vector(9), height=3, width=3)
    pool = paddle.parameters.create(L.img_conv(im, filter_size=2, num_filters=5, name="y"))
    assert pool.get_shape("_y.w0") == (1, 20) and pool.get_shape("_y.wbias") == (5, 1)
    pool["_y.w0"] = np.arange(20.0).reshape(1, 20)
    assert pd.get_variable("_y.w0").val()[1, 0].tolist() == [[4, 5], [6, 7]]


def test_names_in_the_order_of_creation():
    pool = paddle.parameters.create(line())
    assert pool.keys() == pool.names() == list(pool) == ["_y.w0", "_y.wbias"]
    assert pool.has_key("_y.w0") and "_y.w0" in pool and "w" not in pool and len(pool) == 2
    assert pool.__param_conf__["_y.w0"].initial_smart


def test_two_trainers_on_one_pool_share_its_values():
    cost = line(bias_attr=False)
    pool = paddle.parameters.create(cost)
    a, b = (trainer(cost, pool, learning_rate=r) for r in (0.1, 0.0))
    a.train(batches(SAMPLE))
    trained = pool.get("_y.w0")
    b.train(batches(SAMPLE))
    np.testing.assert_array_equal(pool.get("_y.w0"), trained)
    assert b.test(batches(SAMPLE)).cost == a.test(batches(SAMPLE)).cost


def test_two_pools_on_one_network_have_values_of_their_own():
    cost = line()
    a, b = paddle.parameters.create(cost), paddle.parameters.create(L.get_layer("y"))
    a["_y.wbias"] = np.ones((1, 3))
    assert b["_y.wbias"].tolist() == [[0, 0, 0]]
    b["_y.wbias"] = np.full((1, 3), 2.0)
    assert a["_y.wbias"].tolist() == [[1, 1, 1]]


def test_a_pool_read_from_a_file_becomes_a_view_on_the_network():
    cost = line(bias_attr=False)
    pool = given_by_tar(cost)
    assert pool.get("_y.w0").tolist() == [[0.5] * 3] * 2
    trainer(cost, pool, learning_rate=0.1).train(batches(SAMPLE))
    found = pool.get("_y.w0")
    assert (found != 0.5).all()
    np.testing.assert_array_equal(found, pd.get_variable("_y.w0").val().ravel())
    pool["_y.w0"] = np.zeros((2, 3))
    assert not pd.get_variable("_y.w0").val().any()


def test_a_pool_that_does_not_fit_the_network_changes_nothing():
    cost = line()
    pool = Parameters()
    for c in (config("_y.wbias", 1, 3), config("_y.w0", 4, 3)):
        pool.__append_config__(c)
        pool[c.name] = np.ones(tuple(c.dims))
    with pytest.raises(ValueError, match=r"parameter '_y.w0' has 12 elements, 6 in the network"):
        trainer(cost, pool)
    assert paddle.parameters.create(cost)["_y.wbias"].tolist() == [[0, 0, 0]]


def test_a_pool_of_ones_own():
    pool = Parameters()
    pool.__append_config__(config("a", 2, 3))
    pool.__append_config__(config("b", size=4))
    assert pool.get_shape("b") == (1, 4)
    assert pool.get("a").tolist() == [[0, 0, 0]] * 2  # configured only
    file = io.BytesIO()
    pool.to_tar(file)
    file.seek(0)
    assert Parameters.from_tar(file)["a"].tolist() == [[0, 0, 0]] * 2
    with pytest.raises(ValueError, match="duplicated parameter 'a'"):
        pool.__append_config__(config("a", 1, 1))
    with pytest.raises(ValueError, match="param_conf is a ParameterConfig, not 'a'"):
        pool.__append_config__("a")


def test_gradients_are_zero_outside_of_training():
    pool = paddle.parameters.create(line())
    assert pool.get_grad("_y.w0").tolist() == [0.0] * 6
    with pytest.raises(KeyError, match="No such parameter w"):
        pool.get_grad("w")


# ---- files


def test_a_tar_keeps_names_shapes_and_values():
    pool = paddle.parameters.create(line())
    found = Parameters.from_tar(io.BytesIO(tar_of(pool)))
    assert found.names() == pool.names()
    for name in pool.names():
        assert found.get_shape(name) == pool.get_shape(name)
        np.testing.assert_array_equal(found[name], pool[name])
        assert found.__param_conf__[name] == pool.__param_conf__[name]


def test_the_bytes_of_a_trained_parameter_s_configuration():
    """The fields that 2017 had set when a checkpoint was written, and no others."""
    cost = line(param_attr=Param(learning_rate=2.0))
    pool = paddle.parameters.create(cost)
    decay = paddle.optimizer.L2Regularization(0.25)
    trainer(cost, pool, momentum=0.5, regularization=decay)
    number = struct.Struct("<d").pack
    expected = [
        b"\x0a\x05_y.w0" + b"\x10\x06",  # 1 name, 2 size
        b"\x19" + number(2.0) + b"\x21" + number(0.5),  # 3 learning_rate, 4 momentum
        b"\x29" + number(0.0) + b"\x31" + number(1 / math.sqrt(2)),  # 5 and 6, the start
        b"\x39" + number(0.25) + b"\x48\x02\x48\x03",  # 7 decay_rate, 9 dims
        b"\x58\x00" + b"\x60\x01",  # 11 initial_strategy, 12 initial_smart
    ]
    assert pool.__param_conf__["_y.w0"].SerializeToString() == b"".join(expected)
    with tarfile.open(fileobj=io.BytesIO(tar_of(pool))) as tar:
        assert tar.extractfile("_y.w0.protobuf").read() == b"".join(expected)


def test_what_a_trainer_saves_is_what_inference_loads():
    cost = line()
    pool = paddle.parameters.create(cost)
    sgd = trainer(cost, pool, learning_rate=0.1)
    sgd.train(batches(SAMPLE))
    f = io.BytesIO()
    sgd.save_parameter_to_tar(f)
    expected = paddle.infer(L.get_layer("y"), pool, [SAMPLE[:1]])
    with build.fresh():
        line()
        loaded = Parameters.from_tar(io.BytesIO(f.getvalue()))
        found = paddle.infer(L.get_layer("y"), loaded, [SAMPLE[:1]])
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(loaded["_y.w0"].ravel(), pool["_y.w0"])


def test_init_from_tar_sets_what_both_have():
    source = Parameters()
    for c in (config("_y.w0", 2, 3), config("_y.wbias", 1, 3), config("other", 1, 1)):
        source.__append_config__(c)
        source[c.name] = np.full(tuple(c.dims), 2.0)
    pool = paddle.parameters.create(line())
    pool.init_from_tar(io.BytesIO(tar_of(source)), exclude_params=["_y.wbias"])
    assert pool["_y.w0"].tolist() == [[2.0] * 3] * 2
    assert pool["_y.wbias"].tolist() == [[0.0] * 3] and "other" not in pool


def test_init_from_tar_sets_all_or_nothing():
    source = Parameters()
    for c in (config("_y.wbias", 1, 3), config("_y.w0", 3, 2)):
        source.__append_config__(c)
        source[c.name] = np.ones(tuple(c.dims))
    pool = paddle.parameters.create(line())
    with pytest.raises(ValueError, match=r"parameter '_y.w0' is \(2, 3\), the value \(3, 2\)"):
        pool.init_from_tar(io.BytesIO(tar_of(source)))
    assert pool["_y.wbias"].tolist() == [[0.0] * 3]


# ---- a file that was cut between two members


LACKS = "the file lacks parameters of the network: '_y.wbias'"


def cut_tar():
    """The first pair of members of a tar with two, and the value that it holds."""
    with build.fresh():
        pool = paddle.parameters.create(line())
        pool["_y.w0"] = np.full((2, 3), 2.0)
        return io.BytesIO(tar_of(pool)[:2048])


def test_a_trainer_names_what_the_file_lacks():
    cost, pool = line(), Parameters.from_tar(cut_tar())
    with pytest.warns(UserWarning, match=f"SGD: {LACKS}; their values are random") as caught:
        trainer(cost, pool)
    assert len(caught) == 1 and caught[0].filename == __file__
    trainer(cost, pool)  # it was said, and the first trainer may have learned them
    assert pool["_y.w0"].tolist() == [2.0] * 6 and len(pool) == 2


def test_a_strict_pool_refuses_a_network_that_has_more():
    cost, pool = line(), Parameters.from_tar(cut_tar(), strict=True)
    with pytest.raises(ValueError, match=f"SGD: {LACKS}$"):
        trainer(cost, pool)
    assert pool.keys() == ["_y.w0"] and pool["_y.w0"].tolist() == [[2.0] * 3] * 2


@pytest.mark.parametrize("use", ["train", "infer"])
def test_a_pool_of_the_network_that_was_read_in_part(use):
    cost = line()
    pool = paddle.parameters.create(cost)
    pool.init_from_tar(cut_tar())
    with pytest.warns(UserWarning, match=LACKS) as caught:
        if use == "train":
            trainer(cost, pool)
        else:
            paddle.infer(L.get_layer("y"), pool, [SAMPLE[:1]])
    assert len(caught) == 1 and caught[0].filename == __file__


def test_inference_has_no_value_to_draw():
    line()
    with pytest.raises(ValueError, match=r"there is no value for the parameters \['_y.wbias'\]"):
        paddle.infer(L.get_layer("y"), Parameters.from_tar(cut_tar()), [SAMPLE[:1]])


@pytest.mark.parametrize("how", ["excluded", "set", "initializer"])
def test_what_has_a_value_from_elsewhere_is_not_lacking(how):
    initializer = Param(initializer=lambda name: np.ones((1, 3)))
    cost = line(bias_attr=initializer if how == "initializer" else True)
    pool = paddle.parameters.create(cost)
    if how == "set":
        pool["_y.wbias"] = np.ones((1, 3))
    pool.init_from_tar(cut_tar(), ["_y.wbias"] if how == "excluded" else [])
    trainer(cost, pool)
    if how == "initializer":
        with build.fresh():
            trainer(line(bias_attr=initializer), Parameters.from_tar(cut_tar()))


def test_init_from_tar_with_strict_sets_all_or_nothing():
    pool = paddle.parameters.create(line())
    before = tar_of(pool)
    with pytest.raises(ValueError, match=r"init_from_tar: the file lacks '_y.wbias'$"):
        pool.init_from_tar(cut_tar(), strict=True)
    assert tar_of(pool) == before
    pool.init_from_tar(cut_tar(), exclude_params=["_y.wbias"], strict=True)
    assert pool["_y.w0"].tolist() == [[2.0] * 3] * 2


def test_a_trained_pool_keeps_what_the_file_lacks():
    cost = line()
    pool = paddle.parameters.create(cost)
    trainer(cost, pool)
    with pytest.warns(UserWarning, match="the file lacks '_y.wbias'; they keep their values"):
        pool.init_from_tar(cut_tar())
    trainer(cost, pool)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: data[:700], "truncated"),
        (lambda data: b"", "not a tar: the file is empty"),
        (lambda data: b"\0" * 5 + data, "not a tar"),
        (lambda data: data[:520] + b"\7" + data[521:], "the header says 7 elements"),
    ],
)
def test_a_damaged_tar_changes_nothing(damage, message):
    pool = paddle.parameters.create(line())
    source = paddle.parameters.create(L.get_layer("y"))
    data = damage(tar_of(source))
    before = {name: pool[name] for name in pool}
    with pytest.raises(ValueError, match=message):
        pool.init_from_tar(io.BytesIO(data))
    with pytest.raises(ValueError, match=message):
        Parameters.from_tar(io.BytesIO(data))
    for name, value in before.items():
        np.testing.assert_array_equal(pool[name], value)


def test_one_value_in_a_file():
    pool, f = paddle.parameters.create(line()), io.BytesIO()
    pool["_y.w0"] = np.arange(6.0).reshape(2, 3)
    pool.serialize("_y.w0", f)
    assert f.getvalue()[:16] == b"\0\0\0\0\4\0\0\0\6\0\0\0\0\0\0\0"
    pool["_y.w0"] = np.zeros((2, 3))
    pool.deserialize("_y.w0", io.BytesIO(f.getvalue()))
    assert pool["_y.w0"].tolist() == [[0, 1, 2], [3, 4, 5]]


def test_values_are_those_of_the_session_that_trained_them():
    pool = paddle.parameters.create(line())
    pool["_y.w0"] = np.arange(6.0).reshape(2, 3)
    with paddle.build.fresh():
        assert pool["_y.w0"].tolist() == [[0, 1, 2], [3, 4, 5]]
        found = pool.values_of(paddle.topology.Topology(line()).parameters)
    assert [v.sum() for v in found.values()] == [15.0, 0.0]
