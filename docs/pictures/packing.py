"""Sentences of different lengths: padded to a rectangle, and packed with their lengths."""

import numpy as np
from style import BLUE, FILLS, GREY, LINE, ORANGE, PURPLE, TEXT, canvas, write

FILES = ("packing.svg",)
SENTENCES = ("a short one", "rain", "this one has many more words")
COLORS = (BLUE, PURPLE, ORANGE)


def draw(folder):
    """Draw both forms, and count cells for 64 sentences of 5 to 100 words."""
    drawn, axes = canvas(7.6, 3.1)
    words = [sentence.split() for sentence in SENTENCES]
    longest, wide, high = max(map(len, words)), 6.1, 3.1
    axes.text(2, 28.6, "padded: [B, longest]", weight="bold")
    for row, (sentence, color) in enumerate(zip(words, COLORS, strict=True)):
        for k in range(longest):
            place = 2 + k * wide, 24 - row * (high + 0.5)
            text = sentence[k] if k < len(sentence) else ""
            cell(axes, *place, wide - 0.4, high, text, color if text else None)
    axes.text(2, 12.8, "packed: [T], T the sum of the lengths", weight="bold")
    x = 2
    for sentence, color in zip(words, COLORS, strict=True):
        for word in sentence:
            cell(axes, x, 8.2, wide - 0.4, high, word, color)
            x += wide
        x += 0.6
    axes.text(2, 4.8, "lengths: [B]", weight="bold")
    for k, (sentence, color) in enumerate(zip(words, COLORS, strict=True)):
        cell(axes, 2 + k * wide, 0.8, wide - 0.4, high, str(len(sentence)), color)
    lengths = np.random.default_rng(0).integers(5, 101, 64)
    packed, padded = lengths.sum(), len(lengths) * lengths.max()
    axes.text(
        42,
        27.4,
        f"64 sentences of 5 to 100 words:\n{padded:,} cells padded,\n"
        f"{packed:,} packed: nothing is\n"
        f"computed for the other {100 * (1 - packed / padded):.0f} %",
        va="top",
        linespacing=1.5,
    )
    write(drawn, folder, "packing.svg")


def cell(axes, x, y, width, height, text, color):
    """A word, or padding."""
    from matplotlib.patches import Rectangle

    face, edge = (FILLS[color], color) if color else ("white", LINE)
    hatch = None if color else "////"
    axes.add_patch(Rectangle((x, y), width, height, facecolor=face, edgecolor=edge, hatch=hatch))
    axes.text(
        *(x + width / 2, y + height / 2, text),
        ha="center",
        va="center",
        color=TEXT if color else GREY,
        fontsize=8.5,
    )
