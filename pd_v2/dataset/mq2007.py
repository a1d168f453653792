"""MQ2007 of LETOR 4.0: 1,692 search queries, each with about 40 judged documents.

A document is 46 features and a relevance from 0 to 2. The kind of a sample is set by `format`:

- pairwise: (array [1], the better document, the worse one), for each pair of unequal relevance
- listwise: (relevances [n, 1], documents [n, 46]) of a query, the most relevant first
- pointwise: (relevance, document), plain_txt: (query id, relevance, document), of only the most
  relevant document of each query, as in 2017

Queries without a relevant document are left out. Unpacking the original needs the package rarfile
and a program such as unrar.
"""

import functools
import os

import numpy as np

from pd_core import DamagedFile
from pd_v2.dataset import common
from pd_v2.dataset.samples import Samples
from pd_v2.files import archive
from pd_v2.reader import shuffling

URL = (
    "http://www.bigdatalab.ac.cn/benchmark/upload/download_source/"
    "7b6dbbe2-842c-11e4-a536-bcaec51b9163_MQ2007.rar"
)
MD5 = "7be1640ae95c6408dab0ae7207bdc706"

_FOLDER = "MQ2007"
_FEATURES = 46


class Query:
    """One document: the query's id, its relevance, its features and a comment."""

    def __init__(self, query_id=-1, relevance_score=-1, feature_vector=None, description=""):
        self.query_id = query_id
        self.relevance_score = relevance_score
        self.feature_vector = [] if feature_vector is None else feature_vector
        self.description = description

    def __str__(self):
        features = " ".join(f"{i}:{value}" for i, value in enumerate(self.feature_vector, 1))
        return f"{self.relevance_score} qid:{self.query_id} {features}"


class QueryList:
    """The documents of one query."""

    def __init__(self, querylist=None):
        self.querylist = []
        self.query_id = -1
        for query in querylist or []:
            self._add_query(query)

    def __iter__(self):
        return iter(self.querylist)

    def __len__(self):
        return len(self.querylist)

    def __getitem__(self, i):
        return self.querylist[i]

    def _add_query(self, query):
        if self.querylist and query.query_id != self.query_id:
            raise ValueError(
                f"mq2007: a document of query {query.query_id} in the list of query {self.query_id}"
            )
        self.query_id = query.query_id
        self.querylist.append(query)

    def ranked(self):
        """Return the list sorted by falling relevance; the sort is stable."""
        return QueryList(sorted(self.querylist, key=lambda query: -query.relevance_score))


def gen_plain_txt(querylist):
    """Yield (query id, relevance, features) of each document, the most relevant first."""
    for query in _ranked(querylist):
        yield query.query_id, query.relevance_score, np.array(query.feature_vector)


def gen_point(querylist):
    """Yield (relevance, features) of each document, the most relevant first."""
    for query in _ranked(querylist):
        yield query.relevance_score, np.array(query.feature_vector)


def gen_pair(querylist, partial_order="full"):
    """Yield (array [1], better features, worse features) of each pair of unequal relevance."""
    if partial_order != "full":
        raise ValueError(f"mq2007: partial_order must be 'full', got {partial_order!r}")
    ranked = _ranked(querylist)
    for i, better in enumerate(ranked):
        for worse in ranked[i + 1 :]:
            if better.relevance_score > worse.relevance_score:
                pair = (np.array(query.feature_vector) for query in (better, worse))
                yield np.array([1]), *pair


def gen_list(querylist):
    """Yield (relevances [n, 1], features [n, 46]) of all documents, the most relevant first."""
    ranked = _ranked(querylist)
    relevances = [[query.relevance_score] for query in ranked]
    yield np.array(relevances), np.array([query.feature_vector for query in ranked])


def query_filter(querylists):
    """Return the queries with a relevant document."""
    return [queries for queries in querylists if sum(q.relevance_score for q in queries) > 0]


def load_from_text(filepath, shuffle=True, fill_missing=-1):
    """Read the QueryLists of a file in the cache, in random order with shuffle.

    Consecutive lines with the same query id make a list. The value of a feature NULL is
    fill_missing.
    """
    fetch()
    querylists = []
    path = _path(filepath)
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        for number, line in enumerate(file, 1):
            query = _parsed(f"{path}, line {number}", line, fill_missing)
            if not querylists or querylists[-1].query_id != query.query_id:
                querylists.append(QueryList())
            querylists[-1]._add_query(query)
    if shuffle:
        shuffling.shuffle(querylists)
    return querylists


def __reader__(filepath, format="pairwise", shuffle=True, fill_missing=-1):
    """Return the samples of a file in the cache."""
    if format not in _SAMPLES_OF:
        formats = ", ".join(_SAMPLES_OF)
        raise ValueError(f"mq2007: the format {format!r} is unknown, there are {formats}")
    fetch()

    def samples():
        for queries in query_filter(load_from_text(filepath, shuffle, fill_missing)):
            yield from _SAMPLES_OF[format](queries)

    return Samples(samples, draws=shuffle)


train = functools.partial(__reader__, filepath="MQ2007/MQ2007/Fold1/train.txt")
test = functools.partial(__reader__, filepath="MQ2007/MQ2007/Fold1/test.txt")


def fetch():
    """Download and unpack the archive, unless the cache has its files."""
    folder = common.in_cache(_FOLDER, "MQ2007")
    if os.path.isdir(folder):
        return
    path = common.download(URL, _FOLDER, MD5)
    rarfile = _rarfile(path, folder)
    try:
        with rarfile.RarFile(path) as documents:
            archive.unpack(documents, "MQ2007", folder)
    except rarfile.RarCannotExec as error:
        raise RuntimeError(_unpack_by_hand(path, folder, error)) from error
    except rarfile.Error as error:
        raise archive.damaged(path, error) from error


def _rarfile(path, folder):
    try:
        import rarfile
    except ImportError as error:
        raise ImportError(_unpack_by_hand(path, folder, error)) from error
    return rarfile


def _path(filepath):
    """Return the path of a file in the cache, with one folder MQ2007 or with two nested ones."""
    paths = [common.in_cache(*top, filepath) for top in ([_FOLDER], [])]
    return next(filter(os.path.exists, paths), paths[-1])


def _unpack_by_hand(path, folder, error):
    parent = os.path.dirname(folder)
    return (
        f"dataset MQ2007: {path} cannot be unpacked: {error}\n"
        f"  hint: pip install rarfile and install unrar, or unpack it into {parent}"
    )


def _first(generate):
    return lambda queries: [next(generate(queries))]


_SAMPLES_OF = {
    "plain_txt": _first(gen_plain_txt),
    "pointwise": _first(gen_point),
    "pairwise": gen_pair,
    "listwise": gen_list,
}


def _ranked(queries):
    queries = queries if isinstance(queries, QueryList) else QueryList(queries)
    return queries.ranked()


def _parsed(where, line, fill_missing):
    """Parse the Query of a line `2 qid:10 1:0.5 ... 46:0.25 #comment`."""
    values, _, comment = line.partition("#")
    relevance, *fields = values.split() or [""]
    if len(fields) != _FEATURES + 1:
        raise DamagedFile(f"mq2007: {where} has {len(fields) + 1} fields, expected {_FEATURES + 2}")
    query_id, *features = (field.partition(":")[2] for field in fields)
    try:
        numbers = [float(fill_missing if value == "NULL" else value) for value in features]
        query = Query(int(query_id), int(relevance), numbers, comment.strip())
    except ValueError as error:
        raise DamagedFile(f"mq2007: {where}: {error}") from error
    if "nan" in values.lower() or "inf" in values.lower():
        raise DamagedFile(f"mq2007: {where} has a feature that is no finite number")
    return query
