"""Parameters in one file: `pd.save` and `pd.load`, in the format safetensors."""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..graph.errors import GraphError
from ..graph.misfits import near
from ..graph.node import ancestors
from ..graph.variable import Variable, describe, format_dims
from ..storage.small_floats import is_float, widened
from ..storage.tensors import read_tensors, write_tensors
from .session import Session, default_session


class Loaded(NamedTuple):
    """Names in a file: what was loaded, and what was not.

    `missing` are variables without a tensor, `unexpected` tensors without a variable, and
    `mismatched` those of another shape, or integers for floats.
    """

    names: list[str]
    missing: list[str]
    unexpected: list[str]
    mismatched: list[str]

    @property
    def missing_keys(self) -> list[str]:
        """`missing`, by PyTorch's name."""
        return self.missing

    @property
    def unexpected_keys(self) -> list[str]:
        """`unexpected`, by PyTorch's name."""
        return self.unexpected


def save(
    path: str | os.PathLike,
    targets: Variable | Sequence[Variable],
    session: Session | None = None,
) -> list[str]:
    """Write the stored variables that targets depend on to a file; return their names.

    These are parameters, and other state such as moving statistics; a target that is a stored
    variable is one itself. The format is safetensors, which other frameworks read. A file of that
    name is replaced as a whole once the new one is complete. GraphError if the targets depend on
    none, or on a table that is sharded over processes.

    Args:
        path: the file.
        targets: Variables or updates.

    Returns:
        The names of the stored variables.

    Raises:
        GraphError: the targets depend on no stored variable.
        TypeError: a target is no Variable.
    """
    session = session or default_session()
    variables = _by_name("save", targets)
    write_tensors(path, {name: session.get(v) for name, v in variables.items()}, {})
    return list(variables)


def load(
    path: str | os.PathLike,
    targets: Variable | Sequence[Variable],
    strict: bool = True,
    mapping: Mapping[str, Variable] | None = None,
    session: Session | None = None,
) -> Loaded:
    """Set the stored variables that targets depend on from a file of tensors; return the names.

    `mapping` gives variables that have another name in the file, {name in the file: variable}.
    Values of another float type are converted. Where names or shapes differ, a GraphError lists all
    that are missing, unexpected or mismatched, and nothing is changed; with strict=False what fits
    is loaded, and the rest is in the result.

    Args:
        path: a file that `save` has written.
        targets: Variables.
        strict: whether all must fit.
        mapping: {name in the file: variable}.
        session: by default the session in force.

    Returns:
        Names: loaded, missing, unexpected and mismatched ones.

    Raises:
        DamagedFile: it is no file of tensors.
        GraphError: with `strict`, names or shapes differ.
    """
    session = session or default_session()
    renamed = dict(mapping or {})
    for name, v in renamed.items():
        if not (isinstance(v, Variable) and v.is_persistent):
            raise TypeError(f"load: mapping has stored variables as values, not {name!r}: {v!r}")
    others = _by_name("load", targets)
    others = {name: v for name, v in others.items() if v not in renamed.values()}
    variables = others | renamed
    values, _ = read_tensors(path)
    fitting, misfits = compared(variables, values)
    if misfits and strict:
        text = "\n".join([f"load: {os.fspath(path)} does not fit", *misfits.values()])
        raise GraphError(text)
    session.load_values({variables[name]: widened(values[name]) for name in fitting})
    return Loaded(
        fitting,
        [name for name in misfits if name not in values],
        [name for name in misfits if name not in variables],
        [name for name in misfits if name in values and name in variables],
    )


def stored_variables(targets: Iterable[Variable]) -> list[Variable]:
    """Return the stored variables that targets depend on, in the order in which they are read."""
    wanted = list(targets)
    read = [x for node in ancestors(wanted) for x in node.inputs if x is not None]
    sources = [v if v.source is None else v.source for v in (*read, *wanted)]
    return list(dict.fromkeys(v for v in sources if v.is_persistent))


def _by_name(who: str, targets: Variable | Sequence[Variable]) -> dict[str, Variable]:
    """{name: variable} of what targets depend on."""
    wanted: list[Any] = list(targets) if isinstance(targets, (list, tuple)) else [targets]
    for v in wanted:
        if not isinstance(v, Variable):
            raise TypeError(f"{who}: takes Variables, not {v!r}")
    variables = stored_variables(wanted)
    if not variables:
        raise GraphError(f"{who}: {wanted} depend on no stored variable")
    for v in variables:
        if v.is_shard:
            raise GraphError(
                f"{who}: each process has other rows of the sharded table {v.name}\n"
                "  hint: its own save() writes the table"
            )
    return {v.name: v for v in variables}


def compared(
    variables: Mapping[str, Variable], values: Mapping[str, np.ndarray]
) -> tuple[list[str], dict[str, str]]:
    """Return the names whose values fit, and {name: why not} of all others."""
    fitting, misfits = [], {}
    for name, v in variables.items():
        array = values.get(name)
        if array is None:
            misfits[name] = f"{name} is not in the file"
        elif array.shape == v.dims and (
            array.dtype == v.dtype or (v.dtype.kind == "f" and is_float(array.dtype))
        ):
            fitting.append(name)
        else:
            stored = f"{array.dtype}{format_dims(array.shape)}"
            misfits[name] = f"{name} is {describe(v)}, in the file {stored}"
    missing = [name for name in misfits if name not in values]
    for name in sorted(values.keys() - variables.keys()):
        match = near(name, missing) or near(name, variables)
        hint = f", perhaps as {match}" if match else ""
        misfits[name] = f"{name} is only in the file{hint}"
    return fitting, misfits
