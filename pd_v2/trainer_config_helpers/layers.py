"""Layers under their names of v1: `fc_layer` is `paddle.layer.fc`.

`data_layer` is not here: in v1 the data provider knew the type of a column, and the layer only its
size.
"""

from .. import layer
from .renamed import renamed

# The names that are the same in both: they end so, or are listed. Most others ended in `_layer`.
_ENDS = ("_cost", "_operator", "_projection", "memory")
_SAME = {
    *("AggregateLevel", "BaseGeneratedInput", "BeamInput", "ExpandLevel", "GeneratedInput"),
    *("LayerOutput", "LayerType", "StaticInput", "SubsequenceInput", "beam_search", "cos_sim"),
    *("cross_entropy_over_beam", "factorization_machine", "first_seq", "hsigmoid", "last_seq"),
    *("layer_support", "recurrent_group"),
}
_OTHERS = {
    "cross_entropy_cost": "cross_entropy",
    "cross_entropy_with_selfnorm_cost": "cross_entropy_with_selfnorm",
    "max_id": "maxid_layer",
    "multi_binary_label_cross_entropy_cost": "multi_binary_label_cross_entropy",
}
# Names of v2 alone: its own functions, and second spellings.
_LATER = {
    *("GeneratedInputV2", "StaticInputV2", "cross_entropy", "data", "get_layer", "mse_cost"),
    "parse_network",
}


def _old_name(name):
    if name in _SAME or name.endswith(_ENDS):
        return name
    return f"{name}_layer"


_NAMES = {name: _old_name(name) for name in layer.__all__ if name not in _LATER} | _OTHERS

globals().update(renamed(layer, _NAMES))
__all__ = [*_NAMES.values()]
