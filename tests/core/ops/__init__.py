"""The op tables, one file per family of `pd_core.ops`, a row or more per function."""

from . import (
    activation,
    attention,
    cells,
    conv,
    copies,
    distance,
    gather,
    image,
    loss,
    math,
    matrix,
    mode,
    norm,
    order,
    pool,
    quantile,
    random,
    reduce,
    segment,
    sequence,
    sequence_parts,
    shape,
    signal,
    special,
    statistics,
    structured,
)

FAMILIES = (
    *(math, activation, matrix, shape, copies, gather, order, reduce, statistics),
    *(quantile, special, distance),
    *(segment, conv, pool, image, norm, loss, random, mode, signal),
    *(sequence, sequence_parts, cells, attention, structured),
)
CASES = [row for family in FAMILIES for row in family.CASES]
DIFFERENTIABLE = [row for row in CASES if row.smooth]
