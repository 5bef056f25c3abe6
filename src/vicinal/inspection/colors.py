"""Colours of classes: the same class has the same colour in every plot and on every page."""

# One line per class, for a light and for a dark background; none is a colour of the interface.
_CLASSES = [
    ("#3b6fb6", "#86aeea"),
    ("#d9822b", "#f0a24f"),
    ("#6a5acd", "#a196f0"),
    ("#b9475c", "#ec8598"),
    ("#5a8f3c", "#97c977"),
    ("#8a6d3b", "#c9ab74"),
    ("#b5428f", "#e58cc6"),
    ("#4b5563", "#a3aebd"),
    ("#a3a11a", "#d6d35c"),
    ("#2a9d6f", "#5fd0a2"),
]
N_COLORS = len(_CLASSES)
# Contributions that raise or lower a number, and those against a class of more than two.
UP, DOWN, NEUTRAL = "#1f7a80", "#c2410c", "#8b98a6"


def color_index(code: int) -> int:
    """Return the number of the colour of a class.

    Parameters
    ----------
    code : int
        Position of the class in ``classes_``.

    Returns
    -------
    int
        Number below ``N_COLORS``; the style sheet of the pages has a class for each.
    """
    return int(code) % N_COLORS


def class_color(code: int, *, dark: bool = False) -> str:
    """Return the colour of a class.

    Parameters
    ----------
    code : int
        Position of the class in ``classes_``.
    dark : bool, default=False
        Whether the background is dark.

    Returns
    -------
    str
        Hexadecimal colour.
    """
    return _CLASSES[color_index(code)][dark]
