"""The names of 2017 for the modules of pd_v2."""

import importlib
import pickle
import sys

import pytest

import pd_v2.as_paddle
import pd_v2.data_type
import pd_v2.dataset.uci_housing


def test_paddle_v2_is_pd_v2():
    import paddle.v2 as paddle

    assert paddle is sys.modules["pd_v2"]
    from paddle import v2

    assert v2 is paddle


def test_submodules_are_the_same_objects():
    import paddle.v2.dataset.uci_housing as uci_housing
    from paddle.v2 import data_type
    from paddle.v2.data_type import InputType

    assert uci_housing is pd_v2.dataset.uci_housing
    assert data_type is pd_v2.data_type
    assert isinstance(data_type.dense_vector(3), InputType)


def test_a_module_first_imported_by_its_old_name_is_the_same():
    for name in ("pd_v2.dataset.mnist", "paddle.v2.dataset.mnist"):
        sys.modules.pop(name, None)
    old = importlib.import_module("paddle.v2.dataset.mnist")
    assert old is importlib.import_module("pd_v2.dataset.mnist")
    assert old.__spec__.name == old.__name__ == "pd_v2.dataset.mnist"


def test_what_paddle_imports_by_itself():
    import paddle

    helpers = importlib.import_module("pd_v2.trainer_config_helpers")
    assert paddle.trainer_config_helpers is helpers
    assert paddle.trainer.config_parser is helpers.config_parser
    with pytest.raises(AttributeError, match="module 'paddle' has no attribute 'trainers'"):
        paddle.trainers  # noqa: B018


@pytest.mark.parametrize("name", ["ModelConfig", "ParameterConfig", "TrainerConfig"])
def test_messages(name):
    from pd_v2.formats import proto

    module = importlib.import_module(f"paddle.proto.{name}_pb2")
    assert getattr(module, name) is getattr(proto, name)


def test_image_helpers():
    from paddle.utils import image_util

    import pd_v2.image

    assert image_util is pd_v2.image


@pytest.mark.parametrize(
    ("name", "today"),
    [
        ("paddle.batch", "pd_v2.minibatch"),
        ("paddle.dataset", "pd_v2.dataset"),
        ("paddle.dataset.common", "pd_v2.dataset.common"),
        ("paddle.dataset.image", "pd_v2.image"),
        ("paddle.dataset.imdb", "pd_v2.dataset.imdb"),
        ("paddle.reader", "pd_v2.reader"),
        ("paddle.reader.creator", "pd_v2.reader.creator"),
        ("paddle.trainer.PyDataProvider2", "pd_v2.data_type"),
        ("paddle.trainer.config_parser", "pd_v2.trainer_config_helpers.config_parser"),
        ("paddle.trainer_config_helpers", "pd_v2.trainer_config_helpers"),
        ("paddle.trainer_config_helpers.layers", "pd_v2.trainer_config_helpers.layers"),
        ("paddle.utils.merge_model", "pd_v2.described.merged_model"),
        ("paddle.v2.dataset.common", "pd_v2.dataset.common"),
        ("paddle.v2.reader.decorator", "pd_v2.reader.decorator"),
        ("py_paddle", "pd_v2.py_paddle"),
        ("py_paddle.swig_paddle", "pd_v2.py_paddle.swig_paddle"),
    ],
)
def test_modules_of_other_names(name, today):
    assert importlib.import_module(name) is importlib.import_module(today)


def test_forms_of_import():
    import paddle.trainer.config_parser as cp
    import py_paddle.swig_paddle as api
    from paddle.trainer_config_helpers import fc_layer
    from paddle.trainer_config_helpers.config_parser_utils import reset_parser
    from paddle.trainer_config_helpers.default_decorators import wrap_name_default
    from py_paddle import swig_paddle

    import pd_v2.arguments

    assert cp.begin_parse is reset_parser
    assert api is swig_paddle and api.Arguments is pd_v2.arguments.Arguments
    assert fc_layer is sys.modules["pd_v2"].layer.fc
    assert wrap_name_default("conv")(lambda name: name)() == "__conv_0__"


_OF_2018 = """
import paddle
print paddle.reader is paddle.v2.reader, paddle.dataset is paddle.v2.dataset
print paddle.batch is paddle.v2.batch

import paddle.batch
import paddle.dataset.imdb
import paddle.dataset.common as common
from paddle.batch import batch
from paddle.dataset import image, mnist
from paddle.reader.creator import np_array
print batch is paddle.batch, list(paddle.batch(lambda: iter("abc"), 2)())
print mnist is paddle.v2.dataset.mnist, image is paddle.v2.image
print common.__name__, paddle.dataset.imdb.__name__, np_array.__name__
"""


def test_readers_and_data_sets_beside_v2(python2):
    assert python2(_OF_2018).splitlines() == [
        "True True",
        "True",
        "True [['a', 'b'], ['c']]",
        "True True",
        "pd_v2.dataset.common pd_v2.dataset.imdb np_array",
    ]


CONVERTER = """
from paddle.proto.ParameterConfig_pb2 import ParameterConfig
from paddle.trainer_config_helpers.default_decorators import wrap_name_default


class Converter(object):
    @wrap_name_default("conv")
    def convert(self, dims, name=None):
        config = ParameterConfig()
        config.name = "_%s.w0" % name
        config.dims.extend(dims)
        config.size = reduce(lambda a, b: a * b, dims)
        return config


for name in (None, "mine", None):
    config = Converter().convert([2, 3], name=name)
    print config.name, config.size
"""


def test_a_converter_of_parameters(python2):
    """It names what it makes as the layers that it is for are named."""
    lines = ["___conv_0__.w0 6", "_mine.w0 6", "___conv_1__.w0 6"]
    assert python2(CONVERTER).splitlines() == lines


def test_plain_import():
    import paddle

    assert paddle.v2 is sys.modules["pd_v2"]


def test_input_types_of_old_pickles_load():
    # pickle.dumps(integer_value(10), 2) by Python 2.
    old = (
        b"\x80\x02cpaddle.trainer.PyDataProvider2\nInputType\nq\x00)\x81q\x01N}q\x02"
        b"(U\x03dimq\x03K\nU\x08seq_typeq\x04K\x00U\x04typeq\x05K\x03u\x86q\x06b."
    )
    assert pickle.loads(old, encoding="latin1") == pd_v2.data_type.integer_value(10)


@pytest.mark.parametrize("name", ["paddle.v2.nothing", "paddle.fluid", "paddle.proto.Other_pb2"])
def test_missing_modules_are_named_as_usual(name):
    with pytest.raises(ModuleNotFoundError, match=f"No module named '{name}'"):
        importlib.import_module(name)


def test_installing_twice_changes_nothing():
    before = list(sys.meta_path)
    pd_v2.as_paddle.install()
    assert sys.meta_path == before


def test_another_paddle_is_refused(monkeypatch):
    kept = [finder for finder in sys.meta_path if type(finder).__module__ != "pd_v2.as_paddle"]
    monkeypatch.setattr(sys, "meta_path", kept)
    monkeypatch.setitem(sys.modules, "paddle", type(sys)("paddle"))
    with pytest.raises(ImportError, match="another paddle is already imported, from this process"):
        pd_v2.as_paddle.install()
