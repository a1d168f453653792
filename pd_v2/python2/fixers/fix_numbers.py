"""Numbers of Python 2: 10L, 0777, 0777L, 00L."""

import re

from fissix.fixer_base import BaseFix
from fissix.fixer_util import Number
from fissix.pgen2 import token

_OCTAL = re.compile(r"0[0-7]+")


class FixNumbers(BaseFix):
    BM_compatible = False
    _accept_type = token.NUMBER
    PATTERN = None

    def match(self, node):
        return node.type == token.NUMBER

    def transform(self, node, results):
        digits = node.value.rstrip("lL")
        digits = "0o" + digits[1:] if _OCTAL.fullmatch(digits) else digits
        return None if digits == node.value else Number(digits, prefix=node.prefix)
