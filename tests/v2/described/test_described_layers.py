"""Each layer of the tables of formulas, made again: the same configuration, the same program."""

import pytest

from pd_v2 import build
from pd_v2.described import outputs_of
from pd_v2.formats.topology_file import program_of
from pd_v2.topology import Topology

from ..layer import (
    image_rows,
    layer_rows,
    sequence_rows,
    sequence_slice_rows,
    test_costs,
    test_math_layers,
    test_mixed,
    test_recurrent_layers,
)

_FILES = (image_rows, layer_rows, test_costs, test_math_layers, test_mixed, test_recurrent_layers)
_SLICES = (sequence_slice_rows.SLICES, sequence_slice_rows.IMAGES, sequence_slice_rows.IDS)
_SEQUENCES = (sequence_rows.POOLING, sequence_rows.EXPAND, sequence_rows.STEPS)
ROWS = [row for rows in (*(m.ROWS for m in _FILES), *_SLICES, *_SEQUENCES) for row in rows]


def without_lines(model):
    """The bytes of a model without the lines of a program that its nodes name."""
    for node in nodes_of(model.graph):
        node.ClearField("doc_string")
    return model.SerializeToString()


def nodes_of(graph):
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            yield from nodes_of(attribute.g)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_same_program(row):
    """To the byte, but for the lines that built it; parameters are its inputs."""
    with build.fresh():
        y, _ = row.layers()
        topology = Topology(y)
        config, types = topology.proto(), dict(topology.data_type())
        expected = without_lines(program_of(topology))
    with build.fresh():
        again = Topology(outputs_of(config, types))
        assert again.proto().layers == config.layers
        assert without_lines(program_of(again)) == expected
