"""Samples from the output of a shell command, such as `hadoop fs -cat part-00000`."""

import codecs
import itertools
import shlex
import subprocess
import zlib

from pd_core.training.positions import rereadable

_GZIP_OR_ZLIB = zlib.MAX_WBITS | 32


class PipeReader:
    """The output of a command as UTF-8 text; other bytes become lone surrogates.

    The command is split into words as by a shell, and runs again for each iteration. file_type
    "gzip" decompresses its output. bufsize is the maximal size of a chunk, in bytes.
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
        """Yield lines without their line break; the last line may lack one.

        With cut_lines=False, yield text in the chunks in which it arrives.
        """
        chunks = self.chunks(cut_lines, line_break)
        return itertools.chain.from_iterable(chunks) if cut_lines else chunks

    def chunks(self, cut_lines=True, line_break="\n"):
        """Yield for each read of the pipe a list of lines, or text with cut_lines=False."""
        output = _output(self.command, self.bufsize)
        if self.file_type == "gzip":
            output = _gunzipped(output, self.command)
        text = codecs.iterdecode(output, "utf-8", "surrogateescape")
        return _lines(text, line_break) if cut_lines else text


def pipe_reader(left_cmd, parser, bufsize=8192, file_type="plain", cut_lines=True, line_break="\n"):
    """Return a reader of the samples that parser(lines) returns for the output of a command.

    The parser is called with lists of lines, or with cut_lines=False with chunks of text.
    """
    if not callable(parser):
        raise TypeError(f"pipe_reader: parser must be a function, got {type(parser).__name__}")
    pipe = PipeReader(left_cmd, bufsize, file_type)

    def parsed():
        for chunk in pipe.chunks(cut_lines, line_break):
            yield from parser(chunk)

    return rereadable(parsed, draws=True)  # the parser may


def _output(command, bufsize):
    """Yield chunks of a command's output; RuntimeError if it fails. Closing this kills it."""
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
    """Decompress chunks of concatenated gzip members."""
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
    remainder = ""
    for chunk in text:
        *lines, remainder = (remainder + chunk).split(line_break)
        if lines:
            yield lines
    if remainder:
        yield [remainder]
