"""Small archives with something to learn in them, for whole programs."""

import pickle
import random

import numpy as np

from . import originals


def words(prefix, count):
    return [f"{prefix}{i}" for i in range(count)]


def encoded(texts):
    return [text.encode() for text in texts]


def imikolov(home):
    """Sentences in which a word is nearly determined by the one before."""
    draw = random.Random("imikolov")
    names = words("word", 12)

    def line():
        at, out = draw.randrange(12), []
        for _ in range(draw.randrange(5, 12)):
            out.append(names[at])
            at = (at * 5 + 1) % 12 if draw.random() < 0.9 else draw.randrange(12)
        return " ".join(out).encode()

    originals.imikolov(home, [line() for _ in range(240)], [line() for _ in range(40)])


def movielens(home):
    """Women like films of even categories, men the others."""
    draw = random.Random("movielens")
    genres = ["Action", "Adventure", "Animation", "Comedy", "Crime", "Drama"]
    movies = [
        (i, f"The Title{i % 50} ({1950 + i % 50})", draw.sample(genres, draw.randrange(1, 3)))
        for i in range(1, 361)
    ]
    users = [
        (i, draw.choice("MF"), draw.choice([18, 25, 35]), draw.randrange(9)) for i in range(1, 251)
    ]
    ratings = []
    for user, gender, _, _ in users:
        for number, _, names in draw.sample(movies, 8):
            likes = sum(1 if (genres.index(n) % 2 == 0) == (gender == "F") else -1 for n in names)
            ratings.append((user, number, 3 + likes))
    originals.movielens(home, movies, users, ratings)


def imdb(home):
    """Reviews of 20 words, a quarter of which are of their side."""
    draw = random.Random("imdb")
    sides = {"pos": words("good", 4), "neg": words("bad", 4)}
    common = words("plain", 8)

    def review(side):
        chosen = [draw.choice(sides[side] if draw.random() < 0.25 else common) for _ in range(20)]
        return " ".join(chosen).encode()

    reviews = [
        (part, side, review(side))
        for part, count in (("train", 150), ("test", 50))
        for side in ("neg", "pos")
        for _ in range(count)
    ]
    originals.imdb(home, reviews)


def conll05(home):
    """[A0 The n] [V v] [A1 the n] . and as many words, verbs and roles as the real one has."""
    draw = random.Random("conll05")
    nouns, verbs = words("noun", 20), words("verb", 8)
    sentences = []
    for _ in range(80):
        verb = draw.choice(verbs)
        rows = [("The", "-", "(A0*"), (draw.choice(nouns), "-", "*)"), (f"{verb}s", verb, "(V*)")]
        if draw.random() < 0.7:
            rows += [("the", "-", "(A1*"), (draw.choice(nouns), "-", "*)")]
        sentences.append([tuple(encoded(row)) for row in [*rows, (".", "-", "*")]])
    known = ["<unk>", "bos", "eos", "The", "the", ".", *nouns, *(f"{verb}s" for verb in verbs)]
    known += words("filler", 44068 - len(known))
    roles = ["A0", "A1", "V", *words("R-A", 26)]
    labels = [f"{begin}-{role}" for role in roles for begin in "BI"] + ["O"]
    base_forms = verbs + words("form", 3162 - len(verbs))
    vectors = np.random.default_rng(0).normal(size=(44068, 32))
    originals.conll05(home, sentences, *map(encoded, (known, base_forms, labels)), vectors)


def wmt14(home):
    """The translation of fN is eN, in the same order."""
    draw = random.Random("wmt14")

    def line():
        chosen = [draw.randrange(6) for _ in range(draw.randrange(2, 4))]
        return "\t".join(" ".join(f"{side}{i}" for i in chosen) for side in "fe").encode()

    pairs = {
        name: [line() for _ in range(n)] for name, n in (("train", 60), ("test", 9), ("gen", 5))
    }
    originals.wmt14(home, pairs, encoded(words("f", 6)), encoded(words("e", 6)))


def cifar(home):
    """Squares of one colour for each of 10 classes, in noise."""
    rng = np.random.default_rng(0)
    colours = rng.integers(0, 256, (10, 3))

    def batch(count):
        labels = [i % 10 for i in range(count)]
        pixels = rng.integers(0, 256, (count, 3, 32, 32)) // 2
        pixels[:, :, 8:24, 8:24] += colours[labels][:, :, None, None] // 2
        data = pixels.reshape(count, 3072).astype(np.uint8)
        return pickle.dumps({"data": data, "labels": labels}, protocol=2)

    members = {"cifar-10-batches-py/": b"", "cifar-10-batches-py/data_batch_1": batch(30)}
    members["cifar-10-batches-py/test_batch"] = batch(10)
    originals.tar(home / "cifar" / "cifar-10-python.tar.gz", members)
