"""Recurrent groups: a step that is described once and run along sequences."""

import numpy as np

import pd_core as pd

from .. import build
from ..activation import Linear
from ..config_base import Layer, named_value
from ..formats.proto import LayerConfig, SubModelConfig
from .base import Scope

# Their rows are not computed one by one, so they stay in the loop.
_OVER_ROWS = {"batch_norm", "resize", "trans"}


class StaticInput:
    """A layer that every step sees whole: a row for each sequence, or sequences.

    `size` is for reading only; `is_seq` is what the layer is anyway.
    """

    def __init__(self, input, is_seq=False, size=None):
        if not isinstance(input, Layer):
            raise TypeError(f"StaticInput: input is a layer, not {input!r}")
        if size is not None and size != input.size:
            raise pd.ShapeError(f"StaticInput: {input.name!r} is {input.size} wide, not {size}")
        self.input, self.is_seq, self.size = input, is_seq, input.size


def SubsequenceInput(input):
    """The layer itself: whether a group runs over sub-sequences, the layer's levels say."""
    return input


class Group:
    """A recurrent group while its step is described: its layers, links and memories."""

    def __init__(self, name, reverse, levels):
        self.name = build.current().full_name(name)
        self.reverse, self.levels = reverse, levels
        self.layers = {}
        self.step = pd.Step()
        self.memories = []
        self.rooms = {}
        self.evaluated = []  # (evaluator, its arguments), to be declared when the step is done
        self.config = SubModelConfig(
            name=self.name, is_recurrent_layer_group=True, reversed=bool(reverse)
        )
        self.layer = _bare(self.name, "recurrent_layer_group", group=self)

    @property
    def sequences(self):
        """The sequences that the group runs along."""
        return self.levels[0]

    @property
    def rows(self):
        """The size of a batch of rows in the step."""
        return self.sequences.lengths.dims[0]

    def frame(self, x):
        """The layer that stands for one row of each sequence of x in a step, or for one
        sub-sequence."""
        config = LayerConfig(name=f"{x.name}@{self.name}", type="scatter_agent", active_type="")
        config.size = x.size
        if x.height or x.width:
            config.height, config.width = x.height, x.width
        record = _record(x, config) | {"num_filters": x.num_filters}
        if len(x.levels) > 1:
            frame = self._sub_sequence(x, record)
        else:
            frame = Layer.of((self.rows, *x.dims[1:]), x.dtype, x.name, **record)
            self.step.frames[frame] = x
        build.current().add(frame)
        self.layer.parents.append(x)
        self.config.in_links.add(layer_name=x.full_name, link_name=frame.full_name)
        return frame

    def _sub_sequence(self, x, record):
        """In every step as many rows of each sample as the longest sub-sequence has."""
        inner = x.levels[1]
        packed = inner.pad(x)
        rows = pd.Variable.of((self.rows, *packed.dims[1:]), x.dtype, x.name)
        lengths = pd.Variable.of((self.rows,), np.int64, f"{x.name}.lengths")
        self.step.frames.update({rows: packed, lengths: inner.lengths})
        level = pd.PaddedSegments(lengths, inner.longest)
        return named_value(level.ungrouped(rows), x.name, Layer, **record, levels=(level,))

    def zeros(self, *sizes, dtype="float32"):
        """What a memory starts from that nothing else is said of."""
        return self.sequences.zeros(*sizes, dtype=dtype)

    def ids(self, value):
        """What a memory of ids starts from that begins with one id."""
        return pd.add(self.zeros(dtype="int64"), np.int64(value))

    def whole(self, x):
        """What every step sees of a layer outside: its value and its levels."""
        return x, x.levels

    def with_room(self, level, whole):
        """The sequences of a memory that starts from those of `level`, which are `whole` in the
        step: one object for each `level`, so that layers made of several of them agree."""
        if level not in self.rooms:
            self.rooms[level] = pd.PaddedSegments(whole.lengths, whole.longest)
        return self.rooms[level]

    def static(self, x, name=None):
        """The layer that stands for the whole of x in every step."""
        kind = "agent" if name else "scatter_agent"
        config = LayerConfig(name=f"{name or x.name}@{self.name}", type=kind, active_type="")
        config.size = x.size
        value, levels = self.whole(x)
        agent = named_value(value, name or x.name, Layer, **_record(x, config), levels=levels)
        build.current().add(agent)
        if not x.levels:
            self.step.fixed.append(agent)
        if name:
            self.config.memories.add(
                layer_name=config.name, link_name=config.name, boot_layer_name=x.full_name
            )
        else:
            self.config.in_links.add(layer_name=x.full_name, link_name=config.name)
        self.layer.parents.append(x)
        return agent

    def close(self, outputs):
        """Link the memories, and run the step: the layers outside for those inside."""
        self.keep(outputs)
        self.step.fixed += [x for x in self.layers if self._is_fixed(x)]
        self.step.row_wise = [x for x in self.layers if self._is_row_wise(x)]
        known = {*self.step.row_wise, *self.step.fixed}
        self.step.by_step = [x for x in self.layers if not x.levels and x.node and x not in known]
        self.step.bounded = all(_is_bounded(memory.parents[-1]) for memory in self.memories)
        self.step.apart = len(self.levels) == 1 and not any(x.levels for x in self.layers)
        seen = self._evaluated_layers()
        rows = [self.padded(x) if x.levels else x for x in [*outputs, *seen]]
        reverse = self.reverse and len(self.levels) == 1
        values = pd.unroll(self.step, rows, self.sequences, reverse)
        given, evaluated = values[: len(outputs)], values[len(outputs) :]
        self._evaluate(dict(zip(seen, evaluated, strict=True)))
        return [self._gathered(x, y) for x, y in zip(outputs, given, strict=True)]

    def _evaluated_layers(self):
        """The layers of the step that evaluators look at."""
        given = [v for _, arguments in self.evaluated for v in arguments.values()]
        found = dict.fromkeys(x for x in given if isinstance(x, Layer))
        for x in found:
            if x.levels or x.sparse is not None:
                raise pd.GraphError(
                    f"recurrent_group {self.name!r}: {x.name!r} is no row in each step, and is "
                    "not evaluated"
                )
        return list(found)

    def _evaluate(self, values):
        """Declare the evaluators of the step for the rows of all steps."""
        levels = self.levels[:1]
        outside = {
            x: named_value(y, x.name, Layer, **_record(x, x.config), levels=levels, inside=x)
            for x, y in values.items()
        }
        for declare, arguments in self.evaluated:
            declare(**{k: outside.get(v, v) for k, v in arguments.items()})

    def keep(self, outputs):
        """Link the memories; whoever needs the group needs all that its configuration links."""
        for memory in self.memories:
            memory.link()
        agents = [x for x in self.layers if x.config.type in ("agent", "scatter_agent")]
        self.layer.parents += [*agents, *outputs]

    def padded(self, x):
        """Sequences of one step as [samples, rows, ...], of equal size in every step."""
        *outer, level = x.levels
        if isinstance(level, pd.PaddedSegments):
            return level.grouped(x)
        if outer or self.step.varies(level.lengths):
            raise pd.GraphError(
                f"recurrent_group {self.name!r}: the step returns {x.name!r}, whose sequences are "
                "not those of its input or of a StaticInput"
            )
        return level.pad(x)

    def _is_fixed(self, x):
        """Whether it is a row for each sample, made of sequences that every step sees whole."""
        of_sequences = any(p.levels for p in x.parents)
        return of_sequences and not x.levels and not self.step.varies(x)

    def _is_row_wise(self, x):
        given = x.node is None or x in self.step.fixed
        kinds = [x.config.type, *(p.config.type for p in x.parents)]
        return (
            not given
            and not x.levels
            and not any(p.levels for p in x.parents)
            and _OVER_ROWS.isdisjoint(kinds)
        )

    def _gathered(self, x, value):
        config = LayerConfig(name=build.current().full_name(x.name), type="gather_agent")
        config.size, config.active_type = x.size, ""
        self.config.out_links.add(layer_name=x.full_name, link_name=config.name)
        record = _record(x, config) | {"parents": [x, self.layer], "reverse": self.reverse}
        levels = self.levels[:1]
        if x.levels:
            inner = self._sub_sequences(x.levels[-1])
            used = pd.slice(value, [0], inner.longest, [1])
            used.dims = (value.dims[0], used.dims[1], *value.dims[2:])
            value, levels = inner.pack(used), (self.sequences, inner)
        out = named_value(value, x.name, Layer, **record, levels=levels)
        build.current().add(out)
        return out

    def _sub_sequences(self, level):
        """What the sequences of every step are together: sub-sequences."""
        if isinstance(level, pd.PaddedSegments):
            return self.levels[1]
        return pd.Segments(self.sequences.repeat(level.lengths))


def _is_bounded(x):
    """Whether a layer cannot grow without limit from step to step, whatever the weights."""
    if x.config.type == "get_output":  # the cell of an LSTM grows by 1 a step at most
        x = x.parents[0]
    if x.config.type in ("gru_step", "lstm_step"):
        return x.activation.bounded and x.config.active_gate_type == "sigmoid"
    return x.dtype.kind == "i" or (x.activation is not None and x.activation.bounded)


def _record(x, config):
    """What stands for a layer elsewhere tells of it."""
    return {
        "layer_type": x.layer_type,
        "parents": [],
        "activation": x.activation,
        "size": x.size,
        "config": config,
    }


def _bare(name, kind, **state):
    """A layer that only the configuration knows."""
    config = LayerConfig(name=name, type=kind, active_type="")
    layer = Layer.of((), np.float32, name, layer_type=kind, parents=[], config=config, **state)
    build.current().add(layer)
    return layer


class Memory(Layer):
    """What a layer of the step gave in the step before; `set_input` says which one."""

    linked = None

    def set_input(self, input):
        """Bind it to a layer of the same step."""
        if not isinstance(input, Layer):
            raise TypeError(f"memory {self.name!r}: the input is a layer, not {input!r}")
        self.linked = input

    def link(self):
        """Find the layer by its name, now that the step is described."""
        layer = self.linked
        if isinstance(layer, str):
            name = f"{layer}@{self.within.name}"
            layer = next((x for x in self.within.layers if x.full_name == name), None)
        if layer is None:
            raise pd.GraphError(
                f"memory {self.name!r}: no layer of the step is called {self.linked!r}\n"
                "  hint: give it that name, or call set_input(layer)"
            )
        if layer.size != self.size:
            raise pd.ShapeError(
                f"memory {self.name!r} is {self.size} wide, its layer {layer.name!r} {layer.size}"
            )
        if bool(self.levels) != bool(layer.levels):
            kinds = ("rows", "sequences")
            raise pd.GraphError(
                f"memory {self.name!r} holds {kinds[bool(self.levels)]}, its layer "
                f"{layer.name!r} {kinds[bool(layer.levels)]}"
            )
        self.state.new = self.within.padded(layer) if layer.levels else layer
        self.record.layer_name = layer.full_name
        self.parents.append(layer)


def memory(
    name,
    size,
    memory_name=None,
    is_seq=False,
    boot_layer=None,
    boot_bias=None,
    boot_bias_active_type=None,
    boot_with_const_id=None,
):
    """The rows that the layer called `name` of this step gave in the step before.

    Before the first step it is zero, the rows of `boot_layer` from outside the group, an
    activation of the learned `boot_bias`, or the id `boot_with_const_id`.
    """
    known = build.current()
    if not known.groups:
        raise pd.GraphError("memory: it belongs in the step of a recurrent_group")
    drawn = memory_name or known.next_name("memory")
    group = known.groups[-1]
    own_name = drawn if name is None else f"{name}+delay1"
    given = [v is not None for v in (boot_layer, boot_bias, boot_with_const_id)]
    if sum(given) > 1:
        raise pd.GraphError(f"memory {own_name!r}: only one of the boot arguments")
    config = LayerConfig(name=f"{own_name}@{group.name}", type="agent", size=size, active_type="")
    record = {
        "layer_type": "memory",
        "parents": [],
        "size": size,
        "config": config,
        "linked": name,
        "record": group.config.memories.add(layer_name="", link_name=config.name),
    }
    if isinstance(boot_layer, Layer) and boot_layer.levels:
        agent = _memory_of_sequences(group, own_name, size, boot_layer, record)
    else:
        ids = boot_with_const_id is not None
        sizes, kind = ((), np.int64) if ids else ((size,), np.float32)
        agent = Memory.of((group.rows, *sizes), kind, own_name, **record)
        known.add(agent)
        init = _boot(group, agent, boot_layer, boot_bias, boot_bias_active_type, boot_with_const_id)
        agent.state = pd.State(agent, init)
    group.step.states.append(agent.state)
    group.memories.append(agent)
    return agent


def _memory_of_sequences(group, name, size, layer, record):
    """A memory that is a sequence in every step, with as many rows as `layer`."""
    _check_boot(name, size, layer)
    if len(layer.levels) > 1:
        raise pd.GraphError(
            f"memory {name!r}: boot_layer {layer.name!r} is nested; a memory starts from rows or "
            "from sequences of rows"
        )
    value, (level,) = group.whole(layer)
    padded = level.pad(value)
    formal = pd.Variable.of((group.rows, *padded.dims[1:]), padded.dtype, name)
    room = group.with_room(layer.levels[0], level)
    agent = named_value(room.ungrouped(formal), name, Memory, **record, levels=(room,))
    build.current().add(agent)
    agent.record.boot_layer_name = layer.full_name
    agent.parents.append(layer)
    agent.state = pd.State(formal, padded)
    return agent


def _boot(group, agent, layer, bias, activation, const_id):
    """The value before the first step."""
    if layer is not None:
        return _booted_by(group, agent, layer)
    if const_id is not None:
        agent.record.boot_with_const_id = const_id
        return group.ids(const_id)
    if bias is None or bias is False:
        return group.zeros(agent.size)
    scope = Scope(agent.name, agent.config, [], None)
    activation = activation or Linear()
    start = activation(scope.bias([1, agent.size], bias))
    scope.commit()
    agent.record.boot_bias_parameter_name = agent.config.bias_parameter_name
    agent.config.ClearField("bias_parameter_name")
    agent.parameters = tuple(scope.parameters.values())
    agent.record.boot_bias_active_type = activation.name
    return pd.add(group.zeros(agent.size), start)


def _booted_by(group, agent, layer):
    if isinstance(layer, Layer) and layer.within is group:
        raise pd.GraphError(
            f"memory {agent.name!r}: boot_layer {layer.name!r} is a layer of the step; "
            "a memory starts from one outside"
        )
    _check_boot(agent.name, agent.size, layer)
    agent.record.boot_layer_name = layer.full_name
    agent.parents.append(layer)
    return group.whole(layer)[0]


def _check_boot(name, size, layer):
    if not isinstance(layer, Layer):
        raise TypeError(f"memory {name!r}: boot_layer is a layer, not {layer!r}")
    if layer.size != size:
        raise pd.ShapeError(
            f"memory {name!r} is {size} wide, its boot_layer {layer.name!r} {layer.size}"
        )


def recurrent_group(step, input, reverse=False, name=None, targetInlink=None):
    """step(*inputs) run along sequences: the layers that it returns, as sequences.

    The step is called once. For each layer of `input` it gets the layer of one row a sequence,
    for a StaticInput the whole layer, and anything else as it is. A layer without sequences is
    like a StaticInput. `memory` gives what a layer of the step gave in the step before.
    """
    known = build.current()
    name = name or known.next_name("recurrent_group")
    inputs = list(input) if isinstance(input, (list, tuple)) else [input]
    links = [x for x in inputs if isinstance(x, Layer) and x.levels]
    if not links:
        raise pd.GraphError(f"recurrent_group {name!r}: there is no sequence among its inputs")
    group = Group(name, reverse, max((x.levels for x in links), key=len))
    with described(group):
        result = step(*[_seen(group, x) for x in inputs])
        outputs = _layers_of(group, result)
    out = group.close(outputs)
    return out if isinstance(result, (list, tuple)) else out[0]


def described(group):
    """The context in which a step is described."""
    return build.current().inside(group)


def _seen(group, x):
    """What the step gets for an input."""
    if isinstance(x, StaticInput):
        return group.static(x.input, build.current().next_name("memory"))
    if not isinstance(x, Layer):
        return x
    return group.frame(x) if x.levels else group.static(x)


def _layers_of(group, result):
    outputs = list(result) if isinstance(result, (list, tuple)) else [result]
    for x in outputs:
        if not isinstance(x, Layer):
            raise TypeError(f"recurrent_group {group.name!r}: a step returns layers, not {x!r}")
        if x.within is not group:
            raise pd.GraphError(
                f"recurrent_group {group.name!r}: the step returns {x.name!r}, "
                "which is outside of it"
            )
    return outputs
