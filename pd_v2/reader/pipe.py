"""Samples from the output of a shell command, such as `hadoop fs -cat part-00000`."""

import codecs
import itertools
import shlex
import subprocess
import zlib

_GZIP_OR_ZLIB = zlib.MAX_WBITS | 32


class PipeReader:
    """The output of a command as UTF-8 text, in which bytes that are no UTF-8 are kept.

    The command is split into words like a shell would do, and starts anew for each iteration.
    file_type "gzip" decompresses its output. bufsize is the largest chunk read, in bytes.
    """

    def __init__(self, command, bufsize=8192, file_type="plain"):
        if not isinstance(command, str):
            raise TypeError(f"PipeReader: command must be a string, got {type(command).__name__}")
        if file_type not in ("plain", "gzip"):
            raise TypeError(f"PipeReader: file_type must be 'plain' or 'gzip', got {file_type!r}")
        self.command = command
        self.bufsize = bufsize
        self.file_type = file_type

    def get_line(self, cut_lines=True, line_break="\n"):
        """Yield lines without their break, the last one even if it has none.

        With cut_lines=False, yield text in the chunks in which it arrives.
        """
        chunks = self.chunks(cut_lines, line_break)
        return itertools.chain.from_iterable(chunks) if cut_lines else chunks

    def chunks(self, cut_lines=True, line_break="\n"):
        """What one read of the pipe gives, again and again: a list of lines, or a string."""
        output = _output(self.command, self.bufsize)
        if self.file_type == "gzip":
            output = _gunzipped(output, self.command)
        text = codecs.iterdecode(output, "utf-8", "surrogateescape")
        return _lines(text, line_break) if cut_lines else text


def pipe_reader(left_cmd, parser, bufsize=8192, file_type="plain", cut_lines=True, line_break="\n"):
    """Samples that parser(lines) returns for each list of lines a command prints.

    With cut_lines=False the parser gets the text of each chunk instead.
    """
    if not callable(parser):
        raise TypeError(f"pipe_reader: parser must be a function, got {type(parser).__name__}")
    pipe = PipeReader(left_cmd, bufsize, file_type)

    def parsed():
        for chunk in pipe.chunks(cut_lines, line_break):
            yield from parser(chunk)

    return parsed


def _output(command, bufsize):
    """Bytes of a command's standard output; a bad exit status is an error, leaving early kills."""
    with subprocess.Popen(shlex.split(command), stdout=subprocess.PIPE) as process:
        try:
            while chunk := process.stdout.read1(bufsize):
                yield chunk
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        raise RuntimeError(f"PipeReader: {command!r} ended with status {process.returncode}")


def _gunzipped(chunks, command):
    """Decompress gzip members that follow each other."""
    decoder = zlib.decompressobj(_GZIP_OR_ZLIB)
    for chunk in chunks:
        while chunk:
            if decoder.eof:
                decoder = zlib.decompressobj(_GZIP_OR_ZLIB)
            try:
                yield decoder.decompress(chunk)
            except zlib.error as error:
                raise ValueError(f"PipeReader: {command!r} gave bad gzip data: {error}") from error
            chunk = decoder.unused_data
    if not decoder.eof:
        raise ValueError(f"PipeReader: {command!r} ended in the middle of its gzip data")


def _lines(text, line_break):
    rest = ""
    for chunk in text:
        *lines, rest = (rest + chunk).split(line_break)
        if lines:
            yield lines
    if rest:
        yield [rest]
