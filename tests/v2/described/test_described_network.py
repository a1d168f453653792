"""Networks made again from their ModelConfig: the same configuration, the same results."""

import io
import pickle

import numpy as np
import pytest

import pd_v2 as paddle
from pd_v2 import build, settings
from pd_v2.attr import Extra, Param
from pd_v2.described import UnknownLayer, outputs_of
from pd_v2.inference import Inference
from pd_v2.topology import Topology

from .described_checks import check_same_network

A, L, T, N = paddle.activation, paddle.layer, paddle.data_type, paddle.networks
P = paddle.pooling


def dense(size, name="x", **sizes):
    return L.data(name=name, type=T.dense_vector(size), **sizes)


def words(name="w"):
    return L.data(name=name, type=T.integer_value_sequence(20))


def perceptron():
    x = dense(9)
    h = L.fc(x, 7, A.Relu(), param_attr=Param(initial_std=0.1))
    h = L.fc([h, x], 6, A.Tanh(), layer_attr=Extra(drop_rate=0.5), bias_attr=False)
    return L.fc(h, 3, A.Softmax())


def lenet():
    pool = {"pool_size": 2, "pool_stride": 2, "act": A.Relu()}
    y = N.simple_img_conv_pool(dense(144), filter_size=3, num_filters=4, num_channel=1, **pool)
    y = N.simple_img_conv_pool(y, filter_size=2, num_filters=5, num_channel=4, **pool)
    return L.fc(y, 3, A.Softmax())


def vgg():
    def block(x, filters, rate, channels=None):
        return N.img_conv_group(
            x,
            num_channels=channels,
            conv_num_filter=[filters] * 2,
            conv_filter_size=3,
            conv_act=A.Relu(),
            conv_with_batchnorm=True,
            conv_batchnorm_drop_rate=[rate, 0],
            pool_size=2,
            pool_stride=2,
            pool_type=P.Max(),
        )

    y = L.dropout(block(block(dense(192), 4, 0.3, 3), 5, 0.4), 0.5)
    y = L.batch_norm(L.fc(y, 6, A.Linear()), act=A.Relu(), layer_attr=Extra(drop_rate=0.5))
    return L.fc(y, 3, A.Softmax())


def residual():
    def normed(x, channels, act, given=None):
        sizes = {"stride": 1, "padding": 1, "bias_attr": False, "num_channels": given}
        return L.batch_norm(L.img_conv(x, 3, channels, act=A.Linear(), **sizes), act=act)

    x = normed(dense(108), 4, A.Relu(), 3)
    x = L.addto([normed(x, 4, A.Linear()), x], act=A.Relu())
    return L.fc(L.img_pool(x, pool_size=4, stride=1, pool_type=P.Avg()), 3, A.Softmax())


def local():
    x = dense(72, height=6, width=6)
    y = L.img_cmrnorm(x, size=5, num_channels=2)
    y = L.img_pool(y, 3, stride=2, padding=1, ceil_mode=False, pool_type=P.Avg(), num_channels=2)
    return L.fc(L.slope_intercept(y, slope=2.0, intercept=0.5), 2)


def convolutions():
    x = dense(4 * 7 * 5, height=7, width=5)
    y = L.img_conv(x, (3, 2), 6, num_channels=4, groups=2, stride=(1, 2), act=A.Sigmoid())
    return L.img_conv(y, 2, 3, shared_biases=False, dilation=2, padding=1, act=A.Linear())


def ngram():
    table = Param(name="table", initial_std=0.1, l2_rate=0)
    ids = [L.data(name=f"w{k}", type=T.integer_value(9)) for k in range(3)]
    rows = L.concat([L.embedding(w, 4, param_attr=table) for w in ids])
    return L.fc(L.fc(rows, 5, A.Sigmoid(), bias_attr=Param(learning_rate=2)), 9, A.Softmax())


def sentiment():
    rows = L.embedding(words(), 6)
    parts = [N.sequence_conv_pool(rows, context_len=k, hidden_size=5) for k in (3, 4)]
    return L.fc(parts, 2, A.Softmax())


def stacked():
    first = L.fc(L.embedding(words(), 6), 12, A.Linear())
    lstm = L.lstmemory(first, act=A.Relu())
    for reverse in (True, False):
        first = L.fc([first, lstm], 12, A.Linear())
        lstm = L.lstmemory(first, reverse=reverse, act=A.Relu())
    return L.fc([L.pooling(x, pooling_type=P.Max()) for x in (first, lstm)], 2, A.Softmax())


def recommender():
    user = L.embedding(L.data(name="u", type=T.integer_value(9)), 4)
    title = L.pooling(L.embedding(words(), 4), pooling_type=P.Sum())
    a, b = L.fc(user, 6, A.Tanh()), L.fc([title, user], 6, A.Tanh())
    return L.cos_sim(a, b, scale=5)


def ends():
    gates = L.fc(L.embedding(words(), 4), 9, A.Linear(), bias_attr=False)
    gru = L.grumemory(gates, reverse=True, gate_act=A.Sigmoid())
    rows = [L.first_seq(gru), L.last_seq(gru), L.pooling(gru, pooling_type=P.SquareRootN())]
    return L.concat([*rows, L.pooling(gru, pooling_type=P.Avg())])


def projections():
    x = dense(4)
    y = L.fc(x, 4, name="y")
    shared = Param(name="shared")
    items = [
        L.full_matrix_projection(x, param_attr=shared),
        L.trans_full_matrix_projection(y, param_attr=shared),
        L.identity_projection(x),
        L.dotmul_projection(y),
        L.scaling_projection(x),
    ]
    total = L.mixed(4, items, act=A.Tanh(), bias_attr=True)
    part = L.mixed(2, [L.identity_projection(total, offset=1, size=2)])
    return L.scaling(input=part, weight=L.fc(x, 1))


def context():
    x = L.data(name="x", type=T.dense_vector_sequence(2))
    learned = L.context_projection(x, 3, padding_attr=Param(initial_std=1.0))
    return L.mixed(6, [learned, L.context_projection(x, 3, -2, padding_attr=False)])


def best():
    return L.max_id(perceptron())


def nested():
    x = L.data(name="x", type=T.dense_vector_sub_sequence(2))
    rows = L.pooling(x, agg_level=L.AggregateLevel.TO_SEQUENCE, pooling_type=P.Avg())
    return [L.fc(rows, 2), L.fc(L.last_seq(rows), 3)]


MAKERS = [
    *(perceptron, lenet, vgg, residual, local, convolutions, ngram, sentiment, stacked),
    *(recommender, ends, projections, context, best, nested),
]


@pytest.mark.parametrize("make", MAKERS, ids=lambda f: f.__name__)
def test_the_same_network(make, rng):
    field = "prob" if make is best else "value"
    for values in check_same_network(make(), rng, [field]):
        assert np.ptp(values) > 0


# ---- what is not made again


def described(*outputs):
    topology = Topology(list(outputs))
    return topology.proto(), dict(topology.data_type())


def refused(config, types):
    with build.fresh(), pytest.raises(UnknownLayer) as caught:
        outputs_of(config, types)
    return str(caught.value)


def test_kinds_of_layers():
    config, types = described(L.fc(dense(3), 2, name="y"))
    config.layers[1].type = "data_norm"
    assert refused(config, types) == "layer 'y': there is no layer of type 'data_norm' here"


def test_details_that_are_not_known():
    config, types = described(L.fc(dense(3), 2, name="y"))
    config.layers[1].softmax_selfnorm_alpha = 0.5
    config.layers[1].inputs[0].conv_conf.stride = 2
    assert refused(config, types) == (
        "layer 'y' (fc) is described with what is not known here: "
        "inputs[0].conv_conf, softmax_selfnorm_alpha"
    )


def test_what_the_schema_says_anyway_makes_no_difference():
    config, types = described(L.fc(dense(3), 2, name="y"))
    config.layers[1].device, config.layers[1].coeff = -1, 1.0
    with build.fresh():
        assert [x.name for x in outputs_of(config, types)] == ["y"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda y: y.inputs[0].Clear(), "layer 'y' (fc): there is no layer '' before it"),
        (
            lambda y: setattr(y, "active_type", "none"),
            "layer 'y' (fc): there is no activation 'none' here",
        ),
        (lambda y: setattr(y, "type", "cos"), "layer 'y' (cos): "),
        (
            lambda y: y.inputs.extend([y.inputs[0]] * 2) or setattr(y, "type", "cos"),
            "layer 'y' (cos): it has 3 inputs, at most 2 are known",
        ),
    ],
)
def test_contradictions(change, message):
    config, types = described(L.fc(dense(3), 2, name="y"))
    change(config.layers[1])
    assert refused(config, types).startswith(message)


def test_data_without_a_type():
    config, _ = described(L.fc(dense(3), 2, name="y"))
    assert refused(config, {}) == "layer 'x' (data): there is no data type for it"


def test_what_the_outputs_do_not_need_is_not_made():
    y = L.fc(dense(3), 2, name="y")
    config, types = described(y, L.fc(y, 2, name="z"))
    config.layers[2].type = "data_norm"
    assert refused(config, types) == "layer 'z': there is no layer of type 'data_norm' here"
    del config.output_layer_names[1]
    with build.fresh():
        assert [x.name for x in outputs_of(config, types)] == ["y"]
        assert list(build.current().layers) == ["x", "y"]


@pytest.mark.parametrize(
    ("change", "found"),
    [(lambda p: p.pop(), "none"), (lambda p: p[1].dims.reverse(), "[2, 1]")],
    ids=["missing", "other sizes"],
)
def test_parameters(change, found):
    config, types = described(L.fc(dense(3), 2, name="y"))
    change(config.parameters)
    message = "parameter '_y.wbias' has the sizes [1, 2] here, it is described with "
    assert refused(config, types) == message + found


@pytest.mark.parametrize("trained_on_gpu", [True, False])
@pytest.mark.parametrize("use_gpu", [True, False])
def test_a_gpu_then_and_one_now(trained_on_gpu, use_gpu, monkeypatch):
    """The library that a layer was computed with is of the topology, not of this process."""

    def gpu(use):
        monkeypatch.setattr(settings._process, "settings", settings.Settings(use_gpu=use))

    gpu(trained_on_gpu)
    x = dense(48)
    y = L.batch_norm(L.img_conv(x, 3, 2, num_channels=3))
    config, types = described(L.img_conv(y, 2, 2, trans=True))
    assert (config.layers[2].type == "cudnn_batch_norm") == trained_on_gpu
    gpu(use_gpu)
    with build.fresh():
        assert Topology(outputs_of(config, types)).proto().layers == config.layers


def test_no_outputs():
    config, types = described(L.fc(dense(3), 2, name="y"))
    config.output_layer_names[0] = "z"
    assert refused(config, types) == "the topology has no outputs z"
    del config.output_layer_names[:]
    assert refused(config, types) == "the topology has no outputs"


def test_an_inference_says_what_to_do():
    y = L.fc(dense(3), 2, name="y")
    config, types = described(y)
    config.layers[1].type = "data_norm"
    content = {"protobin": config.SerializeToString(), "data_type": list(types.items())}
    message = r"as 2017 wrote it: .* no layer of type 'data_norm' here\n  hint: build the netw"
    with pytest.raises(UnknownLayer, match=message):
        Inference(paddle.parameters.create(y), fileobj=io.BytesIO(pickle.dumps(content, 2)))
