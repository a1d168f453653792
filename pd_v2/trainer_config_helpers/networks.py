"""Networks of several layers, which v1 had under these names too."""

# isort: skip_file
# fmt: off
from ..networks import (
    bidirectional_gru, bidirectional_lstm, dot_product_attention, gru_group, gru_unit,
    img_conv_bn_pool, img_conv_group, img_separable_conv, lstmemory_group, lstmemory_unit,
    multi_head_attention, sequence_conv_pool, simple_attention, simple_gru, simple_gru2,
    simple_img_conv_pool, simple_lstm, small_vgg, text_conv_pool, vgg_16_network,
)

__all__ = [
    "bidirectional_gru", "bidirectional_lstm", "dot_product_attention", "gru_group", "gru_unit",
    "img_conv_bn_pool", "img_conv_group", "img_separable_conv", "lstmemory_group", "lstmemory_unit",
    "multi_head_attention", "sequence_conv_pool", "simple_attention", "simple_gru", "simple_gru2",
    "simple_img_conv_pool", "simple_lstm", "small_vgg", "text_conv_pool", "vgg_16_network",
]
