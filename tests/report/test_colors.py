"""A class has the same colour in every part of a page."""

import re

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

pytest.importorskip("jinja2")

from vicinal.inspection import explain
from vicinal.inspection.colors import class_color, color_index
from vicinal.report import ModelReport
from vicinal.report.results import ExplanationReport


@pytest.fixture(scope="module")
def classes():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(120, 3))
    return X, np.where(X[:, 0] + 0.3 * rng.normal(size=120) > 0, "yes", "no")


def test_contributions_have_the_colour_of_the_class_they_favour(classes):
    X, y = classes
    model = KNeighborsClassifier(9).fit(X, y)
    for row in X[:6]:
        found = explain(model, row, background=X[60:], X_train=X)
        part = ExplanationReport(found).as_dict()["part"]
        code = model.classes_.tolist().index(found.prediction)
        for step in part["waterfall"]["steps"]:
            favoured = code if step["part"] >= 0 else 1 - code
            assert step["color"] == f"k{color_index(favoured)}"
        shares = {share["label"]: share["code"] for share in part["shares"]}
        neighbors = next(s for s in part["sections"] if s["key"] == "neighbors")
        assert len(neighbors["dots"]) == 9
        for dot in neighbors["dots"]:
            assert dot["code"] == shares.get(dot["label"], dot["code"])
            assert model.classes_[dot["code"]] == dot["label"]


def test_every_part_of_a_report_uses_the_position_of_the_class(classes):
    X, y = classes
    model = KNeighborsClassifier(9).fit(X[:60], y[:60])
    page = ModelReport(model, X[60:], y[60:], n_explained=2).as_dict()
    labels = {"no": 0, "yes": 1}
    for part in (*page["uncertain"], *page["explanations"]):
        assert all(labels[share["label"]] == share["code"] for share in part["shares"])
    for curve in page["ranking"]["curves"]:
        assert labels[curve["label"]] == curve["code"]
    for point in page["map"]["points"]:
        assert labels[point["label"]] == point["code"]
    for column in page["effects"]["columns"]:
        assert all(labels[line["label"]] == line["code"] for line in column["lines"])


def test_the_style_sheet_has_the_colours_of_the_plots(classes):
    X, y = classes
    html = ModelReport(KNeighborsClassifier().fit(X, y), X, y, n_explained=1).html()
    light = dict(re.findall(r"--c(\d): (#\w+);", html.split("@media")[0]))
    assert light == {str(k): class_color(k) for k in range(10)}
    assert html.count(class_color(1, dark=True)) == 2  # by preference and by choice
