"""The messages of 2017: their bytes, presence, defaults and text form."""

import copy
import pickle
import struct

import pytest
from google.protobuf import text_format
from google.protobuf.message import EncodeError, Message

from pd_v2.formats import proto

MESSAGES = [
    name
    for name, value in vars(proto).items()
    if isinstance(value, type) and issubclass(value, Message) and not name.startswith("_")
]


def parsed(message_class, data):
    message = message_class()
    message.ParseFromString(data)
    return message


def test_every_message_is_public_under_its_own_name():
    assert len(MESSAGES) == 35
    for name in MESSAGES:
        assert getattr(proto, name).DESCRIPTOR.full_name == f"paddle.{name}"


def test_parameter_config_bytes():
    config = proto.ParameterConfig(
        name="w", size=6, dims=[2, 3], initial_std=0.5, initial_smart=False, device=-1
    )
    config.update_hooks.add(type="pruning")
    expected = (
        b"\x0a\x01w"  # 1 name
        b"\x10\x06"  # 2 size
        b"\x31"
        + struct.pack("<d", 0.5)  # 6 initial_std
        + b"\x48\x02\x48\x03"  # 9 dims, one tag for each
        b"\x50" + b"\xff" * 9 + b"\x01"  # 10 device, a negative varint
        b"\x60\x00"  # 12 initial_smart: a default that was set is written
        b"\xa2\x01\x09\x0a\x07pruning"  # 20 update_hooks
    )
    assert config.SerializeToString() == expected
    assert parsed(proto.ParameterConfig, expected) == config


def test_only_the_sampling_distribution_is_packed():
    layer = proto.LayerConfig(name="x", type="nce", neg_sampling_dist=[0.25, 0.75], offset=[1, 2])
    assert layer.SerializeToString() == (
        b"\x0a\x01x\x12\x03nce"
        b"\x8a\x01\x10"
        + struct.pack("<2d", 0.25, 0.75)  # 17, packed
        + b"\xb8\x03\x01\xb8\x03\x02"  # 55, not packed
    )


def test_nested_messages():
    model = proto.ModelConfig(type="nn", input_layer_names=["x"])
    layer = model.layers.add(name="y", type="fc", size=2)
    layer.inputs.add(input_layer_name="x", input_parameter_name="w")
    assert model.SerializeToString() == (
        b"\x0a\x02nn"
        b"\x12\x11"
        + (b"\x0a\x01y\x12\x02fc\x18\x02" + b"\x2a\x06\x0a\x01x\x12\x01w")
        + b"\x22\x01x"
    )


@pytest.mark.parametrize(
    ("message", "field", "default"),
    [
        ("ParameterConfig", "initial_std", 0.01),
        ("ParameterConfig", "device", -1),
        ("ParameterConfig", "format", ""),
        ("ParameterUpdaterHookConfig", "sparsity_ratio", 0.6),
        ("ConvConfig", "caffe_mode", True),
        ("PoolConfig", "stride", 1),
        ("PoolConfig", "exclude_mode", False),
        ("LayerConfig", "trans_type", "non-seq"),
        ("LayerConfig", "moving_average_fraction", 0.9),
        ("LayerConfig", "epsilon", 0.00001),
        ("LayerConfig", "axis", 2),
        ("EvaluatorConfig", "ap_type", "11point"),
        ("EvaluatorConfig", "positive_label", -1),
        ("GeneratorConfig", "log_prob", True),
        ("ModelConfig", "type", "nn"),
        ("OptimizationConfig", "max_average_window", 2**63 - 1),
        ("OptimizationConfig", "adam_epsilon", 1e-8),
        ("OptimizationConfig", "learning_rate_schedule", "constant"),
        ("TrainerConfig", "save_dir", "./output/model"),
    ],
)
def test_default_of_an_absent_field(message, field, default):
    empty = getattr(proto, message)()
    assert getattr(empty, field) == default
    assert not empty.HasField(field)


@pytest.mark.parametrize(
    ("message", "field", "number"),
    [
        ("ParameterConfig", "parameter_block_size", 24),
        ("ProjectionConfig", "offset", 11),
        ("ImageConfig", "channels", 2),
        ("ImageConfig", "img_size", 8),
        ("MemoryConfig", "is_sequence", 6),
        ("MemoryConfig", "boot_with_const_id", 7),
        ("SubModelConfig", "target_inlinkid", 12),
        ("ModelConfig", "sub_models", 8),
        ("LayerInputConfig", "roi_pool_conf", 20),
        ("LayerConfig", "factor_size", 61),
        ("OptimizationConfig", "algorithm", 4),
        ("TrainerConfig", "config_file", 9),
    ],
)
def test_field_number(message, field, number):
    assert getattr(proto, message).DESCRIPTOR.fields_by_name[field].number == number


def test_presence_is_kept_apart_from_the_value():
    config = proto.ParameterConfig(name="w", size=1)
    before = config.SerializeToString()
    config.momentum = 0.0
    assert config.HasField("momentum")
    assert len(config.SerializeToString()) == len(before) + 9
    config.ClearField("momentum")
    assert config.SerializeToString() == before


def test_a_missing_required_field_is_named():
    config = proto.ParameterConfig(name="w")
    assert not config.IsInitialized()
    with pytest.raises(EncodeError, match=r"paddle\.ParameterConfig.*: size"):
        config.SerializeToString()


def test_text_form_round_trip():
    config = proto.ParameterConfig(name="w", size=6, dims=[2, 3], initial_smart=True)
    text = text_format.MessageToString(config)
    assert text == 'name: "w"\nsize: 6\ndims: 2\ndims: 3\ninitial_smart: true\n'
    assert text_format.Parse(text, proto.ParameterConfig()) == config


def test_an_old_data_config_is_carried_through():
    data = b"\x0a\x02py\x1a\x04list"
    assert parsed(proto.DataConfig, data).SerializeToString() == data


def test_messages_can_be_copied_and_pickled():
    model = proto.ModelConfig(type="nn")
    model.parameters.add(name="w", size=1)
    assert copy.deepcopy(model) == model
    assert pickle.loads(pickle.dumps(model)) == model


def test_a_wrong_line_of_the_schema_is_shown():
    with pytest.raises(ValueError, match="schema of A: not a field: 'size:uint64'"):
        proto._file_of("A: 1 name!:string; size:uint64", "test")


def test_text_is_that_of_2017():
    """Floats have 12 digits and a point, those of single precision their shortest digits."""
    network = proto.ModelConfig(type="nn", output_layer_names=["a"])
    layer = network.layers.add(name='a\n"', type="fc", size=3, active_type="", coeff=1 / 3)
    layer.inputs.add(input_layer_name="x").detection_output_conf.nms_threshold = 0.45
    network.parameters.add(name="w", size=6, dims=[2, 3], initial_std=1e-5, initial_mean=0.0)
    network.parameters[0].initial_smart = True
    expected = """type: "nn"
layers {
  name: "a\\n\\""
  type: "fc"
  size: 3
  active_type: ""
  inputs {
    input_layer_name: "x"
    detection_output_conf {
      nms_threshold: 0.45
    }
  }
  coeff: 0.333333333333
}
parameters {
  name: "w"
  size: 6
  initial_mean: 0.0
  initial_std: 1e-05
  dims: 2
  dims: 3
  initial_smart: true
}
output_layer_names: "a"
"""
    assert str(network) == repr(network) == expected
