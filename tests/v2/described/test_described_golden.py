"""2017's own configurations, made again from what `data/golden*.json` say of them and nothing else.

A `recipe` only tells the types of the data layers, which a stored topology holds beside.
"""

import json
from pathlib import Path

import pytest

import pd_v2 as paddle
from pd_v2 import build
from pd_v2.attr import Extra, Param
from pd_v2.described import outputs_of
from pd_v2.described.comparison import differences
from pd_v2.formats.proto import ModelConfig
from pd_v2.topology import Topology

FILES = sorted((Path(__file__).parents[1] / "data").glob("golden*.json"))
GOLDEN = {name: facts for f in FILES for name, facts in json.loads(f.read_text()).items()}
NAMES = {
    "L": paddle.layer,
    "A": paddle.activation,
    "P": paddle.pooling,
    "T": paddle.data_type,
    "N": paddle.networks,
    "E": paddle.evaluator,
    "op": paddle.op,
    "Param": Param,
    "Extra": Extra,
}


def filled(message, facts):
    """The message with the fields that the facts name, at any depth."""
    message.SetInParent()
    for name, value in facts.items():
        if isinstance(value, dict):
            filled(getattr(message, name), value)
        elif not isinstance(value, list):
            if value is not None:
                setattr(message, name, value)
        elif value and isinstance(value[0], dict):
            for each in value:
                filled(getattr(message, name).add(), each)
        else:
            getattr(message, name).extend(value)
    return message


def layer_of(facts):
    """The fields of a LayerConfig from how the files write one."""
    confs = facts.get("input_conf", [{}] * len(facts["inputs"]))
    slots = zip(facts["inputs"], facts["input_params"], confs, strict=True)
    inputs = [{"input_layer_name": x, "input_parameter_name": p, **conf} for x, p, conf in slots]
    return {
        **{k: facts[k] for k in ("name", "type", "size", "active_type")},
        "inputs": inputs,
        "bias_parameter_name": facts["bias_param"],
        **facts.get("attrs", {}),
    }


def model_of_2017(golden):
    """The ModelConfig, without its evaluators, which compute nothing of the outputs."""
    root, *groups = golden.get("sub_models") or [golden["root"]]
    root = {k: v for k, v in root.items() if k != "evaluator_names"}
    names = ("parameters", "input_layer_names", "output_layer_names")
    layers = [layer_of(facts) for facts in golden["layers"]]
    facts = {"type": golden.get("type", "nn"), "layers": layers, "sub_models": [root, *groups]}
    return filled(ModelConfig(), facts | {k: golden[k] for k in names})


def data_types(golden):
    with build.fresh():
        names = dict(NAMES)
        exec("\n".join(golden["recipe"]), names)
        out = names["out"] if isinstance(names["out"], list) else [names["out"]]
        return dict(Topology(out).data_type())


@pytest.mark.parametrize("golden", GOLDEN.values(), ids=GOLDEN)
def test_the_same_configuration(golden):
    """All but the initial values of parameters, which those of the file take the place of."""
    expected = model_of_2017(golden)
    with build.fresh():
        found = Topology(outputs_of(expected, data_types(golden))).proto()
    for model in (found, expected):
        for k, parameter in enumerate(model.parameters):
            kept = {"name": parameter.name, "dims": list(parameter.dims), "size": parameter.size}
            model.parameters[k].CopyFrom(type(parameter)(**kept))
    assert differences(found, expected) == []
