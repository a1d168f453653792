"""Download of one file: it appears under its name complete and verified, or not at all."""

import hashlib
import http.client
import os
import urllib.request
import uuid

from tqdm import tqdm

TRIES = 3
_BLOCK_BYTES = 1 << 16
_TIMEOUT_SECONDS = 30


class TransferError(OSError):
    """A file did not arrive in TRIES tries."""


def md5file(fname):
    """The md5 of a file's content, in hexadecimal."""
    digest = hashlib.md5(usedforsecurity=False)
    with open(fname, "rb") as file:
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def transfer(url, path, md5sum=None):
    """Download url to path, with md5sum if it is given."""
    partial = f"{path}.{uuid.uuid4().hex[:8]}.part"  # two processes may want the same file
    try:
        _try_repeatedly(url, partial, md5sum)
        os.replace(partial, path)
    finally:
        _remove(partial)


def _try_repeatedly(url, partial, md5sum):
    for attempt in range(TRIES):
        try:
            _receive(url, partial)
            _verify(partial, md5sum)
            return
        except (OSError, http.client.HTTPException) as error:
            if attempt == TRIES - 1:
                raise TransferError(f"{TRIES} tries failed, the last with {error!r}") from error


def _receive(url, partial):
    """Append to the partial file what it lacks; a server that cannot resume sends all again."""
    have = os.path.getsize(partial) if os.path.exists(partial) else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as response:
        resumed = response.status == http.client.PARTIAL_CONTENT
        with open(partial, "ab" if resumed else "wb") as file:
            _copy(response, file, os.path.basename(url))


def _copy(response, file, title):
    announced = int(response.headers.get("Content-Length") or 0)
    received = 0
    with tqdm(desc=title, total=announced or None, unit="B", unit_scale=True) as bar:
        while block := response.read(_BLOCK_BYTES):
            file.write(block)
            received += len(block)
            bar.update(len(block))
    if received < announced:
        raise OSError(f"the connection closed after {received} of {announced} bytes")


def _verify(partial, md5sum):
    received = md5file(partial)
    if md5sum and received != md5sum:
        size = os.path.getsize(partial)
        _remove(partial)
        raise OSError(f"received {size} bytes with md5 {received}, expected {md5sum}")


def _remove(path):
    if os.path.exists(path):
        os.unlink(path)
