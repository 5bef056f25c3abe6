import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import AdaBoostClassifier
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from vicinal.inspection import Comparison, candidate_models, compare
from vicinal.inspection._compare import ComparisonEntry
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


@pytest.mark.parametrize("metric", ["neg_log_loss", "roc_auc_ovr", "f1_macro", "neg_brier_score"])
def test_scores_of_stored_answers_are_those_of_the_model(three_classes, metric):
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


def test_losses_are_shown_as_people_say_them(three_classes):
    models = {"guess": DummyClassifier(), "bayes": GaussianNB()}
    board = compare(models, *three_classes, metric="neg_log_loss")
    assert board.entries[0].name == "bayes"
    lines = str(board).splitlines()
    assert lines[0].endswith("5-fold log loss, lower is better")
    assert 0 < float(lines[2].split()[2]) < float(lines[3].split()[2])
    assert board.to_dict()["models"][0]["score"] < 0


def test_out_of_fold_answers_cover_every_row_once(three_classes):
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


def test_slow_model_is_stopped_and_the_others_are_not_made_to_wait(three_classes):
    slow = AdaBoostClassifier(n_estimators=10**7)  # hours
    models = {"guess": DummyClassifier(), "slow": slow, "bayes": GaussianNB()}
    board = compare(models, *three_classes, time_budget=40, n_jobs=1)
    assert [entry.name for entry in board.entries] == ["bayes", "guess", "slow"]
    assert len(board.entries[0].scores) == 5
    assert board.entries[2].note == "over budget: 0 of 5 folds"
    assert "over budget: 0 of 5 folds" in str(board)


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
    compare(model, X, y, cache=tmp_path, metric="neg_log_loss")  # from the same answers
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


def test_single_fold_has_no_standard_error():
    entry = ComparisonEntry("alone", np.array([0.5]), 1.0, 0.1, note="over budget: 1 of 5 folds")
    text = str(Comparison([entry], "accuracy", 5, 10, 2))
    assert "nan" not in text
    assert text.endswith("over budget: 1 of 5 folds")


def test_progress_on_request(three_classes, capsys):
    compare({"guess": DummyClassifier()}, *three_classes, verbose=1)
    assert "[comparing] 5/5" in capsys.readouterr().err


def test_nothing_to_compare_is_an_error(three_classes):
    with pytest.raises(ValueError, match="models is empty"):
        compare({}, *three_classes)


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
    data = three_classes if task == "classification" else smooth_target
    board = compare(candidate_models(task), *data, cv=2)
    assert [entry.error for entry in board.entries if entry.error] == []


# --- folds that all have, time that is left, other folds, weights ---


def test_fewer_folds_do_not_outrank_more():
    """One lucky fold is no reason to stand above five: below, without a rank, and said so."""
    from vicinal._base import Progress
    from vicinal.inspection._compare import _Board
    from vicinal.inspection._folds import FoldResult, FoldRunner

    y = np.arange(12) % 2
    folds = [(np.arange(12), np.arange(k, 12, 3)) for k in range(3)]
    models = {"lucky": GaussianNB(), "steady": DummyClassifier()}
    with Progress(6, "test") as progress:
        runner = FoldRunner(models, y[:, None], y, folds, None)
        board = _Board(runner, "accuracy", None, progress, None)

        def answer(fold, is_right):
            truth = y[folds[fold][1]]
            said = truth if is_right else np.zeros_like(truth)
            return FoldResult(said, np.array([0, 1]), None, None, 1.0, 0.0)

        board.finish(("lucky", 0), answer(0, True))
        board.give_up("lucky", 5.0)
        assert board.comparison().entries[0].note == "over budget: 1 of 3 folds"
        for fold in range(3):
            board.finish(("steady", fold), answer(fold, False))
        found = board.comparison()
        assert [entry.name for entry in found.entries] == ["steady", "lucky"]
        assert found.ranks == [1, None]
        assert [row["rank"] for row in found.to_dict()["models"]] == [1, None]
        # A fold that ends after its model was given up counts, and the note with it.
        board.finish(("lucky", 1), answer(1, True))
        assert board.comparison().entries[1].note == "over budget: 2 of 3 folds"
        # Time is left: it goes to the model that got too little, if it is enough.
        board.todo = []
        board.take_up(5.5)
        assert board.todo == []
        board.take_up(7.0)
        assert board.todo == [("lucky", 2)]
        board.todo = []
        board.finish(("lucky", 2), answer(2, True))
        assert board.comparison().ranks == [1, 2]
        assert board.comparison().entries[0].name == "lucky"
        assert board.comparison().entries[0].note == ""


def test_budget_holds_with_starts_of_processes_and_encoding(three_classes):
    import os
    import time

    slow = AdaBoostClassifier(n_estimators=10**7)
    started = time.monotonic()
    board = compare(
        {"slow": slow, "bayes": GaussianNB()},
        *three_classes,
        time_budget=15,
        n_jobs=2,
        encoder=StandardScaler(),
    )
    elapsed = time.monotonic() - started
    if elapsed > 16.5 and os.getloadavg()[0] > os.cpu_count():
        pytest.skip("the machine is busy with other work, so seconds say nothing")
    assert elapsed < 16.5
    assert {entry.name for entry in board.entries} == {"slow", "bayes"}


def test_slow_encoding_is_not_counted_as_the_model_s(three_classes):
    class SlowScaler(StandardScaler):
        def fit(self, X, y=None, sample_weight=None):
            import time

            time.sleep(4)
            return super().fit(X, y)

    board = compare(
        {"guess": DummyClassifier(), "bayes": GaussianNB()},
        *three_classes,
        cv=2,
        time_budget=60,
        n_jobs=1,
        encoder=SlowScaler(),
    )
    assert [len(entry.scores) for entry in board.entries] == [2, 2]
    assert all(entry.fit_seconds < 2 for entry in board.entries)


def test_rows_of_a_fold_are_encoded_once_and_a_dead_process_blocks_nobody(three_classes, tmp_path):
    import threading
    import time

    from vicinal.inspection._folds import FoldRunner

    fits = []

    class Slow(StandardScaler):
        def fit(self, X, y=None, sample_weight=None):
            fits.append(1)
            time.sleep(0.2)
            return super().fit(X, y)

    X, y = three_classes
    rows = np.arange(len(y))
    runners = [
        FoldRunner({"bayes": GaussianNB()}, X, y, [(rows[::2], rows[1::2])], Slow())
        for _ in range(3)
    ]
    for runner in runners:
        runner.folder = tmp_path
    (tmp_path / "0.claimed").write_text("123")  # a process that was killed at it
    threads = [threading.Thread(target=runner.encode, args=("bayes", 0)) for runner in runners]
    for thread in threads:
        thread.start()
    time.sleep(0.1)
    assert fits == []
    runners[0].release(123)
    for thread in threads:
        thread.join()
    assert fits == [1]
    assert {runner.run("bayes", 0).error for runner in runners} == {""}
    assert fits == [1]


def test_a_model_is_told_how_long_it_may_take(three_classes):
    from vicinal.inspection._folds import FoldRunner

    class Timed(DummyClassifier):
        def __init__(self, max_fit_time=None):
            super().__init__()
            self.max_fit_time = max_fit_time

    X, y = three_classes
    runner = FoldRunner({"timed": Timed(), "set": Timed(3.0)}, X, y, [], None)
    assert runner._prepared("timed", 10.0).max_fit_time == pytest.approx(7.0)
    assert runner._prepared("timed", np.inf).max_fit_time is None
    assert runner._prepared("set", 10.0).max_fit_time == 3.0


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
    drawn = compare({"bayes": GaussianNB()}, X, y, groups=groups)
    assert drawn.n_folds == 5
    weights = np.where(y == 0, 5.0, 1.0)
    plain = compare({"bayes": GaussianNB(), "guess": DummyClassifier()}, X, y)
    weighted = compare(
        {"bayes": GaussianNB(), "guess": DummyClassifier()}, X, y, sample_weight=weights
    )
    assert weighted.entries[1].mean > plain.entries[1].mean + 0.2  # the guess is now class 0


def test_a_model_that_takes_words_gets_the_table_itself():
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
