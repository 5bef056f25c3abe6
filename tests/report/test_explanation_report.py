from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

pytest.importorskip("jinja2")

from vicinal.inspection import explain
from vicinal.report.results import ExplanationReport

EVIL = "<script>alert(1)</script>"


class Reader(HTMLParser):
    """Headings, text and the cells of tables by the heading above them."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.tables, self.text = set(), {}, ""
        self.heading, self.tag = "", ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.tag = tag
        if tag == "h3":
            self.heading = ""
        if tag == "tr":
            self.tables.setdefault(self.heading, []).append([])
        if tag == "td":
            self.tables[self.heading][-1].append("")

    def handle_endtag(self, tag):
        self.tag = ""

    def handle_data(self, data):
        self.text += data
        if self.tag == "h3":
            self.heading += data
        if self.tag == "td":
            self.tables[self.heading][-1][-1] += data


@pytest.fixture(scope="module")
def people():
    rng = np.random.RandomState(0)
    table = pd.DataFrame(
        {
            "age": rng.randint(20, 80, 150),
            "job": rng.choice(["cook", "smith", EVIL], 150),
            "size": rng.normal(size=150),
        }
    )
    return table, table["age"] + 20 * (table["job"] == "cook") + 5 * table["size"]


def encoded(model):
    return make_pipeline(
        make_column_transformer((OneHotEncoder(), ["job"]), remainder="passthrough"), model
    )


def test_contributions_on_the_page_add_up_to_the_prediction_on_it(people):
    table, y = people
    model = encoded(RandomForestClassifier(20, random_state=0)).fit(table, y > 60)
    found = explain(model, table.iloc[[3]], background=table)
    page = Reader(ExplanationReport(found, "A row").html())
    parts = [float(row[2]) for row in page.tables["Columns"][1:-1]]  # without both ends
    assert len(parts) == 3
    values = found["columns"].values
    assert_allclose(values["baseline"] + sum(parts), values["prediction"], atol=2e-3)
    assert f"(probability {values['prediction']:.3f})" in page.text
    assert f"is {values['prediction']:.4g}" in page.text


def test_the_page_shows_the_row_and_the_sections(people):
    table, y = people
    model = encoded(Ridge()).fit(table, y)
    found = explain(model, table.iloc[[3]], background=table)
    report = ExplanationReport(found, EVIL)
    part = report.as_dict()["part"]
    assert {cell["name"]: cell["value"] for cell in part["values"]} == dict(table.iloc[3])
    assert [section["key"] for section in part["sections"]] == [
        section.key for section in found.sections
    ]
    page = Reader(report.html())
    assert EVIL in page.text
    assert report.html().count("<script") == 1  # its own


def test_the_page_is_written_whole(people, tmp_path):
    table, y = people
    found = explain(encoded(Ridge()).fit(table, y), table.iloc[[3]])
    path = ExplanationReport(found).write_html(tmp_path / "why.html")
    assert path.read_text(encoding="utf-8").rstrip().endswith("</html>")
