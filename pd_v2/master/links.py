"""Links to a ledger: one in this process, or that of a master."""

import http.client
import json
import threading
import time

from pd_v2.master.ledger import OPERATIONS, Ledger
from pd_v2.master.token import header_of, read_token

_FIRST_PAUSE_SECONDS, _LAST_PAUSE_SECONDS = 0.05, 1.0  # between attempts


class MasterError(ValueError):
    """Error that a master answers to a request."""


class LocalLink:
    """Link to a ledger of this process. Leases do not expire: whoever holds them is alive."""

    is_shared = False  # with other processes

    def __init__(self):
        self._ledger = Ledger()

    def call(self, operation, seconds, /, **arguments):
        """Call an operation of the ledger."""
        return OPERATIONS[operation](self._ledger, **arguments)

    call_once = call


class RemoteLink:
    """Link to the ledger of a master at host:port, by JSON over HTTP.

    Requests have the token of the environment, see `read_token`.
    """

    is_shared = True

    def __init__(self, address):
        self.address = address
        host, _, port = address.rpartition(":")
        if not (host and port.isdecimal()):
            raise ValueError(f"master: PD_MASTER is {address!r}, not host:port")
        self._place = host, int(port)
        self._headers = {"Content-Type": "application/json", **header_of(read_token())}
        self._lock, self._lease_seconds = threading.Lock(), None

    def lease_seconds(self, seconds):
        """Return the time without a renewal after which a lease expires."""
        with self._lock:
            if self._lease_seconds is None:
                settings = self._retried("settings", {}, seconds)
                self._lease_seconds = settings["lease_seconds"]
        return self._lease_seconds

    def call(self, operation, seconds, /, **arguments):
        """Call an operation of the ledger.

        A master that has never answered is waited for `seconds`; one that has, and may be
        restarting, at least as long as leases last. Then it is a ConnectionError.
        """
        patience = max(seconds, self.lease_seconds(seconds))
        return self._retried(operation, arguments, patience)

    def call_once(self, operation, seconds, /, **arguments):
        """Call an operation of the ledger without another attempt; OSError if that fails."""
        link = http.client.HTTPConnection(*self._place, timeout=seconds)
        body = json.dumps(arguments).encode()
        try:
            link.request("POST", f"/{operation}", body, self._headers)
            answer = json.loads(link.getresponse().read())
        except (http.client.HTTPException, json.JSONDecodeError) as error:
            raise ConnectionError(f"{type(error).__name__}: {error}") from error
        finally:
            link.close()
        if "error" in answer:
            raise MasterError(answer["error"])
        return answer["result"]

    def _retried(self, operation, arguments, seconds):
        end, pause = time.monotonic() + seconds, _FIRST_PAUSE_SECONDS
        while True:
            left = max(end - time.monotonic(), _FIRST_PAUSE_SECONDS)
            try:
                return self.call_once(operation, left, **arguments)
            except OSError as error:
                if end - time.monotonic() <= pause:
                    raise ConnectionError(
                        f"master: {self.address} has not answered for {seconds:g} s: {error}\n"
                        "  hint: the environment variable PD_MASTER says where the master is"
                    ) from error
            time.sleep(pause)
            pause = min(2 * pause, _LAST_PAUSE_SECONDS)
