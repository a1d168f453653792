"""The report of a check, as text and as JSON."""

from dataclasses import dataclass, field

from .lookup import data_set, exports, missing, other_api, unknown_keywords
from .sources import Unread, programs
from .uses import uses_of

_MAX_PLACES = 3  # per name, in the text


@dataclass
class Report:
    """The results: lists of places by name, in the order of the programs."""

    files: int = 0
    names: set = field(default_factory=set)
    lacking: dict = field(default_factory=dict)
    keywords: dict = field(default_factory=dict)
    other_apis: dict = field(default_factory=dict)
    data_sets: dict = field(default_factory=dict)
    unread: list = field(default_factory=list)

    @property
    def complete(self):
        """Whether nothing is lacking, and every file could be read."""
        return not (self.lacking or self.keywords or self.other_apis or self.unread)

    def add(self, program):
        """Add the uses of one program."""
        other_apis = set()  # each is reported once per program
        for use in uses_of(program.tree, exports):
            place = program.place(use.node)
            name = next((name for name in use.names if not missing(name)), use.names[0])
            api = other_api(name)
            if api is None:
                self._add_use(use, name, place)
            elif api not in other_apis:
                other_apis.add(api)
                self.other_apis.setdefault(api, []).append(place)

    def _add_use(self, use, name, place):
        if use.keywords is not None:
            for keyword in unknown_keywords(name, use.keywords):
                call = f"{name.replace('()', '')}({keyword}=)"
                self.keywords.setdefault(call, []).append(place)
        else:
            self._add_name(name, place)

    def _add_name(self, name, place):
        lacking = missing(name)
        self.names.add(lacking or name)
        if lacking:
            self.lacking.setdefault(lacking, []).append(place)
        elif data_set(name):
            self.data_sets.setdefault(data_set(name), []).append(place)

    def as_json(self):
        """Return the report as lists of dicts."""
        return {
            "files": self.files,
            "names": len(self.names),
            "lacking": _counted(self.lacking),
            "keywords": _counted(self.keywords),
            "other_apis": _counted(self.other_apis),
            "data_sets": _counted(self.data_sets),
            "unread": [{"file": each.path, "reason": each.reason} for each in self.unread],
        }

    def as_text(self):
        """Return the report as text, which ends with a summary."""
        unread = [f"  {each.path}: {each.reason}" for each in self.unread]
        sections = [
            _section("names that pd_v2 lacks", _lines(self.lacking)),
            _section("keywords that are not taken", _lines(self.keywords)),
            _section("another API, which pd_v2 does not cover", _lines(self.other_apis)),
            _section("data sets, downloaded unless they are in the cache", _lines(self.data_sets)),
            _section("files that could not be read", unread),
            [self.summary()],
        ]
        return "\n".join(line for section in sections for line in section)

    def summary(self):
        """Return one line: files, names used, names lacking."""
        lacking = f"{len(self.lacking)} lacking"
        if self.keywords:
            lacking += f", {len(self.keywords)} keywords not taken"
        unread = f" ({len(self.unread)} not read)" if self.unread else ""
        return f"files: {self.files}{unread}; names of paddle: {len(self.names)} used, {lacking}"


def check(paths):
    """Check the programs at some paths; return a Report."""
    report = Report()
    for program in programs(paths):
        report.files += 1
        if isinstance(program, Unread):
            report.unread.append(program)
        else:
            report.add(program)
    return report


def _most_frequent(places):
    return sorted(places.items(), key=lambda item: (-len(item[1]), item[0]))


def _counted(places):
    return [
        {"name": name, "count": len(locations), "places": locations}
        for name, locations in _most_frequent(places)
    ]


def _lines(places):
    width = max((len(name) for name in places), default=0)
    for name, locations in _most_frequent(places):
        ellipsis = ", ..." if len(locations) > _MAX_PLACES else ""
        shown = ", ".join(locations[:_MAX_PLACES]) + ellipsis
        yield f"  {len(locations):5}  {name:{width}}  {shown}"


def _section(title, lines):
    lines = list(lines)
    return [f"{title}:", *lines, ""] if lines else []
