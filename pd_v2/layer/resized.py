"""Networks for images of another size than their data layer declares.

In 2017 an array of two or three axes that was fed to a data layer without `height` and `width` said
how high and wide its images are, and every batch might have another size. Layers of images computed
with the size that they got (`getFrameHeight` and `getFrameWidth` of the C++ core) and passed theirs
on; all others needed rows of the width that was configured.

Sizes are part of a program here, so a network is described for one size, and its layers of images
are computed again for each other one, with the same parameters. What follows them, evaluators
and updates are rebuilt on the values of these.
"""

from collections import OrderedDict
from copy import copy

import pd_core as pd
from pd_core.graph.node import ancestors
from pd_core.graph.rewrite import rebuilt_if_changed
from pd_core.graph.update import Assignment

from ..config_base import Layer, named_value
from ..formats.proto import LayerConfig

# Layers that take their size from their input, by the types of 2017.
_READS_SIZE = {
    *("batch_norm", "bilinear_interp", "blockexpand", "crop", "cudnn_batch_norm", "cudnn_conv"),
    *("cudnn_convt", "detection_output", "exconv", "exconvt", "maxout", "multibox_loss", "norm"),
    *("pad", "pool", "priorbox", "roi_pool", "scale_sub_region", "spp", "switch_order"),
}
# Those of them that give images of which they do not pass the size on: the next layer takes them
# for images of the size that was configured.
_DROPS_SIZE = {"pad", "switch_order"}
# Layers of rows of any width.
_ANY_WIDTH = {
    *("clip", "dot_prod", "featmap_expand", "huber_regression", "maxid", "resize", "rotate"),
    *("multi-class-cross-entropy", "multi_binary_label_cross_entropy", "sampling_id"),
    *("scale_shift", "smooth_l1", "square_error", "sum_cost", "trans"),
}
_PRINTERS = ("gradient_printer", "value_printer")  # evaluators that take rows of any width

# Networks besides that of the declared sizes. They hold their programs; those of others are found
# again as long as the core keeps them, which has a limit of memory.
_KEPT = 4


class Networks:
    """The networks of a topology for the sizes of images that come, made when they come.

    `complete(network)`, if given, is called with each new one.
    """

    def __init__(self, topology, complete=None):
        self._topology, self.complete = topology, complete
        self._made = OrderedDict()

    def of(self, feeds):
        """Return the network for the Feeds of a batch."""
        sizes = getattr(feeds, "sizes", None)
        if not sizes:
            return _DECLARED
        key = tuple(sorted(sizes.items()))
        found = self._made.get(key)
        if found is None:
            with pd.fresh_names():  # automatic names of the user's graph stay as they are
                found = Resized(self._topology, sizes)
                if self.complete is not None:
                    self.complete(found)
            if len(self._made) == _KEPT:
                self._made.popitem(last=False)
            self._made[key] = found
        self._made.move_to_end(key)
        return found


class _Declared:
    """The network as it was described."""

    def of(self, targets):
        """Return the targets."""
        return targets

    def feeds(self, feeds):
        """Return the feeds."""
        return feeds


_DECLARED = _Declared()


class Resized:
    """A network whose data layers hold images of other sizes, {name: (columns, height, width)}."""

    def __init__(self, topology, sizes):
        self.layers = {}  # those that differ, by the layers of the topology
        self._new = {}  # Variables, by those of the topology
        self._dims, self._gone, self._updates = {}, set(), {}
        self.shown = ", ".join(f"{name!r} of {h} x {w}" for name, (_, h, w) in sizes.items())
        for x in topology.members:
            if x.within is None:
                self._take(x, sizes)
        for evaluator in topology.evaluators:
            for x in () if evaluator.config.type in _PRINTERS else evaluator.inputs:
                self._check_width(x, f"evaluator {evaluator.name!r}")
        again = [y for x, y in self.layers.items() if x.config.type in _READS_SIZE]
        self._effects = {a.variable: a for a in pd.effects(again)}

    def of(self, targets):
        """Return targets of the topology as those of this network: Variables, Updates, or lists."""
        if isinstance(targets, (list, tuple)):
            return [self.of(t) for t in targets]
        return self._update(targets) if isinstance(targets, pd.Update) else self._variable(targets)

    def feeds(self, feeds):
        """Return the feeds of this network for those of the topology."""
        return {self._new.get(v, v): a for v, a in feeds.items()}

    def replace(self, old, new):
        """Let a Variable, None or a tuple of Variables stand for that of the topology."""
        if isinstance(old, pd.Variable):
            self._new[old] = new
        elif old is not None:
            for a, b in zip(old, new, strict=True):
                self.replace(a, b)

    # ---- layers

    def _take(self, x, sizes):
        """Make the layer of this network for one of the topology, if it differs."""
        if x.data_type is not None:
            if x.name in sizes:
                self._put(x, _data_layer(x, *sizes[x.name]))
            return
        changed = [p for p in x.parents if p.original in self.layers]
        kind = x.config.type
        if kind == "print":  # it has no value, its evaluator writes those of others
            return
        reads_size = kind in _READS_SIZE and not _is_configured(x)
        if changed and (reads_size or kind in _ANY_WIDTH):
            before = [v for p in x.parents for v in (p, p.image) if v is not None]
            self._gone.update(ancestors([x], stop={*before, *self._new}))
            with pd.namespace(""):
                self._put(x, x.recipe.again(x, self.layer))
            return
        for p in changed:
            self._check_width(p, f"{x.layer_type} layer {x.name!r}")
        value = self._variable(x)
        if value is not x:
            self._put(x, _copy(x, value))

    def layer(self, x):
        """Return the layer of this network for one of the topology."""
        return self.layers.get(x.original, x)

    def _check_width(self, x, reader):
        """Raise a ShapeError for rows of another width than configured."""
        new = self.layers.get(x.original)
        if new is not None and new.dims[1:] != x.dims[1:]:
            raise pd.ShapeError(
                f"images {self.shown}: {reader} takes rows of {x.size}, and {x.name!r} gives "
                f"{new.size}\n"
                "  hint: as in 2017 only layers of images compute with the size of each batch"
            )

    def _put(self, x, new):
        """Let a layer stand for one of the topology, with all its results."""
        if x.config.type in _DROPS_SIZE:
            new.config.height, new.config.width = x.height, x.width
            new.image = None
        self.layers[x] = new
        pairs = [(x, new), (x.prob, new.prob), (x.column, new.column), (x.ids, new.ids)]
        pairs += [(x.image, new.image)] if new.image is not None else []
        for name, value in (x.results or {}).items():
            pairs.append((value, (new.results or {}).get(name)))
        for old, level in zip(x.levels, new.levels, strict=True):
            if old is not level:
                pairs.append((old.lengths, level.lengths))
        for old, value in pairs:
            if old is not None and value is not None and old is not value:
                self._new[old] = value
                self._dims.update(
                    (d, n)
                    for d, n in zip(old.dims, value.dims, strict=True)
                    if isinstance(d, str) and d != n
                )

    # ---- what is built on layers

    def _variable(self, v):
        """Return the Variable that stands for one of the topology."""
        new = self._new
        if v in new:
            return new[v]
        for node in ancestors([v], stop=new):
            if node.outputs[0] in new:
                continue
            if node in self._gone:
                raise pd.GraphError(f"images {self.shown}: {v.name!r} has no value")
            inputs = tuple([new.get(x, x) for x in node.inputs])
            outputs = None
            if inputs != node.inputs:
                outputs = rebuilt_if_changed(node, inputs, _keep, sizes=self._dims)
            new.update(zip(node.outputs, outputs or node.outputs, strict=True))
        return new.setdefault(v, v)

    def _update(self, update):
        if update not in self._updates:
            new = copy(update)
            new.assignments = tuple(self._assignment(a) for a in update.assignments)
            new.gradients = tuple(
                (v, tuple(self.of(g)) if isinstance(g, tuple) else self.of(g))
                for v, g in update.gradients
            )
            new.is_due = None if update.is_due is None else self.of(update.is_due)
            self._updates[update] = new
        return self._updates[update]

    def _assignment(self, a):
        if a.is_effect and a.variable in self._effects:
            return self._effects[a.variable]
        return Assignment(a.variable, self._variable(a.value), a.owner, a.is_effect)


def _is_configured(x):
    """Whether a layer of images computes with the size of its configuration, whatever it gets."""
    conf = x.config.inputs[0]
    if x.config.type == "norm":
        return conf.norm_conf.norm_type == "cross-channel-norm"
    return conf.pool_conf.pool_type == "max-pool-with-mask"


def _keep(node, inputs):
    """The rule that keeps every node of a body."""


def _data_layer(x, columns, height, width):
    """Return a data layer for images of another size."""
    config = LayerConfig()
    config.CopyFrom(x.config)
    config.size, config.height, config.width = columns, height, width
    record = _record(x) | {"config": config, "size": columns}
    return Layer.of((x.dims[0], columns), x.dtype, x.name, **record)


def _copy(x, value):
    """Return the record of a layer with another value."""
    return named_value(value, x.name, Layer, **_record(x) | {"parents": [], "image": None})


def _record(x):
    replaced = ("compiled", "copied", "dims", "dtype", "name", "node")
    return {key: value for key, value in vars(x).items() if key not in replaced}
