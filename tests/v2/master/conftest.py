"""Fixtures of the master's tests."""

import threading

import pytest

from pd_v2.master.connection import clear_connections
from pd_v2.master.ledger import Ledger
from pd_v2.master.server import MasterServer
from pd_v2.reader import creator


@pytest.fixture(autouse=True)
def another_process(monkeypatch):
    """A function that makes this process look like a new one, as it is at the beginning."""

    def begin():
        clear_connections()
        monkeypatch.setattr(creator, "pass_num", 0)

    monkeypatch.delenv("PD_MASTER", raising=False)
    monkeypatch.delenv("PD_WORKER", raising=False)
    begin()
    yield begin
    clear_connections()


class Served:
    """A server in a thread, with its ledger in the file `state`."""

    def __init__(self, state):
        self.state, self.port = state, 0
        self.start()

    def start(self, **options):
        self.ledger = Ledger(self.state, lease_seconds=1.0, **options)
        self.server = MasterServer(("127.0.0.1", self.port), self.ledger)
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,))
        self.thread.start()

    def stop(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def lease(self, process, pass_id=0):
        """Lease a task of the only dataset as another process."""
        return self.ledger.lease(1, pass_id, process, process)


@pytest.fixture
def served(tmp_path, monkeypatch):
    """A master, which clients find by PD_MASTER."""
    served = Served(tmp_path / "state")
    monkeypatch.setenv("PD_MASTER", served.server.address)
    yield served
    served.stop()
