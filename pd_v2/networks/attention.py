"""Attention: sums of the rows of a sequence, weighted by their match with a state."""

import math

from .. import layer as layers
from ..activation import SequenceSoftmax, Tanh
from ..build import current
from ..pooling import Sum

_KINDS = ("dot-product attention", "additive attention")


def simple_attention(
    encoded_sequence,
    encoded_proj,
    decoder_state,
    transform_param_attr=None,
    softmax_param_attr=None,
    weight_act=None,
    name=None,
):
    """Additive attention of a decoder's state to an encoded sequence (Bahdanau et al. 2015).

    The weights are a softmax over the sequence of `weight_act`(encoded_proj + state W) v, by
    default tanh. The result is a row of encoded_sequence's width per sequence.
    """
    name = name or current().next_name("simple_attention")
    state = layers.mixed(
        name=f"{name}_transform",
        size=encoded_proj.size,
        input=layers.full_matrix_projection(decoder_state, param_attr=transform_param_attr),
    )
    expanded = layers.expand(name=f"{name}_expand", input=state, expand_as=encoded_sequence)
    combined = _sum(f"{name}_combine", weight_act or Tanh(), expanded, encoded_proj)
    return _attended(name, "", combined, encoded_sequence, softmax_param_attr)


def dot_product_attention(
    encoded_sequence, attended_sequence, transformed_state, softmax_param_attr=None, name=None
):
    """Dot-product attention of a state to attended_sequence.

    The scores are the products of the state with the rows of encoded_sequence, times a learned
    number; their softmax over the sequence weights the rows of attended_sequence.
    """
    name = name or current().next_name("dot_product_attention")
    expanded = layers.expand(
        name=f"{name}_expand", input=transformed_state, expand_as=encoded_sequence
    )
    products = layers.dot_prod(name=f"{name}_dot-product", input1=expanded, input2=encoded_sequence)
    return _attended(name, "", products, attended_sequence, softmax_param_attr)


def multi_head_attention(
    query,
    key,
    value,
    key_proj_size,
    value_proj_size,
    head_num,
    attention_type,
    softmax_param_attr=None,
    name=None,
):
    """Multi-head attention (Vaswani et al. 2017), a row per sequence of keys.

    `query` has a row per sequence, `key` and `value` are sequences; each of the `head_num` heads
    has its own projections of them, `key_proj_size` and `value_proj_size` wide. `attention_type`
    is 'dot-product attention' (scaled) or 'additive attention'.
    """
    if attention_type not in _KINDS:
        raise ValueError(
            f"multi_head_attention: attention_type is {' or '.join(_KINDS)}, not {attention_type!r}"
        )
    name = name or current().next_name("multi_head_attention")
    query = _projected(f"{name}_query_proj", query, key_proj_size * head_num)
    query = layers.expand(input=query, expand_as=key)
    key = _projected(f"{name}_key_proj", key, key_proj_size * head_num)
    value = _projected(f"{name}_value_proj", value, value_proj_size * head_num)
    heads = []
    for head in range(head_num):
        q, k = (_columns(x, head, key_proj_size) for x in (query, key))
        v = _columns(value, head, value_proj_size)
        if attention_type == _KINDS[0]:
            scores = layers.slope_intercept(
                name=f"{name}_dot-product_scaling_{head}",
                input=layers.dot_prod(name=f"{name}_dot-product_{head}", input1=q, input2=k),
                slope=math.sqrt(1.0 / key_proj_size),
            )
        else:
            scores = _sum(f"{name}_combine_{head}", Tanh(), q, k)
        heads.append(_attended(name, f"_{head}", scores, v, softmax_param_attr))
    return layers.concat(input=heads)


def _projected(name, x, size):
    return layers.mixed(name=name, size=size, input=layers.full_matrix_projection(x))


def _columns(x, head, size):
    part = layers.identity_projection(x, offset=head * size, size=size)
    return layers.mixed(size=size, input=part)


def _sum(name, act, *parts):
    parts = [layers.identity_projection(x) for x in parts]
    return layers.mixed(name=name, size=parts[0].input.size, act=act, input=parts)


def _attended(name, suffix, scores, rows, attr):
    """Return the sum of rows, weighted by the sequence softmax of fc(scores), one number a row."""
    weights = layers.fc(
        name=f"{name}_softmax{suffix}",
        input=scores,
        size=1,
        act=SequenceSoftmax(),
        param_attr=attr,
        bias_attr=False,
    )
    scaled = layers.scaling(name=f"{name}_scaling{suffix}", weight=weights, input=rows)
    return layers.pooling(name=f"{name}_pooling{suffix}", input=scaled, pooling_type=Sum())
