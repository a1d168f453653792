"""Sequences of ids written as lines of text."""

from pathlib import Path

import numpy as np

from .base import Printing, declare, evaluator, ids_of, sequences_of, split


@evaluator
def seqtext_printer(input, result_file, id_input=None, dict_file=None, delimited=None, name=None):
    """Write sequences of ids to `result_file`, which is emptied when training or a test begins.

    A line is the id of the sample, from `id_input` or its index in the batch, a tab and the words:
    the lines of `dict_file` that the ids number, or the ids themselves. `delimited=False` leaves
    out the spaces. Each sub-sequence has a line of its own, and so has each of several generated
    results, with its number and its ln p.
    """
    words = ids_of("seqtext_printer", input)
    sequences_of("seqtext_printer", input)
    ids = [] if id_input is None else [ids_of("seqtext_printer", id_input)]
    if not isinstance(result_file, str) or not result_file:
        raise TypeError(f"seqtext_printer: the result file is a path, not {result_file!r}")
    text = _Text(result_file, dict_file, " " if delimited is None or delimited else "")
    write, fetches = text.write_sequences, [level.lengths for level in input.levels]
    if input.prob is not None and input.prob.rank == 2:
        write, fetches = text.write_results, [input.prob, *fetches]

    def written(*arrays):
        names, (values, *rest) = arrays[: len(ids)], arrays[len(ids) :]
        samples = names[0] if names else np.arange(len(rest[0]))
        write(samples, values, *rest)

    declare(
        "seq_text_printer",
        "seqtext_printer",
        name,
        [id_input, input],
        (*ids, words, *fetches),
        lambda: Printing(written),
        prints=True,
        begin=text.begin,
        dict_file=dict_file,
        result_file=result_file,
        delimited=delimited,
    )


class _Text:
    """A text file of sequences of words."""

    def __init__(self, path, dictionary, space):
        self._path, self._dictionary, self._space = Path(path), dictionary, space
        self._words = None

    def begin(self):
        """Empty the file and read the dictionary."""
        self._path.write_text("", encoding="utf-8")
        if self._dictionary:
            self._words = Path(self._dictionary).read_text(encoding="utf-8").splitlines()

    def write_sequences(self, samples, ids, lengths, *inner):
        """Write a line for each sequence, or for each of its sub-sequences."""
        if inner:
            nested = split(split(ids, inner[0]), lengths)
            texts = ["".join(self._line(p) + "\n" for p in subs) for subs in nested]
        else:
            texts = [self._line(p) for p in split(ids, lengths)]
        self._append(f"{n}{text}\n" for n, text in zip(samples, texts, strict=True))

    def write_results(self, samples, ids, scores, lengths):
        """Write the results of each sample; their ids are [length, ids…, -1], back to back."""
        for n, results, row in zip(samples, split(ids, lengths), scores, strict=True):
            lines, start = [f"{n}\n"], 0
            while start < len(results):
                end = start + 1 + results[start]
                number = len(lines) - 1
                words = self._line(results[start + 1 : end])
                lines.append(f"{number}\t{row[number]:g}{words}\n")
                start = end + 1
            self._append([*lines, "\n"])

    def _line(self, ids):
        return "\t" + "".join(self._space + self._word(k) for k in ids)

    def _word(self, k):
        if self._words is None:
            return str(k)
        if not 0 <= k < len(self._words):
            raise ValueError(
                f"seqtext_printer: there is no word {k} in {self._dictionary!r}, "
                f"which has {len(self._words)}"
            )
        return self._words[k]

    def _append(self, lines):
        with self._path.open("a", encoding="utf-8") as file:
            file.writelines(lines)
