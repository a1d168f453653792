"""A step of data-parallel training: slices of a batch, ranks, and the mean of their gradients."""

from style import BLUE, GREEN, GREY, ORANGE, PURPLE, arrow, box, canvas, write

FILES = ("ranks.svg",)
BATCH, RANKS = 64, 4


def draw(folder):
    """Draw it for a batch of 64 on four ranks."""
    drawn, axes = canvas(7.2, 3.2)
    colors = (BLUE, PURPLE, ORANGE, GREEN)
    axes.text(8, 30, f"a batch of {BATCH} rows", ha="center", weight="bold")
    axes.text(30, 30, f"{RANKS} processes", ha="center", weight="bold")
    axes.text(50.5, 30, "MPI", ha="center", weight="bold")
    axes.text(65, 30, "on each rank", ha="center", weight="bold")
    for rank in range(RANKS):
        y, color = 22.6 - 7 * rank, colors[rank]
        first, end = rank * BATCH // RANKS, (rank + 1) * BATCH // RANKS
        box(axes, 2, y, 12, 5.6, f"rows {first} to {end - 1}", color)
        arrow(axes, (14.3, y + 2.8), (20, y + 2.8), color=color)
        text = f"rank {rank}: the whole network,\nforward and backward"
        box(axes, 20, y, 20, 5.6, text, color, fontsize=8.5)
        arrow(axes, (40.3, y + 2.8), (46, y + 2.8), color=color)
        arrow(axes, (55.3, y + 2.8), (60.5, y + 2.8))
        box(axes, 60.5, y, 9.5, 5.6, "same update", GREY, fontsize=8.5)
    box(axes, 46, 1.6, 9, 26.6, "the mean\nof the\ngradients", GREY)
    write(drawn, folder, "ranks.svg")
