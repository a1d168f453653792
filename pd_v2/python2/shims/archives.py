"""gzip, bz2, tarfile, zipfile, tempfile: what they open is a Python 2 file."""

from pd_v2.python2.shims.files import File, bytes_below
from pd_v2.python2.shims.text import Binary, as_bytes
from pd_v2.python2.shims.views import overrides


@overrides("gzip")
def _gzip(gzip):
    def open_gzip(filename, mode="rb", compresslevel=9):
        return gzip_file(filename, mode, compresslevel)

    def gzip_file(filename=None, mode=None, compresslevel=9, fileobj=None, mtime=None):
        mode = mode.replace("t", "").replace("U", "") if mode else mode
        file = gzip.GzipFile(filename, mode, compresslevel, bytes_below(fileobj), mtime)
        return File.over(file)

    return {"open": open_gzip, "GzipFile": gzip_file}


@overrides("bz2")
def _bz2(bz2):
    def bz2_file(filename, mode="r", buffering=0, compresslevel=9):
        return File.over(bz2.BZ2File(filename, mode.replace("U", ""), compresslevel=compresslevel))

    return {
        "BZ2File": bz2_file,
        "compress": lambda data, level=9: Binary(bz2.compress(as_bytes(data), level)),
        "decompress": lambda data: Binary(bz2.decompress(as_bytes(data))),
    }


@overrides("tarfile")
def _tarfile(tarfile):
    class TarFile(tarfile.TarFile):
        """A tar in the format of 2017, whose members are files of lines of text."""

        format = tarfile.GNU_FORMAT

        @classmethod
        def open(cls, name=None, mode="r", fileobj=None, *args, **keywords):
            return super().open(name, mode, bytes_below(fileobj), *args, **keywords)

        def extractfile(self, member):
            file = super().extractfile(member)
            return None if file is None else File.over(file)

        def addfile(self, tarinfo, fileobj=None):
            super().addfile(tarinfo, bytes_below(fileobj))

    return {"TarFile": TarFile, "open": TarFile.open}


@overrides("zipfile")
def _zipfile(zipfile):
    class ZipFile(zipfile.ZipFile):
        """A zip whose members are files of lines of text."""

        def __init__(self, file, mode="r", *args, **keywords):
            super().__init__(bytes_below(file), mode, *args, **keywords)

        def open(self, name, mode="r", pwd=None, **keywords):
            return File.over(super().open(name, mode.replace("U", ""), pwd, **keywords))

        def read(self, name, pwd=None):
            return Binary(super().read(name, pwd))

        def writestr(self, member, data, *args, **keywords):
            super().writestr(member, as_bytes(data), *args, **keywords)

    return {"ZipFile": ZipFile}


@overrides("tempfile")
def _tempfile(tempfile):
    def opened_by(function):
        def open_temporary(mode="w+b", *args, **keywords):
            return File.over(function(mode.replace("b", "") + "b", *args, **keywords), mode)

        return open_temporary

    names = ("NamedTemporaryFile", "SpooledTemporaryFile", "TemporaryFile")
    return {name: opened_by(getattr(tempfile, name)) for name in names}
