"""Networks: common combinations of layers."""

# isort: skip_file
# fmt: off
from .attention import dot_product_attention, multi_head_attention, simple_attention
from .image import (
    img_conv_bn_pool, img_conv_group, img_separable_conv, simple_img_conv_pool, small_vgg,
    vgg_16_network,
)
from .recurrent import (
    bidirectional_gru, bidirectional_lstm, gru_group, gru_unit, lstmemory_group, lstmemory_unit,
    simple_gru, simple_gru2, simple_lstm,
)
from .text import sequence_conv_pool, text_conv_pool

__all__ = [
    "bidirectional_gru", "bidirectional_lstm", "dot_product_attention", "gru_group", "gru_unit",
    "img_conv_bn_pool", "img_conv_group", "img_separable_conv", "lstmemory_group", "lstmemory_unit",
    "multi_head_attention", "sequence_conv_pool", "simple_attention", "simple_gru", "simple_gru2",
    "simple_img_conv_pool", "simple_lstm", "small_vgg", "text_conv_pool", "vgg_16_network",
]
