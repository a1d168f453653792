"""re: ASCII by default, and no split or second replacement at an empty match."""

import re
import re._parser as parser

from pd_v2.python2.shims.text import as_text
from pd_v2.python2.shims.views import overrides

_ARGUMENTS = {
    "compile": ("flags",),
    "findall": ("string", "flags"),
    "finditer": ("string", "flags"),
    "match": ("string", "flags"),
    "search": ("string", "flags"),
    "split": ("string", "maxsplit", "flags"),
    "sub": ("repl", "string", "count", "flags"),
    "subn": ("repl", "string", "count", "flags"),
}

_FLAGS = re.compile(r"(?<!\\)\(\?([aiLmsux]+)\)")  # in a pattern


class _Pattern:
    """A compiled pattern that may match nothing: `re.split(r"\\W*", text)` gives words."""

    def __init__(self, pattern):
        self.compiled = pattern

    def __getattr__(self, name):
        return getattr(self.compiled, name)

    def __repr__(self):
        return repr(self.compiled)

    def _matches(self, string):
        """Yield matches from left to right; after an empty one go on behind the next character."""
        place = 0
        while place <= len(string) and (match := self.compiled.search(string, place)):
            yield match
            place = match.end() + (match.end() == match.start())

    def split(self, string, maxsplit=0):
        string, parts, last, count = as_text(string), [], 0, 0
        for match in self._matches(string):
            if match.end() == match.start():
                continue
            if maxsplit and count == maxsplit:
                break
            parts += [string[last : match.start()], *match.groups()]
            last, count = match.end(), count + 1
        return [*parts, string[last:]]

    def subn(self, repl, string, count=0):
        string, replacement = as_text(string), repl if callable(repl) else as_text(repl)
        parts, last, done = [], 0, 0
        for match in self._matches(string):
            if count and done == count:
                break
            if match.start() == match.end() == last and done:
                continue  # it follows the match before
            is_call = callable(replacement)
            text = replacement(match) if is_call else match.expand(replacement)
            parts += [string[last : match.start()], as_text(text)]
            last, done = match.end(), done + 1
        return "".join([*parts, string[last:]]), done

    def sub(self, repl, string, count=0):
        return self.subn(repl, string, count)[0]


def _without_locale(flags):
    kept = flags[1].replace("L", "")
    return f"(?{kept})" if kept else ""


def _compiled(pattern, flags):
    """Return a pattern of the program, or one that is compiled, as it matches in Python 2."""
    if isinstance(pattern, _Pattern | re.Pattern):
        return pattern
    pattern = _FLAGS.sub(_without_locale, as_text(pattern))
    flags &= ~re.LOCALE  # that of C, and so ASCII
    is_unicode = flags & re.UNICODE or any("u" in found for found in _FLAGS.findall(pattern))
    flags |= 0 if is_unicode else re.ASCII
    compiled = re.compile(pattern, flags)
    may_be_empty = parser.parse(pattern, flags & ~re.DEBUG).getwidth()[0] == 0
    return _Pattern(compiled) if may_be_empty else compiled


@overrides("re")
def _re(_):
    r"""\w and so on were ASCII, unless re.UNICODE was set."""
    known = {}

    def compiled(pattern, flags=0):
        key = (pattern, flags) if isinstance(pattern, str) else None
        if key is None or key not in known:
            found = _compiled(pattern, flags)
            if key is None:
                return found
            if len(known) > 500:
                known.clear()
            known[key] = found
        return known[key]

    def by_pattern(name, arguments):
        def matching(pattern, *args, **keywords):
            keywords.update(zip(arguments, map(as_text, args), strict=False))
            flags = keywords.pop("flags", 0)
            return getattr(compiled(pattern, flags), name)(**keywords)

        return matching

    functions = {name: by_pattern(name, a) for name, a in _ARGUMENTS.items() if name != "compile"}
    return functions | {"compile": compiled}
