"""Recurrent groups: a step that is built once and run along sequences."""

from contextlib import contextmanager, nullcontext

import numpy as np

import pd_core as pd
from pd_core.graph.node import refined

from .. import build
from ..activation import Linear
from ..config_base import Layer, named_value
from ..formats.proto import LayerConfig, SubModelConfig
from .base import Scope

# These mix the rows of a batch, so they must run step by step, inside the loop.
_OVER_ROWS = {"batch_norm", "resize", "trans"}


class StaticInput:
    """A layer that every step gets whole: a row per sequence, or sequences.

    `size` must be the layer's; `is_seq` has no effect, the layer itself tells.
    """

    def __init__(self, input, is_seq=False, size=None):
        if not isinstance(input, Layer):
            raise TypeError(f"StaticInput: input is a layer, not {input!r}")
        if size is not None and size != input.size:
            raise pd.ShapeError(f"StaticInput: {input.name!r} is {input.size} wide, not {size}")
        self.input, self.is_seq, self.size = input, is_seq, input.size


def SubsequenceInput(input):
    """Return the layer itself: its levels tell that a group runs over sub-sequences."""
    return input


class Group:
    """A recurrent group under construction: the layers of its step, its links and memories."""

    kind = "recurrent_group"

    def __init__(self, name, reverse, levels):
        self.name = build.current().full_name(name)
        build.current().recurrent = True
        self.reverse, self.levels = reverse, levels
        self.layers = {}
        self.step = pd.Step()
        self.memories = []
        self.inner_levels = {}  # of nested inputs, by their level in the step
        self.evaluated = []  # (evaluator function, arguments), declared when the group is closed
        self.config = SubModelConfig(
            name=self.name, is_recurrent_layer_group=True, reversed=bool(reverse)
        )
        self.layer = _bare(self.name, "recurrent_layer_group", group=self)

    def mode(self):
        """Return the context in which the step is built: for training and inference."""
        return nullcontext()

    @property
    def sequences(self):
        """The Segments that the group runs along."""
        return self.levels[0]

    @property
    def rows(self):
        """The symbolic batch size inside the step."""
        return self.sequences.lengths.dims[0]

    def step_input(self, x):
        """Return the layer of a step that holds a row of each sequence of x, or a sub-sequence."""
        config = LayerConfig(name=f"{x.name}@{self.name}", type="scatter_agent", active_type="")
        config.size = x.size
        if x.height or x.width:
            config.height, config.width = x.height, x.width
        record = record_of(x, config) | {"num_filters": x.num_filters}
        if len(x.levels) > 1:
            agent = self._sub_sequence(x, record)
        else:
            agent = Layer.of((self.rows, *x.dims[1:]), x.dtype, x.name, **record)
            turned = self.reverse and len(self.levels) > 1
            self.step.inputs[agent] = self._turned(x) if turned else x
        build.current().add(agent)
        self.layer.parents.append(x)
        self.config.in_links.add(layer_name=x.full_name, link_name=agent.full_name)
        return agent

    def _sub_sequence(self, x, record):
        """Return a sub-sequence per step, padded to the longest one: loops have static shapes."""
        inner = x.levels[1]
        padded = inner.pad(x)
        rows = pd.Variable.of((self.rows, *padded.dims[1:]), x.dtype, x.name)
        lengths = pd.Variable.of((self.rows,), np.int64, f"{x.name}.lengths")
        self.step.inputs.update({rows: padded, lengths: inner.lengths})
        level = pd.PaddedSegments(lengths, inner.longest)
        self.inner_levels[level] = inner
        return named_value(level.ungrouped(rows), x.name, Layer, **record, levels=(level,))

    def _turned(self, values):
        """Return values with a row for each step, the last step of each sequence first."""
        s = self.sequences
        return pd.gather(values, pd.gather(s.starts + s.ends - 1, s.owner) - s.numbers)

    def zeros(self, *sizes, dtype="float32"):
        """Return the default initial state of a memory: zeros."""
        return self.sequences.zeros(*sizes, dtype=dtype)

    def ids(self, value):
        """Return the initial state of a memory of ids: one id for all sequences."""
        return self.zeros(dtype="int64") + np.int64(value)

    def whole(self, x):
        """Return value and levels of an outside layer as every step gets it."""
        return x, x.levels

    def static(self, x, name=None):
        """Return the layer of a step that holds the whole of x."""
        kind = "agent" if name else "scatter_agent"
        config = LayerConfig(name=f"{name or x.name}@{self.name}", type=kind, active_type="")
        config.size = x.size
        value, levels = self.whole(x)
        agent = named_value(value, name or x.name, Layer, **record_of(x, config), levels=levels)
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
        """Link the memories and run the step; return the layers outside for those inside."""
        self.link(outputs)
        self.sort_layers()
        evaluated = self._evaluated_layers()
        rows = [self.padded(x) if x.levels else x for x in [*outputs, *evaluated]]
        reverse = self.reverse and len(self.levels) == 1
        values = pd.unroll(self.step, rows, self.sequences, reverse)
        results, evaluated_values = values[: len(outputs)], values[len(outputs) :]
        self._evaluate(dict(zip(evaluated, evaluated_values, strict=True)))
        return [self._gathered(x, y) for x, y in zip(outputs, results, strict=True)]

    def sort_layers(self):
        """Tell the step which of its layers can be computed outside of a loop."""
        self.step.fixed += [x for x in self.layers if self._is_fixed(x)]
        self.step.row_wise = [x for x in self.layers if self._is_row_wise(x)]
        done = {*self.step.row_wise, *self.step.fixed}
        self.step.per_step = [x for x in self.layers if not x.levels and x.node and x not in done]
        self.step.bounded = all(_is_bounded(memory.parents[-1]) for memory in self.memories)
        self.step.independent = len(self.levels) == 1 and not any(x.levels for x in self.layers)

    def _evaluated_layers(self):
        """Return the layers of the step that evaluators read."""
        values = [v for _, arguments in self.evaluated for v in arguments.values()]
        values = [x for v in values for x in (v if isinstance(v, list) else [v])]
        layers = dict.fromkeys(x for x in values if isinstance(x, Layer))
        for x in layers:
            if x.levels or x.sparse is not None:
                raise pd.GraphError(
                    f"recurrent_group {self.name!r}: {x.name!r} is no row in each step, and is "
                    "not evaluated"
                )
        return list(layers)

    def _evaluate(self, values):
        """Declare the evaluators of the step on the rows of all steps."""
        levels = self.levels[:1]
        outside = {
            x: named_value(y, x.name, Layer, **record_of(x, x.config), levels=levels, inside=x)
            for x, y in values.items()
        }

        def of_all_steps(v):
            if isinstance(v, list):
                return [of_all_steps(x) for x in v]
            return outside.get(v, v)

        for declare, arguments in self.evaluated:
            declare(**{k: of_all_steps(v) for k, v in arguments.items()})

    def link(self, outputs):
        """Link the memories; all layers that the configuration links become the group's parents."""
        for memory in self.memories:
            memory.link()
        agents = [x for x in self.layers if x.config.type in ("agent", "scatter_agent")]
        self.layer.parents += [*agents, *outputs]

    def padded(self, x):
        """Return sequences of one step as [samples, rows, ...], padded alike in every step."""
        *outer, level = x.levels
        if isinstance(level, pd.PaddedSegments):
            return level.grouped(x)
        if outer or self.step.varies(level.lengths):
            raise pd.GraphError(
                f"{self.kind} {self.name!r}: the step returns {x.name!r}, whose sequences are "
                "not those of its input or of a StaticInput"
            )
        return level.pad(x)

    def _is_fixed(self, x):
        """Return whether x is a row per sample that is the same in every step."""
        of_sequences = any(p.levels for p in x.parents)
        return of_sequences and not x.levels and not self.step.varies(x)

    def _is_row_wise(self, x):
        """Return whether row k of x depends only on row k of its inputs, in the same step."""
        is_input = x.node is None or x in self.step.fixed
        kinds = [x.config.type, *(p.config.type for p in x.parents)]
        return (
            not is_input
            and not x.levels
            and not any(p.levels for p in x.parents)
            and _OVER_ROWS.isdisjoint(kinds)
        )

    def _gathered(self, x, value):
        """Return the layer outside for x, a layer of the step, of which `value` has all steps.

        As in 2017 a reversed group takes sub-sequences from the first on and gives them in the
        order of its steps; but it takes rows from the last one on, and gives its first rows last.
        """
        if self.reverse and bool(x.levels) != (len(self.levels) > 1):
            value = self._turned(value)
        config = LayerConfig(name=build.current().full_name(x.name), type="gather_agent")
        config.size, config.active_type = x.size, ""
        self.config.out_links.add(layer_name=x.full_name, link_name=config.name)
        record = record_of(x, config) | {"parents": [x, self.layer], "reverse": self.reverse}
        levels = self.levels[:1]
        if x.levels:
            value, inner = self.packed(x, value)
            levels = (self.sequences, inner)
        out = named_value(value, x.name, Layer, **record, levels=levels)
        build.current().add(out)
        return out

    def packed(self, x, value):
        """Return the rows of all steps of x, and their Segments; `value` holds them `padded`."""
        inner = self._sub_sequences(x.levels[-1])
        used = pd.slice(value, [0], inner.longest, [1])
        used = refined(used, (value.dims[0], used.dims[1], *value.dims[2:]))
        return inner.pack(used), inner

    def _sub_sequences(self, level):
        """Return the sequences of all steps together, as sub-sequences."""
        if level in self.inner_levels:
            return self.inner_levels[level]
        return pd.Segments(self.sequences.repeat(level.lengths))


def _is_bounded(x):
    """Return whether a layer cannot grow without limit over the steps, whatever the weights."""
    if x.config.type == "get_output":  # the cell of an LSTM grows by 1 a step at most
        x = x.parents[0]
    if x.config.type in ("gru_step", "lstm_step"):
        return x.activation.bounded and x.config.active_gate_type == "sigmoid"
    return x.dtype.kind == "i" or (x.activation is not None and x.activation.bounded)


def record_of(x, config):
    """Return the record of a layer that represents x inside or outside of a group."""
    return {
        "layer_type": x.layer_type,
        "parents": [],
        "activation": x.activation,
        "size": x.size,
        "config": config,
    }


def _bare(name, kind, **state):
    """Return a layer without a value, which exists only in the configuration."""
    config = LayerConfig(name=name, type=kind, active_type="")
    layer = Layer.of((), np.float32, name, layer_type=kind, parents=[], config=config, **state)
    build.current().add(layer)
    return layer


class Memory(Layer):
    """A layer's value of the previous step; `set_input` binds it to that layer.

    `linked` is the layer or its name, `state` the pd.State, `record` its MemoryConfig.
    """

    linked = None
    state = None
    record = None

    def set_input(self, input):
        """Bind it to a layer of the same step."""
        if not isinstance(input, Layer):
            raise TypeError(f"memory {self.name!r}: the input is a layer, not {input!r}")
        self.linked = input

    def link(self):
        """Find the bound layer, by its name if need be, and make it the next state."""
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
    """Return the value of the layer called `name` in the previous step.

    In the first step it is zero, the rows of `boot_layer` from outside the group, an activation of
    the learned `boot_bias`, or the id `boot_with_const_id`.
    """
    current = build.current()
    if not current.groups:
        raise pd.GraphError("memory: it belongs in the step of a recurrent_group")
    # as in 2017 an automatic name is counted even where it is not used
    automatic_name = memory_name or current.next_name("memory")
    group = current.groups[-1]
    own_name = automatic_name if name is None else f"{name}+delay1"
    boots = [v for v in (boot_layer, boot_bias, boot_with_const_id) if v is not None]
    if len(boots) > 1:
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
        current.add(agent)
        init = _boot(group, agent, boot_layer, boot_bias, boot_bias_active_type, boot_with_const_id)
        agent.state = pd.State(agent, init)
    group.step.states.append(agent.state)
    group.memories.append(agent)
    return agent


def _memory_of_sequences(group, name, size, layer, record):
    """Return a memory that is a sequence in every step, with as many rows as `layer`."""
    _check_boot(name, size, layer)
    if len(layer.levels) > 1:
        raise pd.GraphError(
            f"memory {name!r}: boot_layer {layer.name!r} is nested; a memory starts from rows or "
            "from sequences of rows"
        )
    value, (level,) = group.whole(layer)
    padded = level.pad(value)
    placeholder = pd.Variable.of((group.rows, *padded.dims[1:]), padded.dtype, name)
    agent = named_value(level.pack(placeholder), name, Memory, **record, levels=(level,))
    build.current().add(agent)
    agent.record.boot_layer_name = layer.full_name
    agent.parents.append(layer)
    agent.state = pd.State(placeholder, padded)
    return agent


def _boot(group, agent, layer, bias, activation, const_id):
    """Return the initial state, and record it."""
    if layer is not None:
        return _booted_by(group, agent, layer)
    if const_id is not None:
        agent.record.boot_with_const_id = const_id
        return group.ids(const_id)
    if bias is None or bias is False:
        return group.zeros(agent.size)
    scope = Scope(agent.name, agent.config, [], None)
    activation = activation or Linear()
    row = activation(scope.bias([1, agent.size], bias))
    scope.commit()
    agent.record.boot_bias_parameter_name = agent.config.bias_parameter_name
    agent.config.ClearField("bias_parameter_name")
    agent.parameters = tuple(scope.parameters.values())
    agent.record.boot_bias_active_type = activation.name
    return group.zeros(agent.size) + row


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
    """Run step(*inputs) along sequences; return the layers that it returns, as sequences.

    The step is called once, to build it. For each layer of `input` it gets a layer with one row
    per sequence, for a StaticInput the whole layer, and any other argument as it is. A layer
    without sequences is treated as a StaticInput. In the step, `memory` is the value of a layer
    in the previous step.

    With `reverse` the steps begin at the end of each sequence, and results are in the order of the
    input. As in 2017 that is true of rows only: sub-sequences are taken, and sequences are given,
    in the order of steps.
    """
    name = name or build.current().next_name("recurrent_group")
    inputs = list(input) if isinstance(input, (list, tuple)) else [input]
    links = [x for x in inputs if isinstance(x, Layer) and x.levels]
    if not links:
        raise pd.GraphError(f"recurrent_group {name!r}: there is no sequence among its inputs")
    group = Group(name, reverse, max((x.levels for x in links), key=len))
    with building(group):
        result = step(*[_argument(group, x) for x in inputs])
        outputs = layers_of(group, result)
    out = group.close(outputs)
    return out if len(out) > 1 else out[0]


@contextmanager
def building(group):
    """Return a context in which layers become part of the group's step."""
    with build.current().inside(group), group.mode():
        yield


def _argument(group, x):
    """Return what the step gets for an input."""
    if isinstance(x, StaticInput):
        return group.static(x.input, build.current().next_name("memory"))
    if not isinstance(x, Layer):
        return x
    return group.step_input(x) if x.levels else group.static(x)


def layers_of(group, result):
    """Return the layers that the step of a group returns, as a list."""
    outputs = list(result) if isinstance(result, (list, tuple)) else [result]
    if not outputs:
        raise TypeError(f"{group.kind} {group.name!r}: a step returns layers, not {result!r}")
    for x in outputs:
        if not isinstance(x, Layer):
            raise TypeError(f"{group.kind} {group.name!r}: a step returns layers, not {x!r}")
        if x.within is not group:
            raise pd.GraphError(
                f"{group.kind} {group.name!r}: the step returns {x.name!r}, which is outside of it"
            )
    return outputs
