"""gzip, bz2, tarfile, zipfile and tempfile, which open Python 2 files."""

from pd_v2.python2.shims.files import File, raw_stream
from pd_v2.python2.shims.text import Binary, as_bytes
from pd_v2.python2.shims.views import overrides


@overrides("gzip")
def _gzip(gzip):
    def open_gzip(filename, mode="rb", compresslevel=9):
        return gzip_file(filename, mode, compresslevel)

    def gzip_file(filename=None, mode=None, compresslevel=9, fileobj=None, mtime=None):
        mode = mode.replace("t", "").replace("U", "") if mode else mode
        file = gzip.GzipFile(filename, mode, compresslevel, raw_stream(fileobj), mtime)
        return File.wrap(file)

    return {"open": open_gzip, "GzipFile": gzip_file}


@overrides("bz2")
def _bz2(bz2):
    def bz2_file(filename, mode="r", buffering=0, compresslevel=9):
        return File.wrap(bz2.BZ2File(filename, mode.replace("U", ""), compresslevel=compresslevel))

    return {
        "BZ2File": bz2_file,
        "compress": lambda data, level=9: Binary(bz2.compress(as_bytes(data), level)),
        "decompress": lambda data: Binary(bz2.decompress(as_bytes(data))),
    }


@overrides("tarfile")
def _tarfile(tarfile):
    class TarFile(tarfile.TarFile):
        """A tar in the default format of 2017; its members are Python 2 files."""

        format = tarfile.GNU_FORMAT

        @classmethod
        def open(cls, name=None, mode="r", fileobj=None, *args, **keywords):
            return super().open(name, mode, raw_stream(fileobj), *args, **keywords)

        def extractfile(self, member):
            file = super().extractfile(member)
            return None if file is None else File.wrap(file)

        def addfile(self, tarinfo, fileobj=None):
            super().addfile(tarinfo, raw_stream(fileobj))

    return {"TarFile": TarFile, "open": TarFile.open}


@overrides("zipfile")
def _zipfile(zipfile):
    class ZipFile(zipfile.ZipFile):
        """A zip file; its members are Python 2 files."""

        def __init__(self, file, mode="r", *args, **keywords):
            super().__init__(raw_stream(file), mode, *args, **keywords)

        def open(self, name, mode="r", pwd=None, **keywords):
            return File.wrap(super().open(name, mode.replace("U", ""), pwd, **keywords))

        def read(self, name, pwd=None):
            return Binary(super().read(name, pwd))

        def writestr(self, member, data, *args, **keywords):
            super().writestr(member, as_bytes(data), *args, **keywords)

    return {"ZipFile": ZipFile}


@overrides("tempfile")
def _tempfile(tempfile):
    def wrapped(function):
        def open_temporary(mode="w+b", *args, **keywords):
            return File.wrap(function(mode.replace("b", "") + "b", *args, **keywords), mode)

        return open_temporary

    names = ("NamedTemporaryFile", "SpooledTemporaryFile", "TemporaryFile")
    return {name: wrapped(getattr(tempfile, name)) for name in names}
