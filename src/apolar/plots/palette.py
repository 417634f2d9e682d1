"""Colours and markers of clusters, that read in print and without colour vision."""

# The eight colours of Okabe and Ito, neighbours far apart. Their yellow is too light for points on white;
# darkened a little it is orange or vermilion to many who are colour-blind, and only this dark it is not.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#554E00", "#000000")

DARK_COLOURS = ("#4C9FDB", "#F08048", "#2FC498", "#E3A0C6", "#F5B642", "#B9E4FF", "#CFC75A", "#F2F2F2")
"""The same colours in the same order, for marks on a dark ground."""

# Thirteen, which has no factor in common with eight: pairs of colour and marker repeat after 104 clusters.
MARKERS = ("o", "s", "^", "D", "v", "p", "P", "<", "*", ">", "d", "h", "8")

# Of lines, where the marks of neighbours are apart.
DASHES = ("-", "--", "-.", (0, (1, 1.2)), (0, (7, 1.5, 1, 1.5, 1, 1.5)), (0, (9, 3)), (0, (3, 1)))

WRONG = "X"
"""The marker of rows in a wrong cluster; no cluster has it."""

GREY = "#6B6B6B"
"""What belongs to no cluster."""

NOISE = -1
"""The label of rows that are noise."""

NOISE_STYLE = ("#9A9A9A", ".")
"""The colour and the marker of noise: small grey dots."""

SHADES = ("#5C5C5C", "#8C8C8C", "#747474", "#A3A3A3")
"""Lines that are no clusters, beside one in ink: colours are for clusters alone."""

INK = "#222222"
"""Text and lines."""

PAPER = "#FFFFFF"
"""What is drawn on."""


def style(index: int) -> tuple[str, str]:
    """Return the colour and the marker of a cluster by its number, or of noise by -1."""
    if index == NOISE:
        return NOISE_STYLE
    return COLOURS[index % len(COLOURS)], MARKERS[index % len(MARKERS)]
