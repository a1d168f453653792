"""The configurations that 2017's own builder made of these programs, field by field.

`data/golden*.json` hold programs in the names of paddle.v2 and what 2017 made of them: layers with
names, types, sizes, inputs and parameter names, and parameters with dims and initial settings.
"""

import json
from pathlib import Path

import pytest

import pd_v2 as paddle
from pd_v2.attr import Extra, Param

FILES = sorted((Path(__file__).parent / "data").glob("golden*.json"))
GOLDEN = {name: facts for f in FILES for name, facts in json.loads(f.read_text()).items()}
OWN_KEYS = {"name", "type", "size", "active_type", "inputs", "bias_parameter_name"}


@pytest.fixture(params=GOLDEN)
def program(request):
    """(what 2017 made of a program, its output layers, its configuration here)."""
    golden = GOLDEN[request.param]
    names = {"L": paddle.layer, "A": paddle.activation, "P": paddle.pooling, "Param": Param}
    names |= {"T": paddle.data_type, "N": paddle.networks, "Extra": Extra, "op": paddle.op}
    names |= {"E": paddle.evaluator}
    exec("\n".join(golden["recipe"]), names)
    out = names["out"] if isinstance(names["out"], list) else [names["out"]]
    return golden, out, paddle.layer.parse_network(out)


def fields(message):
    """The fields that are set, submessages as dicts."""
    found = {}
    for field, value in message.ListFields():
        if field.message_type is None:
            found[field.name] = list(value) if field.is_repeated else value
        elif field.is_repeated:
            found[field.name] = [fields(v) for v in value]
        else:
            found[field.name] = fields(value)
    return found


def layer_facts(config):
    """A LayerConfig as golden.json writes it."""
    found = fields(config)
    inputs = found.get("inputs", [])
    names = ("input_layer_name", "input_parameter_name")
    extra = [{k: v for k, v in i.items() if k not in names} for i in inputs]
    attrs = {k: v for k, v in found.items() if k not in OWN_KEYS}
    return {
        **{k: found.get(k) for k in ("name", "type", "size", "active_type")},
        "inputs": [i["input_layer_name"] for i in inputs],
        "input_params": [i.get("input_parameter_name") for i in inputs],
        "bias_param": found.get("bias_parameter_name"),
        **({"input_conf": extra} if any(extra) else {}),
        **({"attrs": attrs} if attrs else {}),
    }


def near(facts):
    """Facts with their floats approximate, at any depth."""
    if isinstance(facts, dict):
        return {k: near(v) for k, v in facts.items()}
    if isinstance(facts, list):
        return [near(v) for v in facts]
    return pytest.approx(facts, rel=1e-6) if isinstance(facts, float) else facts


def test_layers(program):
    golden, _, model = program
    assert [layer_facts(c) for c in model.layers] == near(golden["layers"])


def test_parameters(program):
    golden, _, model = program
    found = [{"dims": [], **fields(c)} for c in model.parameters]
    assert found == near(golden["parameters"])


def test_model(program):
    golden, _, model = program
    assert model.type == golden.get("type", "nn")
    assert list(model.input_layer_names) == golden["input_layer_names"]
    assert list(model.output_layer_names) == golden["output_layer_names"]
    assert [fields(c) for c in model.evaluators] == golden["evaluators"]
    groups = golden.get("sub_models") or [golden["root"]]
    assert [{"reversed": False, **fields(c)} for c in model.sub_models] == groups


def test_output_layers(program):
    golden, out, _ = program
    keys = ("name", "full_name", "size", "num_filters", "layer_type", "reverse")
    found = [{**{k: getattr(x, k) for k in keys}, "h": x.height, "w": x.width} for x in out]
    for x, facts in zip(out, golden["outputs"], strict=True):
        if x.layer_type == "resize":  # 2017 said the size of the input here, and only here
            facts["size"] = x.config.size
    assert found == golden["outputs"]


def test_levels(program):
    golden, _, model = program
    found = {c.name: len(paddle.layer.get_layer(c.name).levels) for c in model.layers}
    assert {name: found[name] for name in golden.get("levels", {})} == golden.get("levels", {})
