"""Members of downloaded archives: read in memory, or unpacked into the cache."""

import errno
import os
import re
import shutil
import struct
import tarfile
import uuid
import zipfile
import zlib
from contextlib import contextmanager

from pd_core import DamagedFile
from pd_v2.files.unpacking import Bounded, gunzip, open_plain, require_unpacked

DELETE_HINT = "\n  hint: delete the archive to download it again"

# Raised by Python's archive modules for damaged files.
_DAMAGE_ERRORS = (
    *(tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, struct.error),
    *(ValueError, LookupError, OverflowError, RuntimeError),
)
_DAMAGE_ERRNOS = (None, errno.EINVAL)  # gzip's errors have none; EINVAL: a negative offset
_BAD_NAME_ERRNOS = {errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.EINVAL}
_ZIP_METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
_ENCRYPTED = 1


def damaged(where, problem):
    """Return the DamagedFile error for an archive, or for a part of one."""
    return DamagedFile(f"dataset: {where} is damaged: {problem}{DELETE_HINT}")


@contextmanager
def naming(where):
    """Convert errors of damaged data to DamagedFile, with the place."""
    try:
        yield
    except DamagedFile:
        raise
    except _DAMAGE_ERRORS as error:
        raise damaged(where, _described(error)) from error
    except OSError as error:
        if error.errno not in _DAMAGE_ERRNOS:
            raise
        raise damaged(where, _described(error)) from error


def _described(error):
    """Return the text of an error, with the type of built-in errors, whose texts are terse."""
    if type(error).__module__ == "builtins" and not isinstance(error, (EOFError, OSError)):
        return f"{type(error).__name__}: {error}"
    return str(error) or type(error).__name__


def tar_files(path, wanted):
    """Yield (name, content) of the files of a tar, gzipped or not, where wanted(name) is true.

    The order is the archive's. A damaged archive raises DamagedFile, at its end at the latest.
    """
    with naming(path), open_plain(path) as stream:
        with tarfile.open(fileobj=stream, mode="r:") as archive:
            while member := archive.next():
                archive.members.clear()  # else it keeps every member in memory
                if member.isfile() and wanted(member.name):
                    yield member.name, _tar_content(archive, member)
        while stream.read(1 << 20):  # up to gzip's checksum, beyond what tarfile reads
            pass


def tar_file(path, name):
    """Return the content of one file of a tar; a leading "./" of its name is ignored."""
    name_part = name.removeprefix("./")
    files = tar_files(path, lambda member: member.removeprefix("./") == name_part)
    contents = [content for _, content in files]
    if not contents:
        raise damaged(path, f"no file in it is named {name!r}")
    return contents[-1]  # later members replace earlier ones


class OpenTar:
    """An uncompressed tar, whose files can be read in any order."""

    def __init__(self, path):
        self.path = path
        self._file = Bounded(open(path, "rb"))  # noqa: SIM115  closed by __exit__
        try:
            with naming(path):
                self._archive = tarfile.open(fileobj=self._file, mode="r:")  # noqa: SIM115
        except BaseException:
            self._file.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._archive.close()
        self._file.close()

    def read(self, name):
        """Return the content of one file."""
        with naming(f"{self.path}: {name}"):
            try:
                member = self._archive.getmember(name)
            except KeyError:
                raise damaged(self.path, f"no file in it is named {name!r}") from None
            return _tar_content(self._archive, member)


def _tar_content(archive, member):
    """Return the content of a member; ReadError if it is shorter than its header says."""
    if not member.isreg() or member.issparse():
        raise tarfile.ReadError(f"{member.name!r} is no plain file")
    content = archive.extractfile(member).read()
    if len(content) < member.size:
        raise tarfile.ReadError(f"{member.name!r} ends after {len(content)} of {member.size} bytes")
    return content


def zip_file(path, name):
    """Return the content of one file of a zip."""
    with naming(path), zipfile.ZipFile(path) as archive:
        try:
            member = archive.getinfo(name)
        except KeyError:
            raise damaged(path, f"no file in it is named {name!r}") from None
        with naming(f"{path}: {name}"):
            return b"".join(_pieces(archive, member))


def gunzipped(where, content):
    """Decompress a gzip file that is a member of an archive."""
    with naming(where):
        return gunzip(content)


def unpack(archive, top, folder):
    """Unpack the folder `top` of an open ZipFile or RarFile into `folder`.

    The folder is renamed into place when it is complete. DamagedFile, and nothing is unpacked, if a
    member would be written outside of it, or if the total size is too large.
    """
    members = [member for member in archive.infolist() if not member.is_dir()]
    for member in members:
        _require_inside(archive.filename, member.filename)
    inside = [member for member in members if member.filename.startswith(f"{top}/")]
    if not inside:
        raise damaged(archive.filename, f"nothing in it is in a folder {top!r}")
    with naming(archive.filename):
        packed = os.path.getsize(archive.filename)
        require_unpacked(sum(member.file_size for member in inside), packed)
    partial = f"{folder}.{uuid.uuid4().hex[:8]}.part"  # unique, as two processes may unpack at once
    try:
        for member in inside:
            path = os.path.join(partial, *_parts(member.filename.removeprefix(top)))
            with naming(f"{archive.filename}: {member.filename}"):
                _unpack_member(archive, member, path)
        _rename(partial, folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _unpack_member(archive, member, path):
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.writelines(_pieces(archive, member))
    except OSError as error:
        if error.errno not in _BAD_NAME_ERRNOS:
            raise
        raise ValueError(f"its name is that of no file: {error.strerror}") from error


def _pieces(archive, member):
    """Yield the content of a member in pieces, no more than its header says."""
    if isinstance(member, zipfile.ZipInfo):
        _require_readable(archive, member)
    read = 0
    with archive.open(member) as file:
        while read < member.file_size and (piece := file.read(1 << 20)):
            read += len(piece)
            yield piece
        file.read(1)  # at its end the checksum is verified
    if read != member.file_size:
        raise zipfile.BadZipFile(f"it ends after {read} of {member.file_size} bytes")


def _require_readable(archive, member):
    if member.flag_bits & _ENCRYPTED or member.compress_type not in _ZIP_METHODS:
        raise zipfile.BadZipFile("it is encrypted, or compressed by another method than deflate")
    require_unpacked(member.file_size, os.path.getsize(archive.filename))


def _parts(name):
    return [part for part in re.split(r"[/\\]", name) if part not in ("", ".")]


def _require_inside(path, name):
    is_absolute = name.startswith(("/", "\\")) or re.match(r"[A-Za-z]:", name)
    if is_absolute or ".." in _parts(name) or not _parts(name):
        raise DamagedFile(
            f"dataset: {path}: its member {name!r} would be written outside of the cache, "
            "so nothing was unpacked"
        )


def _rename(partial, folder):
    """Rename a folder, unless another process has created the same one meanwhile."""
    try:
        os.rename(partial, folder)
    except OSError:
        if not os.path.isdir(folder):
            raise
