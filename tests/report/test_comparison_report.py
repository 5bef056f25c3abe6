import numpy as np
import pytest

from vicinal.inspection.compare._comparison import ComparisonEntry
from vicinal.inspection.results import Comparison
from vicinal.report._model_report import ComparisonReport

pytest.importorskip("jinja2")

EVIL = "<script>alert(1)</script>"


@pytest.fixture
def report():
    entries = [
        ComparisonEntry("good", np.array([0.9, 1.0]), 0.5, 0.01, folds=(0, 1)),
        ComparisonEntry(
            EVIL, np.array([0.7]), 0.1, 0.01, note="unfinished: 1 of 2 folds", folds=(0,)
        ),
        ComparisonEntry("slow", np.array([]), np.nan, np.nan, note="unfinished: 0 of 2 folds"),
        ComparisonEntry("broken", np.array([]), np.nan, np.nan, f"ValueError: {EVIL}"),
    ]
    return ComparisonReport(Comparison(entries, "accuracy", 2, 1234, 5), EVIL)


def test_scores_are_dots_with_whole_intervals_on_one_axis(report):
    board = report.as_dict()["leaderboard"]
    best, other, *without = board["rows"]
    assert 0 < other["at"] < best["at"] < 100
    assert best["low"] >= 0
    assert best["low"] + best["width"] <= 100  # nothing is cut off
    assert best["at"] - best["low"] == pytest.approx(best["width"] / 2, abs=0.1)
    assert other["width"] == 0  # one fold has no error
    assert board["axis"]["ticks"]
    assert not any(row["is_scored"] for row in without)


def test_the_summary_names_the_best_model_and_its_gain(report):
    gain = [ComparisonEntry("mean", np.array([0.5, 0.7]), 0.1, 0.1, folds=(0, 1))]
    entries = [*report.comparison.entries[:1], *gain]
    page = ComparisonReport(Comparison(entries, "accuracy", 2, 1234, 5), "t").as_dict()
    facts = {item["name"]: item["text"] for item in page["summary"]}
    assert facts["best model"] == "good"
    assert facts["table"] == "1234 rows, 5 columns"
    assert facts["gain over mean"] == "0.35 ± 0.1 (2 se)"


def test_text_is_escaped(report):
    html = report.html()
    assert EVIL not in html
    assert html.count("&lt;script&gt;") >= 3


def test_page_names_nothing_outside_itself(report):
    html = report.html()
    for reference in ("http:", "https:", "src=", "@import", "url("):
        assert reference not in html
    assert "default-src 'none'" in html


def test_unfinished_and_failed_models_are_marked(report):
    html = report.html()
    assert "1 of 2 folds" in html
    assert "unfinished: 0 of 2 folds" in html
    assert "failed: ValueError" in html
    assert html.index("Unfinished: &lt;script") < html.index('class="board"')


def test_losses_are_shown_positive():
    entries = [ComparisonEntry("line", np.array([-2.0, -3.0]), 0.1, 0.1)]
    board = Comparison(entries, "neg_mean_absolute_error", 2, 10, 1)
    leaderboard = ComparisonReport(board, "t").as_dict()["leaderboard"]
    assert leaderboard["rows"][0]["score"] == 2.5
    assert leaderboard["metric"] == "mean absolute error"
    assert leaderboard["direction"] == "lower"


def test_file_appears_whole(report, tmp_path):
    path = report.write_html(tmp_path / "page.html")
    assert path.read_text() == report.html()
    assert list(tmp_path.iterdir()) == [path]


def test_one_quantity_has_one_number():
    """R² is the leaderboard's mean over folds both times, not pooled in one of them."""
    from sklearn.datasets import load_diabetes
    from sklearn.linear_model import Ridge

    from vicinal.inspection import compare
    from vicinal.report import ModelReport

    X, y = load_diabetes(return_X_y=True)
    board = compare({"line": Ridge()}, X, y, cv=3)
    entry = board.entries[0]
    train, unseen = board.fold_of(entry)
    detail = ModelReport(
        Ridge().fit(X[train], y[train]), X, y,
        out_of_fold=entry.out_of_fold, unseen=unseen, n_explained=1,
    )  # fmt: skip
    page = ComparisonReport(board, "t", detail=detail).as_dict()
    assert page["score"] == {"name": "R²", "value": entry.mean}
    assert page["leaderboard"]["rows"][0]["score"] == entry.mean
    assert "R²" not in page["facts"]
    assert "mean absolute error" in page["facts"]
    assert page["model"] == "line"


def test_a_comparison_shows_itself_in_a_notebook(report):
    html = report.comparison._repr_html_()
    assert EVIL not in html
    assert "<td>0.9500</td>" in html
    assert "unfinished: 0 of 2 folds" in html
