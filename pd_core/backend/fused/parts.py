"""Parts of a library, which are compiled by themselves: a function is compiled once for all."""

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

# Registers for tiles of products, whose products and sums may be one instruction. Of -O3 that
# is what they need; all of it takes 2.5 times as long.
PRODUCTS = ("-O2", "-fno-tree-vectorize", "-fpeel-loops", "-ffp-contract=fast")


@dataclass(frozen=True)
class Part:
    """C after a header that declares what it uses; equal parts of all programs are compiled once.

    Several parts of one header may become one object file, unless one is to be `alone`: so their
    functions are declared weak, since two files of a library may have the same one. `flags` are
    more arguments of the compiler.
    """

    header: str
    text: str
    flags: tuple[str, ...] = ()
    alone: bool = False


@dataclass(frozen=True)
class Source:
    """The parts of a library, each once; what they call of each other is in one of them."""

    parts: tuple[Part, ...]

    def text(self) -> str:
        """Return all of it, to be read: as one file it does not compile."""
        headers = dict.fromkeys(part.header for part in self.parts)
        return "\n".join([*headers, *(part.text for part in self.parts), ""])


def source(table: str, functions: list[str], more: str = "", products: bool = False) -> Source:
    """Return operators as a library.

    `table` is C with `rows[]` and REGISTER, `functions` are the C of what it refers to. `more`
    declares what functions need beside the common header, and has it if PRODUCTS is defined.
    """
    header = _header("prelude.c", "kernels.c") + more
    parts = [Part("", _base()), Part(header, table, alone=True)]
    parts += [Part(header, text) for text in dict.fromkeys(functions)]
    if products:
        parts.append(Part(header, _read("matrices.c"), PRODUCTS))
    if more:
        parts.append(Part(_header("prelude.c", "kernels.c"), f"#define PRODUCTS\n{more}", PRODUCTS))
    return Source(tuple(parts))


def named(letter: str, text: str) -> str:
    """Return a name for a text, which no other text has."""
    return letter + hashlib.sha256(text.encode()).hexdigest()[:20]


@cache
def _read(name: str) -> str:
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


@cache
def _header(*names: str) -> str:
    return "#define PART\n" + "\n".join(map(_read, names))


@cache
def _base() -> str:
    return "#define BASE\n" + "\n".join(map(_read, ("prelude.c", "kernels.c")))
