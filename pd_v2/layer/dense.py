"""Layers that multiply by a matrix."""

import pd_core as pd

from ..activation import Tanh
from ._legacy import layer, param_list


@layer("fc", "fc_layer", Tanh, several=True, supports=("error_clipping_threshold", "drop_rate"))
def fc(scope, input, size, act=None, name=None, param_attr=None, bias_attr=None, layer_attr=None):
    """act(sum of x W over the inputs, plus b).

    `size` is the width of the result. A list of inputs takes a list of `param_attr`, or one that
    serves as the pattern of each.
    """
    attrs = param_list(param_attr, len(input))
    y = None
    for i, (x, attr) in enumerate(zip(input, attrs, strict=True)):
        product = pd.matmul(x, scope.weight(i, [x.size, size], attr))
        y = product if y is None else y + product
    bias = scope.bias([1, size], bias_attr)
    return y if bias is None else y + bias
