"""Names that scripts ask about layers with: kinds, settings that a helper takes, bindings."""

import pytest

import pd_core as pd
import pd_v2 as paddle
from pd_v2.attr import Extra

L, T = paddle.layer, paddle.data_type


def test_kinds_are_those_that_layers_have():
    x = L.data(name="x", type=T.dense_vector(4))
    assert x.layer_type == L.LayerType.DATA
    assert L.fc(input=x, size=2).layer_type == L.LayerType.FC_LAYER
    assert L.LayerType.is_layer_type("gated_recurrent")
    assert not L.LayerType.is_layer_type("fully_connected")
    assert not L.LayerType.is_layer_type(3)


def test_a_helper_says_which_settings_it_takes():
    @L.layer_support("drop_rate")
    def helper(input, layer_attr=None):
        return L.addto(input=input, layer_attr=layer_attr)

    x = L.data(name="x", type=T.dense_vector(4))
    helper(x, layer_attr=Extra(drop_rate=0.5))
    helper(x, layer_attr=None)
    with pytest.raises(NotImplementedError, match="helper does not support error_clipping"):
        helper(x, layer_attr=Extra(error_clipping_threshold=1.0))


def test_only_a_memory_is_bound():
    x = L.data(name="x", type=T.dense_vector(4))
    with pytest.raises(pd.GraphError, match="'x': only a memory is bound"):
        x.set_input(x)


def test_older_spellings():
    older = (L.mse_cost, L.cross_entropy, L.StaticInputV2, L.GeneratedInputV2)
    newer = (L.square_error_cost, L.cross_entropy_cost, L.StaticInput, L.GeneratedInput)
    assert older == newer
