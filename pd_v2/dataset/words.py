"""Words of text files, taken as bytes and given as str.

Python 2 split, lowered and sorted bytes, and what str does to letters beyond ASCII differs. Bytes
that are no UTF-8 stay in a str as lone surrogates, as in the scripts that the launcher runs.
"""

_LOSSLESS = ("utf-8", "surrogateescape")


def as_text(data):
    """The str of bytes."""
    return data.decode(*_LOSSLESS)


def as_data(text):
    """The bytes of a str."""
    return text.encode(*_LOSSLESS)


def lines(content):
    """The lines of a file's bytes; only a newline ends one."""
    found = content.split(b"\n")
    return found if found[-1] else found[:-1]


def ranked(counts):
    """The words of a {word: count}, bytes, from the most to the least frequent as str.

    Equally frequent words are in the order of their bytes.
    """
    return [as_text(word) for word in sorted(counts, key=lambda word: (-counts[word], word))]


def numbered(words):
    """{word: its place in the list}."""
    return {word: number for number, word in enumerate(words)}


def of_bytes(ids):
    """A dictionary of words whose keys are the bytes that files have."""
    return {as_data(word): number for word, number in ids.items()}
