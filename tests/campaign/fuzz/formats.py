"""The formats that are fuzzed: how to write small files of each, and how to read them."""

import gzip
import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

import pd_core as pd
from pd_core.training.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from pd_core.training.tuning.arrays import read_arrays
from pd_v2 import build
from pd_v2.dataset import voc2012
from pd_v2.described.errors import UnknownLayer
from pd_v2.described.merged_model import merge_v2_model
from pd_v2.described.stored_network import network_of, read_stored
from pd_v2.online.messages import MessageError, parse
from pd_v2.parameters import Parameters
from tests.campaign.writers import one_rank
from tests.core.gradients.node_suite.cases import node_tests
from tests.v2.dataset import originals
from tests.v2.formats import test_damaged_files as files
from tests.v2.formats.test_topology_file import digits, old_pickle, saved

_FAMILY = (pd.DamagedFile, pd.ModelError, pd.GraphError, pd.FeedError, pd.DTypeError)


@dataclass(frozen=True)
class Format:
    """How to write files below a folder, which of them are changed, and how they are read.

    `errors` are those that a reader may raise; with `named` they name the file. A format with sums
    is `checked`: a changed file is refused, or means the same.
    """

    write: Callable[[Path], Any]
    pattern: str
    read: Callable[[Path], Any]
    errors: tuple[type[Exception], ...] = _FAMILY
    named: bool = True
    checked: bool = False


def _datasets():
    return {
        name: Format(write, pattern, lambda home, read=read: list(read(home)), (pd.DamagedFile,))
        for name, (write, pattern, read) in files.READERS.items()
        if not name.endswith("parameters")
    }


def _image(kind, mode):
    picture = io.BytesIO()
    Image.effect_noise((20, 16), 50).convert(mode).save(picture, kind)
    return picture.getvalue()


def _write_voc2012(folder):
    originals.voc2012(folder, {"a": (_image("JPEG", "RGB"), _image("PNG", "P"))}, files.VOC)


# ---- the core


def _network(name: str = "x"):
    x = pd.Variable(name, shape=[None, 4])
    return x, pd.layer.fc(pd.layer.fc(x, 5, act="tanh"), 2)


def _write_parameters(folder):
    folder.mkdir()
    with pd.fresh():
        pd.save(folder / "p.safetensors", _network()[1])


def _read_parameters(folder):
    with pd.fresh():
        _, y = _network()
        pd.load(folder / "p.safetensors", y)
        return pd.eval(y, {"x": np.ones((1, 4), np.float32)})


def _write_arrays(folder):
    folder.mkdir()
    arrays = {"x": np.arange(6.0).reshape(2, 3), "y": np.array([1, 2]), "s": np.array("text")}
    np.savez(folder / "a.npz", **arrays)
    np.savez_compressed(folder / "b.npz", **arrays)


def _read_all(read):
    """A reader of each of the files of a folder."""

    def function(folder):
        return {path.name: read(path) for path in sorted(folder.iterdir()) if path.is_file()}

    return function


STATE = {
    "items": {"epoch": 3, "best": 0.25, "name": "run", "none": None, "flags": [True, [1, 2]]},
    "arrays": {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "n": np.int64(7)},
}


def _write_checkpoint(folder):
    folder.mkdir()
    write_checkpoint(folder / "c", Checkpoint(STATE, 12, 1))


class _Net(pd.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = pd.nn.FC(2)

    def forward(self, x):
        return self.fc(x)


def _write_module(folder):
    folder.mkdir()
    with pd.fresh(), pd.guard():
        net = _Net()
        net(np.ones((1, 4), np.float32))
        net.save(folder / "net.safetensors", {"step": 3, "mean": np.ones(3, np.float32)})


def _read_module(folder):
    with pd.fresh(), pd.guard():
        net = _Net()
        net(np.ones((1, 4), np.float32))
        state = net.load(folder / "net.safetensors")
        return [state, net(np.ones((1, 4), np.float32)).numpy()]


def _table():
    return pd.distributed.ShardedTable([20, 3], "words", initializer="uniform")


def _write_table(folder):
    with one_rank():
        _table().save(folder)


def _read_table(folder):
    with one_rank():
        table = _table()
        table.load(folder)
        return pd.eval(table.lookup(np.arange(20)))


# ---- ONNX


def _write_onnx(folder):
    folder.mkdir()
    with pd.fresh():
        x, y = _network()
        pd.export_onnx(folder / "mlp.onnx", [y])
        image = pd.Variable("image", shape=[None, 2, 6, 6])
        z = pd.layer.conv2d(image, 3, 3, act="relu")
        z = pd.layer.fc(pd.layer.batch_norm(pd.max_pool(z, 2)), 2)
        pd.export_onnx(folder / "cnn.onnx", [z])
    with pd.fresh():
        x = pd.Variable("x", shape=[None, 2, 4])
        final, rows = pd.scan(lambda s, row: ([s[0] + row], pd.tanh(row)), [x[:, 0] * 0.0], x)
        pd.export_onnx(folder / "scan.onnx", [final[0], rows])
    with pd.fresh():
        x, y = _network()
        label = pd.Variable("label", shape=[None], dtype="int64")
        cost = pd.reduce_mean(pd.softmax_cross_entropy(y, label))
        pd.export_step(folder / "step.onnx", pd.AdamOptimizer(0.1).minimize(cost), [cost])
    big = onnx.load(folder / "mlp.onnx")
    onnx.save(
        big,
        folder / "outside.onnx",
        save_as_external_data=True,
        location="weights.bin",
        size_threshold=0,
    )
    _quantized(folder / "quantized.onnx")


def _quantized(path):
    def scalar(name, value):
        return numpy_helper.from_array(np.array(value), name)

    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["d"]),
        helper.make_node("SequenceConstruct", ["d", "d"], ["s"]),
        helper.make_node("ConcatFromSequence", ["s"], ["y"], axis=0),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [scalar("scale", np.float32(0.1)), scalar("zero", np.uint8(5))],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]), path)


def _write_operators(folder):
    """One case of ONNX's own node tests in twenty: operators of all kinds."""
    folder.mkdir()
    for case in sorted(node_tests(), key=lambda case: case.name)[::20]:
        if case.model is not None:
            onnx.save(case.model, folder / f"{case.name}.onnx")


def _imported(path, is_run=False):
    """Describe the parameters of a model and the outputs of its graph, or compute these."""
    with pd.fresh():
        model = pd.import_onnx(path)
        if any(shape is None for shape, _ in model.inputs.values()):
            return [sorted(model.parameters), list(model.inputs)]
        feeds = [pd.Variable(n, shape=s, dtype=t) for n, (s, t) in model.inputs.items()]
        outputs = model(*feeds, output=list(model.outputs))
        if is_run:
            sizes = [[d if isinstance(d, int) else 3 for d in v.dims] for v in feeds]
            if sum(map(prod, sizes)) > 1 << 20:
                return "large inputs"
            arrays = [np.ones(s, v.dtype) for s, v in zip(sizes, feeds, strict=True)]
            return pd.eval(list(outputs), dict(zip(feeds, arrays, strict=True)))
        described = [(str(v.dims), str(v.dtype)) for v in outputs if isinstance(v, pd.Variable)]
        return [sorted(model.parameters), list(model.inputs), described]


def _changed(folder):
    """The file that the trial has changed: the newest."""
    return max(folder.glob("*.onnx"), key=lambda path: path.stat().st_mtime_ns)


# ---- 2017


def _written(name, content):
    def write(folder):
        folder.mkdir()
        with build.fresh():
            (folder / name).write_bytes(content())

    return write


def _tar():
    return saved(digits()[0])[1]


def _read_tar(path):
    parameters = Parameters.from_tar(path)
    return {name: parameters.get(name) for name in parameters.names()}


def _read_network(path):
    """Build the network of a file with parameters of its own making."""
    with open(path, "rb") as stream:
        stored = read_stored(stream)
    rng = np.random.default_rng(0)
    values = {
        c.name: rng.normal(size=max(1, min(c.size, 1000))).astype(np.float32)
        for c in stored.config.parameters
    }
    layers, outputs = network_of(stored, values)
    return [sorted(layers), len(outputs)]


def _write_merged(folder):
    folder.mkdir()
    with build.fresh():
        p = digits()[0]
        (folder / "p.tar").write_bytes(saved(p)[1])
        merge_v2_model(p, str(folder / "p.tar"), str(folder / "merged"))
        (folder / "p.tar").unlink()


MESSAGES = [
    b'{"sample": [[1.0, 2.0], [3]]}',
    b'{"samples": [[[1.0, 2.0], [3]], [[1, 2], [3.5e1]]], "id": "a"}',
    b'{"command": "save", "name": "m1", "id": 7}',
    b'{"command": "status"}',
    b'{"token": "0123456789abcdef"}',
]


def _write_messages(folder):
    folder.mkdir()
    for number, line in enumerate(MESSAGES):
        (folder / f"{number}.json").write_bytes(line)


def _read_message(path):
    message = parse(path.read_bytes().replace(b"\n", b" "))
    return [message.kind, message.value, message.id]


FORMATS: Mapping[str, Format] = {
    **_datasets(),
    "voc2012": Format(_write_voc2012, "voc2012/*", lambda home: list(voc2012.train()())),
    "parameters of the core": Format(_write_parameters, "*", _read_parameters),
    "arrays": Format(_write_arrays, "*", _read_all(read_arrays)),
    "checkpoint": Format(
        _write_checkpoint,
        "c/*",
        lambda folder: (lambda c: [c.parts, c.batches, c.pass_id])(read_checkpoint(folder / "c")),
        checked=True,
    ),
    "module": Format(_write_module, "*", _read_module),
    "sharded table": Format(_write_table, "**/*", _read_table),
    "ONNX": Format(_write_onnx, "*", lambda folder: _imported(_changed(folder))),
    "ONNX's operators": Format(_write_operators, "*", lambda f: _imported(_changed(f))),
    "ONNX, computed": Format(
        _write_onnx,
        "*",
        lambda folder: _imported(_changed(folder), is_run=True),
        (*_FAMILY, pd.BackendError),
        named=False,
    ),
    "parameters of 2017": Format(_written("p.tar", _tar), "*", lambda f: _read_tar(f / "p.tar")),
    "the same, compressed": Format(
        _written("p.tar.gz", lambda: gzip.compress(_tar())),
        "*",
        lambda folder: _read_tar(folder / "p.tar.gz"),
        checked=True,
    ),
    "topology": Format(
        _written("t", lambda: saved(digits()[0])[0]),
        "*",
        lambda folder: _read_network(folder / "t"),
        (*_FAMILY, UnknownLayer, ValueError),
    ),
    "topology of 2017": Format(
        _written("t", old_pickle),
        "*",
        lambda folder: _read_network(folder / "t"),
        (*_FAMILY, UnknownLayer, ValueError),
    ),
    "merged model": Format(
        _write_merged,
        "merged",
        lambda folder: _read_network(folder / "merged"),
        (*_FAMILY, UnknownLayer, ValueError),
    ),
    "messages of online learning": Format(
        _write_messages, "*", _read_all(_read_message), (MessageError,), named=False
    ),
}
