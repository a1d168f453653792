"""The server of a master: operations of a ledger as JSON over HTTP."""

import contextlib
import json
import socketserver
import sqlite3
import sys
import traceback
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from pd_v2.master.ledger import OPERATIONS
from pd_v2.master.token import TOKEN, is_allowed, require_token
from pd_v2.program_name import print_error

# What the parser and the database say of arguments that are nested deeply, or of another type:
# a stranger's, or a client's whose maker wants to know.
_ODD_ARGUMENTS = (RecursionError, OverflowError, sqlite3.InterfaceError, sqlite3.ProgrammingError)
_MOST_PRINTED = 300  # characters
_MOST_REFUSED = 1 << 16  # bytes
_MOST_BYTES = 1 << 28  # of a message: the chunks of a dataset, about 10 bytes each


class MasterServer(ThreadingHTTPServer):
    """Server of a ledger at (host, port); port 0 is any that is free.

    A request is POST /<operation> with the arguments as a JSON object, an answer {"result": ...} or
    {"error": text}. It has the token, if there is one, as `Authorization: Bearer TOKEN`. ValueError
    for an address that other machines reach without one.
    """

    request_queue_size = 128
    daemon_threads = True

    def __init__(self, address, ledger, token=None):
        require_token(address[0], token)
        self.ledger, self.token = ledger, token
        super().__init__(address, _Handler)

    @property
    def address(self):
        """The address as host:port."""
        host, port = self.server_address[:2]
        return f"{host}:{port}"

    def server_bind(self):
        """Bind the socket; the base class would ask the name service for the host's full name."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]

    def handle_error(self, request, client_address):
        """Print what a connection has ended with; nothing if it was the client that ended it."""
        error = sys.exception()
        if not isinstance(error, OSError):
            print_in_one_line(client_address, error)


def print_in_one_line(what, error):
    """Print an error of a request, of which a stranger has chosen the words, and where it arose."""
    *_, frame = traceback.extract_tb(error.__traceback__)
    text = f"{what}: {type(error).__name__}: {error} ({Path(frame.filename).name}:{frame.lineno})"
    text = "".join(c if c.isprintable() else "?" for c in text)
    print_error(text[:_MOST_PRINTED], "master")


class _Handler(BaseHTTPRequestHandler):
    timeout = 30  # seconds, of a client that sends nothing

    def do_POST(self):
        """Answer a request."""
        try:
            if is_allowed(self.headers.get("Authorization"), self.server.token):
                status, answer = 200, {"result": self._operate()}
            else:
                status, answer = 401, {"error": self._refuse()}
        except (ValueError, TypeError) as error:
            status, answer = 400, {"error": str(error)}
        except _ODD_ARGUMENTS as error:
            print_in_one_line(self.path, error)
            status, answer = 400, {"error": f"master: {type(error).__name__}: {error}"}
        except OSError:  # the client has gone
            return
        except Exception as error:
            print_in_one_line(self.path, error)
            status, answer = 500, {"error": f"master: {type(error).__name__}: {error}"}
        body = json.dumps(answer).encode()
        with contextlib.suppress(OSError):  # the client has gone
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def _operate(self):
        operation = OPERATIONS.get(self.path[1:])
        # A page in a browser cannot send this type to a server that has not agreed.
        if operation is None or self.headers.get_content_type() != "application/json":
            raise ValueError(f"master: {self.path} with {self.headers.get_content_type()}")
        length = int(self.headers.get("Content-Length", -1))
        if not 0 <= length <= _MOST_BYTES:
            raise ValueError(f"master: a message of {length} bytes, at most {_MOST_BYTES}")
        arguments = json.loads(self.rfile.read(length))
        if not isinstance(arguments, dict):
            raise TypeError("master: the arguments are no JSON object")
        return operation(self.server.ledger, **arguments)

    def _refuse(self):
        """Read a request that is not answered, unless it is long; return why not."""
        length = self.headers.get("Content-Length", "")
        if length.isdecimal() and int(length) <= _MOST_REFUSED:
            self.rfile.read(int(length))  # else the client may see a reset in place of the answer
        has = "Authorization" in self.headers
        what = "another token than that of this master" if has else "no token, which it asks for"
        return f"master: {self.path[:_MOST_PRINTED]} with {what}\n  hint: set {TOKEN}"

    def log_message(self, *args):
        """Log nothing for each request."""
