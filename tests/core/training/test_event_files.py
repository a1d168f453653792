"""Event files: framing, checksums, torn and damaged records; summaries and graphs."""

import os
import struct

import numpy as np
import pytest
from tensorboardX.event_file_writer import EventsWriter
from tensorboardX.proto.event_pb2 import Event
from tensorboardX.proto.graph_pb2 import GraphDef
from tensorboardX.proto.types_pb2 import DataType
from tensorboardX.record_writer import masked_crc32c
from tensorboardX.summary import make_histogram

import pd_core as pd
from pd_core.training.event_files import find_event_files, read_events
from pd_core.training.graph_def import graph_def
from pd_core.training.report.runs import statistics
from pd_core.training.summaries import histogram_summary, scalar_summary


@pytest.fixture
def path(tmp_path):
    """A file with the cost after the steps 0 to 4, written by tensorboardX."""
    writer = EventsWriter(str(tmp_path / "events"))
    for step in range(5):
        writer.write_event(Event(step=step, summary=scalar_summary({"cost": step / 2})))
    writer.close()
    (path,) = tmp_path.iterdir()
    return path


def costs(path):
    """The costs in a file, and what is said of damaged records."""
    damages = []
    events = read_events(path, damages.append)
    values = [value.simple_value for event in events for value in event.summary.value]
    return values, damages


def offsets(path):
    """Where the records of a file begin."""
    data, found, offset = path.read_bytes(), [], 0
    while offset < len(data):
        found.append(offset)
        offset += struct.unpack_from("<Q", data, offset)[0] + 16
    return found


def change(path, offset):
    """Change the byte at an offset."""
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)


def test_what_tensorboardx_writes(path):
    assert costs(path) == ([0.0, 0.5, 1.0, 1.5, 2.0], [])


def test_checksums_are_crc32c():
    """The check value of CRC-32C (RFC 3720), masked as TFRecords are."""
    crc = 0xE3069283
    assert masked_crc32c(b"123456789") == ((crc >> 15 | crc << 17) + 0xA282EAD8) % 2**32


def test_a_torn_last_record_is_ignored(path):
    """As a training leaves it that was killed: at any byte."""
    data, last = path.read_bytes(), offsets(path)[-1]
    for size in range(last, len(data)):
        path.write_bytes(data[:size])
        assert costs(path) == ([0.0, 0.5, 1.0, 1.5], []), size


def test_a_damaged_record_is_named(path):
    offset = offsets(path)[3]
    change(path, offset + 20)
    message = f"{path}: the checksum of the record at byte {offset} is wrong"
    assert costs(path) == ([0.0, 0.5, 1.5, 2.0], [message])


def test_what_follows_a_damaged_length_is_left_out(path):
    offset = offsets(path)[3]
    change(path, offset)
    values, (message,) = costs(path)
    assert values == [0.0, 0.5]
    assert message.startswith(f"{path}: the length at byte {offset} is damaged, ")


def test_a_record_that_is_no_event(path):
    size = path.stat().st_size
    with open(path, "ab") as file:
        header = struct.pack("<Q", 3)
        file.write(header + struct.pack("<I", masked_crc32c(header)))
        file.write(b"\xff" * 3 + struct.pack("<I", masked_crc32c(b"\xff" * 3)))
    values, damages = costs(path)
    assert len(values) == 5 and damages == [f"{path}: the record at byte {size} is no event"]


def test_zeros_after_the_last_record(path):
    """As some file systems leave it when the power fails."""
    with open(path, "ab") as file:
        file.write(bytes(4096))
    values, damages = costs(path)
    assert len(values) == 5 and len(damages) == 1


def test_folders_with_event_files(tmp_path):
    for name in ("b/events.out.tfevents.2.h", "b/events.out.tfevents.1.h", "a/c/x.tfevents.1"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "a" / "notes.txt").write_text("no events")
    (tmp_path / "a" / "up").symlink_to(tmp_path, target_is_directory=True)
    found = {os.path.relpath(k, tmp_path): v for k, v in find_event_files(tmp_path).items()}
    assert list(found) == [os.path.join("a", "c"), "b"]
    assert [os.path.basename(p) for p in found["b"]] == [
        "events.out.tfevents.1.h",
        "events.out.tfevents.2.h",
    ]
    with pytest.raises(FileNotFoundError, match="none"):
        find_event_files(tmp_path / "none")
    with pytest.raises(NotADirectoryError):
        find_event_files(tmp_path / "a" / "notes.txt")


# ---- histograms

ARRAYS = {
    "normal": np.random.default_rng(1).normal(size=1000).astype(np.float32),
    "positive": np.linspace(1, 2, 33),
    "negative": -np.linspace(1, 2, 33),
    "relu": np.maximum(np.linspace(-1, 1, 100), 0),
    "zeros": np.zeros(7, np.float32),
    "one": np.full((2, 3), 0.1, np.float32),
    "close": np.array([1.0, 1.0 + 1e-15]),
    "tiny": np.array([0.0, 1e-20, -1e-30]),
}


@pytest.mark.parametrize("array", ARRAYS.values(), ids=ARRAYS)
def test_statistics_of_a_histogram(array):
    """Those of numpy, through our histogram and through tensorboardX's."""
    (value,) = histogram_summary("w", array).value
    bins = np.concatenate([-np.geomspace(1e20, 1e-12, 700), [0], np.geomspace(1e-12, 1e20, 700)])
    for histogram in (value.histo, make_histogram(array.astype(float), bins)):
        found = statistics(histogram)
        assert sum(histogram.bucket) == histogram.num == array.size
        assert list(histogram.bucket_limit) == sorted(histogram.bucket_limit)
        wide = array.astype(np.float64)
        np.testing.assert_allclose(found["mean"], wide.mean(), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(found["std"], wide.std(), rtol=1e-6, atol=1e-7)
        assert (found["min"], found["max"]) == (wide.min(), wide.max())
        np.testing.assert_allclose(found["norm"], np.linalg.norm(wide), rtol=1e-9)
    if np.ptp(array) > 1e-9 or not array.any():  # else all are in a bucket with zero
        assert found["zeros"] == np.mean(array == 0)
    assert statistics(value.histo)["zeros"] == np.mean(array == 0)


def test_buckets_count_what_numpy_does():
    (value,) = histogram_summary("w", ARRAYS["normal"]).value
    limits = value.histo.bucket_limit
    below = [np.count_nonzero(ARRAYS["normal"].astype(float) < limit) for limit in limits[:-1]]
    np.testing.assert_array_equal(np.cumsum(value.histo.bucket)[:-1], below)


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_a_histogram_with_values_that_are_not_finite(odd):
    (value,) = histogram_summary("w", np.array([1.0, odd, -3.0])).value
    found = statistics(value.histo)
    assert not np.isfinite(found["mean"]) and np.isnan(found["std"])
    assert (found["min"], found["max"], value.histo.num) == (-3.0, 1.0, 3)
    assert sum(value.histo.bucket) == 2


def test_a_histogram_of_nothing_finite():
    (value,) = histogram_summary("w", np.array([np.nan])).value
    assert np.isnan(statistics(value.histo)["min"]) and sum(value.histo.bucket) == 0


# ---- graphs


def network():
    x = pd.Variable([None, 4], name="x")
    h = pd.layer.fc(x, 3)
    (y,) = pd.while_loop(lambda a: pd.reduce_sum(a) < 3.0, lambda a: abs(a) * 2.0 + h, [h])
    return pd.reduce_mean(y)


def test_a_graph_is_whole():
    """Each input is the name of a node, each name is there once, and TensorBoard can read it."""
    graph = GraphDef.FromString(graph_def([network()]).SerializeToString())
    names = [node.name for node in graph.node]
    assert len(set(names)) == len(names)
    assert {i.partition(":")[0] for node in graph.node for i in node.input} <= set(names)
    nodes = {node.name: node for node in graph.node}
    assert nodes["x"].op == "Placeholder" and nodes["fc_0/W"].op == "VariableV2"
    assert [d.size for d in nodes["x"].attr["_output_shapes"].list.shape[0].dim] == [-1, 4]
    assert nodes["fc_0/W"].attr["dtype"].type == DataType.DT_FLOAT
    (matmul,) = [node for node in graph.node if node.op == "MatMul"]
    assert list(matmul.input) == ["x", "fc_0/W"]
    assert "test_event_files.py" in matmul.attr["built_at"].s.decode()
    (loop,) = [node for node in graph.node if node.op == "Loop"]
    inner = [node for node in graph.node if node.name.startswith(f"{loop.name}/body/")]
    (absolute,) = [node for node in inner if node.op == "Abs"]
    (add,) = [node for node in inner if node.op == "Add"]
    assert set(add.input) & {node.name for node in graph.node if node not in inner}
    assert absolute.input[0].startswith(f"{loop.name}/body/")
