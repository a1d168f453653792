"""re: ASCII by default, and no split or second replacement at an empty match."""

import re
import re._parser as parser

from pd_v2.python2.shims.text import ByteText, as_text, like, undecoded
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


class _Match:
    """A match in undecoded text, whose parts are undecoded."""

    def __init__(self, match):
        self._match = match

    def __getattr__(self, name):
        return getattr(self._match, name)

    def __repr__(self):
        return repr(self._match)

    def expand(self, template):
        return _undecoded(self._match.expand(as_text(template)))

    def group(self, *groups):
        return _undecoded(self._match.group(*groups))

    def groups(self, default=None):
        return _undecoded(self._match.groups(default))

    def groupdict(self, default=None):
        return {k: _undecoded(v) for k, v in self._match.groupdict(default).items()}


def _undecoded(found):
    """Return what was found in undecoded text: a string, None or a tuple of them."""
    if isinstance(found, tuple):
        return tuple(map(_undecoded, found))
    return undecoded(found) if isinstance(found, str) else found


def _match_of(match):
    return _Match(match) if match and type(match.string) is ByteText else match


class _Pattern:
    """A compiled pattern: parts of undecoded text are undecoded.

    If it may match nothing, empty matches do not split: `re.split(r"\\W*", line)` gives words.
    """

    def __init__(self, pattern, may_be_empty):
        self.compiled, self._may_be_empty = pattern, may_be_empty

    def __getattr__(self, name):
        return getattr(self.compiled, name)

    @property
    def __class__(self):  # for functions of installed modules that take patterns
        return re.Pattern

    def __reduce__(self):
        return _compiled, (self.compiled.pattern, self.compiled.flags)

    def __deepcopy__(self, known):
        return self

    def __eq__(self, other):
        return isinstance(other, _Pattern) and self.compiled == other.compiled

    def __hash__(self):
        return hash(self.compiled)

    def __repr__(self):
        return repr(self.compiled)

    def match(self, string, *bounds):
        return _match_of(self.compiled.match(as_text(string), *bounds))

    def search(self, string, *bounds):
        return _match_of(self.compiled.search(as_text(string), *bounds))

    def finditer(self, string, *bounds):
        return map(_match_of, self.compiled.finditer(as_text(string), *bounds))

    def findall(self, string, *bounds):
        string = as_text(string)
        found = self.compiled.findall(string, *bounds)
        return [_undecoded(part) for part in found] if type(string) is ByteText else found

    def split(self, string, maxsplit=0):
        string = as_text(string)
        parts = (self._parts if self._may_be_empty else self.compiled.split)(string, maxsplit)
        return [_undecoded(part) for part in parts] if type(string) is ByteText else parts

    def sub(self, repl, string, count=0):
        return self.subn(repl, string, count)[0]

    def subn(self, repl, string, count=0):
        string = as_text(string)
        replaced, done = self._replaced(repl, string, count)
        return like(replaced, string), done

    def _matches(self, string):
        """Yield matches from left to right; after an empty one go on behind the next character."""
        place = 0
        while place <= len(string) and (match := self.compiled.search(string, place)):
            yield match
            place = match.end() + (match.end() == match.start())

    def _parts(self, string, maxsplit):
        parts, last, count = [], 0, 0
        for match in self._matches(string):
            if match.end() == match.start():
                continue
            if maxsplit and count == maxsplit:
                break
            parts += [string[last : match.start()], *match.groups()]
            last, count = match.end(), count + 1
        return [*parts, string[last:]]

    def _replaced(self, repl, string, count):
        is_call = callable(repl)
        replacement = (lambda match: as_text(repl(_match_of(match)))) if is_call else as_text(repl)
        if not self._may_be_empty:
            return self.compiled.subn(replacement, string, count)
        parts, last, done = [], 0, 0
        for match in self._matches(string):
            if count and done == count:
                break
            if match.start() == match.end() == last and done:
                continue  # it follows the match before
            text = replacement(match) if is_call else match.expand(replacement)
            parts += [string[last : match.start()], text]
            last, done = match.end(), done + 1
        return "".join([*parts, string[last:]]), done


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
    return _Pattern(compiled, may_be_empty)


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
