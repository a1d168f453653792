"""From targets to a Graph: modes resolved, composites lowered, only what the targets need."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from ..graph.broadcast import equal_sizes
from ..graph.errors import MissingFeed
from ..graph.names import fresh_names
from ..graph.node import all_nodes, ancestors
from ..graph.recording import not_recording
from ..graph.rewrite import rewrite
from ..graph.setting import setting_constant
from ..graph.site import site_text
from ..graph.variable import Dim, Variable, constant
from ..ops.mode import SEGMENTS
from .base import Graph, Seam
from .passes import ALWAYS, EXPORT, WEBGPU
from .passes.context import Context, Pass, apply_passes
from .passes.forms import NO_FORMS, NO_KERNELS, Form, Kernel, read_alone
from .passes.identities import FORWARD_IDENTITY, opens_sizes


def build(
    fetches: Iterable[Variable],
    updates: Iterable[tuple[Variable, Variable]],
    feeds: Iterable[Variable],
    training: bool,
    sizes: dict[str, int],
    complete: bool = True,
    portable: bool = False,
    keyed: bool = False,
    forms: Mapping[str, Form] = NO_FORMS,
    layouts: Sequence[Pass] = (),
    kernels: Mapping[str, Kernel] = NO_KERNELS,
    constants: Mapping[Variable, Variable] | None = None,
) -> Graph:
    """Return the Graph of these targets. Feeds that it does not need are left out.

    `updates` are pairs of (persistent variable, its new value); `sizes` are run-time sizes seen
    so far, a hint. Unless `complete` is False, a missing feed is an error (MissingFeed).
    `portable` chooses forms that run on WebGPU too. With `keyed`, the rows of the seed hold the key
    of a random draw too, which is a constant of the program otherwise. `forms` are ONNX operators
    that are written in the place of `onnx_form` results. `kernels` are forms too, for
    results whose parts nothing else reads, a gradient for example. `layouts` are passes of a
    backend. Of what was recorded in `pd.guard()`, reads of persistent variables are those
    variables again, and values constants. `constants` take the place of the Settings that are
    constant, by default of all.
    """
    fetches, updates = list(fetches), list(updates)
    slots = {v: Variable.of(v.dims, v.dtype, v.name) for v in feeds}
    targets = [*fetches, *(new for _, new in updates)]
    context = Context(sizes=sizes, fed=frozenset(d for v in slots for d in v.dims))
    # automatic names drawn here do not shift those of the user's graph
    with fresh_names(), not_recording():
        targets = _resolve_modes(targets, slots, training, keyed, forms, kernels, constants)
        targets = apply_passes(targets, (*ALWAYS, *layouts), context)
        equal = _equal_sizes(targets)
        context = _with_seed(context, targets, 3 if keyed else 2)
        targets = apply_passes(targets, WEBGPU if portable else EXPORT, context)
    used = leaves(targets)
    if complete:
        _check_fed(used, {context.seed, *slots.values()})
    count = len(fetches)
    known = {d for v in slots.values() if v in used for d in v.symbolic_dims}
    return Graph(
        fed=tuple(v for v, slot in slots.items() if slot in used),
        feeds=tuple(slot for slot in slots.values() if slot in used),
        states=tuple(v for v in used if v.is_persistent),
        fetches=tuple(targets[:count]),
        updates=tuple((v, new) for (v, _), new in zip(updates, targets[count:], strict=True)),
        seed=context.seed if context.seed in used else None,
        draws=context.draws,
        sizes={d: n for d, n in sizes.items() if d in known},
        equal=tuple(dict.fromkeys([*equal, *_equal_sizes(targets)])),
    )


def build_step(
    fetches: Sequence[Variable],
    updates: Sequence[tuple[Variable, Variable]],
    seam: Seam,
    feeds: Sequence[Variable],
    training: bool,
    sizes: dict[str, int],
    layouts: Sequence[Pass] = (),
    kernels: Mapping[str, Kernel] = NO_KERNELS,
    constants: Mapping[Variable, Variable] | None = None,
) -> tuple[Graph, Seam]:
    """Return the Graph of a step, and what the values `seam` have become in it."""
    options: Any = {"layouts": layouts, "kernels": kernels, "constants": constants}
    graph = build([*fetches, *seam], updates, feeds, training, sizes, keyed=True, **options)
    count = len(fetches)
    return (
        replace(graph, fetches=graph.fetches[:count]),
        replace(seam, values=graph.fetches[count:]),
    )


def _resolve_modes(targets, slots, training, is_step, forms, kernels, constants):
    """The targets for training or for inference, with slots in the place of the fed variables.

    Outside of the steps of a session there are no other ranks.
    """
    identity = FORWARD_IDENTITY if is_step else {*FORWARD_IDENTITY, "SumOverRanks"}
    side = 0 if training else 1

    def form_of(node):
        name = node.attributes["form"]
        kernel = kernels.get(name) if name not in forms and node in alone else None
        return kernel.form if kernel is not None and kernel.suits(node) else forms.get(name)

    def select(node):
        if node.op_type == "OnnxForm":
            results = len(node.outputs)
            return node.inputs[results:] if form_of(node) else node.inputs[:results]
        if node.op_type in SEGMENTS:
            return node.inputs[: len(node.outputs)]
        return (node.inputs[side],) if node.op_type == "ModeSwitch" else node.inputs

    def resolve(node, inputs):
        if node.op_type == "ModeSwitch":
            return (inputs[side],)
        if node.op_type == "OnnxForm":
            results, form = len(node.outputs), form_of(node)
            return form(node, inputs[results:]) if form else inputs[:results]
        if node.op_type in SEGMENTS:
            return inputs[: len(node.outputs)]
        return inputs[:1] if node.op_type in identity and not opens_sizes(node) else None

    only = {"ModeSwitch", "OnnxForm", *SEGMENTS, *identity}
    stop, alone = set(slots), set()
    if kernels:
        alone = read_alone(ancestors(targets, stop, select), targets)
    order = ancestors(targets, stop, select)
    known = {**_leaf_values(order, targets, stop, constants), **slots}
    return rewrite(targets, resolve, stop, select, replacements=known, only=only, order=order)


def _leaf_values(order, targets, fed, constants):
    """What leaves are in a program that `pd.guard()` has recorded, or that stand for settings."""
    leaves = {x for node in order for x in node.inputs if x is not None and x.node is None}
    leaves.update(v for v in targets if v.node is None)
    values = {}
    for v in leaves - fed:
        if v.eager_value is not None:
            values[v] = constant(np.asarray(v.eager_value))
        elif v.source is not None:
            values[v] = v.source
        elif v.storage.setting is not None and (constants is None or v in constants):
            values[v] = setting_constant(v) if constants is None else constants[v]
    return values


def _with_seed(context, targets, width):
    """The context with a seed input that has a row for each random draw behind the targets."""
    draws = tuple(dict.fromkeys(_draws(targets)))
    seed = Variable.of((len(draws), width), np.int64, "random_seed")
    return replace(context, draws=draws, seed=seed)


def _draws(targets) -> Iterator[int]:
    """The keys of the random draws behind the targets, bodies included."""
    return (node.attributes["key"] for node in all_nodes(targets) if node.op_type == "Uniform")


def leaves(targets: Sequence[Variable]) -> dict[Variable, None]:
    """Return what the targets read: slots, persistent variables and the seed, in order of use."""
    read = chain(chain.from_iterable([node.inputs for node in ancestors(targets)]), targets)
    every = [v for v in dict.fromkeys(read) if v is not None]
    return dict.fromkeys([v for v in every if v.node is None and v.value is None])


def _check_fed(used, inputs):
    for v in used:
        if v.feed.unfeedable is not None:
            error = v.feed.unfeedable
            raise type(error)(str(error))
        if v not in inputs and not v.is_persistent:
            line = f"\n  created at {site_text(v.site)}" if v.site else ""
            raise MissingFeed(f"the targets need a value for {v!r}, which is not fed{line}")


def feed_slots(targets: Sequence[Variable], training: bool = False) -> list[Variable]:
    """Return the variables that must be fed for these targets, by order of use."""
    graph = build(targets, [], [], training, sizes={}, complete=False)
    return [v for v in leaves(graph.outputs) if v.is_feed and v is not graph.seed]


def _equal_sizes(targets) -> list[tuple[Dim, Dim]]:
    """Pairs of sizes that these targets take to be equal at run time."""
    return [pair for node in ancestors(targets) for pair in equal_sizes(node)]
