import json

import numpy as np
import pytest
from sklearn import metrics
from sklearn.datasets import load_diabetes, make_blobs
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from vicinal import LocalRegressor, SpacePartitioningClassifier
from vicinal._base._held_out import OutOfFold
from vicinal.inspection import compare, label_issues
from vicinal.report import ModelReport
from vicinal.report._held_out import HeldOutPredictions
from vicinal.report._quality import calibration, classification_facts, confusion
from vicinal.report._table import flat_picture, regions

pytest.importorskip("jinja2")


# --- numbers behind the pictures ---


def test_calibration_of_two_classes_by_hand():
    classes = np.array(["no", "yes"])
    p = np.array([0.05, 0.05, 0.95, 0.95, 0.92])
    y = np.array(["no", "yes", "yes", "yes", "no"])
    found = calibration(y, np.column_stack([1 - p, p]), classes, 1)
    assert [point["count"] for point in found["points"]] == [2, 3]
    assert [point["observed"] for point in found["points"]] == [0.5, pytest.approx(2 / 3)]
    assert found["error"] == pytest.approx((2 * 0.45 + 3 * (0.94 - 2 / 3)) / 5)
    assert found["of"] == "P(yes)"


def test_calibration_of_more_classes_is_that_of_the_predicted_one():
    proba = np.array([[0.8, 0.1, 0.1], [0.2, 0.25, 0.55], [0.85, 0.15, 0.0]])
    found = calibration(np.array([0, 1, 0]), proba, np.arange(3), 1)
    assert [(point["count"], point["observed"]) for point in found["points"]] == [(1, 0), (2, 1)]


def test_facts_are_those_of_scikit_learn(three_classes):
    X, y = three_classes
    model = GaussianNB().fit(X[::2], y[::2])
    proba = model.predict_proba(X)
    facts = classification_facts(y, proba, model.classes_, model.predict(X))
    assert facts["accuracy"] == pytest.approx(model.score(X, y))
    assert facts["log loss"] == pytest.approx(metrics.log_loss(y, proba))
    assert facts["balanced accuracy"] == pytest.approx(
        metrics.balanced_accuracy_score(y, model.predict(X))
    )


def test_many_classes_show_mistakes_instead_of_a_matrix():
    y = np.repeat(np.arange(15), 4)
    prediction = y.copy()
    prediction[:3] = 7
    found = confusion(y, prediction, np.arange(15))
    assert not found["is_matrix"]
    assert found["mistakes"] == [{"true": "0", "predicted": "7", "count": 3, "share": 0.75}]


def test_confusion_by_hand():
    y, prediction = np.array(["a", "a", "a", "b"]), np.array(["a", "a", "b", "b"])
    found = confusion(y, prediction, np.array(["a", "b"]))
    assert [[cell["count"] for cell in row] for row in found["cells"]] == [[2, 1], [0, 1]]
    assert found["per_class"] == [
        {"label": "a", "count": 3, "recall": pytest.approx(2 / 3), "precision": 1.0},
        {"label": "b", "count": 1, "recall": 1.0, "precision": 0.5},
    ]


def test_uncertainty_is_one_for_equal_probabilities_and_zero_for_certain_ones():
    proba = np.array([[0.5, 0.5], [1.0, 0.0]])
    predictions = OutOfFold(np.arange(2), np.arange(2), proba, np.arange(2))
    uncertainty = HeldOutPredictions(None, np.arange(2), predictions).uncertainty
    np.testing.assert_allclose(uncertainty, [1.0, 0.0], atol=1e-9)


@pytest.mark.parametrize("n_columns", [1, 2, 6])
@pytest.mark.parametrize("n_classes", [2, 4, None])
def test_picture_is_flat_and_in_the_unit_square(n_columns, n_classes, rng):
    Z = rng.normal(size=(80, n_columns))
    y = Z[:, 0] if n_classes is None else rng.randint(n_classes, size=80)
    names = [f"column {j}" for j in range(n_columns)]
    plane, axes = flat_picture(Z, y, n_classes is not None, names)
    assert plane.shape == (80, 2)
    if n_classes is None:
        assert axes[0] == "direction of the target: mostly column 0"
    assert plane.min() >= 0
    assert plane.max() <= 1


def test_regions_are_described_by_what_sets_them_apart(rng):
    X = np.column_stack([np.repeat([-3.0, 3.0], 60), rng.normal(size=120)])
    y = (X[:, 1] * np.sign(X[:, 0]) > 0).astype(int)
    model = SpacePartitioningClassifier(n_regions=2, n_init=4, random_state=0).fit(X, y)
    found = regions(model, X, y, ["side", "noise"])
    assert sum(row["count"] for row in found["rows"]) == 120
    assert all(row["loss"] <= 0.2 for row in found["rows"])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3, "3"),
        (12345, "12,345"),
        (49630.0, "49,630"),
        (0.123456, "0.1235"),
        (-2.5e-7, "-2.5e-07"),
        (True, "True"),
        ("as it is", "as it is"),
        (float("nan"), ""),
    ],
)
def test_numbers_are_short(value, text):
    from vicinal.report._page import number

    assert number(value) == text


# --- the whole page as data ---


@pytest.fixture(scope="module")
def content(three_classes):
    X, y = three_classes
    names = np.array(["a", "b", "c"])[y]
    pipeline = make_pipeline(
        StandardScaler(), SpacePartitioningClassifier(n_regions=2, n_init=2, random_state=0)
    )
    board = compare({"it": pipeline}, X, names, cv=3)
    entry = board.entries[0]
    train, unseen = board.fold_of(entry)
    report = ModelReport(
        pipeline.fit(X[train], names[train]),
        X,
        names,
        out_of_fold=entry.out_of_fold,
        unseen=unseen,
        n_explained=8,
    )
    return report.as_dict(), entry, unseen


def test_page_is_plain_data(content):
    json.dumps(content[0], allow_nan=False)


def test_scores_are_those_of_the_comparison(content):
    page, entry, _ = content
    folds_are_even = len(entry.out_of_fold.rows) == 150
    assert folds_are_even
    assert page["facts"]["accuracy"] == pytest.approx(entry.mean)


def test_rows_are_explained_that_the_model_had_not_seen_and_marked_on_the_map(content):
    page, _, unseen = content
    explained = [part["row"] for part in page["explanations"]]
    assert len(explained) == 8
    assert set(explained) <= set(unseen.tolist())
    ringed = {point["row"] for point in page["map"]["points"] if point["is_explained"]}
    assert ringed == set(explained)


def test_one_set_of_predictions_throughout(content):
    """The model fitted again on a fold's rows predicts as in the comparison."""
    page, entry, _ = content
    for part in page["explanations"]:
        at = part["row"]
        predicted = {share["label"]: share["share"] for share in part["shares"]}
        stated = dict(zip(entry.out_of_fold.classes, entry.out_of_fold.proba[at], strict=True))
        assert predicted == {label: pytest.approx(stated[label]) for label in predicted}
        assert part["prediction"] == entry.out_of_fold.prediction[at]


def test_predictions_of_another_model_replace_them(three_classes):
    """Fitted again, a model may differ: then the whole page uses its predictions."""
    X, y = three_classes
    board = compare({"it": GaussianNB()}, X, y, cv=3)
    entry = board.entries[0]
    train, unseen = board.fold_of(entry)
    other = GaussianNB(var_smoothing=1.0).fit(X[train], y[train])
    report = ModelReport(other, X, y, out_of_fold=entry.out_of_fold, unseen=unseen, n_explained=4)
    page = report.as_dict()
    proba = entry.out_of_fold.proba.copy()
    proba[unseen] = other.predict_proba(X[unseen])
    assert page["facts"]["log loss"] == pytest.approx(metrics.log_loss(y, proba))
    counted = np.array([[c["count"] for c in row] for row in page["confusion"]["cells"]])
    np.testing.assert_array_equal(counted, metrics.confusion_matrix(y, proba.argmax(axis=1)))


@pytest.mark.parametrize("positive", [None, 0, 1])
def test_a_threshold_decides_the_labels_and_is_named(positive):
    X, y = make_blobs(240, centers=2, cluster_std=6.0, random_state=0)
    model = FixedThresholdClassifier(GaussianNB(), threshold=0.2, pos_label=0).fit(X[:120], y[:120])
    report = ModelReport(model, X[120:], y[120:], positive=positive, n_explained=2)
    page, predicted = report.as_dict(), model.predict(X[120:])
    counted = np.array([[c["count"] for c in row] for row in page["confusion"]["cells"]])
    np.testing.assert_array_equal(counted, metrics.confusion_matrix(y[120:], predicted))
    assert (counted != metrics.confusion_matrix(y[120:], model.estimator_.predict(X[120:]))).any()
    zero, one = page["confusion"]["per_class"]
    assert zero["recall"] == pytest.approx(metrics.recall_score(y[120:], predicted, pos_label=0))
    assert one["precision"] == pytest.approx(metrics.precision_score(y[120:], predicted))
    assert page["facts"]["accuracy at 0.2"] == pytest.approx(model.score(X[120:], y[120:]))
    in_use = page["thresholds"]["table"][0]
    assert in_use["name"] == "in use"
    wrong = np.sum(predicted != y[120:])
    assert in_use["false_positive"] + in_use["false_negative"] == wrong
    assert page["model"] == "GaussianNB"
    for part in page["explanations"]:
        assert part["prediction"] == predicted[part["row"]]
    assert "The model predicts <b>0</b> from probability 0.2 on" in report.html()


def test_training_rows_are_shown_by_their_numbers_in_the_table(three_classes, monkeypatch):
    from vicinal.report import _model_report

    monkeypatch.setattr(_model_report, "_background_cost", lambda model, background: 0.0)
    X, y = three_classes
    seen, unseen = np.arange(1, len(y), 2), np.arange(0, len(y), 2)
    model = make_pipeline(StandardScaler(), KNeighborsClassifier()).fit(X[seen], y[seen])
    page = ModelReport(model, X, y, unseen=unseen, seen=seen, n_explained=1).as_dict()
    (part,) = page["explanations"]
    section = next(section for section in part["sections"] if section["key"] == "neighbors")
    names = section["columns"]
    assert (names[:2], names[-1]) == (["row", "target"], "distance")
    for row in section["rows"]:
        number, target, *values, _ = row["cells"]
        assert number in seen
        assert y[number] == target
        assert values == pytest.approx([X[number, int(name[1:])] for name in names[2:-1]])


def test_doubtful_rows_have_the_flattest_probabilities(content):
    page, entry, _ = content
    uncertainty = HeldOutPredictions(None, np.arange(150), entry.out_of_fold).uncertainty
    rows = [row["row"] for row in page["uncertain"]]
    assert min(uncertainty[rows]) >= np.sort(uncertainty)[-12]


def test_regions_are_shown_behind_a_pipeline(content):
    page = content[0]
    assert page["regions"]["model"] == "SpacePartitioningClassifier"
    assert sum(row["count"] for row in page["regions"]["rows"]) == 150


def test_regression_has_residuals_and_no_confusion():
    X, y = load_diabetes(return_X_y=True)
    model = LocalRegressor(n_neighbors=60).fit(X[:300], y[:300])
    report = ModelReport(model, X[300:], y[300:], n_explained=3)
    page = report.as_dict()
    assert page["facts"]["R²"] == pytest.approx(model.score(X[300:], y[300:]))
    assert "confusion" not in page
    worst = np.argmax(np.abs(model.predict(X[300:]) - y[300:]))
    assert page["uncertain"][0]["row"] == worst
    html = report.html()
    assert "Largest errors" in html
    assert "Predicted and true" in html


def test_without_a_target_uncertainty_and_explanations_remain(three_classes):
    X, y = three_classes
    model = SpacePartitioningClassifier(n_regions=2, n_init=2, random_state=0).fit(X, y)
    report = ModelReport(model, X[:60], n_explained=3)
    page = report.as_dict()
    assert "facts" not in page
    assert len(page["explanations"]) == 3
    assert page["uncertain"][0]["truth"] is None
    assert "Calibration" not in report.html()


def test_rows_are_compared_with_others_while_time_for_the_rest_is_left(three_classes, monkeypatch):
    from vicinal._base import _clock
    from vicinal.report import _model_report

    seconds, has_background, real = [0.0], [], _model_report.explain

    def explain(model, row, *, background, **options):
        has_background.append(background is not None)
        seconds[0] += 1.0 if background is None else 5.0
        return real(model, row, background=background, **options)

    monkeypatch.setattr(_clock, "now", lambda: seconds[0])
    monkeypatch.setattr(_model_report, "explain", explain)
    X, y = three_classes
    model = GaussianNB().fit(X, y)
    # One second for the first row alone, 5 for each of two with comparisons, 1 for the last.
    page = ModelReport(model, X, n_explained=3, time_budget=12.5).as_dict()
    assert has_background == [False, True, True, False]
    keys = [[section["key"] for section in part["sections"]] for part in page["explanations"]]
    assert ["counterfactual" in found for found in keys] == [True, True, False]


def test_time_budget_limits_the_explanations(three_classes):
    X, y = three_classes
    model = SpacePartitioningClassifier(n_regions=2, n_init=2, random_state=0).fit(X, y)
    page = ModelReport(model, X, y, n_explained=20, time_budget=0.0).as_dict()
    assert len(page["explanations"]) == 1


def test_findings_of_the_table_are_judged_by_the_same_predictions():
    X, y = make_blobs(200, centers=3, n_features=2, cluster_std=1.0, random_state=0)
    X = np.column_stack([X, np.ones(len(X))])
    y = np.where(np.arange(len(y)) % 10 == 0, (y + 1) % 3, y)
    board = compare({"it": GaussianNB(var_smoothing=1e-3)}, X, y, cv=3)
    entry = board.entries[0]
    train, unseen = board.fold_of(entry)
    model = GaussianNB(var_smoothing=1e-3).fit(X[train], y[train])
    report = ModelReport(model, X, y, out_of_fold=entry.out_of_fold, unseen=unseen, n_explained=1)
    found = {part["key"]: part for part in report.as_dict()["findings"]}
    suspicious = label_issues(entry.out_of_fold.proba, y)["row"]
    assert [line["row"] for line in found["labels"]["lines"]] == suspicious[:6].tolist()
    assert found["columns"]["lines"][0]["column"] == "x" + str(X.shape[1] - 1)
    assert "Findings in the table" in report.html()


def test_the_positive_class_can_be_chosen(three_classes):
    X, y = three_classes
    X, y = X[y < 2], np.array(["a", "b"])[y[y < 2]]
    model = GaussianNB().fit(X, y)
    page = ModelReport(model, X, y, positive="a", n_explained=1).as_dict()
    assert page["thresholds"]["positive"] == "a"
    assert page["calibration"]["of"] == "P(a)"
    with pytest.raises(ValueError, match="positive='c' is none of the classes"):
        ModelReport(model, X, y, positive="c").as_dict()


def test_a_report_shows_itself_in_a_notebook(three_classes):
    X, y = three_classes
    html = ModelReport(GaussianNB().fit(X, y), X, y, n_explained=1)._repr_html_()
    assert html.startswith("<iframe")
    assert "&lt;!doctype html&gt;" in html


def test_frames_with_numbered_columns():
    pandas = pytest.importorskip("pandas")
    rng = np.random.RandomState(0)
    X = pandas.DataFrame(rng.normal(size=(60, 2)))
    y = (X[0] > 0.0).to_numpy()
    report = ModelReport(GaussianNB().fit(X, y), X, y, n_explained=1, time_budget=2.0)
    assert report.as_dict()["importance"]["rows"][0]["name"] == "0"


def test_labels_that_the_model_does_not_know_are_refused():
    X = np.arange(20.0)[:, None]
    y = np.where(X[:, 0] > 9.0, "c", "a")
    model = GaussianNB().fit(X, y)
    y[3] = "b"
    with pytest.raises(ValueError, match="y has the label 'b', which the model does not know"):
        ModelReport(model, X, y, n_explained=1).as_dict()


@pytest.mark.parametrize("labels", [["a"], ["a", "b"]])
def test_rows_need_not_have_every_class_of_the_model(three_classes, labels):
    X, codes = three_classes
    y = np.array(["a", "b", "c"])[codes]
    model = GaussianNB().fit(X, y)
    rows = np.isin(y, labels)
    found = ModelReport(model, X[rows], y[rows], n_explained=1, time_budget=1.0).as_dict()
    assert found["n_rows"] == rows.sum()


@pytest.mark.parametrize("n_rows", [1, 2])
def test_a_page_about_few_rows(three_classes, n_rows):
    X, y = three_classes
    table = X[:n_rows], y[:n_rows]
    report = ModelReport(GaussianNB().fit(X, y), *table, n_explained=1, time_budget=1.0)
    assert len(report.as_dict()["explanations"]) == 1
