"""The letters of an Einsum, and the axes that they stand for."""

import re
from collections import Counter

_LETTER = re.compile(r"\.\.\.|\w")


def terms_of(equation: str) -> tuple[list[list[str]], list[str]]:
    """Return the letters of each operand and of the result; three dots are one of them.

    A result that is not written has the letters that appear once, in their order, after the dots.
    """
    terms, arrow, result = equation.replace(" ", "").partition("->")
    found = [_LETTER.findall(term) for term in terms.split(",")]
    if arrow:
        return found, _LETTER.findall(result)
    counts = Counter(letter for letters in found for letter in letters)
    dots = ["..."] if counts.pop("...", 0) else []
    return found, dots + sorted(letter for letter, n in counts.items() if n == 1)


def axes_of_letters(letters: list[str], rank: int) -> list[range]:
    """Return the axes of each letter of an operand; dots are those of the axes without one."""
    axes, first = [], 0
    for letter in letters:
        count = rank - len(letters) + 1 if letter == "..." else 1
        axes.append(range(first, first + count))
        first += count
    return axes
