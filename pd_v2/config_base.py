"""The object that every layer function returns."""

import pd_core as pd


class Layer(pd.Variable):
    """A layer's output: a core Variable [rows, size] with its legacy record.

    Integer data is [rows]. `image` is the same value as [rows, channels, height, width] where the
    layer computes one, `config` the LayerConfig of `Topology.proto()`.
    """

    layer_type = None
    parents = ()
    activation = None
    num_filters = None
    img_norm_type = None
    size = None
    outputs = ("default",)
    reverse = None
    data_type = None
    config = None
    image = None

    @property
    def full_name(self):
        """The name within the whole network; inside a group it carries the group's."""
        return self.config.name

    @property
    def width(self):
        """Width of the image, 0 if there is none."""
        return self.config.width

    @property
    def height(self):
        """Height of the image, 0 if there is none."""
        return self.config.height

    @property
    def depth(self):
        """Depth of the image, 1 if it has none."""
        return self.config.depth
