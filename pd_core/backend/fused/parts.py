"""Parts of a library, which are compiled by themselves: a function is compiled once for all."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

# Tiles of products are in registers, and products and sums may be one instruction. What they do
# not need of -O3 takes as long again.
PRODUCTS = ("-O3", "-fno-tree-vectorize", "-fno-unswitch-loops", "-ffp-contract=fast")
LOOPS = ("-O3",)  # loops over time run 5 % faster
_CALLED = {
    "turned": "matrices.c",
    "few": "few_rows.c",
    "vectors": "vectors.c",
}  # functions' products


@dataclass(frozen=True)
class Part:
    """C after a header that declares what it uses; equal parts of all programs are compiled once.

    Several parts of one header may become one object file, unless one is to be `alone`: so their
    functions are declared weak, since two files of a library may have the same one. `calls` are
    names of functions in other parts: only those that call the same ones become one file, with
    which a library that needs one of them has to have what all of them call. `flags` are more
    arguments of the compiler.
    """

    header: str
    text: str
    flags: tuple[str, ...] = ()
    alone: bool = False
    calls: tuple[str, ...] = ()


@dataclass(frozen=True)
class Source:
    """The parts of a library, each once; what they call of each other is in one of them."""

    parts: tuple[Part, ...]

    def text(self) -> str:
        """Return all of it, to be read: as one file it does not compile."""
        headers = dict.fromkeys(part.header for part in self.parts)
        return "\n".join([*headers, *(part.text for part in self.parts), ""])


def source(table: str, functions: Iterable[str], loops: str = "") -> Source:
    """Return operators as a library.

    `table` is C with `rows[]` and REGISTER, `functions` are the C of what it refers to; the
    products that they call are added. `loops` are declarations for the functions, which becomes
    what it declares if PRODUCTS is defined.
    """
    shared = header()
    parts = [Part("", base()), Part(shared + loops, table, alone=True)]
    flags = LOOPS if loops else ()
    called: set[str] = set()
    for text in dict.fromkeys(functions):
        calls = tuple([name for name in _CALLED if f"{name}(" in text])
        called.update(calls)
        parts.append(Part(shared + loops, text, flags, calls=calls))
    parts += [Part(shared, _read(_CALLED[name]), PRODUCTS, alone=True) for name in sorted(called)]
    if loops:
        parts.append(Part(shared, f"#define PRODUCTS\n{loops}", PRODUCTS))
    return Source(tuple(parts))


def named(letter: str, text: str) -> str:
    """Return a name for a text, which no other text has."""
    return letter + hashlib.sha256(text.encode()).hexdigest()[:20]


@cache
def _read(name: str) -> str:
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


@cache
def header() -> str:
    """Return what declares, in the parts of a library, what all of them use."""
    return f"#define PART\n{_read('prelude.c')}\n{_read('kernels.c')}\n"


@cache
def base() -> str:
    """Return the part that has what `header` declares."""
    return f"#define BASE\n{_read('prelude.c')}\n{_read('kernels.c')}"
