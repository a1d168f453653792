"""Networks with recurrent groups and generators, made again from their ModelConfig."""

import numpy as np
import pytest

import pd_v2 as paddle
from pd_v2 import build
from pd_v2.attr import Extra, Param
from pd_v2.described import UnknownLayer, outputs_of
from pd_v2.topology import Topology

from .described_checks import check_same_network

A, L, T, N = paddle.activation, paddle.layer, paddle.data_type, paddle.networks


def words(name, size=9):
    return L.data(name=name, type=T.integer_value_sequence(size))


def rows(name="s", size=4):
    return L.data(name=name, type=T.dense_vector_sequence(size))


def row(name="x", size=4):
    return L.data(name=name, type=T.dense_vector(size))


def labelling():
    """Semantic roles: stacked LSTMs in both directions, decoded by a CRF."""
    table = Param(name="emb", initial_std=0.0, is_static=True)
    parts = [L.embedding(words(name), 4, param_attr=table) for name in ("word", "context")]
    parts.append(L.embedding(words("mark", 2), 4))
    state = L.mixed(8, [L.full_matrix_projection(x) for x in parts], bias_attr=True)
    lstm = L.lstmemory(state, act=A.Relu(), state_act=A.Sigmoid(), bias_attr=Param(initial_std=0))
    for reverse in (True, False):
        both = [L.full_matrix_projection(x) for x in (state, lstm)]
        state = L.mixed(8, both, bias_attr=True)
        lstm = L.lstmemory(state, reverse=reverse, act=A.Relu(), state_act=A.Sigmoid())
    scores = L.mixed(5, [L.full_matrix_projection(x) for x in (state, lstm)], bias_attr=True)
    return [scores, L.crf_decoding(scores, size=5, param_attr=Param(name="crfw"))]


def encoded():
    """What a translation attends to: (rows, their projections, the first state)."""
    source = L.embedding(words("source"), 3, param_attr=Param(name="source_words"))
    both = [N.simple_gru(source, 4, reverse=reverse) for reverse in (False, True)]
    sequence = L.concat(both)
    projected = L.mixed(4, L.full_matrix_projection(sequence))
    boot = L.mixed(4, L.full_matrix_projection(L.first_seq(both[1])), act=A.Tanh())
    return sequence, projected, boot


def decoder(boot):
    def step(sequence, projected, word):
        state = L.memory(name="decoder", size=4, boot_layer=boot)
        context = N.simple_attention(sequence, projected, state)
        items = [L.full_matrix_projection(context), L.full_matrix_projection(word)]
        gates = L.mixed(12, items)
        state = L.gru_step(gates, state, 4, name="decoder")
        return L.mixed(9, L.full_matrix_projection(state), act=A.Softmax(), bias_attr=True)

    return step


def translation():
    """The decoder in training, over the words of the target."""
    *whole, boot = encoded()
    target = L.embedding(words("target"), 3, param_attr=Param(name="target_words"))
    inputs = [*(L.StaticInput(x, is_seq=True) for x in whole), target]
    p = L.recurrent_group(decoder(boot), inputs, name="decoder_group")
    return L.classification_cost(p, words("next"), name="cost")


def generation(results=2):
    """The decoder in generation, with attention."""
    *whole, boot = encoded()
    word = L.GeneratedInput(9, embedding_name="target_words", embedding_size=3)
    inputs = [*(L.StaticInput(x, is_seq=True) for x in whole), word]
    return L.beam_search(
        decoder(boot),
        inputs,
        bos_id=2,
        eos_id=1,
        beam_size=3,
        max_length=6,
        name="decoder_group",
        num_results_per_sample=results,
    )


def one_path():
    return generation(results=1)


def generation_with_rows():
    """Words, the states that gave them, and rows and a sequence that each step sees whole."""
    beside, whole = L.fc(row(), 4, name="beside"), rows("whole")

    def step(static, seen, word):
        h = L.fc([word, static, L.memory(name="h", size=4, boot_layer=beside)], 4, name="h")
        others = L.addto(static, name="same"), L.addto([seen, L.expand(h, seen)], name="attended")
        return L.fc(h, 9, A.Softmax()), h, *others

    inputs = [L.StaticInput(beside), L.StaticInput(whole), L.GeneratedInput(9, "words", 3)]
    return L.beam_search(step, inputs, bos_id=2, eos_id=1, beam_size=3, max_length=6)


def units():
    lstm = N.lstmemory_group(L.fc(rows(), 12), reverse=True, lstm_bias_attr=Param())
    gru = N.gru_group(L.fc(lstm, 9), memory_boot=None, naive=True, gru_bias_attr=Param())
    return [lstm, N.bidirectional_gru(gru, 2), N.bidirectional_lstm(gru, 2, return_seq=True)]


def boots():
    """Every way a memory may start, and layers that the step sees whole."""
    start = L.fc(row(), 3, name="start")

    def step(part, whole, beside):
        last = L.memory(name="a", size=3, boot_layer=start)
        a = L.fc([part, whole, beside, last], 3, name="a", layer_attr=Extra(drop_rate=0.5))
        last = L.memory(
            name="b", size=2, boot_bias=Param(name="first"), boot_bias_active_type=A.Tanh()
        )
        b = L.fc([a, last], 2, name="b")
        unnamed, named = L.memory(name=None, size=2), L.memory(None, 2, memory_name="old")
        c = L.fc([b, unnamed, named], 2)
        unnamed.set_input(c)
        named.set_input(b)
        return a, c

    inputs = [rows(), L.StaticInput(start), row("beside")]
    return L.recurrent_group(step, inputs, reverse=True)


def pad_of_rows():
    """A memory of sequences, as in a Turing machine."""
    boot = L.fc(rows("t"), 2, name="boot")

    def step(part):
        pad = L.memory(name="pad", size=2, boot_layer=boot)
        seen = L.pooling(pad, pooling_type=paddle.pooling.Sum())
        weight = L.fc([part, seen], 2, name="weight")
        L.addto([pad, L.expand(weight, pad)], name="pad", act=A.Tanh())
        return weight

    return L.recurrent_group(step, rows())


def nested():
    x = L.data(name="x", type=T.dense_vector_sub_sequence(3))

    def outer(part):
        before = L.memory(name="last", size=2)

        def inner(each):
            state = L.memory(name="state", size=2, boot_layer=before)
            return L.fc([each, state], 2, name="state")

        states = L.recurrent_group(inner, part, name="inner")
        L.last_seq(states, name="last")
        return states, L.pooling(states)

    return L.recurrent_group(outer, x, name="outer")


VALUES = [
    labelling,
    translation,
    generation,
    one_path,
    generation_with_rows,
    units,
    boots,
    pad_of_rows,
    nested,
]
FIELDS = {
    labelling: ["id", "value"],
    generation: ["id", "prob"],
    generation_with_rows: ["id", "value"],
    one_path: ["id"],
}


@pytest.mark.parametrize("make", VALUES, ids=lambda f: f.__name__)
def test_the_same_network(make, rng):
    made = make()
    outputs = list(made) if isinstance(made, (list, tuple)) else [made]
    found = check_same_network(outputs, rng, FIELDS.get(make, ["value"]))
    assert any(np.ptp(v) > 0 for values in found for v in values if v is not None)


def test_a_row_beside_sequences_is_linked_as_they_are():
    """What builds a configuration does not see which layers are sequences."""
    links = Topology(list(boots())).proto().sub_models[1].in_links
    names = [(link.layer_name, link.link_name.partition("@")[0]) for link in links]
    assert names == [("s", "s"), ("beside", "beside")]


def test_a_group_is_kept_with_all_that_it_links():
    """Also where nothing needs what comes of it."""

    def step(a, b, whole):
        beside = L.fc([b, whole, L.memory(name="beside", size=2)], 2, name="beside")
        return L.fc([a, L.memory(name="h", size=3)], 3, name="h"), beside

    out, _ = L.recurrent_group(step, [rows(), rows("t"), L.StaticInput(row())], name="g")
    topology = Topology(out)
    config, types = topology.proto(), dict(topology.data_type())
    agents = ["s@g", "t@g", "__memory_0__@g", "beside+delay1@g"]
    inside = [*agents, "beside@g", "h+delay1@g", "h@g"]
    assert list(config.sub_models[1].layer_names) == inside
    assert [x.name for x in config.layers] == ["s", "t", "x", "g", *inside, "h"]
    assert "_beside@g.w0" in [p.name for p in config.parameters]
    with build.fresh():
        again = Topology(outputs_of(config, types)).proto()
    assert (again.layers, again.sub_models) == (config.layers, config.sub_models)


def test_what_the_first_versions_wrote_besides():
    """That links and memories are of sequences, which later ones left to the values."""
    outputs = [*nested(), pad_of_rows()]
    topology = Topology(outputs)
    config, types = topology.proto(), dict(topology.data_type())
    deep = {x.full_name: len(x.levels) for x in build.current().layers.values()}
    for layer in config.layers:
        if layer.type in ("agent", "scatter_agent") and deep[layer.name]:
            layer.type = f"sequence_{layer.type}"
        elif layer.type == "gather_agent" and deep[layer.name] == 2:
            layer.type = "sequence_gather_agent"
    assert sum(layer.type.startswith("sequence_") for layer in config.layers) == 3
    for group in config.sub_models[1:]:
        for link in group.in_links:
            link.has_subseq = deep[link.layer_name] == 2
        for link in group.out_links:
            link.has_subseq = deep[link.link_name] == 2
        for memory in group.memories:
            memory.is_sequence = bool(deep[memory.link_name])
    with build.fresh():
        again = Topology(outputs_of(config, types)).proto()
    expected = topology.proto()
    assert (again.layers, again.sub_models) == (expected.layers, expected.sub_models)


# ---- what is not made again


def refused(change):
    """What is said of the group 'g' with the memory 'm', changed: (layers by name, group)."""

    def step(part):
        return L.fc([part, L.memory(name="m", size=3)], 3, name="m")

    topology = Topology(L.recurrent_group(step, rows(), name="g"))
    config, types = topology.proto(), dict(topology.data_type())
    change({x.name: x for x in config.layers}, config.sub_models[1])
    with build.fresh(), pytest.raises(UnknownLayer) as caught:
        outputs_of(config, types)
    return str(caught.value)


CHANGES = {
    "a field": (
        lambda layers, g: setattr(g, "target_inlinkid", 3),
        "group 'g' is described with what is not known here: target_inlinkid",
    ),
    "a memory of sequences by its name": (
        lambda layers, g: setattr(g.memories[0], "is_sequence", True),
        "group 'g' is described with what is not known here: memories[0].is_sequence",
    ),
    "no group": (
        lambda layers, g: setattr(g, "name", "h"),
        "layer 'm': there is no layer of type 'gather_agent' here",
    ),
    "no sequence": (
        lambda layers, g: g.in_links.pop(),
        "layer 'g' (recurrent_layer_group): there is no sequence among its inputs",
    ),
    "no link": (
        lambda layers, g: setattr(g.in_links[0], "link_name", "t@g"),
        "layer 's@g' (scatter_agent): group 'g' does not link it",
    ),
    "a size": (
        lambda layers, g: setattr(layers["m+delay1@g"], "size", 5),
        "layer 'g' (recurrent_layer_group): memory 'm+delay1' is 5 wide, its layer 'm' 3",
    ),
    "a layer from outside": (
        lambda layers, g: setattr(layers["m@g"].inputs[0], "input_layer_name", "s"),
        "layer 'm@g' (fc): layer 'm': 's' is outside group 'g'",
    ),
}


@pytest.mark.parametrize(("change", "message"), CHANGES.values(), ids=CHANGES)
def test_refused(change, message):
    assert refused(change).startswith(message)
