"""Names that became keywords: `f(async=True)`.

One letter is written in a form that Python 3 reads as the plain letter, but not as a keyword.
"""

from fissix.fixer_base import BaseFix
from fissix.fixer_util import Name
from fissix.pgen2 import token

_WIDE_A = "\uff41"  # a letter that NFKC, which Python applies to names, maps to an a
_KEYWORDS = {"async", "await"}


class FixNewKeywords(BaseFix):
    BM_compatible = False
    _accept_type = token.NAME
    PATTERN = None

    def match(self, node):
        return node.type == token.NAME and node.value in _KEYWORDS

    def transform(self, node, results):
        return Name(node.value.replace("a", _WIDE_A), prefix=node.prefix)
