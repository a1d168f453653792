"""The op tables, one file per family of `pd_core.ops`, a row or more per function."""

from . import (
    activation,
    attention,
    cells,
    conv,
    image,
    index,
    loss,
    math,
    matrix,
    mode,
    norm,
    pool,
    random,
    reduce,
    sequence,
    sequence_parts,
    shape,
    signal,
    structured,
)

FAMILIES = (
    *(math, activation, matrix, shape, index, reduce),
    *(conv, pool, image, norm, loss, random, mode, signal),
    *(sequence, sequence_parts, cells, attention, structured),
)
CASES = [row for family in FAMILIES for row in family.CASES]
DIFFERENTIABLE = [row for row in CASES if row.smooth]
