r"""Escapes in Python 2 string literals, which are bytes: '\xe4\xb8\xad' is one character."""

import re

from fissix.fixer_base import BaseFix
from fissix.pgen2 import token
from fissix.pytree import Leaf

_LITERAL = re.compile(r"(?is)([a-z]*)('''|\"\"\"|'|\")(.*)\2")
_ESCAPE = re.compile(r"(?s)((?:\\x[0-9a-fA-F]{2}|\\[0-7]{1,3})+)|\\([NUu])|\\.")


class FixByteStrings(BaseFix):
    BM_compatible = False
    _accept_type = token.STRING
    order = "pre"
    PATTERN = None

    def start_tree(self, tree, filename):
        super().start_tree(tree, filename)
        self.plain_is_unicode = "unicode_literals" in tree.future_features

    def match(self, node):
        return node.type == token.STRING

    def transform(self, node, results):
        prefix, quote, body = _LITERAL.fullmatch(node.value).groups()
        kind = prefix.lower()
        if kind in ("b", "br") and _is_ascii(body, kind == "br"):
            kind = kind[1:]  # it may stand beside a literal without the b
            body = body if kind else _ESCAPE.sub(_as_text, body)
        elif kind == "ur":
            kind, body = "u", re.sub(r"\\(?!u[0-9a-fA-F]{4})", r"\\\\", body)
        elif kind == "" and not self.plain_is_unicode:
            body = _ESCAPE.sub(_as_text, body)
        if (kind, body) == (prefix.lower(), node.value[len(prefix) + len(quote) : -len(quote)]):
            return None
        return Leaf(token.STRING, kind + quote + body + quote, prefix=node.prefix)


def _is_ascii(body, is_raw):
    escapes = [] if is_raw else _ESCAPE.finditer(body)
    return body.isascii() and all(_data(escape).isascii() for escape in escapes)


def _data(escape):
    """Return the bytes of a match of numbered escapes."""
    return bytes(
        int(hexadecimal, 16) if hexadecimal else int(octal, 8) & 0xFF
        for hexadecimal, octal in re.findall(r"\\(?:x(..)|([0-7]{1,3}))", escape[1] or "")
    )


def _as_text(escape):
    """Decode escaped bytes as UTF-8; \\u was no escape in a byte string."""
    if escape[2]:
        return "\\\\" + escape[2]
    if not escape[1]:
        return escape[0]
    data = _data(escape)
    if data.isascii():
        return escape[0]
    return "".join(f"\\U{ord(c):08x}" for c in data.decode("utf-8", "surrogateescape"))
