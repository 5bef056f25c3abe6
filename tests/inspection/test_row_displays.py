"""Pictures of intervals and of wrong labels."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from vicinal.inspection import IntervalCoverageDisplay, LabelIssuesDisplay
from vicinal.inspection.checks._findings import Findings

pytest.importorskip("matplotlib").use("Agg")


class Fixed:
    """Intervals around zero, as wide as the first column says."""

    def predict_interval(self, X, coverage):
        half = 0.5 * np.asarray(X)[:, 0]
        return np.column_stack([-half, half])


def test_coverage_is_counted_by_width():
    X = np.r_[np.full(10, 4.0), np.full(10, 2.0)][:, None]
    y = np.r_[np.zeros(10), np.full(5, 0.5), np.full(5, 3.0)]
    display = IntervalCoverageDisplay.from_estimator(Fixed(), X, y, coverage=0.8, n_parts=2)
    assert_allclose(display.width, [2.0, 4.0])
    assert_allclose(display.covered, [0.5, 1.0])
    assert_allclose(display.line_.get_ydata(), [0.5, 1.0])
    assert display.target_.get_ydata()[0] == 0.8


def test_suspicious_rows_are_ringed():
    pd = pytest.importorskip("pandas")
    y = np.array(["a", "a", "a", "b", "b"])
    found = Findings("One looks wrong.", {"row": np.array([2])})
    table = pd.DataFrame({"p": np.arange(5.0), "q": np.ones(5), "r": np.zeros(5)})
    display = LabelIssuesDisplay.from_findings(found, table, y, columns=("p", "r"))
    assert display.rows.tolist() == [2]
    assert_allclose(display.marks_.get_offsets(), [[2.0, 0.0]])
    assert display.ax_.get_xlabel() == "p"
    numbered = table.set_axis([10, 11, 12], axis=1)
    assert LabelIssuesDisplay.from_findings(found, numbered, y, columns=(0, 2)).names == [
        "10",
        "12",
    ]
    by_position = LabelIssuesDisplay.from_findings(found, table.to_numpy(), y, columns=(0, 2))
    assert by_position.ax_.get_ylabel() == "x2"
