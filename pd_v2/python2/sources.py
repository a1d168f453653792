"""Source files of programs."""

from importlib.util import decode_source

from pd_v2.python2.translate import parse


def read_source(path):
    """Read the source of a program, in its declared encoding."""
    with open(path, "rb") as file:
        return _decoded(file.read(), path)


def load_program(path):
    """Parse the Program in a file."""
    return parse(read_source(path), path)


def parse_data(data, path):
    """Parse the Program in the bytes of a file."""
    return parse(_decoded(data, path), path)


def _decoded(data, path):
    try:
        return decode_source(data)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise SyntaxError(f"(unicode error) {error}", (path, line, 0, None)) from None
