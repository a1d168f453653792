"""Download of one file: it appears under its name complete and verified, or not at all.

What has arrived of it is in NAME.*.part, so that a later download can go on from there.
"""

import contextlib
import glob
import hashlib
import http.client
import os
import time
import urllib.error
import urllib.request
import uuid

from tqdm import tqdm

TRIES = 3
_BLOCK_BYTES = 1 << 16
_TIMEOUT_SECONDS = 30
_ABANDONED_SECONDS = 300  # a download that lives has written or given up long before


class TransferError(OSError):
    """A file did not arrive in TRIES tries."""


def md5file(fname):
    """The md5 of a file's content, in hexadecimal."""
    digest = hashlib.md5(usedforsecurity=False)
    with open(fname, "rb") as file:
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def transfer(url, path, *md5sums):
    """Download url to path, with one of the md5sums if any are given.

    Then it begins with what an interrupted download has left.
    """
    partial = f"{path}.{uuid.uuid4().hex[:8]}.part"  # two processes may want the same file
    if md5sums:
        _claim_abandoned(path, partial)
    try:
        _try_repeatedly(url, partial, md5sums)
        os.replace(partial, path)
    except BaseException:
        if md5sums and _size(partial):
            os.replace(partial, f"{path}.part")
        raise
    finally:
        _remove(partial)


def _claim_abandoned(path, partial):
    """Rename the largest of what was left to `partial`, and forget the rest."""
    now = time.time()
    left = [
        name
        for name in (f"{path}.part", *glob.glob(f"{glob.escape(path)}.*.part"))
        if name == f"{path}.part" or now - _changed(name, now) > _ABANDONED_SECONDS
    ]
    for name in sorted(left, key=_size):
        with contextlib.suppress(FileNotFoundError):  # another process was faster
            os.replace(name, partial)


def _try_repeatedly(url, partial, md5sums):
    if md5sums and _size(partial) and md5file(partial) in md5sums:
        return
    for attempt in range(TRIES):
        try:
            _receive(url, partial)
            _verify(partial, md5sums)
            return
        except (OSError, http.client.HTTPException) as error:
            if attempt == TRIES - 1:
                raise TransferError(f"{TRIES} tries failed, the last with {error!r}") from error


def _receive(url, partial):
    """Append to the partial file what it lacks; a server that cannot resume sends all again."""
    have = _size(partial)
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as response:
            if response.status != http.client.PARTIAL_CONTENT:
                have = 0
            with open(partial, "ab" if have else "wb") as file:
                _copy(response, file, os.path.basename(url), have)
    except urllib.error.HTTPError as error:
        if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
            _remove(partial)  # it is longer than the file on the server
        raise


def _copy(response, file, title, have):
    announced = int(response.headers.get("Content-Length") or 0)
    received = 0
    total = have + announced if announced else None
    with tqdm(desc=title, initial=have, total=total, unit="B", unit_scale=True) as bar:
        while block := response.read(_BLOCK_BYTES):
            file.write(block)
            received += len(block)
            bar.update(len(block))
    if received < announced:
        raise OSError(f"the connection closed after {received} of {announced} bytes")


def _verify(partial, md5sums):
    received = md5file(partial)
    if md5sums and received not in md5sums:
        size = os.path.getsize(partial)
        _remove(partial)
        raise OSError(
            f"received {size} bytes with md5 {received}, expected {' or '.join(md5sums)}; "
            f"PD_DATASET_MD5={received} accepts them"
        )


def _size(path):
    """In bytes; 0 where there is no file."""
    return os.path.getsize(path) if os.path.exists(path) else 0


def _changed(path, otherwise):
    try:
        return os.path.getmtime(path)
    except FileNotFoundError:
        return otherwise


def _remove(path):
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
