"""Atomic download of one file, which is verified before it appears under its name.

The received part is kept in NAME.*.part, so that a later download can resume. The limit is 8 GB, or
PD_DOWNLOAD_LIMIT bytes.
"""

import contextlib
import glob
import hashlib
import http.client
import os
import stat
import time
import urllib.error
import urllib.request
import uuid

from tqdm import tqdm

from pd_core.storage.partial import stem
from pd_v2.dataset.lock import locked
from pd_v2.files.limits import limit, raise_hint

TRIES = 3
LARGEST = 8 << 30
_BLOCK_BYTES = 1 << 16
_TIMEOUT_SECONDS = 30
_ABANDONED_SECONDS = 300  # without a write; far beyond the timeout of a live download


class TransferError(OSError):
    """Raised for a file that cannot be downloaded in TRIES attempts, or is too large."""


def md5file(fname):
    """Compute the md5 of a file's content, in hexadecimal."""
    digest = hashlib.md5(usedforsecurity=False)
    with open(fname, "rb") as file:
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def transfer(url, path, *md5sums):
    """Download url to path; the content must have one of the md5sums, if any are given.

    With md5sums, an interrupted download is resumed. While another process downloads to the same
    path, this one waits and uses its result.
    """
    with locked(path) as waited:
        if not (waited and _is_downloaded(path, md5sums)):
            _transfer(url, path, md5sums)


def _is_downloaded(path, md5sums):
    return os.path.exists(path) and (not md5sums or md5file(path) in md5sums)


def _transfer(url, path, md5sums):
    # not pd_core's atomic_write: what has arrived has to survive for a later download
    partial = f"{stem(path)}.{uuid.uuid4().hex[:8]}.part"  # unique, for file systems without locks
    if md5sums:
        _claim_abandoned(path, partial)
    try:
        _try_repeatedly(url, partial, md5sums)
        os.replace(partial, path)
    except BaseException:
        if md5sums and _size(partial):
            os.replace(partial, f"{stem(path)}.part")
        raise
    finally:
        _remove(partial)


def _claim_abandoned(path, partial):
    """Rename the largest part of abandoned downloads to `partial`, and remove the others."""
    now, start = time.time(), stem(path)
    leftovers = [
        name
        for name in (f"{start}.part", *glob.glob(f"{glob.escape(start)}.*.part"))
        if name == f"{start}.part" or now - _mtime(name, now) > _ABANDONED_SECONDS
        if _is_plain(name)
    ]
    for name in sorted(leftovers, key=_size):
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
        except TransferError:
            raise
        except (OSError, http.client.HTTPException) as error:
            if attempt == TRIES - 1:
                raise TransferError(f"{TRIES} tries failed, the last with {error!r}") from error


def _receive(url, partial):
    """Append the missing bytes to the partial file; a server that cannot resume sends all."""
    have = _size(partial)
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as response:
            if response.status != http.client.PARTIAL_CONTENT:
                have = 0
            with open(partial, "ab" if have else "wb", opener=_open_plain) as file:
                _copy(response, file, os.path.basename(url), have)
    except urllib.error.HTTPError as error:
        if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
            _remove(partial)  # it is longer than the file on the server
        raise


def _copy(response, file, title, have):
    announced = _announced(response.headers)
    _require_small(file, have + announced)
    received = 0
    total = have + announced if announced else None
    with tqdm(desc=title, initial=have, total=total, unit="B", unit_scale=True) as bar:
        while block := response.read(_BLOCK_BYTES):
            _require_small(file, have + received + len(block))
            file.write(block)
            received += len(block)
            bar.update(len(block))
    if received < announced:
        raise OSError(f"the connection closed after {received} of {announced} bytes")


def _announced(headers):
    """Return the Content-Length of a response, 0 if it has none."""
    text = headers.get("Content-Length") or "0"
    if not (text.isascii() and text.isdecimal()):
        raise OSError(f"the server announces a length of {text!r}")
    return int(text)


def _require_small(file, size):
    if size > (largest := limit("PD_DOWNLOAD_LIMIT", LARGEST)):
        _remove(file.name)
        hint = raise_hint("PD_DOWNLOAD_LIMIT")
        raise TransferError(f"the file has {size} bytes or more, {largest} are allowed{hint}")


def _open_plain(path, flags):
    """Open a file, but no link; the mode of a new file follows the umask."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)


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
    """Return the size of a file in bytes, 0 if there is none."""
    return os.path.getsize(path) if os.path.exists(path) else 0


def _is_plain(path):
    """Return whether a path is a regular file without hard links, safe to append to."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_nlink == 1


def _mtime(path, default):
    try:
        return os.path.getmtime(path)
    except FileNotFoundError:
        return default


def _remove(path):
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
