"""The members of downloaded archives: read in place, or unpacked into the cache."""

import gzip
import os
import re
import shutil
import tarfile
import uuid
import zipfile
import zlib

from pd_core import DamagedFile

_GZIP_MAGIC = b"\x1f\x8b"
_READ_BYTES = 1 << 20
AGAIN = "\n  hint: delete the archive to download it again"
_DAMAGE = (gzip.BadGzipFile, tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error)


def damaged(where, problem):
    """The error for an archive, or a part of one, that is not what it should be."""
    return DamagedFile(f"dataset: {where} is damaged: {problem}{AGAIN}")


def tar_files(path, wanted):
    """Yield name and content of the files of a tar, gzipped or not, whose name is wanted(name).

    The order is the archive's. A damaged archive raises ValueError, at its end at the latest.
    """
    try:
        with _plain_bytes(path) as stream, tarfile.open(fileobj=stream, mode="r:") as archive:
            for member in archive:
                if member.isfile() and wanted(member.name):
                    yield member.name, archive.extractfile(member).read()
            while stream.read(_READ_BYTES):  # gzip's checksum comes after what tarfile needs
                pass
    except _DAMAGE as error:
        raise damaged(path, error) from error


def tar_file(path, name):
    """The content of one file of a tar; a leading "./" of its name makes no difference."""
    plain = name.removeprefix("./")
    contents = [c for _, c in tar_files(path, lambda member: member.removeprefix("./") == plain)]
    if not contents:
        raise damaged(path, f"no file in it is named {name!r}")
    return contents[-1]  # what comes later in a tar replaces what came before


class OpenTar:
    """A tar that is not compressed, whose files are read in any order."""

    def __init__(self, path):
        self.path = path
        try:
            self._archive = tarfile.open(path, "r:")  # noqa: SIM115  closed by __exit__
        except tarfile.TarError as error:
            raise damaged(path, error) from error

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._archive.close()

    def read(self, name):
        """The content of one file."""
        try:
            return self._archive.extractfile(name).read()
        except KeyError:
            raise damaged(self.path, f"no file in it is named {name!r}") from None
        except tarfile.TarError as error:
            raise damaged(self.path, error) from error


def zip_file(path, name):
    """The content of one file of a zip."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.read(name)
    except KeyError:
        raise damaged(path, f"no file in it is named {name!r}") from None
    except _DAMAGE as error:
        raise damaged(path, error) from error


def gunzipped(where, content):
    """The content of a gzip file that is a member of an archive."""
    try:
        return gzip.decompress(content)
    except _DAMAGE as error:
        raise damaged(where, error) from error


def unpack(archive, top, folder):
    """Unpack what is below `top` in an open ZipFile or RarFile into `folder`.

    The folder appears complete or not at all. A member that would be written outside of it raises
    ValueError.
    """
    names = {member: member.filename for member in archive.infolist() if not member.is_dir()}
    for name in names.values():
        _require_inside(archive.filename, name)
    inside = {member: name for member, name in names.items() if name.startswith(f"{top}/")}
    if not inside:
        raise damaged(archive.filename, f"nothing in it is in a folder {top!r}")
    partial = f"{folder}.{uuid.uuid4().hex[:8]}.part"  # two processes may unpack at once
    try:
        for member, name in inside.items():
            path = os.path.join(partial, *_parts(name.removeprefix(top)))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(_content(archive, member))
        _put_in_place(partial, folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _plain_bytes(path):
    with open(path, "rb") as file:
        is_gzip = file.read(2) == _GZIP_MAGIC
    return gzip.open(path) if is_gzip else open(path, "rb")


def _content(archive, member):
    try:
        return archive.read(member)
    except _DAMAGE as error:
        raise damaged(f"{archive.filename}: {member.filename}", error) from error


def _parts(name):
    return [part for part in re.split(r"[/\\]", name) if part not in ("", ".")]


def _require_inside(path, name):
    is_absolute = name.startswith(("/", "\\")) or re.match(r"[A-Za-z]:", name)
    if is_absolute or ".." in _parts(name) or not _parts(name):
        raise ValueError(
            f"dataset: {path}: its member {name!r} would be written outside of the cache, "
            "so nothing was unpacked"
        )


def _put_in_place(partial, folder):
    """Rename, unless another process has put the same there meanwhile."""
    try:
        os.rename(partial, folder)
    except OSError:
        if not os.path.isdir(folder):
            raise
