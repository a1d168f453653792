"""Masters that ask for a token: who is served, who is refused, and where one is needed."""

import functools
import http.client
import threading

import pytest

from pd_v2.__main__ import main
from pd_v2.master import client
from pd_v2.master import token as tokens
from pd_v2.master.connection import clear_connections
from pd_v2.master.ledger import Ledger
from pd_v2.master.links import MasterError, RemoteLink
from pd_v2.master.server import MasterServer
from pd_v2.recordio.chunks import write_records

TOKEN = "0123456789abcdef"
EVERYWHERE = "0.0.0.0", "", "::"


@pytest.fixture(autouse=True)
def no_token(monkeypatch):
    for name in (tokens.TOKEN, tokens.TOKEN_FILE):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def guarded(tmp_path, monkeypatch):
    """A server with a token, which clients find by PD_MASTER."""
    ledger = Ledger(tmp_path / "state", lease_seconds=1.0)
    server = MasterServer(("127.0.0.1", 0), ledger, TOKEN)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    monkeypatch.setenv("PD_MASTER", server.address)
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_who_has_the_token_is_served(guarded, tmp_path, monkeypatch):
    write_records(tmp_path / "part", [b"one"])
    with pytest.raises(MasterError, match=r"(?s)/settings with no token, .*hint: set PD_MASTER_TO"):
        client("job", 5).set_dataset([str(tmp_path / "part")])
    clear_connections()
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    monkeypatch.setenv(tokens.TOKEN_FILE, str(tmp_path / "token"))
    reader = client("job", 5)
    reader.set_dataset([str(tmp_path / "part")])
    assert list(reader.records(0)) == [b"one"]


@pytest.mark.parametrize("other", [TOKEN[:-1] + "g", TOKEN + "0", TOKEN * 60])
def test_another_token_is_refused(guarded, other, monkeypatch):
    monkeypatch.setenv(tokens.TOKEN, other)
    with pytest.raises(MasterError, match="another token than that of this master"):
        RemoteLink(guarded.address).call_once("settings", 5.0)


HEADERS = ["", TOKEN, f"bearer {TOKEN}", f"Basic {TOKEN}", "Bearer ", "Bearer \xff" * 9, "\xe9"]


@pytest.mark.parametrize("header", HEADERS)
def test_headers_of_strangers(guarded, header, capfd):
    link = http.client.HTTPConnection(*guarded.server_address, timeout=20)
    headers = {"Content-Type": "application/json", "Authorization": header.encode("latin-1")}
    link.request("POST", "/settings", b"{}" * 20_000, headers)
    assert link.getresponse().status == 401
    link.close()
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("host", EVERYWHERE)
def test_an_address_beyond_this_machine_needs_one(host, tmp_path, capsys):
    with pytest.raises(
        ValueError, match=r"(?s)reached from other machines, which needs a token.*h"
    ):
        MasterServer((host, 0), Ledger())
    tokens.require_token(host, TOKEN)
    for own in ("127.0.0.1", "localhost", "127.1.2.3", "::1"):
        tokens.require_token(own, None)
    if host:
        line = ["--listen", f"{host}:0", "--state", str(tmp_path / "s")]
        assert main(["master", *line]) == 1
        assert "can be reached from other machines" in capsys.readouterr().err
        assert not (tmp_path / "s").exists()


def test_a_token_is_no_argument(capsys, tmp_path):
    for name in ("--token", "--token-fil"):
        with pytest.raises(SystemExit):
            main(["master", "--listen", ":0", "--state", str(tmp_path / "s"), name, TOKEN])
        assert f"unrecognized arguments: {name}" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text", ["", "short", "0123456789 abcdef", "0123456789abcde\xe9", "x" * 1025]
)
def test_what_is_no_token(text, tmp_path, monkeypatch):
    path = tmp_path / "token"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(
        ValueError, match=r"master: the file .*token has no token: 16 to 1024 print"
    ):
        tokens.read_token(path)
    monkeypatch.setenv(tokens.TOKEN_FILE, str(path))
    with pytest.raises(ValueError, match="has no token"):
        RemoteLink("127.0.0.1:1")
    monkeypatch.setenv(tokens.TOKEN, TOKEN)
    with pytest.raises(ValueError, match="PD_MASTER_TOKEN and PD_MASTER_TOKEN_FILE are both set"):
        tokens.read_token()
    monkeypatch.delenv(tokens.TOKEN_FILE)
    assert tokens.read_token() == TOKEN


def test_the_time_of_a_comparison_does_not_tell(monkeypatch):
    """Both sides are bytes for the function that compares in constant time."""
    seen = []
    real = tokens.hmac.compare_digest
    monkeypatch.setattr(
        tokens.hmac, "compare_digest", lambda a, b: seen.append((a, b)) or real(a, b)
    )
    check = functools.partial(tokens.is_allowed, token=TOKEN)
    assert check(f"Bearer {TOKEN}") and not check(None) and not check("\ud800")
    assert {type(value) for pair in seen for value in pair} == {bytes} and len(seen) == 3
    assert tokens.is_allowed(None, None)
