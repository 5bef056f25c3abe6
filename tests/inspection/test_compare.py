import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.neighbors import KNeighborsClassifier

from vicinal.inspection import candidate_models, compare


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


def test_progress_on_request(three_classes, capsys):
    compare({"guess": DummyClassifier()}, *three_classes, verbose=1)
    assert "[comparing] 5/5" in capsys.readouterr().err


def test_nothing_to_compare_is_an_error(three_classes):
    with pytest.raises(ValueError, match="models is empty"):
        compare({}, *three_classes)


def test_unknown_task_names_the_choices():
    with pytest.raises(ValueError, match="'ranking' is unknown.*'regression'"):
        candidate_models("ranking")


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_every_candidate_fits_a_small_table(task, three_classes, smooth_target):
    data = three_classes if task == "classification" else smooth_target
    board = compare(candidate_models(task), *data, cv=2)
    assert [entry.error for entry in board.entries if entry.error] == []
