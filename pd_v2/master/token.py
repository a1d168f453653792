"""The token of a master: who has it may ask for chunks. It is never an argument of a command."""

import hmac
import ipaddress
import os
import socket
from pathlib import Path

TOKEN, TOKEN_FILE = "PD_MASTER_TOKEN", "PD_MASTER_TOKEN_FILE"
_SHORTEST = 16  # characters
_MOST = 1024
_SCHEME = "Bearer "


def read_token(file=None):
    """Return the token in a file, else that of PD_MASTER_TOKEN_FILE or PD_MASTER_TOKEN, or None.

    ValueError if it is no token: 16 to 1024 printable characters without spaces; OSError if the
    file cannot be read.
    """
    text, named = os.environ.get(TOKEN), file or os.environ.get(TOKEN_FILE)
    if file is None and text and named:
        raise ValueError(f"master: {TOKEN} and {TOKEN_FILE} are both set")
    where = TOKEN if not named else f"the file {named}"
    if named:
        with Path(named).open("rb") as opened:
            text = opened.read(_MOST + 2).decode("latin-1").rstrip("\r\n")
    elif not text:
        return None
    is_plain = text.isascii() and text.isprintable() and " " not in text
    if not (is_plain and _SHORTEST <= len(text) <= _MOST):
        raise ValueError(
            f"master: {where} has no token: {_SHORTEST} to {_MOST} printable characters without "
            "spaces"
        )
    return text


def require_token(host, token):
    """ValueError if an address can be reached from other machines, and there is no token."""
    found = socket.getaddrinfo(host or "0.0.0.0", None, type=socket.SOCK_STREAM)  # noqa: S104
    hosts = [place[0].partition("%")[0] for *_, place in found]
    if token is None and not all(ipaddress.ip_address(h).is_loopback for h in hosts):
        raise ValueError(
            f"master: {host or 'the address of all networks'} can be reached from other machines, "
            f"which needs a token\n  hint: {TOKEN_FILE}=FILE or {TOKEN} in the environment of the "
            "master and of its workers, or --listen 127.0.0.1:PORT and a tunnel"
        )


def header_of(token):
    """Return the headers of a request with a token."""
    return {} if token is None else {"Authorization": f"{_SCHEME}{token}"}


def is_allowed(header, token):
    """Return whether the header Authorization of a request has the token, in constant time."""
    if token is None:
        return True
    sent = (header or "").encode("utf-8", "surrogatepass")
    return hmac.compare_digest(sent, f"{_SCHEME}{token}".encode())
