"""pickle and cPickle, for files of any kind and pickles of Python 2."""

import io
import pickle

from pd_v2.python2.shims.files import raw_stream
from pd_v2.python2.shims.text import Binary, as_bytes
from pd_v2.python2.shims.views import overrides

_PROTOCOL = 2  # the last that Python 2 reads


class _Loader(pickle.Unpickler):
    """Unpickler that returns pickled bytes as a Binary."""

    def find_class(self, module, name):
        if (module, name) == ("_codecs", "encode"):
            return lambda text, encoding: Binary(text.encode(encoding))
        if (module, name) == ("__builtin__", "bytes"):
            return Binary
        return super().find_class(module, name)


def load(file):
    """Load the next object of a file. Python 2's strings are UTF-8, its arrays' data are not."""
    file = raw_stream(file)
    if not (hasattr(file, "seekable") and file.seekable()):
        file = io.BytesIO(file.read())
    start = file.tell()
    try:
        return _Loader(file, encoding="utf-8", errors="surrogateescape").load()
    except (ValueError, TypeError) as error:
        file.seek(start)
        return _load_latin1(file, error)


def _load_latin1(file, error):
    try:
        return _Loader(file, encoding="latin1").load()
    except (ValueError, TypeError):
        raise error from None


def loads(string):
    return load(io.BytesIO(as_bytes(string)))


def dump(obj, file, protocol=_PROTOCOL):
    pickle.dump(obj, raw_stream(file), _protocol(protocol))


def dumps(obj, protocol=_PROTOCOL):
    return Binary(pickle.dumps(obj, _protocol(protocol)))


def _protocol(number):
    return _PROTOCOL if number is None or number < 0 else number


def _pickler(file, protocol=_PROTOCOL):
    return pickle.Pickler(raw_stream(file), _protocol(protocol))


class _Unpickler:
    """Unpickler of consecutive objects in a file."""

    def __init__(self, file):
        self.file = file

    def load(self):
        return load(self.file)


@overrides("pickle")
def _pickle(_):
    names = {"load": load, "loads": loads, "dump": dump, "dumps": dumps}
    return names | {"HIGHEST_PROTOCOL": _PROTOCOL, "Pickler": _pickler, "Unpickler": _Unpickler}
