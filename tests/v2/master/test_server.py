"""Masters as servers: clients that wait, masters that are away, killed, or asked nonsense."""

import http.client
import inspect
import json
import os
import re
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import threading
import time

import pytest

from pd_v2 import master
from pd_v2.__main__ import main
from pd_v2.master.connection import connect
from pd_v2.master.journal import read_journal
from pd_v2.master.ledger import OPERATIONS
from pd_v2.recordio.chunks import write_records

from .test_master import within

ALL = [b"a", b"b", b"c"]


@pytest.fixture
def files(tmp_path):
    """Three files with a record each."""
    for record in ALL:
        write_records(tmp_path / f"part-{record.decode()}", [record])
    return str(tmp_path / "part-*")


def connected(files, timeout=20):
    client = master.client("job", timeout)
    client.set_dataset([files])
    return client


def wait_until(condition):
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def leases(served, pass_id=0):
    (one,) = (p for p in read_journal(served.state) if p.number == pass_id)
    return one.leases


def journal(served, pass_id=0):
    """The outcomes of leases, and what was said of tasks."""
    return [(row["task"], row["worker"], row["outcome"]) for row in leases(served, pass_id)]


def renewed_after(served):
    """The seconds between the beginning of the first lease and its last renewal."""
    row = leases(served)[0]
    return row["renewed"] - row["leased"]


def test_a_client_reads_by_a_master(files, served, monkeypatch):
    monkeypatch.setenv("PD_WORKER", "rank 7")
    client = connected(files)
    for pass_id in range(2):
        assert list(client.records(pass_id)) == ALL
        assert journal(served, pass_id) == [(k, "rank 7", "done") for k in range(3)]


def test_the_end_of_a_pass_waits_for_other_processes(files, served):
    client = connected(files)
    leases = [served.lease("other")["lease"] for _ in range(2)]
    records = client.records(0)
    assert next(records) == ALL[2]
    found, asked = [], threading.Event()

    def read():
        asked.set()
        found.extend(records)

    thread = threading.Thread(target=read)
    thread.start()
    assert asked.wait(20) and served.ledger.finish(leases[0], 1)
    wait_until(lambda: journal(served)[-1][2] == "done")  # it has asked for more
    assert thread.is_alive() and not found
    served.ledger.release(leases[1], 0)
    thread.join(20)
    assert found == [ALL[1]]


def test_a_lease_that_expires_is_taken_over(files, served):
    client = connected(files)
    served.lease("dead")
    assert within(20, lambda: list(client.records(0))) == [*ALL[1:], ALL[0]]
    assert journal(served)[0] == (0, "dead", "expired")


def test_leases_of_a_live_process_are_renewed(files, served):
    records = connected(files).records(0)
    assert next(records) == ALL[0]
    wait_until(lambda: renewed_after(served) > 1.0)  # leases last for a second
    assert served.lease("other")["task"] == 1
    assert served.lease("other")["task"] == 2
    assert served.lease("other") == {"wait": True}


def test_an_iterator_that_is_collected_returns_its_chunk(files, served):
    records = connected(files).records(0)
    assert next(records) == ALL[0]
    del records
    wait_until(lambda: journal(served)[0][2] == "released")
    assert served.lease("other")["task"] == 0


def test_readers_of_one_process_do_not_wait_for_each_other(files, served):
    client = connected(files)
    half = client.records(0)
    assert next(half) == ALL[0]
    assert within(20, lambda: list(client.records(0))) == ALL[1:]
    assert within(20, lambda: list(client.records(1))) == ALL
    half.close()
    assert within(20, lambda: list(client.records(0))) == ALL[:1]


def test_a_client_waits_for_a_master_that_restarts(files, served):
    client = connected(files)
    records = client.records(0)
    assert next(records) == ALL[0]
    served.stop()
    found = []
    thread = threading.Thread(target=lambda: found.extend(records))
    thread.start()
    served.start()
    thread.join(20)
    assert found == ALL[1:] and [row[2] for row in journal(served)] == ["done"] * 3


def test_a_late_acknowledgement_is_refused(files, served):
    records = connected(files).records(0)
    assert next(records) == ALL[0]
    with sqlite3.connect(served.state) as db:  # as if this process had been silent
        db.execute("UPDATE journal SET renewed = 0")
    db.close()
    assert served.lease("other")["task"] == 0
    with pytest.warns(UserWarning, match="part-a, chunk at byte 0, of pass 0 was handed to anoth"):
        assert next(records) == ALL[1]


def test_a_chunk_that_cannot_be_read_is_dropped(files, served):
    path = files.replace("*", "b")
    with open(path, "r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"?")
    message = "part-b, chunk at byte 0, is left out of pass 0, as .*: DamagedFile: recordio: .*part"
    client = connected(files)
    with pytest.warns(UserWarning, match=message) as caught:
        assert list(client.records(0)) == [ALL[0], ALL[2]]
    assert len(caught) == 1
    assert [row[2] for row in journal(served)].count("failed") == 3
    with pytest.warns(UserWarning, match=message):  # whoever comes later
        assert list(client.records(0)) == []


def test_files_outside_the_dataset_are_not_read(files, served):
    client = connected(files)
    with sqlite3.connect(served.state) as db:
        db.execute("UPDATE tasks SET file = '/etc/hostname' WHERE task = 1")
    db.close()
    with pytest.warns(UserWarning, match="/etc/hostname is no file of the dataset"):
        assert list(client.records(0)) == [ALL[0], ALL[2]]


def test_trainers_ask_the_master_who_saves(served):
    client = master.client("job", 20)
    assert client.request_save_model("one", 60_000) == 1
    assert client.request_save_model("two", 60_000) == 0


def test_a_master_that_is_not_there_is_named(files, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    monkeypatch.setenv("PD_MASTER", address)
    with pytest.raises(
        ConnectionError, match=rf"{address} has not answered for 0\.2 s: .*\n.*hint"
    ):
        connected(files, 0.2)
    monkeypatch.setenv("PD_MASTER", "nowhere")
    with pytest.raises(ValueError, match="PD_MASTER is 'nowhere', not host:port"):
        connected(files)


def test_closing_does_not_need_a_master(files, served):
    records = connected(files).records(0)
    assert next(records) == ALL[0]
    served.stop()
    records.close()
    assert list(records) == []
    served.start()


def request(served, path, body, kind="application/json", method="POST"):
    link = http.client.HTTPConnection(*served.server.server_address, timeout=20)
    try:
        link.request(method, path, body, {"Content-Type": kind})
        answer = link.getresponse()
        return answer.status, answer.read().decode()
    finally:
        link.close()


@pytest.mark.parametrize(
    ("request_", "status", "message"),
    [
        (("/settings", "{}"), 200, '{"result": {"lease_seconds": 1.0}}'),
        (("/close", "{}"), 400, "/close"),
        (("/settings", "{}", "text/plain"), 400, "text/plain"),
        (("/settings", "{"), 400, "Expecting property name"),
        (("/settings", "[]"), 400, "the arguments are no JSON object"),
        (("/lease", "{}"), 400, "missing 4 required positional arguments"),
        (("/renew", '{"leases": [[1]]}'), 400, "Error binding parameter"),
        (("/settings", "{}", "application/json", "GET"), 501, "Unsupported method"),
    ],
)
def test_requests_of_strangers(served, capfd, request_, status, message):
    code, text = request(served, *request_)
    assert code == status and re.search(message, text)
    assert capfd.readouterr().err.count("\n") == ("binding" in message)


ODD = [
    None,
    -1,
    2**63,
    2**70,
    1.5,
    float("nan"),
    "",
    "\ud800",
    "a\0b\nc",
    [[["x"]]],
    {"a": 1},
    True,
]


@pytest.mark.parametrize("name", OPERATIONS)
def test_arguments_of_strangers(served, capfd, name):
    names = [key for key in inspect.signature(OPERATIONS[name]).parameters if key != "self"]
    for value in ODD:
        code, _ = request(served, f"/{name}", json.dumps(dict.fromkeys(names, value)))
        assert code in (200, 400), value
        assert capfd.readouterr().err.count("\n") <= 1
    for body in (b"", b"{", b"[" * 10**5, b'{"a":' * 10**4, b"\xff\xfe", b"NaN", b'{"self": 1}'):
        code, _ = request(served, f"/{name}", body)
        assert code == 400, body
        assert capfd.readouterr().err.count("\n") <= 1


@pytest.mark.parametrize("resets", [False, True])
def test_what_is_no_request(served, capfd, resets):
    for sent in (
        b"\x00\x01\xff\n\n",
        b"POST /x HTTP/9.9\r\n\r\n",
        b"POST /x HTTP/1.1\r\n" + b"A: b\r\n" * 500 + b"\r\n",
        b"POST /" + b"a" * 70000 + b" HTTP/1.1\r\n\r\n",
        b"POST /settings HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{",
    ):
        with socket.create_connection(served.server.server_address) as link:
            link.sendall(sent)
            if resets:
                link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            else:
                link.shutdown(socket.SHUT_WR)
                assert b"Traceback" not in link.recv(1000)
    assert request(served, "/settings", "{}")[0] == 200
    assert capfd.readouterr().err == ""


def test_a_mistake_of_the_master_is_one_line(served, capfd, monkeypatch):
    def fails(ledger):
        raise KeyError("first\nsecond\x1b[2J")

    monkeypatch.setitem(OPERATIONS, "settings", fails)
    code, text = request(served, "/settings", "{}")
    assert code == 500 and "KeyError" in text
    said = capfd.readouterr().err
    assert said.count("\n") == 1 and "\x1b" not in said
    assert re.search(r"master: /settings: KeyError: .* \(test_server.py:\d+\)$", said)


def test_the_command_prints_a_journal(files, served, capsys):
    records = connected(files).records(0)
    assert next(records) == ALL[0]
    assert main(["master", "--journal", str(served.state)]) == 0
    text = capsys.readouterr().out
    assert "pass 0: 0 of 3 chunks done exactly once, 0 records; leases: 1 leased" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "one of the arguments --listen --journal is required"),
        (["--listen", "127.0.0.1:0"], "--listen needs --state FILE"),
        (["--listen", ":0", "--state", "s", "--lease", "0"], "--lease must be above 0, got 0.0"),
        (
            ["--listen", "here", "--state", "s"],
            "python -m pd_v2 master: s: 'here' is not HOST:PORT",
        ),
        (["--listen", ":0", "--state", "no/s"], "no/s: unable to open database file"),
        (["--journal", "none"], "python -m pd_v2 master: none: unable to open database file"),
    ],
)
def test_wrong_commands(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    try:
        status = main(["master", *arguments])
    except SystemExit as exit_:
        status = exit_.code
    assert status in (1, 2) and message in capsys.readouterr().err


def test_a_killed_master_is_started_again(files, tmp_path, monkeypatch):
    with master.start(tmp_path / "state", "127.0.0.1", "--lease", "60") as served:
        monkeypatch.setenv("PD_MASTER", served.address)
        records = connected(files).records(0)
        assert next(records) == ALL[0]
        killed = served.pid
        os.kill(killed, signal.SIGKILL)
        assert list(records) == ALL[1:] and served.pid != killed
    (one,) = read_journal(tmp_path / "state")
    assert one.is_complete and one.outcomes == {"done": 3}
    with pytest.raises(ConnectionRefusedError):
        connect().link.call_once("settings", 1.0)


def test_a_master_ends_with_the_process_that_started_it(tmp_path):
    command = ["master", "--listen", "127.0.0.1:0", "--state", "s", "--with-parent"]
    with subprocess.Popen(
        [sys.executable, "-m", "pd_v2", *command],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        text=True,
    ) as process:
        assert process.stdout.readline().startswith("master at 127.0.0.1:")
        process.stdin.close()
        assert process.wait(20) == 0


def test_a_master_that_cannot_start_is_an_error(tmp_path, capfd):
    with pytest.raises(RuntimeError, match="master: it did not start"):
        master.start(tmp_path / "none" / "state")
    assert "unable to open database file" in capfd.readouterr().err
