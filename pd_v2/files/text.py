"""Words of text files, processed as bytes and returned as str.

Python 2 split, lowered and sorted bytes; the methods of str treat letters beyond ASCII otherwise.
Bytes that are not UTF-8 become lone surrogates, as in the scripts that `python -m pd_v2` runs.
"""

_LOSSLESS = ("utf-8", "surrogateescape")


def to_text(data):
    """Decode bytes to str."""
    return data.decode(*_LOSSLESS)


def to_bytes(text):
    """Encode a str to bytes."""
    return text.encode(*_LOSSLESS)


def lines(content):
    """Split the bytes of a file into lines, at newlines only."""
    parts = content.split(b"\n")
    return parts if parts[-1] else parts[:-1]


def by_frequency(counts):
    """Sort the words of {bytes: count} by falling frequency, then by their bytes; return str."""
    return [to_text(word) for word in sorted(counts, key=lambda word: (-counts[word], word))]


def indexed(words):
    """Return {word: its index in the list}."""
    return {word: number for number, word in enumerate(words)}


def with_bytes_keys(ids):
    """Return {word as bytes: id} from {word: id}."""
    return {to_bytes(word): number for word, number in ids.items()}
