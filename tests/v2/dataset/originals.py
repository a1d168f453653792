"""Writes small archives in the formats, and under the names, of the original ones."""

import gzip
import io
import struct
import tarfile
import zipfile
import zlib

import numpy as np


def tar(path, members, mode="w:gz"):
    """A tar of {name: content}; a name that ends in / is a folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, mode, format=tarfile.GNU_FORMAT) as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            if name.endswith("/"):
                entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(entry, io.BytesIO(content))
    return path


def zipped(path, members):
    """A zip of {name: content}."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def imdb(home, reviews):
    """reviews: (train or test, pos or neg, text) in the order of the archive."""
    members = {"aclImdb/": b"", "aclImdb/imdb.vocab": b"the\nand\n"}
    for number, (part, folder, text) in enumerate(reviews):
        members[f"aclImdb/{part}/{folder}/{number}_{9 if folder == 'pos' else 2}.txt"] = text
    return tar(home / "imdb" / "aclImdb_v1.tar.gz", members)


def imikolov(home, train, valid):
    """train, valid: lines, of words."""
    members = {"./": b"", "./simple-examples/": b"", "./simple-examples/data/README": b"about"}
    for name, lines in (("train", train), ("valid", valid)):
        content = b"".join(b" %s \n" % line for line in lines)
        members[f"./simple-examples/data/ptb.{name}.txt"] = content
    members["./simple-examples/data/ptb.char.train.txt"] = b"t h e\n"
    return tar(home / "imikolov" / "simple-examples.tgz", members)


def movielens(home, movies, users, ratings):
    """movies: (id, title (year), [category]); users: (id, M or F, age, job); ratings:
    (user, film, stars)."""
    lines = {
        "movies": [f"{i}::{title}::{'|'.join(names)}" for i, title, names in movies],
        "users": [f"{i}::{gender}::{age}::{job}::10023" for i, gender, age, job in users],
        "ratings": [f"{u}::{m}::{stars}::978300760" for u, m, stars in ratings],
    }
    members = {"ml-1m/": b"", "ml-1m/README": b"about"}
    for name, rows in lines.items():
        members[f"ml-1m/{name}.dat"] = "".join(f"{row}\n" for row in rows).encode("latin-1")
    return zipped(home / "movielens" / "ml-1m.zip", members)


def conll05(home, sentences, words, verbs, labels, vectors):
    """sentences: lists of rows (word, base form or -, bracket...); vectors: float32 [n, 32]."""
    tokens = b"".join(b"".join(row[0] + b" \n" for row in rows) + b"\n" for rows in sentences)
    props = b"".join(
        b"".join(b"%-15s " % row[1] + b" ".join(b"%15s" % c for c in row[2:]) + b"\n" for row in s)
        + b"\n"
        for s in sentences
    )
    folder = home / "conll05st"
    members = {
        "conll05st-release/": b"",
        "conll05st-release/test.wsj/props/test.wsj.props.gz": gzip.compress(props),
        "conll05st-release/test.wsj/words/test.wsj.words.gz": gzip.compress(tokens),
    }
    path = tar(folder / "conll05st-tests.tar.gz", members)
    for name, lines in (("wordDict", words), ("verbDict", verbs), ("targetDict", labels)):
        (folder / f"{name}.txt").write_bytes(b"".join(line + b"\n" for line in lines))
    vectors = np.asarray(vectors, "<f4")
    (folder / "emb").write_bytes(struct.pack("<iiq", 0, 4, vectors.size) + vectors.tobytes())
    return path


def wmt14(home, pairs, source_words, target_words):
    """pairs: {train, test or gen: lines}; words: after <s>, <e> and <unk>."""
    marks = [b"<s>", b"<e>", b"<unk>"]
    members = {"wmt14/": b""}
    for name, found in (("src", source_words), ("trg", target_words)):
        members[f"wmt14/{name}.dict"] = b"".join(w + b"\n" for w in [*marks, *found])
    for name, lines in pairs.items():
        members[f"wmt14/{name}/{name}"] = b"".join(line + b"\n" for line in lines)
    return tar(home / "wmt14" / "wmt14.tgz", members)


def sentiment(home, neg, pos):
    """neg, pos: texts; the zip has them in any order."""
    members = {"movie_reviews/README": b"about"}
    for side, texts in (("pos", pos), ("neg", neg)):
        for number, text in reversed(list(enumerate(texts))):
            members[f"movie_reviews/{side}/cv{number:03d}_{number * 7}.txt"] = text
    return zipped(home / "corpora" / "movie_reviews.zip", members)


def mq2007_lines(documents):
    """documents: (relevance, query id, 46 features)."""
    return "".join(
        f"{relevance} qid:{query} "
        + " ".join(f"{i}:{value}" for i, value in enumerate(features, 1))
        + f" #docid = GX0{number} inc = 1 prob = 0.5\n"
        for number, (relevance, query, features) in enumerate(documents)
    )


def mq2007(home, train, test):
    """train, test: documents; unpacked, since nothing free writes the archive's format."""
    folder = home / "MQ2007" / "MQ2007" / "Fold1"
    folder.mkdir(parents=True, exist_ok=True)
    for name, documents in (("train", train), ("test", test)):
        (folder / f"{name}.txt").write_text(mq2007_lines(documents))
    return folder


def matlab(path, arrays, compressed=True):
    """A MATLAB file of {name: matrix of uint8, uint16 or float64}."""
    content = b"MATLAB 5.0 MAT-file".ljust(124) + struct.pack("<H", 0x0100) + b"IM"
    for name, matrix in arrays.items():
        element = _matlab_matrix(name.encode(), np.asarray(matrix))
        if compressed:
            packed = zlib.compress(element)
            element = struct.pack("<II", 15, len(packed)) + packed
        content += element
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def _matlab_matrix(name, matrix):
    kind, matlab_class = {"u1": (2, 9), "u2": (4, 11), "f8": (9, 6)}[matrix.dtype.str[1:]]
    parts = [
        _matlab_element(6, struct.pack("<II", matlab_class, 0)),
        _matlab_element(5, struct.pack("<2i", *matrix.shape)),
        _matlab_element(1, name),
        _matlab_element(kind, matrix.tobytes(order="F")),
    ]
    return _matlab_element(14, b"".join(parts))


def _matlab_element(kind, data):
    if 0 < len(data) <= 4:
        return struct.pack("<I", len(data) << 16 | kind) + data.ljust(4, b"\0")
    return struct.pack("<II", kind, len(data)) + data + bytes(-len(data) % 8)


def flowers(home, photographs, labels, sets):
    """photographs: encoded files in the order of their numbers; labels from 1; sets:
    {trnid, valid or tstid: numbers}."""
    folder = home / "flowers"
    members = {"jpg/": b""}
    for number in range(len(photographs), 0, -1):
        members[f"jpg/image_{number:05d}.jpg"] = photographs[number - 1]
    path = tar(folder / "102flowers.tgz", members)
    matlab(folder / "imagelabels.mat", {"labels": np.array([labels], np.uint8)})
    numbers = {name: np.array([found], np.uint16) for name, found in sets.items()}
    matlab(folder / "setid.mat", numbers)
    return path


def voc2012(home, samples, lists):
    """samples: {name: (JPEG file, PNG file)}; lists: {train, val or trainval: names}."""
    top = "VOCdevkit/VOC2012"
    members = {}
    for name, (photograph, classes) in samples.items():
        members[f"{top}/JPEGImages/{name}.jpg"] = photograph
        members[f"{top}/SegmentationClass/{name}.png"] = classes
    for part, names in lists.items():
        content = "".join(f"{name}\n" for name in names).encode()
        members[f"{top}/ImageSets/Segmentation/{part}.txt"] = content
    return tar(home / "voc2012" / "VOCtrainval_11-May-2012.tar", members, "w")


def wmt16(home, pairs):
    """pairs: {train, test or val: lines}."""
    members = {"wmt16/": b""}
    for name, lines in pairs.items():
        members[f"wmt16/{name}"] = b"".join(line + b"\n" for line in lines)
    return tar(home / "wmt16" / "wmt16.tar.gz", members)
