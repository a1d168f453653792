"""Safety that can be read off the source: what runs code, writes files, listens on the network.

The tables are complete: a new use is listed with its reason, and one that is gone leaves its table.
Ruff's security rules (S in pyproject.toml) look for the rest.
"""

import ast
import builtins
import json
import re
from configparser import ConfigParser

import pytest

from tests.test_house import CORE, FACE, ROOT, bindings, check_exceptions, nodes, own_module

# Programs of the demos that talk with strangers keep the same rules.
SERVERS = sorted((ROOT / "demos" / "federated").glob("*.py"))

# What runs what it is given: code, pickles, modules, commands.
RUNNERS = {
    *("builtins.eval", "builtins.exec", "builtins.compile", "builtins.__import__"),
    *("pickle.load", "pickle.loads", "pickle.Unpickler", "numpy.load(allow_pickle=True)"),
    *("importlib.import_module", "importlib.reload", "exec_module", "load_module", "get_code"),
    *("os.system", "os.popen", "os.startfile"),
}
RUNNER_FAMILIES = ("os.exec", "os.spawn", "os.posix_spawn")
RUNNER_MODULES = {
    *(
        "subprocess",
        "marshal",
        "shelve",
        "dill",
        "cloudpickle",
        "joblib",
        "runpy",
        "code",
        "codeop",
    ),
    *("ctypes", "cffi", "pty"),
}
PROGRAM = "of the Python 2 program that the user runs"
SCRIPT = "the user names the script or the expression"
OWN = "a module of this package"
RUNS = {
    # pickles that pd_v2.pickles does not read
    "pd_core.distributed.collectives: pickle.loads": "the ranks of a job trust each other",
    "pd_core.distributed.recovery: pickle.loads": "the ranks of a job trust each other",
    "pd_core.training.ranks: pickle.loads": "what the same line has pickled",
    "pd_v2.pickles.load: pickle.loads": "samples of `trusted=True`",
    "pd_v2.pickles.plain: pickle.Unpickler": "it refuses every name, so nothing is called",
    "pd_v2.python2.shims.pickles: pickle.Unpickler": PROGRAM,
    "pd_v2.python2.shims.third_party: numpy.load(allow_pickle=True)": PROGRAM,
    "pd_core.backend.forks: ctypes": "a reference that nobody gives back, to what a fork has",
    "pd_core.backend.devices: ctypes": "it asks CUDA's driver how many devices there are",
    "pd_core.backend.ort_arrays: ctypes": "the memory of a value of bfloat16",
    # modules by their names
    "pd_core.backend.devices: importlib.import_module": "installed packages of providers",
    "pd_core.graph.imports: importlib.import_module": OWN,
    "pd_core.graph.imports: exec_module": "a package that the program imports",
    "pd_core.graph.public_modules: importlib.import_module": OWN,
    "pd_v2.__main__: importlib.import_module": OWN,
    "pd_v2.as_paddle: importlib.import_module": OWN,
    "pd_v2.check.lookup: importlib.import_module": OWN,
    "pd_v2.dataset.common: importlib.import_module": OWN,
    # scripts and programs
    "pd_v2.export: builtins.eval": SCRIPT,
    "pd_v2.export: exec_module": SCRIPT,
    "pd_v2.python2.evaluation: builtins.compile": PROGRAM,
    "pd_v2.python2.evaluation: builtins.eval": PROGRAM,
    "pd_v2.python2.evaluation: builtins.exec": PROGRAM,
    "pd_v2.python2.import_statement: builtins.__import__": PROGRAM,
    "pd_v2.python2.import_statement: exec_module": PROGRAM,
    "pd_v2.python2.importer: builtins.compile": PROGRAM,
    "pd_v2.python2.importer: builtins.exec": PROGRAM,
    "pd_v2.python2.importer: exec_module": PROGRAM,
    "pd_v2.python2.run: builtins.exec": PROGRAM,
    "pd_v2.python2.run: get_code": PROGRAM,
    "pd_v2.python2.shims.imp: exec_module": PROGRAM,
    "pd_v2.python2.shims.imp: importlib.import_module": PROGRAM,
    "pd_v2.python2.shims.imp: importlib.reload": PROGRAM,
    "pd_v2.python2.shims.views: importlib.reload": PROGRAM,
    "pd_core.backend.fused.build: subprocess": "the C compiler, on source that pd has written",
    "pd_core.backend.fused.compilers: subprocess": "the command in PD_CC, for its version",
    "pd_core.layers.drawing: subprocess": "dot of Graphviz, which reads the text of a drawing",
    "pd_v2.python2.shims.processes: subprocess": PROGRAM,
    "pd_v2.python2.shims.views: importlib.import_module": "the standard modules of a table",
    "pd_v2.python2.startup.command_line: exec_module": OWN,
    "pd_v2.python2.startup.command_line: os.execv": "Python with this package's launcher",
    "pd_v2.python2.startup.command_line: subprocess": "Python with this package's launcher",
    "pd_v2.python2.startup.sitecustomize: builtins.__import__": "the site's own sitecustomize",
    "pd_v2.python2.startup.sitecustomize: exec_module": OWN,
    "pd_v2.python2.translate: builtins.compile": PROGRAM,
    # commands, without a shell
    "pd_v2.hash_seed: os.execv": "the same Python with the same arguments",
    "pd_v2.job.joining: os.execv": "the same Python with the same arguments",
    "pd_v2.job.supervise: subprocess": "mpiexec, or the command that the user gives to restart",
    "pd_v2.job.workers: subprocess": "mpiexec --version",
    "pd_v2.master.supervisor: subprocess": "python -m pd_v2 master",
    "pd_v2.reader.pipe: subprocess": "the command that the program gives to PipeReader",
    # libraries
    "pd_v2.job.supervise: ctypes": "prctl of Linux, which Python lacks: a job ends with its parent",
    "pd_core.training.stacking: exec_module": "loops in C over the columns of batches",
    "pd_core.storage.folders: ctypes": "renameat2 of the C library, which Python lacks",
}

# What opens a file with a mode, and where the mode is among its arguments.
OPENERS = {
    **dict.fromkeys(("builtins.open", "io.open", "io.FileIO", "os.fdopen", "codecs.open"), 1),
    **dict.fromkeys(("gzip.open", "gzip.GzipFile", "bz2.open", "bz2.BZ2File", "lzma.open"), 1),
    **dict.fromkeys(("lzma.LZMAFile", "tarfile.open", "tarfile.TarFile", "zipfile.ZipFile"), 1),
    "numpy.memmap": 2,
    "numpy.lib.format.open_memmap": 1,
}
WRITERS = {
    *("write_text", "write_bytes", "tofile", "savefig", "touch", "extract", "extractall"),
    *("numpy.save", "numpy.savez", "numpy.savez_compressed", "numpy.savetxt", "onnx.save"),
    *("onnx.save_model", "safetensors.numpy.save_file", "urllib.request.urlretrieve"),
    *("shutil.copy", "shutil.copy2", "shutil.copyfile", "shutil.copytree", "shutil.move"),
    *("shutil.make_archive", "shutil.unpack_archive", "os.truncate", "logging.FileHandler"),
    *("tempfile.mkstemp", "tempfile.mkdtemp", "tempfile.TemporaryFile"),
    *("tempfile.NamedTemporaryFile", "tempfile.TemporaryDirectory", "tempfile.mktemp"),
    *("tensorboardX.event_file_writer.EventsWriter", "sqlite3.connect"),
}
FOLDERS = {"pd_core.storage.folders.atomic_folder"}
READING = {"os.O_RDONLY", "os.O_NOFOLLOW", "os.O_NONBLOCK", "os.O_CLOEXEC", "os.O_DIRECTORY"}
RENAMED = "in a folder that is renamed when it is complete"
WRITES = {
    # the writers themselves
    "pd_core.storage.atomic: builtins.open(path, 'wb')": "a device or pipe, with no old content",
    "pd_core.commands.pipes: os.open(os.devnull, os.O_WRONLY)": "nothing is written to a file",
    "pd_core.storage.atomic: os.fdopen(os.open(partial, flags, mode), 'wb')": "the writer itself",
    "pd_core.storage.atomic: os.open(partial, flags, mode)": "the writer itself",
    "pd_core.distributed.table_files: .write_bytes(text)": "in a folder of atomic_folder",
    "pd_core.interchange.writing: "
    "shutil.copytree(entry, folder / entry.name, symlinks=True, copy_function=_same)": RENAMED,
    "pd_core.interchange.writing: shutil.copy2(source, target, follow_symlinks=False)": RENAMED,
    "pd_v2.recordio.storage: .open(inner, 'wb')": "in a transaction of its storage",
    "pd_v2.files.archive: builtins.open(path, 'wb')": RENAMED,
    "pd_v2.image: builtins.open(os.path.join(folder, f'batch_{number}'), 'wb')": RENAMED,
    # C sources for the compiler, in the folder of libraries
    "pd_core.backend.fused.home: os.open(path, flags, 384)": "a source, which is a lock",
    "pd_core.backend.fused.build: .write_text(source, encoding='utf-8')": "the library is renamed",
    "pd_core.backend.fused.build: .write_text(source.text(), encoding='utf-8')": "the same",
    "pd_core.backend.fused.build: .write_bytes(partial.read_bytes())": "renamed at its end",
    "pd_core.backend.fused.build: .write_text(given, encoding='utf-8')": "C that does not compile",
    "pd_core.backend.fused.home: "
    "os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 384)": "renamed at its end",
    "pd_core.backend.fused.home: os.fdopen(handle, 'wb')": "renamed at its end",
    # downloads, which are resumed: what has arrived stays
    "pd_v2.dataset.transfer: "
    "builtins.open(partial, 'ab' if have else 'wb', opener=_open_plain)": "renamed at its end",
    "pd_v2.dataset.transfer: "
    "os.open(path, flags | getattr(os, 'O_NOFOLLOW', 0), 438)": "the opener of these",
    "demos.federated.rounds: builtins.open(self.folder / 'lock', 'ab')": "a lock, which is empty",
    "pd_v2.dataset.lock: os.open(name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 438)": "a lock",
    # logs, which grow, and what is only looked at
    "pd_core.training.log: tensorboardX.event_file_writer."
    "EventsWriter(os.path.join(self.logdir, 'events'), suffix)": "a log; half a record is skipped",
    "pd_v2.evaluator.text: .open('a', encoding='utf-8')": "a log of results",
    "pd_v2.evaluator.text: .write_text('', encoding='utf-8')": "a log of results, emptied",
    "pd_core.run.profiling.report: "
    "builtins.open(path, 'w', encoding='utf-8')": "a trace, made again",
    "pd_v2.dataset.uci_housing: "
    ".savefig(os.path.join('image', 'ranges.png'), bbox_inches='tight')": "a picture, drawn again",
    "pd_v2.plot.plot: .savefig(path)": "a picture, drawn again",
    "pd_v2.plot.plot: .savefig(png, format='png')": "a buffer in memory",
    # temporary files, for their process alone
    "pd_v2.job.supervise: tempfile."
    "TemporaryDirectory(prefix='.pd-heartbeat-', dir=place, ignore_cleanup_errors=True)": "beats",
    "pd_core.distributed.reports: tempfile.mkstemp(prefix='pd-job-')": "an empty file",
    "pd_core.run.profiling.profile: "
    "tempfile.TemporaryDirectory(prefix='pd_profile_')": "of one block",
    "pd_core.backend.memory: tempfile.TemporaryDirectory()": "of one block",
    "pd_core.commands.memory: tempfile.TemporaryDirectory()": "of one block",
    "pd_v2.job.chunks: tempfile."
    "TemporaryDirectory(prefix='pd-v2-master-', ignore_cleanup_errors=True)": "samples of one job",
    "pd_v2.job.workers: tempfile."
    "TemporaryDirectory(prefix='pd-v2-job-', ignore_cleanup_errors=True)": "of the starts of a job",
    "pd_v2.job.workers: tempfile.mkdtemp(dir=folder)": "of mpiexec, in that folder",
    "pd_v2.job.private_files: tempfile.mkdtemp(prefix='pd-v2-rank-')": "what one rank writes",
    "pd_v2.formats.parameter_file: tempfile.TemporaryFile(buffering=0)": "a value of a gzipped tar",
    "pd_v2.job.private_files: shutil.copyfile(file, private)": "into that folder",
    "pd_v2.job.private_files: shutil.copyfile(source, private)": "into that folder",
    "pd_v2.job.private_files: shutil.move(source, private)": "into that folder",
    "pd_v2.job.output: os.open(path, os.O_WRONLY)": "the null device",
    # databases, whose transactions are atomic
    "pd_v2.master.ledger: sqlite3."
    "connect(path, timeout=30, isolation_level=None, check_same_thread=False)": "the state",
    "pd_v2.master.journal: sqlite3.connect(address, uri=True, timeout=30)": "read only",
    # open and its relatives, as Python 2 has them
    "pd_v2.python2.shims.archives: "
    ".open(name, mode, raw_stream(fileobj), *args, **keywords)": PROGRAM,
    "pd_v2.python2.shims.archives: .open(name, mode.replace('U', ''), pwd, **keywords)": PROGRAM,
    "pd_v2.python2.shims.binary_modules: "
    "builtins.open(filename, mode.replace('b', '').replace('U', '') + 'b')": PROGRAM,
    "pd_v2.python2.shims.binary_modules: "
    ".open(file, mode.replace('U', ''), *args, **keywords)": PROGRAM,
    "pd_v2.python2.shims.files: builtins.open(name, letters + 'b', size)": PROGRAM,
    "pd_v2.python2.shims.third_party: .open(raw_stream(file), mode)": PROGRAM,
}


def resolver(path):
    """A function that returns the dotted name of an expression: `np.save` is numpy.save.

    That of an attribute of something else begins with a point: `.write_text`.
    """
    bound = {b: b if name.startswith(f"{b}.") else name for b, name in bindings(path)}
    top = nodes(path)[0].body
    own = {node.name for node in top if isinstance(node, ast.FunctionDef | ast.ClassDef)}

    def name(node):
        if isinstance(node, ast.Attribute):
            base = name(node.value)
            return f"{base}.{node.attr}" if base and base[0] != "." else f".{node.attr}"
        if not isinstance(node, ast.Name):
            return ""
        is_builtin = node.id not in own and hasattr(builtins, node.id)
        return bound.get(node.id, f"builtins.{node.id}" if is_builtin else "")

    return name


def runs(path):
    """Yield the names of RUNNERS and of their families that a file uses, and their modules."""
    name = resolver(path)
    for node in nodes(path):
        if isinstance(node, ast.Name | ast.Attribute):
            full = name(node)
            module, last = full.partition(".")[0], full.rpartition(".")[2]
            if full in RUNNERS or full.startswith(RUNNER_FAMILIES):
                yield full
            elif module in RUNNER_MODULES:
                yield module
            elif last in RUNNERS:
                yield last
        elif is_given(node, "allow_pickle"):
            yield "numpy.load(allow_pickle=True)"


def is_given(node, keyword):
    """Whether a node is this argument of a call, and not the constant False."""
    is_keyword = isinstance(node, ast.keyword) and node.arg == keyword
    return is_keyword and getattr(node.value, "value", True) is not False


def writes(path):
    """Yield the calls that open files for writing, except in the blocks of atomic_folder."""
    name = resolver(path)
    blocks = [n for n in nodes(path) if isinstance(n, ast.With)]
    blocks = [n for n in blocks if name(getattr(n.items[0].context_expr, "func", None)) in FOLDERS]
    atomic = {id(node) for block in blocks for node in ast.walk(block)}
    for node in nodes(path):
        if isinstance(node, ast.Call) and id(node) not in atomic and is_writing(node, name):
            yield ast.unparse(node).replace(ast.unparse(node.func), name(node.func), 1)


def is_writing(call, name):
    """Whether a call opens a file for writing, or may do so because its mode is computed."""
    function = name(call.func)
    last = function.rpartition(".")[2]
    if function in WRITERS or last in WRITERS:
        return True
    if function == "os.open":
        used = {name(n) for n in ast.walk(call.args[1]) if isinstance(n, ast.Attribute)}
        return not used or not used <= READING
    if function not in OPENERS and last != "open":
        return False
    is_method = function == ".open" and len(call.args) == 1  # of a Path
    first = OPENERS.get(function, 0 if is_method else 1)
    modes = [k.value for k in call.keywords if k.arg == "mode"] + call.args[first:]
    if not modes or (is_method and not isinstance(modes[0], ast.Constant)):
        return False
    mode = ast.literal_eval(modes[0]) if isinstance(modes[0], ast.Constant) else "w"
    return not {*"wax+"}.isdisjoint(str(mode))


def test_what_runs_code_is_listed():
    uses = (f"{own_module(path)}: {use}" for path in CORE + FACE + SERVERS for use in runs(path))
    check_exceptions(uses, RUNS)


def test_files_are_written_whole_or_listed():
    """By atomic_write, or in a block of atomic_folder."""
    uses = (f"{own_module(path)}: {use}" for path in CORE + FACE + SERVERS for use in writes(path))
    check_exceptions(uses, WRITES)


# What waits for connections of others.
LISTENERS = {
    *("http.server.HTTPServer", "http.server.ThreadingHTTPServer", "socketserver.TCPServer"),
    *("socketserver.ThreadingTCPServer", "socketserver.UDPServer", "wsgiref.simple_server"),
    *("socket.create_server", "asyncio.start_server", "multiprocessing.connection.Listener"),
    *("aiohttp.web.TCPSite", "aiohttp.web.SockSite", "aiohttp.web.run_app", ".listen"),
    *(".create_server", ".create_datagram_endpoint", "xmlrpc.server.SimpleXMLRPCServer"),
}
LISTENS = {
    "demos.federated.server: aiohttp.web.TCPSite": "127.0.0.1; a token beyond loopback",
    "pd_v2.master.server: http.server.ThreadingHTTPServer": "127.0.0.1 unless told otherwise",
    "pd_v2.master.server: socketserver.TCPServer": "the same server",
    "pd_v2.online.source: .listen": "127.0.0.1; a token beyond loopback",
}


def listens(path):
    """Yield the names of LISTENERS that a file uses."""
    name = resolver(path)
    called = {id(node.func) for node in nodes(path) if isinstance(node, ast.Call)}
    for node in nodes(path):
        full = name(node)
        if full in LISTENERS and (full[0] != "." or id(node) in called):  # .listen of options
            yield full


def test_what_listens_on_the_network_is_listed():
    files = CORE + FACE + SERVERS
    uses = (f"{own_module(path)}: {use}" for path in files for use in listens(path))
    check_exceptions(uses, LISTENS)


RUNNING = {
    "from pickle import loads as read; read(b)": "pickle.loads",
    "import pickle as p; f = p.load": "pickle.load",
    "import numpy as np; np.load(f, allow_pickle=True)": "numpy.load(allow_pickle=True)",
    "import subprocess; f = getattr(subprocess, name)": "subprocess",
    "import importlib.util; importlib.import_module(n)": "importlib.import_module",
    "spec.loader.exec_module(m)": "exec_module",
    "import os; os.execvpe(a, b, c)": "os.execvpe",
    "eval(text)": "builtins.eval",
}
WRITING = [
    "open(p, 'w')",
    "open(p, mode)",
    "import io; io.open(p, mode='r+b')",
    "path.open('ab')",
    "path.write_bytes(b)",
    "import os; os.open(p, os.O_RDONLY | os.O_CREAT)",
    "from os import open as o; o(p, flags)",
    "import gzip; gzip.open(p, 'wt')",
    "import zipfile as z; z.ZipFile(p, 'a')",
    "from shutil import copyfile; copyfile(a, b)",
    "import numpy as np; np.save(p, a)",
]
NEITHER = [
    *("session.eval(x)", "import re; re.compile(x)", "import pickle; pickle.dump(x, f)"),
    *("open(p)", "open(p, 'rb')", "path.open()", "archive.open(member)", "error.code"),
    "import os; os.open(p, os.O_RDONLY)",
    "from pd_core.storage.folders import atomic_folder as a\nwith a(p) as f: f.write_text(t)",
]


def source(tmp_path, monkeypatch, text):
    """A file of a package with this text."""
    monkeypatch.setattr("tests.rooms.ROOT", tmp_path)
    monkeypatch.setattr("tests.test_house.ROOT", tmp_path)
    path = tmp_path / "pd_core" / "file.py"
    path.parent.mkdir()
    path.write_text(text)
    return path


@pytest.mark.parametrize("text, use", RUNNING.items())
def test_what_runs_code_is_seen(text, use, tmp_path, monkeypatch):
    assert use in {*runs(source(tmp_path, monkeypatch, text))}


@pytest.mark.parametrize(
    "text",
    [
        "import socket\nwith socket.socket() as s: s.listen()",
        "import asyncio; asyncio.start_server(f, 'a', 1)",
        "from http.server import HTTPServer\nclass Server(HTTPServer): pass",
        "from aiohttp import web; web.run_app(app)",
    ],
)
def test_what_listens_is_seen(text, tmp_path, monkeypatch):
    assert [*listens(source(tmp_path, monkeypatch, text))]


@pytest.mark.parametrize("text", WRITING)
def test_what_writes_files_is_seen(text, tmp_path, monkeypatch):
    assert [*writes(source(tmp_path, monkeypatch, text))]


@pytest.mark.parametrize("text", NEITHER)
def test_reading_and_calling_are_no_risk(text, tmp_path, monkeypatch):
    path = source(tmp_path, monkeypatch, text)
    assert [*runs(path), *writes(path)] == []


def pinned(name):
    """{package: version} of a file of constraints."""
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines if not line.startswith("#"))


def test_the_oldest_versions_are_those_of_setup():
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg", encoding="utf-8")
    required = setup["options"]["install_requires"].split("\n")
    bounds = dict(re.match(r"([\w-]+)>=([\d.]+)", line).groups() for line in required if line)
    assert bounds.pop("onnxruntime-gpu") == bounds["onnxruntime"]
    assert pinned("tests/oldest.txt") == bounds


def test_the_constraints_allow_the_oldest_versions():
    def numbers(version):
        return tuple(map(int, version.split(".")))

    newest, oldest = pinned("docs/constraints.txt"), pinned("tests/oldest.txt")
    assert all(numbers(newest[name]) >= numbers(oldest[name]) for name in oldest)


def test_the_sbom_lists_the_constraints():
    text = (ROOT / "docs" / "sbom.json").read_text(encoding="utf-8")
    components = {c["name"]: c["version"] for c in json.loads(text)["components"]}
    newest = pinned("docs/constraints.txt")
    del newest["onnxruntime"]  # the same module as onnxruntime-gpu, and the same version
    assert components == newest
    assert re.findall(r"\w+://[^/]+", text) == ["http://cyclonedx.org"]


def test_what_security_links_to_is_there():
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#]+)", text) + re.findall(r"`(pd_\w+/[\w/.]+)`", text)
    assert len(links) > 8
    assert [link for link in links if not (ROOT / link).exists()] == []
