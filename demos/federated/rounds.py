"""Rounds of federated averaging, whose state is a folder: a killed server goes on with its round.

    weights.safetensors           the weights of now; the metadata have the number of the round
    updates/<round>/*.update      what clients have sent in it, a file each

Files are renamed when they are whole. That of the weights is the end of a round: before it the
updates count, after it those of the next round do.
"""

import hashlib
import json
import re
import shutil
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from safetensors.numpy import save
from updates import Refused, decoded

import pd_core as pd

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

CLIENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True)
class Now:
    """The number of the open round, the weights that it begins with, and `spent` for privacy."""

    number: int
    spent: float
    weights: dict

    def file(self, digest):
        """Return it as bytes of a safetensors file."""
        entries = {"pd.digest": digest, "round": str(self.number), "spent": repr(self.spent)}
        return save(self.weights, entries)


class Rounds:
    """The weights, and the updates of the round that is open.

    `total` rounds are made. A round ends with the updates of `rule.clients` clients, or after
    `seconds` with at least `least`.
    """

    def __init__(self, folder, averaged, rule, total, seconds=None, least=1):
        self.folder, self.averaged, self.rule, self.total = Path(folder), averaged, rule, total
        self.seconds, self.least = seconds, least
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock()
        try:
            if self.path.exists():
                self.now = self._restored()
            else:
                self._begin(Now(0, 0.0, averaged.initial))
        except BaseException:
            self.release()
            raise
        self.opened = time.monotonic()
        self.received = self._received()
        if len(self.received) >= rule.clients:  # killed before it could average them
            self.close()

    @property
    def path(self):
        """The file of the weights."""
        return self.folder / "weights.safetensors"

    @property
    def number(self):
        """The number of the round that is open."""
        return self.now.number

    @property
    def is_done(self):
        """Whether all rounds have been made."""
        return self.number >= self.total

    def add(self, number, client, samples, body):
        """Count the update of a client in a round; return False if it has been counted before."""
        if not CLIENT.fullmatch(client):
            raise Refused(400, "a client is 1 to 64 letters, digits, '.', '-' and '_'")
        if samples < 1:
            raise Refused(400, f"samples={samples}: an update is of at least one sample")
        self.check_open(number)
        counted = client not in self.received
        if counted:
            self.averaged.read(body)
            path = self._updates / f"{_hashed(client)}.update"
            path.parent.mkdir(parents=True, exist_ok=True)
            entries = json.dumps({"client": client, "samples": samples}).encode()
            with pd.atomic_write(path) as file:  # synced: what is answered for is kept
                file.write(len(entries).to_bytes(8, "little") + entries + body)
            self.received[client] = path
        if len(self.received) >= self.rule.clients:
            self.close()
        return counted

    def check_open(self, number):
        """Refuse a round that is not the one that is open."""
        if self.is_done:
            raise Refused(409, f"all {self.total} rounds have been made")
        if number != self.number:
            raise Refused(409, f"round {number} is not open: this is round {self.number}")

    def close_if_late(self):
        """End a round whose time is over, if there are enough updates; return whether it was."""
        late = self.seconds is not None and time.monotonic() - self.opened >= self.seconds
        is_closed = late and not self.is_done and len(self.received) >= self.least
        if is_closed:
            self.close()
        return is_closed

    def close(self):
        """End the round: average its updates, and open the next."""
        paths = sorted(self.received.values())
        updates = (_read(path) for path in paths)
        pairs = ((self.averaged.read(body), e["samples"]) for e, body in updates)
        weights = self.rule.averaged(self.now.weights, pairs)
        self._begin(Now(self.number + 1, self.now.spent + self.rule.cost, weights))
        self.received = self._received()
        self.opened = time.monotonic()

    @property
    def _updates(self):
        return self.folder / "updates" / str(self.number)

    def _lock(self):
        """Keep a second server out of the folder, until this process ends."""
        self._locked = open(self.folder / "lock", "ab")  # noqa: SIM115
        if fcntl:
            try:
                fcntl.flock(self._locked, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                self._locked.close()
                raise ValueError(f"{self.folder} is in use by another server") from None

    def release(self):
        """Let another server use the folder."""
        self._locked.close()

    def _begin(self, now):
        """Begin a round; nobody sees its weights before they are kept, or noise was drawn twice."""
        with pd.atomic_write(self.path) as file:
            file.write(now.file(self.averaged.digest))
        self.now = now

    def _restored(self):
        try:
            body = self.path.read_bytes()
            weights, entries = self.averaged.read(body), decoded(body)[1]
            return Now(int(entries["round"]), float(entries["spent"]), weights)
        except (Refused, KeyError, ValueError) as error:
            raise ValueError(f"{self.path} does not fit, use another folder: {error}") from None

    def _received(self):
        """{client: path} of what is there of this round; files of others are removed."""
        root = self.folder / "updates"
        for other in root.iterdir() if root.exists() else ():
            if other != self._updates:
                shutil.rmtree(other)
        found = {}
        for path in sorted(self._updates.glob("*.update")):
            with suppress(OSError, ValueError):
                found[_read(path)[0]["client"]] = path
        return found


def _hashed(client):
    """The name of a client's file: no two clients share one where case makes no difference."""
    return hashlib.sha256(client.encode()).hexdigest()[:32]


def _read(path):
    """Read a file of add(): client and samples, and the bytes of the update."""
    content = path.read_bytes()
    end = 8 + int.from_bytes(content[:8], "little")
    return json.loads(content[8:end]), content[end:]
