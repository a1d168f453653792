"""The master of a job: its trainers share the chunks that their `cloud_reader`s read."""

import atexit
import os
import platform
import secrets
import tempfile
from pathlib import Path

import pd_core as pd
from pd_core.training.ranks import job, on_first

from .. import master
from ..master.token import TOKEN, TOKEN_FILE, read_token

_TOKEN_BYTES = 32
_started = []


def share_chunks():
    """Start the master of a job on rank 0, unless there is one, and tell all ranks its address.

    For trainers with data of their own, which have made a client of a master: chunks are handed
    out to them with leases. They take their steps together, so nobody waits in a reader.
    """
    if not master.has_clients() or os.environ.get("PD_MASTER"):
        return
    machines = pd.distributed.allgather(platform.node())
    host = "127.0.0.1" if len(set(machines)) == 1 else machines[0]
    address, token = on_first(job(), lambda: _start(host))
    os.environ.pop(TOKEN_FILE, None)
    os.environ.update({"PD_MASTER": address, TOKEN: token})
    os.environ.setdefault("PD_WORKER", f"rank {pd.distributed.rank()}")


def _start(host):
    """Start the master; return its address, and its token."""
    os.environ[TOKEN] = read_token() or secrets.token_hex(_TOKEN_BYTES)
    os.environ.pop(TOKEN_FILE, None)
    folder = tempfile.TemporaryDirectory(prefix="pd-v2-master-", ignore_cleanup_errors=True)
    server = master.start(Path(folder.name) / "ledger.sqlite", host, "--no-wait")
    _started.append(server)

    def end():
        server.close()
        folder.cleanup()

    atexit.register(end)
    return server.address, os.environ[TOKEN]
