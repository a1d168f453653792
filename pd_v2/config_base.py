"""The object that every layer function returns."""

import pd_core as pd

from . import build


class Layer(pd.Variable):
    """A layer's output: a core Variable [rows, size] with its legacy record.

    `levels` are the Segments of its sequences, the outermost first: none, those of the samples, or
    of the samples in sub-sequences and of these in rows.
    Integer data is [rows]; `prob` is the value that each id had where a layer computes it,
    `column` a number for each where it computes that; `ids` are those of a layer with rows.
    Sparse data is the columns [N] that are not zero, with `sparse`, the SparseRows they belong to.
    `within` is the recurrent group that it is a layer of, `group` the one that it stands for;
    `inside` is the layer of a group's step whose rows of all steps it has.
    `outputs` are the names of its results, `results` the Variables of those besides the default.
    `image` is the same value as [rows, channels, height, width] where the layer computes one,
    `config` the LayerConfig of `Topology.proto()`. `parameters` are the Parameters that it has of
    its own.
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
    build = None  # the layers among which it was defined
    order = 0  # of definition
    copied = None
    naming = None  # the one it was named in
    declared = None  # of a data layer: its type and sizes

    def __bool__(self):
        """True, like any object: a layer is no value."""
        return True

    def __copy__(self):
        """The same layer as another object, whose attributes are its own."""
        made_anew = ("copied", "dims", "dtype", "name", "node", "parents")
        own = {key: value for key, value in vars(self).items() if key not in made_anew}
        twin = pd.identity(self, self.name, Layer, **own, parents=[self], copied=self.original)
        if self.within is not None:
            self.within.layers[twin] = None
        return twin

    def __deepcopy__(self, memo):
        return self.__copy__()

    @property
    def original(self):
        """The layer that this one is a copy of, itself if it is none."""
        return self if self.copied is None else self.copied

    @property
    def full_name(self):
        """The name within the whole network; inside a group it carries the group's."""
        return self.config.name

    def set_input(self, input):
        """Bind a memory to a layer of its step; no other layer has this to bind."""
        raise pd.GraphError(f"layer {self.name!r}: only a memory is bound to a layer")

    @property
    def inputs(self):
        """What is fed for a data layer: the rows, then the lengths of each level.

        Sparse rows are columns, how many of them each row has, and what stands there if not 1.
        """
        beside = [] if self.sparse is None else [self.sparse.counts, self.sparse.values]
        lengths = [level.lengths for level in self.levels]
        return [self, *(v for v in beside if v is not None), *lengths]

    @property
    def holds_ids(self):
        """Whether the data are ids: integers, but not the columns of sparse rows."""
        return self.dtype.kind == "i" and self.sparse is None

    @property
    def sequences(self):
        """The Segments of the samples in rows, whatever sub-sequences they have; None of rows."""
        return merged(self.levels)

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


def merged(levels):
    """The Segments of the samples in rows for levels of sequences; None if there are none."""
    if len(levels) < 2:
        return levels[0] if levels else None
    outer, inner = levels
    return outer.merge(inner)


class AddToSealedMixedLayerException(Exception):
    """A projection was added to a mixed layer that its `with` block has completed."""


class MixedLayerType(Layer):
    """A mixed layer in the making: `+=` adds to it, the end of its `with` block completes it."""

    def __init__(self, name, size, act, complete):
        self.name, self.size, self.activation = name, size, act
        self._inputs, self._complete = [], complete

    def __iadd__(self, other):
        """Add a projection or an operator."""
        if self._complete is None:
            raise AddToSealedMixedLayerException(f"mixed layer {self.name!r} is complete")
        self._inputs.append(other)
        return self

    def __enter__(self):
        return self

    def __exit__(self, exc_type, exc_value, tb):
        if exc_type is None:
            complete, self._complete = self._complete, None
            self.__dict__.update(complete(self._inputs).__dict__)
            if self.node is not None:
                self.node.outputs = (self,)
            build.current().replace(self)

    def __getattr__(self, attribute):
        if self.config is None and not attribute.startswith("__"):
            raise pd.GraphError(
                f"mixed layer {self.name!r} is used before its with block ends\n"
                "  hint: `with mixed(...) as m: m += projection`"
            )
        raise AttributeError(attribute)
