"""The object that every layer function returns."""

import numpy as np

import pd_core as pd
from pd_core.graph.node import Node


class Layer(pd.Variable):
    """The output of a layer: a core Variable [rows, size] and the layer's record.

    `levels` are the Segments of its sequences, outermost first: none for plain rows, one for
    sequences of rows, two for samples of sub-sequences of rows.
    Integer data is [rows]; `prob` is the score of each id (max_id) or path (beam_search), `column`
    the ln p of each generated word; `ids` are the ids that a layer of rows computes besides.
    Sparse data is the nonzero columns [N], with `sparse`, the SparseRows that they belong to.
    `within` is the recurrent group that the layer belongs to, `group` the one that a
    recurrent_layer_group layer represents; `inside` is the layer of a group's step whose rows of
    all steps this layer holds.
    `outputs` are the names of its results, `results` the Variables of those besides the default.
    `read_as` are the sizes (height, width) that image layers have taken the rows of a data layer
    for whose declaration has none. `recipe` is how a layer function computed the layer.
    `image` is the same value as [rows, channels, height, width] where the layer computes one,
    `config` the LayerConfig of `Topology.proto()`. `parameters` are the Parameters that the layer
    uses.
    """

    name = None
    layer_type = None
    parents = ()
    activation = None
    num_filters = None
    img_norm_type = None
    size = None
    outputs = ("default",)
    results = None
    reverse = None
    data_type = None
    config = None
    image = None
    prob = None
    column = None
    ids = None
    levels = ()
    sparse = None
    within = None
    group = None
    parameters = ()
    inside = None
    build = None  # `Build.layers` of the build in which it was defined
    order = 0  # of definition
    copied = None  # the layer that this one is a copy of
    naming = None  # the Naming in which it was named
    declared = None  # of a data layer: its type and sizes
    read_as = None
    recipe = None
    site = None

    def __bool__(self):
        """Return True, as of any object: 2017's scripts write `if layer:`."""
        return True

    def __copy__(self):
        """Return the same layer as another object with attributes of its own."""
        replaced = ("copied", "dims", "dtype", "name", "node", "parents")
        record = {key: value for key, value in vars(self).items() if key not in replaced}
        copy = named_value(self, self.name, Layer, **record, parents=[self], copied=self.original)
        if self.within is not None:
            self.within.layers[copy] = None
        return copy

    def __deepcopy__(self, memo):
        return self.__copy__()

    @property
    def unfit(self):
        """The error if it cannot be computed, else None."""
        return self.feed.unfeedable

    @property
    def original(self):
        """The layer that this one is a copy of, or the layer itself."""
        return self if self.copied is None else self.copied

    @property
    def full_name(self):
        """The name within the whole network: `name@group` inside a recurrent group."""
        return self.config.name

    def set_input(self, input):
        """Bind a memory to a layer of its step; GraphError for any other layer."""
        raise pd.GraphError(f"layer {self.name!r}: only a memory is bound to a layer")

    @property
    def inputs(self):
        """The feeds of a data layer: the rows, then the lengths of each level.

        Sparse rows are fed as columns, the number of columns of each row, and the values unless
        all are 1.
        """
        parts = [] if self.sparse is None else [self.sparse.counts, self.sparse.values]
        lengths = [level.lengths for level in self.levels]
        return [self, *(v for v in parts if v is not None), *lengths]

    @property
    def holds_ids(self):
        """Whether the data are ids: integers other than the columns of sparse rows."""
        return self.dtype.kind == "i" and self.sparse is None

    @property
    def sequences(self):
        """The Segments of rows by sample, across sub-sequences; None for plain rows."""
        return merged(self.levels)

    @property
    def width(self):
        """Width of the image, 0 for other data."""
        return self.config.width

    @property
    def height(self):
        """Height of the image, 0 for other data."""
        return self.config.height

    @property
    def depth(self):
        """Depth of the image, 1 for images of two axes and other data."""
        return self.config.depth


def named_value(x, name, cls, **record):
    """Return the value of x as a Variable with this name and record, made by `cls.of`.

    The value gets an Identity node of its own, so that a layer is an output of a node. All
    layers with a value are made here, those that are fed by `Layer.of`. `cls` is Layer, a
    subclass, or a MixedLayerType that is to become this value.
    """
    node = Node(
        "Identity",
        (x,),
        {},
        [(x.dims, x.dtype)],
        output_names=None if name is None else [name],
        output_class=cls,
        output_state=record,
    )
    return node.outputs[0]


def merged(levels):
    """Return the Segments of rows by sample for levels of sequences, None without levels."""
    if len(levels) < 2:
        return levels[0] if levels else None
    outer, inner = levels
    return outer.merge(inner)


class AddToSealedMixedLayerException(Exception):
    """A projection was added to a mixed layer after its `with` block."""


class MixedLayerType(Layer):
    """A mixed layer that is built in a `with` block: `+=` adds a projection.

    Its construction ends with the block: `of` then makes this very object the output of a node,
    because scripts go on with the name that `with ... as` bound. Before, it has no value.
    """

    def __init__(self, name, size, act, complete):
        """`complete(items, layer)` builds the layer from its projections and operators."""
        self.name, self.size, self.activation = name, size, act
        self._items, self._complete = [], complete

    def of(self, dims, dtype, name="", **state):
        """Do for this object what `Variable.of` does for a new one."""
        vars(self).update(dims=tuple(dims), dtype=np.dtype(dtype), name=name, **state)
        return self

    def __iadd__(self, other):
        """Add a projection or an operator."""
        if self._complete is None:
            raise AddToSealedMixedLayerException(f"mixed layer {self.name!r} is complete")
        self._items.append(other)
        return self

    def __enter__(self):
        return self

    def __exit__(self, exc_type, exc_value, tb):
        if exc_type is None:
            complete, self._complete = self._complete, None
            complete(self._items, self)

    def __getattr__(self, attribute):
        if self.config is None and not attribute.startswith("__"):
            raise pd.GraphError(
                f"mixed layer {self.name!r} is used before its with block ends\n"
                "  hint: `with mixed(...) as m: m += projection`"
            )
        raise AttributeError(attribute)
