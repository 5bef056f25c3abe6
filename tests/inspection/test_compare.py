from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import AdaBoostClassifier
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from tests.inspection.simulation import Clock
from tests.versions import needs_sklearn

from vicinal._base import Progress
from vicinal.inspection import check, compare
from vicinal.inspection.candidates import candidate_models
from vicinal.inspection.compare._compare import Board
from vicinal.inspection.compare._comparison import ComparisonEntry
from vicinal.inspection.compare._folds import FoldResult, FoldRunner, WorkerPool
from vicinal.inspection.results import Comparison
from vicinal.local import LocalClassifier


class Broken(ClassifierMixin, BaseEstimator):
    def fit(self, X, y):
        raise RuntimeError("cannot learn\nsecond line")


def test_scores_equal_cross_val_score_on_the_same_folds(three_classes):
    X, y = three_classes
    board = compare({"5-NN": KNeighborsClassifier()}, X, y, cv=4, random_state=3)
    folds = StratifiedKFold(4, shuffle=True, random_state=np.random.RandomState(3))
    expected = cross_val_score(KNeighborsClassifier(), X, y, cv=folds)
    np.testing.assert_array_equal(board.entries[0].scores, expected)
    assert board.entries[0].standard_error == pytest.approx(expected.std(ddof=1) / 2)


@pytest.mark.parametrize("metric", [
    "neg_log_loss", "roc_auc_ovr", "f1_macro",
    pytest.param("neg_brier_score", marks=needs_sklearn("1.7", "Brier score of several classes")),
])  # fmt: skip
def test_scores_of_stored_predictions_are_those_of_the_model(three_classes, metric):
    X, y = three_classes
    board = compare({"bayes": GaussianNB()}, X, y, metric=metric)
    folds = StratifiedKFold(5, shuffle=True, random_state=np.random.RandomState(0))
    expected = cross_val_score(GaussianNB(), X, y, cv=folds, scoring=metric)
    np.testing.assert_allclose(board.entries[0].scores, expected)


def test_decision_values_are_enough_for_a_metric_that_takes_them(three_classes):
    X, y = three_classes
    models = {"svc": LinearSVC(random_state=0)}
    assert compare(models, X, y == 1, metric="roc_auc").entries[0].mean > 0.7
    failed = compare(models, X, y == 1, metric="neg_log_loss").entries[0]
    assert "neg_log_loss needs scores that this model does not give" in failed.error


def test_losses_are_shown_positive(three_classes):
    models = {"guess": DummyClassifier(), "bayes": GaussianNB()}
    board = compare(models, *three_classes, metric="neg_log_loss")
    assert board.entries[0].name == "bayes"
    lines = str(board).splitlines()
    assert lines[0].endswith("5-fold log loss, lower is better")
    assert 0 < float(lines[2].split()[2]) < float(lines[3].split()[2])
    assert board.to_dict()["models"][0]["score"] < 0


def test_out_of_fold_predictions_cover_every_row_once(three_classes):
    X, y = three_classes
    found = compare({"bayes": GaussianNB()}, X, y).entries[0].out_of_fold
    np.testing.assert_array_equal(found.rows, np.arange(len(y)))
    np.testing.assert_array_equal(found.classes, [0, 1, 2])
    assert found.proba.shape == (len(y), 3)
    assert np.mean(found.prediction == y) == pytest.approx(
        compare({"bayes": GaussianNB()}, X, y).entries[0].mean
    )


def test_class_missing_in_a_fold_shifts_no_column(three_classes):
    X, y = three_classes
    y = np.where(np.arange(len(y)) == 7, 9, y)  # one row of class 9: four folds train on it
    with pytest.warns(UserWarning, match="least populated class"):
        board = compare({"bayes": GaussianNB(var_smoothing=1e-3)}, X, y)
    found = board.entries[0].out_of_fold
    assert found.proba.shape == (len(y), 4)
    np.testing.assert_array_equal(found.classes[found.proba.argmax(axis=1)], found.prediction)


def test_encoder_sees_training_rows_only(three_classes):
    X, y = three_classes
    plain = compare({"3-NN": KNeighborsClassifier(3)}, X * [1, 9, 1, 50, 2], y)
    encoded = compare(
        {"3-NN": KNeighborsClassifier(3)}, X * [1, 9, 1, 50, 2], y, encoder=StandardScaler()
    )
    folds = StratifiedKFold(5, shuffle=True, random_state=np.random.RandomState(0))
    piped = make_pipeline(StandardScaler(), KNeighborsClassifier(3))
    expected = cross_val_score(piped, X * [1, 9, 1, 50, 2], y, cv=folds)
    np.testing.assert_array_equal(encoded.entries[0].scores, expected)
    assert plain.entries[0].mean != encoded.entries[0].mean


# --- workers, budget, cache ---


def test_workers_give_the_scores_of_this_process(three_classes):
    models = {"guess": DummyClassifier(), "bayes": GaussianNB()}
    here = compare(models, *three_classes)
    there = compare(models, *three_classes, n_jobs=2)
    for a, b in zip(here.entries, there.entries, strict=True):
        assert a.name == b.name
        np.testing.assert_array_equal(a.scores, b.scores)


def test_slow_model_is_stopped_and_its_worker_goes_on_with_others(three_classes):
    """The limit of the slow fold is over when it starts; no other fold has a limit."""
    X, y = three_classes
    slow = AdaBoostClassifier(n_estimators=10**7)  # hours
    folds = [(np.arange(len(y)), np.arange(10))]
    runner = FoldRunner({"slow": slow, "bayes": GaussianNB()}, X, y, folds, None)
    ended = []
    with WorkerPool(runner, 1) as pool:
        for name, limit in (("slow", 0.0), ("bayes", np.inf)):
            while not pool.has_idle_worker():
                assert pool.wait(np.inf) is None
            pool.submit((name, 0), np.inf, limit)
            while not (found := pool.wait(np.inf)):
                assert pool.tasks == [(name, 0)]
            ended.append(found)
            assert not pool.tasks
    (stopped, nothing, _), (finished, result, _) = ended
    assert (stopped, nothing, finished) == (("slow", 0), None, ("bayes", 0))
    assert result.error == ""
    np.testing.assert_array_equal(result.prediction, GaussianNB().fit(X, y).predict(X[:10]))


def test_models_compared_within_a_budget_have_the_scores_of_this_process(three_classes):
    models = {"guess": DummyClassifier(), "bayes": GaussianNB()}
    here = compare(models, *three_classes)
    there = compare(models, *three_classes, time_budget=10**5, n_jobs=1)
    for a, b in zip(here.entries, there.entries, strict=True):
        np.testing.assert_array_equal(a.scores, b.scores)


def test_model_that_kills_its_process_is_listed_with_the_reason(three_classes):
    models = {"bayes": GaussianNB(), "suicidal": GaussianNB(priors=_Suicidal())}
    board = compare(models, *three_classes, n_jobs=1)
    assert [entry.name for entry in board.entries] == ["bayes", "suicidal"]
    assert "its process ended (exit code 3)" in board.entries[1].error


class _Suicidal:
    """Ends the process that turns it into an array."""

    def __reduce__(self):
        return eval, (
            "type('Bomb', (), {'__array__': lambda *a, **k: __import__('os')._exit(3)})()",
        )


def test_cache_gives_back_what_was_computed(three_classes, tmp_path):
    X, y = three_classes
    names = np.array(["a", "b", "c"], dtype=object)[y]
    models = {"bayes": GaussianNB(), "line": LinearSVC(random_state=0)}
    first = compare(models, X, names, cache=tmp_path)
    assert len(list(tmp_path.glob("*.npz"))) == 10
    again = compare(models, X, names, cache=tmp_path)
    for a, b in zip(first.entries, again.entries, strict=True):
        np.testing.assert_array_equal(a.scores, b.scores)
        assert a.fit_seconds == b.fit_seconds  # not computed again
        np.testing.assert_array_equal(a.out_of_fold.prediction, b.out_of_fold.prediction)
    assert not list(tmp_path.glob(".*"))


def test_cache_knows_data_model_folds_and_encoder_apart(three_classes, tmp_path):
    X, y = three_classes
    model = {"bayes": GaussianNB()}
    calls = [
        (model, X, {}),
        (model, X + 1, {}),
        ({"bayes": GaussianNB(var_smoothing=0.1)}, X, {}),
        (model, X, {"cv": 4}),
        (model, X, {"random_state": 1}),
        (model, X, {"encoder": StandardScaler()}),
    ]
    for n, (models, table, options) in enumerate(calls, start=1):
        compare(models, table, y, cache=tmp_path, **options)
        n_files = 5 * n if n < 4 else 5 * n - 1
        assert len(list(tmp_path.glob("*.npz"))) == n_files
    compare(model, X, y, cache=tmp_path, metric="neg_log_loss")  # from the same predictions
    assert len(list(tmp_path.glob("*.npz"))) == n_files


def test_damaged_file_in_the_cache_is_computed_again(three_classes, tmp_path):
    first = compare({"bayes": GaussianNB()}, *three_classes, cache=tmp_path)
    for path in tmp_path.glob("*.npz"):
        path.write_bytes(path.read_bytes()[:50])
    again = compare({"bayes": GaussianNB()}, *three_classes, cache=tmp_path)
    np.testing.assert_array_equal(first.entries[0].scores, again.entries[0].scores)


def test_callback_sees_the_leaderboard_grow(three_classes):
    seen = []
    compare(
        {"guess": DummyClassifier(), "bayes": GaussianNB()},
        *three_classes,
        callback=lambda board: seen.append([len(entry.scores) for entry in board.entries]),
    )
    assert seen[0] == [1]
    assert seen[1] == [1, 1]
    assert seen[-1] == [5, 5]


def test_best_first_and_failures_last_with_their_reason(three_classes):
    models = {"broken": Broken(), "guess": DummyClassifier(), "5-NN": KNeighborsClassifier()}
    board = compare(models, *three_classes)
    assert [entry.name for entry in board.entries] == ["5-NN", "guess", "broken"]
    assert board.entries[-1].error == "RuntimeError: cannot learn"
    assert "failed: RuntimeError: cannot learn" in str(board)


def test_regressors_are_scored_by_r2(smooth_target):
    board = compare({"line": LinearRegression()}, *smooth_target)
    assert board.metric == "r2"
    assert board.entries[0].mean > 0.99


def test_a_note_names_extreme_targets_that_decide_the_scores(smooth_target):
    X, y = smooth_target
    models = {"mean": DummyRegressor()}
    assert compare(models, X, y).warning == ""
    spoiled = y.copy()
    spoiled[[3, 17]] = 1e4, -3e4
    board = compare(models, X, spoiled)
    assert board.entries[0].scores.min() < -1.0
    expected = (
        f"More than 90 % of the variance of the target is in 2 of {len(y)} rows, so extreme "
        "targets decide the scores; look at them with `vicinal check`, or compare by "
        "neg_mean_absolute_error."
    )
    assert board.warning == board.to_dict()["note"] == expected
    assert str(board).splitlines()[1] == expected
    assert set(check(X, spoiled)["labels"]["row"][:2]) == {3, 17}
    assert compare(models, X, spoiled, metric="neg_mean_absolute_error").warning == ""
    assert compare(models, X[:29], spoiled[:29]).warning == ""  # three rows would not be few
    entry = replace(board.entries[0], scores=board.entries[0].scores[:1], folds=(0,))
    unfinished = replace(board, entries=[entry]).warning
    assert unfinished.startswith("Unfinished: mean (1 of 5 folds)")
    assert unfinished.endswith(f"others. {expected}")


def test_single_fold_has_no_standard_error():
    note = "unfinished: 1 of 5 folds"
    entry = ComparisonEntry("alone", np.array([0.5]), 1.0, 0.1, note=note, folds=(0,))
    text = str(Comparison([entry], "accuracy", 5, 10, 2))
    assert "nan" not in text
    assert text.endswith(note)


def test_progress_on_request(three_classes, capsys):
    compare({"guess": DummyClassifier()}, *three_classes, verbose=1)
    assert "[comparing] 5/5" in capsys.readouterr().err


def test_nothing_to_compare_is_an_error(three_classes):
    with pytest.raises(ValueError, match="models is empty"):
        compare({}, *three_classes)
    with pytest.raises(ValueError, match="models is a list; give a dictionary"):
        compare([DummyClassifier()], *three_classes)


def test_unknown_metric_and_empty_budget_are_errors_before_work(three_classes):
    with pytest.raises(ValueError, match="'beauty'"):
        compare({"guess": DummyClassifier()}, *three_classes, metric="beauty")
    with pytest.raises(ValueError, match="time_budget=0 must be positive"):
        compare({"guess": DummyClassifier()}, *three_classes, time_budget=0)


def test_unknown_task_names_the_choices():
    with pytest.raises(ValueError, match="'ranking' is unknown.*'regression'"):
        candidate_models("ranking")


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_every_candidate_fits_a_small_table(task, three_classes, smooth_target):
    X, y = three_classes if task == "classification" else smooth_target
    board = compare(candidate_models(task), X[:100], y[:100], cv=2)
    assert [entry.error for entry in board.entries if entry.error] == []


# --- folds that all have, time that is left, other folds, weights ---


@pytest.fixture
def small_board():
    """A board of two models and three folds, and a function that makes results."""
    y = np.arange(12) % 2
    folds = [(np.arange(12), np.arange(k, 12, 3)) for k in range(3)]
    models = {"lucky": GaussianNB(), "steady": DummyClassifier()}

    def result(fold, is_right):
        truth = y[folds[fold][1]]
        predicted = truth if is_right else np.zeros_like(truth)
        return FoldResult(predicted, np.array([0, 1]), None, None, 1.0, 0.0)

    with Progress(6, "test") as progress:
        runner = FoldRunner(models, y[:, None], y, folds, None)
        yield Board(runner, "accuracy", None, progress, None), result


def test_fewer_folds_do_not_outrank_more(small_board):
    """One lucky fold is no reason to stand above three: below, without a rank, with a note."""
    board, result = small_board
    board.finish(("lucky", 0), result(0, True))
    board.give_up("lucky", 5.0)
    assert board.comparison().entries[0].note == "unfinished: 1 of 3 folds"
    for fold in range(3):
        board.finish(("steady", fold), result(fold, False))
    found = board.comparison()
    assert [entry.name for entry in found.entries] == ["steady", "lucky"]
    assert found.ranks == [1, None]
    assert [row["rank"] for row in found.to_dict()["models"]] == [1, None]
    # A fold that ends after its model was given up counts, and the note with it.
    board.finish(("lucky", 1), result(1, True))
    assert board.comparison().entries[1].note.startswith("unfinished: 2 of 3 folds")
    # Time is left: it goes to the model that got too little, if it is enough.
    board.todo = []
    board.take_up(5.5)
    assert board.todo == []
    board.take_up(7.0)
    assert board.todo == [("lucky", 2)]
    board.todo = []
    board.finish(("lucky", 2), result(2, True))
    assert board.comparison().ranks == [1, 2]
    assert board.comparison().entries[0].name == "lucky"
    assert board.comparison().entries[0].note == ""
    assert board.comparison().warning == ""


def test_an_unfinished_comparison_warns_before_it_names_a_winner(small_board):
    board, result = small_board
    for fold in range(3):
        board.finish(("steady", fold), result(fold, False))
    board.finish(("lucky", 0), result(0, True))
    board.give_up("lucky", 5.0)
    found = board.comparison()
    common = found.entries[0].scores[0]
    assert found.entries[1].versus(found.entries[0]) == (1.0, common)
    assert found.entries[1].note == (
        f"unfinished: 1 of 3 folds; 1.0000 versus {common:.4f} of steady on common folds"
    )
    expected = (
        "Unfinished: lucky (1 of 3 folds and ahead on them). Ranks compare the models that have "
    )
    assert found.warning == expected + "3 of 3 folds; a longer time budget finishes the others."
    assert str(found).splitlines()[1] == found.warning
    html = found._repr_html_()
    assert html.index(found.warning) < html.index("steady</td>")
    assert found.to_dict()["unfinished"] == ["lucky"]
    assert [row["folds"] for row in found.to_dict()["models"]] == [[0, 1, 2], [0]]


def test_ranks_compare_models_on_the_same_folds(small_board):
    """As many folds, but others: the scores are not comparable."""
    board, result = small_board
    for fold in (1, 2):
        board.finish(("lucky", fold), result(fold, True))
    for fold in (0, 1):
        board.finish(("steady", fold), result(fold, False))
    for name in ("lucky", "steady"):
        board.give_up(name, 1.0)
    found = board.comparison()
    assert found.ranks == [1, None]
    assert "on common folds" in found.entries[1].note


def test_encoding_is_not_counted_as_the_model_s(three_classes, monkeypatch):
    from vicinal._base import _clock

    clock = Clock()
    monkeypatch.setattr(_clock, "now", clock)

    class Slow(StandardScaler):
        def fit(self, X, y=None, sample_weight=None):
            clock.seconds += 4.0
            return super().fit(X, y)

    class Timed(GaussianNB):
        def fit(self, X, y):
            clock.seconds += 1.0
            return super().fit(X, y)

        def predict_proba(self, X):
            clock.seconds += 0.5
            return super().predict_proba(X)

    board = compare({"bayes": Timed()}, *three_classes, encoder=Slow())
    assert board.entries[0].fit_seconds == 1.0
    assert board.entries[0].predict_seconds == 0.5


def test_processes_share_the_encoded_rows_of_a_fold(three_classes, tmp_path):
    fits = []

    class Counting(StandardScaler):
        def fit(self, X, y=None, sample_weight=None):
            fits.append(1)
            return super().fit(X, y)

    X, y = three_classes
    rows = np.arange(len(y))
    folds = [(rows[::2], rows[1::2]), (rows[1::2], rows[::2])]
    runners = [FoldRunner({"bayes": GaussianNB()}, X, y, folds, Counting()) for _ in range(2)]
    for runner in runners:
        runner.folder = tmp_path
        for fold in (0, 1, 0):
            runner.encode("bayes", fold)
    assert fits == [1, 1]
    first, second = (runner.run("bayes", 1) for runner in runners)
    assert first.error == ""
    np.testing.assert_array_equal(first.proba, second.proba)
    assert fits == [1, 1]


def test_max_fit_time_of_a_model_is_set(three_classes):
    planned = []

    class Timed(DummyClassifier):
        def __init__(self, max_fit_time=None):
            super().__init__()
            self.max_fit_time = max_fit_time

        def fit(self, X, y):
            planned.append(self.max_fit_time)
            return super().fit(X, y)

    X, y = three_classes
    folds = [(np.arange(len(y)), np.arange(10))]
    runner = FoldRunner({"timed": Timed(), "set": Timed(3.0)}, X, y, folds, None)
    for name, seconds in (("timed", 10.0), ("timed", np.inf), ("set", 10.0)):
        assert runner.run(name, 0, seconds).error == ""
    assert planned == [pytest.approx(7.0), None, 3.0]


class _Grouped(GaussianNB):
    def fit(self, X, y, groups=None):
        assert groups is not None
        assert len(groups) == len(y)
        return super().fit(X, y)


def test_groups_reach_models_that_take_them(three_classes):
    X, y = three_classes
    models = {"plain": GaussianNB(), "in a pipeline": make_pipeline(StandardScaler(), _Grouped())}
    board = compare(models, X, y, groups=np.arange(len(y)) // 7)
    assert all(len(entry.scores) == 5 for entry in board.entries)


def test_any_splitter_groups_and_weights(three_classes):
    from sklearn.model_selection import GroupKFold, TimeSeriesSplit, cross_val_score

    X, y = three_classes
    groups = np.arange(len(y)) // 7
    board = compare({"bayes": GaussianNB()}, X, y, cv=GroupKFold(3), groups=groups)
    expected = cross_val_score(GaussianNB(), X, y, cv=GroupKFold(3), groups=groups)
    np.testing.assert_array_equal(board.entries[0].scores, expected)
    rolling = compare({"bayes": GaussianNB()}, X, y, cv=TimeSeriesSplit(4))
    assert rolling.n_folds == 4
    assert len(rolling.entries[0].out_of_fold.rows) < len(y)
    found = compare({"bayes": GaussianNB()}, X, y, groups=groups)
    assert found.n_folds == 5
    weights = np.where(y == 0, 5.0, 1.0)
    plain = compare({"bayes": GaussianNB(), "guess": DummyClassifier()}, X, y)
    weighted = compare(
        {"bayes": GaussianNB(), "guess": DummyClassifier()}, X, y, sample_weight=weights
    )
    assert weighted.entries[1].mean > plain.entries[1].mean + 0.2  # the guess is now class 0


def test_a_model_that_takes_strings_gets_the_table_itself():
    pandas = pytest.importorskip("pandas")
    from sklearn.linear_model import LogisticRegression

    from vicinal.table import TableEncoder

    table = pandas.DataFrame({"color": ["red", "blue"] * 30, "size": np.arange(60.0)})
    y = np.array([0, 1] * 30)
    board = compare(
        {
            "own": make_pipeline(TableEncoder(), LogisticRegression()),
            "encoded": KNeighborsClassifier(),
        },
        table,
        y,
        encoder=TableEncoder(),
    )
    assert [entry.error for entry in board.entries] == ["", ""]


def test_fewer_rows_of_a_class_than_folds_are_named():
    with pytest.raises(ValueError, match=r"cv=5 folds need as many rows of a class.*lower cv"):
        compare({"guess": DummyClassifier()}, np.zeros((6, 2)), np.arange(6) % 2)


@pytest.mark.parametrize("n", [10, 24])
def test_tables_of_a_few_rows_are_compared(n):
    X, y = np.random.RandomState(0).normal(size=(n, 2)), np.arange(n) % 2
    models = {"local": LocalClassifier(), "bayes": GaussianNB(), "guess": DummyClassifier()}
    board = compare(models, X, y)
    assert [entry.error for entry in board.entries if entry.error] == []
    assert len(board.entries) == 3
