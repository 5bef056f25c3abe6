"""What classes declare of their arrays is what a model file may hold."""

import numpy as np
import pytest
from scipy import sparse

from vicinal._base import check_saved


class Part:
    __saved_shapes__ = {
        "rows": "n q",
        "order": "n <n",
        "classes": "c labels",
        "limits": "q limits",
        "cells": "n q missing",
        "scale": "q | q d",
        "nets": "* | * *",
        "weights": "n shares",
        "scores": "n logs",
    }

    def __init__(self, **arrays):
        vars(self).update({"rows": np.zeros((3, 2)), **arrays})


@pytest.mark.parametrize(
    "arrays",
    [
        {},
        {"rows": sparse.csr_array(np.eye(3)[:, :2])},
        {"order": np.array([2, 0, 1], dtype=np.uint8)},
        {"order": None},
        {"classes": np.array(["a", None], dtype=object)},
        {"limits": np.array([np.inf, np.nan])},
        {"cells": np.full((3, 2), np.nan)},
        {"scores": np.array([0.0, -np.inf, 1.0])},
        {"scale": np.ones(2)},
        {"scale": np.ones((2, 7))},
        {"nets": [{"weights": np.ones(3), "curve": (np.ones((2, 2)), 1.0)}, "text", np.float64(1)]},
    ],
)
def test_arrays_as_declared_are_taken(arrays):
    check_saved(Part(**arrays))


@pytest.mark.parametrize(
    ("arrays", "match"),
    [
        ({"rows": np.zeros(6)}, r"Part.rows must have 2 axes, but is of shape \(6,\)"),
        ({"rows": "text"}, "Part.rows must have 2 axes, but is a str"),
        ({"rows": np.full((3, 2), np.nan)}, "Part.rows holds NaN or infinity"),
        ({"rows": sparse.csr_array([[np.inf, 0.0]] * 3)}, "Part.rows holds NaN or infinity"),
        ({"cells": np.full((3, 2), np.inf)}, "Part.cells holds infinity"),
        ({"rows": np.full((3, 2), "x")}, "Part.rows must hold numbers"),
        ({"order": np.arange(2)}, r"Part.order has the shape \(2,\), but must be n, where n is 3"),
        ({"order": np.array([0, 1, -1])}, "Part.order holds -1, but must be between 0 and 2"),
        ({"order": np.zeros(3)}, "Part.order must hold row numbers"),
        ({"weights": np.array([1.0, -1.0, 3.0])}, "Part.weights must hold shares"),
        ({"scores": np.array([0.0, -np.inf, np.nan])}, "Part.scores holds NaN or infinity"),
        ({"weights": np.zeros(3)}, "Part.weights must hold shares"),
        ({"scale": np.ones(3)}, "Part.scale has the shape"),
        ({"nets": [{"weights": np.array([np.inf])}]}, "Part.nets holds NaN or infinity"),
    ],
)
def test_other_arrays_are_refused_by_name(arrays, match):
    with pytest.raises(ValueError, match=match):
        check_saved(Part(**arrays))
