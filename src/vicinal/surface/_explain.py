"""Reasons of calibrated distances: how far the row is from each surface, and what that is worth."""

from typing import Any

import numpy as np
from scipy.special import expit

from vicinal._base._explanation import ExplanationSection, show


def distance_section(
    names: list[tuple[Any, str]], distances: np.ndarray, scales: np.ndarray, logits: np.ndarray
) -> ExplanationSection:
    """Return the signed distances of one row from all surfaces, and their probabilities.

    Parameters
    ----------
    names : list of tuple
        The class on the positive side of each surface, and what is on the other.
    distances, logits : ndarray of shape (n_surfaces,)
        Signed distances, and the logits of the sigmoids there.
    scales : ndarray of shape (n_surfaces,)
        Median sizes of the distances of training rows.
    """
    table = [
        (
            f"{show(inside)} or {outside}",
            float(distances[k]),
            float(distances[k] / scales[k]),
            float(expit(logits[k])),
        )
        for k, (inside, outside) in enumerate(names)
    ]
    order = np.argsort(-logits, kind="stable")
    inside, outside = names[order[0]]
    first = table[order[0]]
    summary = (
        f"The row lies {show(abs(first[1]))} from the surface between {show(inside)} and "
        f"{outside}, on the side of {show(inside) if first[1] > 0 else outside}; that is "
        f"{show(abs(first[2]))} times the median distance, and means {show(inside)} with "
        f"probability {first[3]:.3f}."
    )
    head = ("surface", "distance", "in medians", "probability")
    rows = [table[k] for k in order]
    return ExplanationSection(
        "distances", "Distances", summary, head, rows, "distance", {"distance": first[1]}
    )
