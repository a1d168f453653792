"""Files that only the process sees which has written them."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]

PROGRAM = """
import bz2, glob, gzip, io, os, pathlib, pickle, shutil, sys, tarfile, tempfile, types
import numpy as np
import pd_core as pd
from pd_core.distributed.heartbeat import Heartbeat
from pd_v2.job.private_files import PrivateFiles

heartbeat = Heartbeat(types.SimpleNamespace(id=1, met=0, size=2), "beats", 600.0)
files = PrivateFiles(["shared"])

# a heartbeat is for whoever started the job
heartbeat.world.met = 3
heartbeat.beat()

# new files, by all that is built upon `open`
for name, opener in (("x.gz", gzip.open), ("x.bz2", bz2.open), ("x.bin", open), ("y", io.open)):
    with opener(name, "wb") as f:
        f.write(b"content")
    with opener(name, "rb") as f:
        assert f.read() == b"content"
with tarfile.open("x.tar", "w") as tar:
    tar.add("x.bin", "inside")
assert tarfile.open("x.tar").getnames() == ["inside"]
pathlib.Path("z.txt").write_text("one")
with open("z.txt", "a") as f:
    f.write(" two")
assert pathlib.Path("z.txt").read_text() == "one two"
np.save("n.npy", np.arange(3))
assert np.load("n.npy").tolist() == [0, 1, 2]
with pd.atomic_write("atomic") as f:
    f.write(b"1")
with pd.atomic_write("atomic") as f:
    f.write(b"2")
assert open("atomic").read() == "2" and os.path.getsize("atomic") == 1

# old ones are changed for this process only
with open("old.txt", "a") as f:
    f.write(" and new")
with open("old.txt", "r+") as f:
    f.write("OLD")
assert open("old.txt").read() == "OLD and new"
os.remove("kept/a.txt")
assert not os.path.exists("kept/a.txt") and os.listdir("kept") == ["b.txt"]
for attempt in (lambda: open("kept/a.txt"), lambda: os.stat("kept/a.txt")):
    try:
        attempt()
        raise SystemExit("it exists")
    except FileNotFoundError:
        pass
os.rename("z.txt", "renamed.txt")
os.replace("kept/b.txt", "moved.txt")
assert not os.path.isfile("z.txt") and open("moved.txt").read() == "b"
names = ["atomic", "moved.txt", "n.npy", "old.txt", "renamed.txt"]
names += ["x.bin", "x.bz2", "x.gz", "x.tar", "y"]
assert sorted(n for n in os.listdir() if os.path.isfile(n)) == names
assert sorted(glob.glob("*.txt")) == ["moved.txt", "old.txt", "renamed.txt"]
assert [e.name for e in os.scandir(".") if e.name == "y" and e.is_file() and e.stat().st_size == 7]

# folders are made, and removed for this process only
os.mkdir("kept")
os.makedirs("new/deep")
open("new/deep/file", "w").close()
shutil.rmtree("new")
assert not os.path.exists("new") and not os.path.exists("new/deep/file")
os.makedirs("new")
assert os.path.isdir("new")
try:
    open("missing/file", "w")
    raise SystemExit("there is no such folder")
except FileNotFoundError:
    pass

# what is no file of the program is left alone
open(os.devnull, "w").close()
open("shared/file", "w").close()
with tempfile.TemporaryDirectory() as folder:
    open(os.path.join(folder, "file"), "w").close()
    assert os.path.isfile(os.path.join(folder, "file"))
assert not os.path.exists(folder)
handle, path = tempfile.mkstemp()
os.close(handle)
os.remove(path)
if os.fork() == 0:
    sys.exit()
os.wait()
assert open("y").read() == "content"

files.stop()
assert open("y").read() == "content"
open("own.txt", "w").close()
"""


def test_what_a_program_writes_is_private(tmp_path):
    for name, text in {"old.txt": "old", "kept/a.txt": "a", "kept/b.txt": "b"}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    for name in ("beats", "shared", "tmp"):
        (tmp_path / name).mkdir()
    environment = {"PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path / "tmp")}
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", PROGRAM],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    files = sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file())
    assert json.loads((tmp_path / "beats" / "rank-1").read_text())["met"] == 3
    files.remove("beats/rank-1")
    assert files == ["kept/a.txt", "kept/b.txt", "old.txt", "own.txt", "shared/file"]
    assert (tmp_path / "old.txt").read_text() == "old"
    assert list((tmp_path / "tmp").iterdir()) == []
