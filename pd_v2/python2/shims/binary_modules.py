"""Modules with functions of bytes, which take any string and return a Binary or plain text."""

import functools

from pd_v2.python2.shims.files import Buffer, File, raw_stream
from pd_v2.python2.shims.text import Binary, as_binary, as_bytes, as_text
from pd_v2.python2.shims.views import overrides


def _of_bytes(function, result=as_binary):
    @functools.wraps(function)
    def of_bytes(*args, **keywords):
        return result(function(*map(as_bytes, args), **keywords))

    return of_bytes


def _checksum(function):
    """Return a checksum function whose results are signed integers of 32 bits."""

    def signed(data, *start):
        start = [value & 0xFFFFFFFF for value in start]
        return (function(as_bytes(data), *start) ^ 1 << 31) - (1 << 31)

    return functools.wraps(function)(signed)


@overrides("zlib")
def _zlib(zlib):
    names = ("compress", "decompress")
    functions = {name: _of_bytes(getattr(zlib, name)) for name in names}
    return functions | {name: _checksum(getattr(zlib, name)) for name in ("adler32", "crc32")}


@overrides("binascii")
def _binascii(binascii):
    names = ("a2b_base64", "a2b_hex", "unhexlify")
    to_text = ("b2a_base64", "b2a_hex", "hexlify")
    functions = {name: _of_bytes(getattr(binascii, name)) for name in names}
    functions |= {name: _of_bytes(getattr(binascii, name), as_text) for name in to_text}
    return functions | {"crc32": _checksum(binascii.crc32)}


@overrides("base64")
def _base64(base64):
    to_text = ("b64encode", "urlsafe_b64encode", "standard_b64encode", "b32encode", "b16encode")
    to_bytes = ("b64decode", "urlsafe_b64decode", "standard_b64decode", "b32decode", "b16decode")
    functions = {name: _of_bytes(getattr(base64, name), as_text) for name in to_text}
    functions |= {name: _of_bytes(getattr(base64, name)) for name in to_bytes}
    functions["encodestring"] = _of_bytes(base64.encodebytes, as_text)
    functions["decodestring"] = _of_bytes(base64.decodebytes)
    return functions


class _Hash:
    """A hash object that takes text too."""

    def __init__(self, of_bytes, string=None):
        self._hash = of_bytes
        if string is not None:
            self.update(string)

    def __getattr__(self, name):
        return getattr(self._hash, name)

    def update(self, string):
        self._hash.update(as_bytes(string))

    def copy(self):
        return _Hash(self._hash.copy())

    def digest(self):
        return Binary(self._hash.digest())


@overrides("hashlib")
def _hashlib(hashlib):
    def new(name, string=""):
        return _Hash(hashlib.new(name), string)

    def of(kind):
        return lambda string="": _Hash(kind(), string)

    names = ("md5", "sha1", "sha224", "sha256", "sha384", "sha512")
    return {name: of(getattr(hashlib, name)) for name in names} | {"new": new}


@overrides("hmac")
def _hmac(hmac):
    import hashlib

    def new(key, msg=None, digestmod=None):
        # a module such as hashlib.md5's has the function `new`
        digest = getattr(digestmod, "new", digestmod) or hashlib.md5

        def of_bytes(data=b""):
            found = digest(data)
            return found._hash if isinstance(found, _Hash) else found

        return _Hash(hmac.new(as_bytes(key), None, of_bytes), msg)

    return {"new": new}


@overrides("md5")
def _md5(hashlib):
    return {"new": _hashlib(hashlib)["md5"]}


@overrides("sha")
def _sha(hashlib):
    return dict.fromkeys(("new", "sha"), _hashlib(hashlib)["sha1"])


@overrides("struct")
def _struct(struct):
    def unpack(format, string):
        return tuple(map(as_binary, struct.unpack(as_text(format), as_bytes(string))))

    def unpack_from(format, buffer, offset=0):
        return tuple(map(as_binary, struct.unpack_from(as_text(format), as_bytes(buffer), offset)))

    def pack(format, *values):
        return Binary(struct.pack(as_text(format), *map(as_bytes, values)))

    return {"pack": pack, "unpack": unpack, "unpack_from": unpack_from}


@overrides("array")
def _array(module):
    class array(module.array):
        """An array whose initial bytes may be text."""

        def __new__(cls, typecode, initializer=()):
            is_text = isinstance(initializer, str) and typecode != "u"
            return super().__new__(cls, typecode, as_bytes(initializer) if is_text else initializer)

    return {"array": array, "ArrayType": array}


@overrides("io")
def _io(io):
    def open_text_or_bytes(file, mode="r", *args, **keywords):
        if "b" in mode:
            return File(file, mode)
        return io.open(file, mode.replace("U", ""), *args, **keywords)

    def bytes_io(string=b""):
        return Buffer(Binary(as_bytes(string)))

    return {"open": open_text_or_bytes, "BytesIO": bytes_io}


@overrides("codecs")
def _codecs(codecs):
    def open_coded(filename, mode="r", encoding=None, errors="strict", buffering=-1):
        if encoding is None:
            return File(filename, mode)
        binary = open(filename, mode.replace("b", "").replace("U", "") + "b")  # noqa: SIM115
        coder = codecs.lookup(encoding)
        # whose lines end at U+2028 and the like, too
        return codecs.StreamReaderWriter(binary, coder.streamreader, coder.streamwriter, errors)

    def of_stream(coder):
        def coder_or_stream(encoding):
            coded = coder(encoding)

            def over(stream, errors="strict"):
                # the standard streams read and write text already
                if hasattr(stream, "encoding"):
                    return stream
                return coded(raw_stream(stream), errors)

            return over

        return coder_or_stream

    names = {name: of_stream(getattr(codecs, name)) for name in ("getreader", "getwriter")}
    return names | {"open": open_coded, "BOM_UTF8": as_text(codecs.BOM_UTF8)}
