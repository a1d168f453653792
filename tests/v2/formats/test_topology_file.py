"""Networks without their programs: files of serialize_for_inference, and inference from them."""

import io
import pickle

import numpy as np
import pytest

import pd_v2 as paddle
from pd_v2 import build
from pd_v2.attr import Param
from pd_v2.formats.topology_file import TopologyFileError, read_topology
from pd_v2.inference import Inference
from pd_v2.parameters import Parameters
from pd_v2.topology import Topology

A, L, T = paddle.activation, paddle.layer, paddle.data_type


def digits():
    x = L.data(name="x", type=T.dense_vector(4))
    hidden = L.dropout(L.fc(x, size=5, name="h"), 0.5, name="thin")
    p = L.fc(hidden, size=3, name="p", act=A.Softmax())
    return [p, L.get_layer("h"), hidden]


def ids():
    best = L.max_id(digits()[0], name="best")
    return [best, L.eos(best, eos_id=1)]


def image():
    x = L.data(name="x", type=T.dense_vector(128), height=8, width=8)
    y = L.img_conv(x, filter_size=3, num_filters=4, padding=1, act=A.Relu())
    y = L.img_pool(L.batch_norm(y, act=A.Relu()), pool_size=2, stride=2)
    return L.fc(y, size=3, act=A.Softmax())


def words():
    x = L.data(name="x", type=T.integer_value_sequence(20))
    rows = L.embedding(x, size=6)
    state = paddle.networks.simple_lstm(rows, size=4)
    return [L.fc([L.last_seq(state), L.pooling(rows)], size=2, act=A.Softmax()), state]


def nested():
    x = L.data(name="x", type=T.dense_vector_sub_sequence(2))
    return L.fc(L.pooling(x, agg_level=L.AggregateLevel.TO_SEQUENCE), size=3)


def sparse():
    x = L.data(name="x", type=T.sparse_float_vector(9))
    unused = L.data(name="unused", type=T.sparse_binary_vector(4))
    return L.fc(x, size=3), unused


def group():
    x = L.data(name="x", type=T.dense_vector_sequence(3))

    def step(row):
        return L.fc([row, L.memory(name="m", size=3)], size=3, name="m")

    return L.recurrent_group(step, x, name="g")


def beam():
    start = L.data(name="x", type=T.dense_vector(3))

    def step(static, word):
        state = L.memory(name="state", size=3, boot_layer=start)
        state = L.fc([word, state, static], size=3, name="state")
        return L.fc(state, size=6, act=A.Softmax(), param_attr=Param(initial_std=2.0))

    word = L.GeneratedInput(size=6, embedding_name="words", embedding_size=2)
    return L.beam_search(
        step, input=[L.StaticInput(start), word], bos_id=0, eos_id=1, beam_size=3, max_length=5
    )


VECTORS = [([0.1, -2.0, 3.0, 0.5],), ([1.0, 2.0, -1.0, 0.0],)]
NETWORKS = {
    "digits": (digits, VECTORS, ["value"]),
    "ids": (ids, VECTORS, ["id"]),
    "probabilities": (lambda: ids()[0], VECTORS, ["id", "prob"]),
    "image": (image, [(np.linspace(-1, 1, 128),), (np.zeros(128),)], ["value"]),
    "words": (words, [([1, 2, 3],), ([4],)], ["value"]),
    "nested": (nested, [([[[1.0, 2.0]], [[3.0, 4.0], [5.0, 7.0]]],)], ["value"]),
    "sparse": (lambda: sparse()[0], [([(1, 0.5), (3, 2.0)],), ([],)], ["value"]),
    "group": (group, [([[1.0, 2.0, 3.0], [0.0, 1.0, 0.0]],), ([[1.0, 1.0, 1.0]],)], ["value"]),
    "beam": (beam, [([1.0, 2.0, 3.0],), ([0.0, -1.0, 5.0],)], ["id", "prob"]),
}


def saved(outputs):
    """The files of a network with its values: (topology, parameters)."""
    topology, tar = io.BytesIO(), io.BytesIO()
    pool = paddle.parameters.create(outputs)
    Topology(outputs).serialize_for_inference(topology)
    pool.to_tar(tar)
    return topology.getvalue(), tar.getvalue()


def loaded(topology, tar):
    parameters = Parameters.from_tar(io.BytesIO(tar))
    return Inference(parameters=parameters, fileobj=io.BytesIO(topology))


@pytest.mark.parametrize(("make", "samples", "fields"), NETWORKS.values(), ids=NETWORKS)
def test_inference_without_the_program(make, samples, fields):
    outputs = make()
    files = saved(outputs)
    parameters = paddle.parameters.create(outputs)
    options = {"input": samples, "field": fields, "flatten_result": False}
    expected = Inference(parameters, outputs).infer(**options)
    with build.fresh():
        found = loaded(*files).infer(**options)
        assert build.current().layers == {}
    for ours, theirs in zip(flat(found), flat(expected), strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def flat(values):
    if isinstance(values, np.ndarray):
        return [values]
    return [a for v in values for a in flat(v)]


def test_the_process_may_have_such_a_network_already():
    """Its own layers and values are left alone."""
    p = digits()[0]
    files = saved(p)
    pool = paddle.parameters.create(p)
    for name in pool:
        pool[name] = np.zeros(pool.get_shape(name))
    inference = loaded(*files)
    assert not np.allclose(inference.infer(input=VECTORS), 1 / 3)
    assert np.allclose(paddle.infer(p, pool, VECTORS), 1 / 3)
    assert not pool["_p.w0"].any()


def test_feeding_may_name_more_than_is_needed():
    inference = loaded(*saved(digits()[0]))
    plain = inference.infer(input=VECTORS)
    fed = inference.infer(input=[(7, v) for (v,) in VECTORS], feeding={"x": 1, "label": 0})
    np.testing.assert_array_equal(fed, plain)


def test_an_output_layer_wins():
    p, h, _ = digits()
    topology, tar = saved(p)
    parameters = Parameters.from_tar(io.BytesIO(tar))
    inference = Inference(parameters, output_layer=h, fileobj=io.BytesIO(topology))
    assert inference.infer(input=VECTORS).shape == (2, 5)


def test_text_handles(tmp_path):
    """2017's programs open binary files in text mode."""
    p = digits()[0]
    path = tmp_path / "topology.pkl"
    with open(path, "w") as f:
        Topology(p).serialize_for_inference(f)
    _, tar = saved(p)
    parameters = Parameters.from_tar(io.BytesIO(tar))
    with open(path) as f:
        assert Inference(parameters, fileobj=f).infer(input=VECTORS).shape == (2, 3)


# ---- errors


def old_pickle(name=b"paddle.trainer.PyDataProvider2\nInputType"):
    """What cPickle wrote with protocol 2: the ModelConfig as a str, the data type by its slots."""
    with build.fresh():
        config = Topology(digits()[0]).proto().SerializeToString()
    string = b"T" + len(config).to_bytes(4, "little") + config
    slots = b"U\x03dimK\x04U\x08seq_typeK\x00U\x04typeK\x00"
    data_type = b"c" + name + b"\n)\x81N}(" + slots + b"u\x86b"
    return b"\x80\x02}(U\x08protobin" + string + b"U\x09data_type](U\x01x" + data_type + b"\x86eu."


def test_a_pickle_of_2017_is_computed():
    p = digits()[0]
    _, tar = saved(p)
    pool = paddle.parameters.create(p)
    stored = read_topology(io.BytesIO(old_pickle()))
    assert stored.data_types == [("x", T.dense_vector(4))] and stored.program is None
    found = loaded(old_pickle(), tar).infer(input=VECTORS)
    np.testing.assert_allclose(found, paddle.infer(p, pool, VECTORS), rtol=1e-6)


class Evil:
    def __reduce__(self):
        return print, ("evil",)


DAMAGED = {
    "empty": (lambda: b"", "writes it: it is damaged: byte 0 of the pickle: it ends"),
    "no pickle": (lambda: b"PK\3\4", "holds no topology"),
    "no dict": (lambda: pickle.dumps([1, 2], 2), "holds no topology.*: TypeError"),
    "no network": (lambda: pickle.dumps({"data_type": []}, 2), "KeyError: 'protobin'"),
    "no message": (lambda: pickle.dumps({"protobin": b"\xff"}, 2), "DecodeError"),
    "no type": (
        lambda: pickle.dumps({"protobin": b"\n\2nn", "data_type": [("x", 3)]}, 2),
        "TypeError: int is no InputType",
    ),
    "code": (lambda: pickle.dumps(Evil(), 2), "__builtin__.print is not allowed"),
    "other code": (lambda: old_pickle(b"os\nsystem"), "os.system is not allowed"),
    "truncated": (lambda: saved(digits()[0])[0][:-40], "holds no topology"),
}


@pytest.mark.parametrize(("data", "message"), DAMAGED.values(), ids=DAMAGED)
def test_damaged_files(data, message, capsys):
    with pytest.raises(TopologyFileError, match=message):
        read_topology(io.BytesIO(data()))
    assert capsys.readouterr().out == ""


def test_it_needs_its_parameters():
    topology, _ = saved(digits()[0])
    with pytest.raises(ValueError, match=r"no value for the parameters \['_h.w0', '_h.wbias', "):
        Inference(Parameters(), fileobj=io.BytesIO(topology))
    with build.fresh():
        _, other = saved(L.fc(L.data(name="x", type=T.dense_vector(3)), size=5, name="h"))
    pool = paddle.parameters.create(L.get_layer("p"))
    small = Parameters.from_tar(io.BytesIO(other))
    for name in pool:
        if name not in small:
            small.__append_config__(pool.__param_conf__[name])
            small[name] = pool[name]
    with pytest.raises(ValueError, match=r"parameter '_h.w0' has 15 elements, 20 in the topology"):
        Inference(small, fileobj=io.BytesIO(topology))
