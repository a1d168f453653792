"""A cache shared with other programs: links out of it, modes, downloads at the same time."""

import hashlib
import http.server
import os
import stat
import subprocess
import sys
import threading

import pytest

import pd_core as pd
from pd_v2.dataset import common, flowers, mq2007, sentiment, transfer, wmt16
from pd_v2.dataset.lock import locked
from tests.thinned import thinned

from . import originals

pytestmark = pytest.mark.skipif(os.name != "posix", reason="links, pipes and modes")

CONTENT = bytes(range(256)) * 4000
MD5 = hashlib.md5(CONTENT).hexdigest()


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.delenv("PD_DATASET_CHECK", raising=False)
    monkeypatch.setattr(common, "DATA_HOME", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()
    return tmp_path / "cache"


# ---- links


@pytest.fixture
def outside(tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "source.bin").write_bytes(CONTENT)
    return tmp_path / "outside"


@pytest.mark.parametrize("linked", ["folder", "file"])
def test_a_link_that_leads_out_of_the_cache_is_not_read(home, url, outside, linked):
    if linked == "folder":
        (home / "digits").symlink_to(outside)
    else:
        (home / "digits").mkdir()
        (home / "digits" / "source.bin").symlink_to(outside / "source.bin")
    message = r"source.bin leads out of .*cache, to .*outside/source.bin.*\n  hint: "
    with pytest.raises(pd.DamagedFile, match=message):
        common.download(url, "digits", MD5)
    assert [p.name for p in outside.iterdir()] == ["source.bin"]


def test_links_of_a_folder_that_the_user_names_are_followed(home, url, outside, monkeypatch):
    monkeypatch.setenv("PD_DATASET_HOME", str(home))
    (home / "digits").symlink_to(outside)
    assert common.download(url, "digits", MD5) == str(home / "digits" / "source.bin")


def test_links_inside_the_cache_and_to_all_of_it_are_followed(home, url, tmp_path, monkeypatch):
    (tmp_path / "link").symlink_to(home)
    monkeypatch.setattr(common, "DATA_HOME", str(tmp_path / "link"))
    (home / "numbers").mkdir()
    (home / "digits").symlink_to(home / "numbers")
    assert common.download(url, "digits", MD5) == str(tmp_path / "link" / "digits" / "source.bin")
    assert (home / "numbers" / "source.bin").read_bytes() == CONTENT


def test_a_pipe_is_no_file(home, url):
    (home / "digits").mkdir()
    os.mkfifo(home / "digits" / "source.bin")
    with pytest.raises(pd.DamagedFile, match=r"source.bin is no file"):
        common.download(url, "digits", MD5)


@pytest.mark.parametrize("link", [os.symlink, os.link])
@pytest.mark.parametrize("name", ["source.bin.part", "source.bin.0123abcd.part"])
def test_what_is_left_of_a_download_is_no_link(home, url, tmp_path, name, link):
    """A download that goes on appends to it."""
    (tmp_path / "precious").write_bytes(b"precious")
    os.utime(tmp_path / "precious", (0, 0))
    (home / "digits").mkdir()
    link(tmp_path / "precious", home / "digits" / name)
    common.download(url, "digits", MD5)
    assert (home / "digits" / "source.bin").read_bytes() == CONTENT
    assert (tmp_path / "precious").read_bytes() == b"precious"


def test_reviews_that_lead_elsewhere(home, tmp_path):
    (tmp_path / "secret").write_bytes(b"secret words")
    for side in ("neg", "pos"):
        (home / "corpora" / "movie_reviews" / side).mkdir(parents=True)
        (home / "corpora" / "movie_reviews" / side / "a.txt").symlink_to(tmp_path / "secret")
    with pytest.raises(pd.DamagedFile, match=r"neg/a.txt leads out of"):
        sentiment.get_word_dict()


def test_a_dictionary_that_leads_elsewhere(home, tmp_path):
    (home / "wmt16").mkdir()
    (home / "wmt16" / "en_5.dict").symlink_to(tmp_path / "new")
    with pytest.raises(pd.DamagedFile, match=r"en_5.dict leads out of"):
        wmt16.get_dict("en", 5)
    assert not (tmp_path / "new").exists()


def test_queries_that_lead_elsewhere(home, tmp_path):
    (home / "MQ2007").mkdir()
    (home / "MQ2007" / "MQ2007").symlink_to(tmp_path)
    with pytest.raises(pd.DamagedFile, match=r"MQ2007 leads out of"):
        mq2007.train()


def test_batches_of_photographs_that_lie_elsewhere(home, tmp_path, monkeypatch):
    """Which files they are is in a list that lies in the cache."""
    (tmp_path / "secret").write_bytes(b"]q.")
    data = home / "flowers.tgz"
    (home / "flowers.tgz_batch").mkdir()
    (home / "flowers.tgz_batch" / "tstid.txt").write_bytes(os.fsencode(tmp_path / "secret") + b"\n")
    arrays = {"labels": originals.np.ones((1, 3), int), "tstid": originals.np.ones((1, 3), int)}
    monkeypatch.setattr(flowers.matlab, "read_arrays", lambda path: arrays)
    reader = flowers.reader_creator(data, "", "", "tstid", lambda sample: sample, use_xmap=False)
    with pytest.raises(pd.DamagedFile, match=r"secret leads out of .*flowers.tgz_batch"):
        list(reader())


# ---- modes


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_files_have_the_mode_of_the_umask(home, url, umask):
    before = os.umask(umask)
    try:
        path = common.download(url, "digits", MD5)
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o666 & ~umask
    assert stat.S_IMODE(os.stat(home / "digits").st_mode) == 0o777 & ~umask


# ---- two at once


class Handler(http.server.BaseHTTPRequestHandler):
    """Sends CONTENT in two pieces, the second when `go` is set."""

    def log_message(self, *args):
        pass

    def do_GET(self):
        self.server.asked.append(self.path)
        self.send_response(200)
        self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        self.wfile.write(CONTENT[:1000])
        self.server.go.wait(60)
        self.wfile.write(CONTENT[1000:])


DOWNLOAD = """
import logging, sys
from pd_v2.dataset import common
logging.basicConfig(level=logging.INFO)
print(common.download(sys.argv[1], "digits", sys.argv[2] or None))
"""


@pytest.mark.parametrize("md5", thinned(["", MD5], 2))
def test_of_two_processes_one_downloads_and_the_other_waits(home, server, md5):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    environment["PD_DATASET_HOME"] = str(home)
    server.go = threading.Event()
    read, write = os.pipe()
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", DOWNLOAD, server.url, md5],
            stdout=subprocess.PIPE,
            stderr=write,
            env=environment,
            text=True,
        )
        for _ in range(2)
    ]
    os.close(write)
    with open(read) as log:
        assert any("is being downloaded by another process" in line for line in log)
        server.go.set()
        path = home / "digits" / "data.bin"
        assert [process.communicate()[0] for process in processes] == [f"{path}\n"] * 2
    assert path.read_bytes() == CONTENT and server.asked == ["/data.bin"]
    assert [p.name for p in path.parent.iterdir()] == ["data.bin"]


def test_the_lock_of_a_killed_process_holds_nobody_up(home, url):
    program = (
        "import sys; from pd_v2.dataset.lock import locked\n"
        "with locked(sys.argv[1]): print('ready', flush=True); sys.stdin.read()"
    )
    (home / "digits").mkdir()
    path = str(home / "digits" / "source.bin")
    process = subprocess.Popen(
        [sys.executable, "-c", program, path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    with process:
        assert process.stdout.readline() == b"ready\n"
        process.kill()
    assert os.path.exists(f"{path}.lock")
    assert common.download(url, "digits", MD5) == path
    assert os.listdir(home / "digits") == ["source.bin"]


def test_a_lock_is_held_by_one_thread_at_a_time(tmp_path):
    inside, most = [], []

    def enter():
        for _ in range(50):
            with locked(str(tmp_path / "file")):
                inside.append(1)
                most.append(len(inside))
                inside.pop()

    threads = [threading.Thread(target=enter) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(most) == {1} and len(most) == 200 and os.listdir(tmp_path) == []


def test_a_file_that_is_there_needs_no_lock(home, url, monkeypatch):
    """The cache may be read-only."""
    path = common.download(url, "digits", MD5)
    monkeypatch.setattr(transfer, "locked", None)
    assert common.download(url, "digits", MD5) == path
