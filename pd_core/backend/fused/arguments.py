"""Arguments of generated functions: buffers, sizes, and memory for each of their parts."""

from collections.abc import Mapping
from dataclasses import dataclass

from .operators import C_TYPES
from .sizes import Size

_LITERAL = 32  # the largest size that is in the text: equal functions differ in larger ones
_VECTOR = 8  # elements


ERRORS = "!"  # begins the names of marks that an index is out of range, which are buffers


@dataclass
class Scratch:
    """Memory that each part of a function has: so many elements of a type."""

    elements: Size
    kind: int


class Arguments:
    """The arguments of a function, in the order in which its text names them first.

    `rows` are buffers of which each part has only one row, with the row's elements.
    """

    def __init__(self, rows: Mapping[str, Size]):
        self.rows = rows
        self.buffers: list[str] = []
        self.numbers: list[Size] = []
        self.counts: list[Size] = []  # those that are numbers of whole vectors
        self.scratches: dict[str, Scratch] = {}
        self._names = 0

    def number(self, s: Size) -> str:
        """Return a size in C: a small number itself, or an argument."""
        if not s[1] and abs(s[0]) <= _LITERAL:
            return str(s[0])
        if s not in self.numbers:
            self.numbers.append(s)
        return f"n{self.numbers.index(s)}"

    def count(self, s: Size) -> str:
        """Return the size of an innermost loop in C.

        Compilers unroll a loop of few rounds before they could make vectors of it, so a number
        that fills vectors is an argument.
        """
        if s[1] or s[0] < _VECTOR or s[0] % _VECTOR:
            return self.number(s)
        if s not in self.counts:
            self.counts.append(s)
        return f"l{self.counts.index(s)}"

    def buffer(self, name: str, kind: int) -> str:
        """Return the address of a buffer, or of the part's row of it."""
        if name not in self.buffers:
            self.buffers.append(name)
        text = f"({C_TYPES[kind]} *)p[{self.buffers.index(name)}]"
        if name in self.rows:
            self.scratch(name, self.rows[name], kind)
            text += f" + part * {self.number(self.rows[name])}"
        return text

    def errors(self, y: str) -> str:
        """Return the address where a part notes an error of the statement that makes y."""
        name = f"{ERRORS}{y}"
        if name not in self.buffers:
            self.buffers.append(name)
        return f"p[{self.buffers.index(name)}]"

    def scratch(self, name: str, elements: Size, kind: int) -> None:
        """Ask for memory for each part."""
        self.scratches[name] = Scratch(elements, kind)

    def fresh(self, letter: str) -> str:
        """Return a name that the text does not have yet."""
        self._names += 1
        return f"{letter}{self._names}"

    def declared(self) -> list[str]:
        """Return the lines that give the sizes their names."""
        count = len(self.numbers)
        lines = [f"const int64_t n{k} = n[{k}];" for k in range(count)]
        whole = [
            f"const int64_t l{k} = n[{count + k}] & -{_VECTOR};" for k in range(len(self.counts))
        ]
        return lines + whole

    @property
    def sizes(self) -> list[Size]:
        """The sizes that the function is called with."""
        return [*self.numbers, *self.counts]
