"""Convolutions over text."""

from .. import layer as layers
from ..build import current


def sequence_conv_pool(
    input,
    context_len,
    hidden_size,
    name=None,
    context_start=None,
    pool_type=None,
    context_proj_layer_name=None,
    context_proj_param_attr=False,
    fc_layer_name=None,
    fc_param_attr=None,
    fc_bias_attr=None,
    fc_act=None,
    pool_bias_attr=None,
    fc_attr=None,
    context_attr=None,
    pool_attr=None,
):
    """1-D convolution over the steps of a sequence, pooled to one row (Kim 2014).

    The layers are `<name>_conv_proj`, the contexts of the steps, `<name>_conv_fc`, and `<name>`,
    the pooling.
    """
    name = name or current().next_name("sequence_conv_pooling")
    context = layers.mixed(
        name=context_proj_layer_name or f"{name}_conv_proj",
        input=layers.context_projection(
            input=input,
            context_len=context_len,
            context_start=context_start,
            padding_attr=context_proj_param_attr,
        ),
        layer_attr=context_attr,
    )
    hidden = layers.fc(
        name=fc_layer_name or f"{name}_conv_fc",
        input=context,
        size=hidden_size,
        act=fc_act,
        layer_attr=fc_attr,
        param_attr=fc_param_attr,
        bias_attr=fc_bias_attr,
    )
    return layers.pooling(
        name=name,
        input=hidden,
        pooling_type=pool_type,
        bias_attr=pool_bias_attr,
        layer_attr=pool_attr,
    )


text_conv_pool = sequence_conv_pool
