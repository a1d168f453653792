"""Python 2's file, which writes any string, and reads lines of text and blocks.

`open(path, "w")` took a tar, a pickle or a line of text alike, and `for line in gzip.open(path)`
gave lines to split. So every file that a translated program opens wraps a binary file, `.buffer`,
which is passed to other packages. A line is always text; read() returns text in text mode, and a
Binary in binary mode, from an archive or a compressed file.
"""

import builtins
import io

from pd_v2.python2.shims.text import Binary, as_bytes, as_file_text, undecoded


class File:
    """The built-in `file`, which is also `open`, with a path, a mode and a buffer size."""

    def __init__(self, name, mode="r", buffering=-1):
        letters = mode.replace("b", "").replace("t", "").replace("U", "") or "r"
        unbuffered = buffering in (0, 1)  # 1 is line buffering, which binary files lack
        size = 0 if unbuffered else buffering
        self.buffer = builtins.open(name, letters + "b", size)  # noqa: SIM115  the caller closes
        if "U" in mode:
            self.buffer = _Universal(self.buffer)
        self.mode = mode
        self.softspace = 0

    @classmethod
    def wrap(cls, buffer, mode="rb"):
        """Wrap a binary file."""
        file = cls.__new__(cls)
        file.buffer, file.mode, file.softspace = buffer, mode, 0
        return file

    def __getattr__(self, name):
        if name == "buffer":  # __init__ has failed
            raise AttributeError(name)
        return getattr(self.buffer, name)

    def __repr__(self):
        state = "closed" if self.buffer.closed else "open"
        return f"<{state} file {getattr(self.buffer, 'name', '')!r}, mode {self.mode!r}>"

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.buffer.close()

    def __iter__(self):
        return self

    def __next__(self):
        line = self.readline()
        if not line:
            raise StopIteration
        return line

    next = __next__

    def read(self, size=-1):
        block = self.buffer.read(-1 if size is None else size)
        return Binary(block) if "b" in self.mode else as_file_text(block)

    def readline(self, size=-1):
        return as_file_text(self.buffer.readline(size))

    def readlines(self, hint=-1):
        return [*map(as_file_text, self.buffer.readlines(hint))]

    def xreadlines(self):
        return self

    def write(self, string):
        self.buffer.write(as_bytes(string))

    def writelines(self, strings):
        for string in strings:
            self.write(string)

    def truncate(self, size=None):
        self.buffer.truncate(size)

    def seek(self, offset, whence=0):
        self.buffer.seek(offset, whence)


class _Universal(io.BufferedReader):
    """A binary file whose lines end at \\r and \\r\\n, too, in place of which it has \\n."""

    def __init__(self, file):
        super().__init__(_Newlines(file))


class _Newlines(io.RawIOBase):
    r"""The bytes of a binary file with \n for \r\n and for \r."""

    def __init__(self, file):
        self._file = file
        self._decoder = io.IncrementalNewlineDecoder(None, translate=True)

    @property
    def name(self):
        return self._file.name

    def readable(self):
        return True

    def readinto(self, target):
        block = self._file.read(len(target) - 1)  # one may have been kept back
        text = self._decoder.decode(block.decode("latin-1"), final=not block)
        if block and not text:
            return self.readinto(target)
        target[: len(text)] = text.encode("latin-1")
        return len(text)

    def close(self):
        self._file.close()
        super().close()


class Buffer(File):
    """StringIO and cStringIO: a file in memory, of text as long as only text is written."""

    def __init__(self, string=""):
        self.buffer = io.BytesIO(as_bytes(string))
        self.mode = "r" if isinstance(string, str) else "rb"
        self.softspace = 0

    def write(self, string):
        if not isinstance(string, str):
            self.mode = "rb"
        super().write(string)

    @property
    def len(self):
        """The number of bytes."""
        return self.buffer.getbuffer().nbytes

    @property
    def pos(self):
        """The place of the next byte."""
        return self.buffer.tell()

    def getvalue(self):
        content = self.buffer.getvalue()
        return Binary(content) if "b" in self.mode else as_file_text(content)

    def reset(self):
        self.seek(0)


class StandardInput(io.TextIOWrapper):
    """Standard input, whose text is undecoded, as that of files."""

    def __next__(self):
        return undecoded(super().__next__())

    def read(self, *size):
        return undecoded(super().read(*size))

    def readline(self, *size):
        return undecoded(super().readline(*size))

    def readlines(self, *hint):
        return [undecoded(line) for line in super().readlines(*hint)]


def raw_stream(file):
    """Return the binary file in a File; anything else unchanged."""
    return file.buffer if isinstance(file, File) else file
