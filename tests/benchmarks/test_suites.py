"""Adapters to outside suites, on small local tasks."""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_iris

pandas = pytest.importorskip("pandas", reason="frames: pip install 'vicinal[frame]'")
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks" / "suites"))


@pytest.fixture
def cheap(monkeypatch):
    """A few cheap families, so that a fit takes tenths of a second."""
    import openml_cc18

    from vicinal.auto import AutoClassifier

    models = openml_cc18.MODELS | {
        "AutoClassifier": lambda: AutoClassifier(["linear"], cv=2, random_state=0)
    }
    monkeypatch.setattr(openml_cc18, "MODELS", models)
    return openml_cc18


class Task:
    """A task as the openml package gives it."""

    def get_X_and_y(self, dataset_format):
        assert dataset_format == "dataframe"
        X, y = load_iris(return_X_y=True, as_frame=True)
        return X, y.map({0: "setosa", 1: "versicolor", 2: "virginica"})

    def get_train_test_split_indices(self, fold):
        rows = np.random.RandomState(fold).permutation(150)
        return rows[:100], rows[100:]

    def get_dataset(self):
        return SimpleNamespace(name="iris")


def test_openml_tasks_are_judged_on_their_own_folds(cheap, capsys, monkeypatch):
    openml = SimpleNamespace(tasks=SimpleNamespace(get_task=lambda number: Task()))
    monkeypatch.setitem(sys.modules, "openml", openml)
    cheap.main(["--tasks", "61", "--folds", "2"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [["iris", label] for label in cheap.MODELS]
    assert all(float(line.split()[2]) > 0.85 for line in lines[1:])


class AbstractModel:
    """What the adapter takes from AutoGluon's base class."""

    def __init__(self, problem_type, **parameters):
        self.problem_type, self.parameters = problem_type, parameters

    def preprocess(self, X, is_train):
        return X.copy()

    def _get_model_params(self):
        return dict(self.parameters)

    def _get_default_auxiliary_params(self):
        return {"max_rows": None}


@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
def test_the_adapter_fits_with_the_limits_of_autogluon(task, monkeypatch):
    # The test below runs AutoGluon itself, where it is installed.
    for name in ("autogluon", "autogluon.core"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    models = SimpleNamespace(AbstractModel=AbstractModel)
    monkeypatch.setitem(sys.modules, "autogluon.core.models", models)
    monkeypatch.delitem(sys.modules, "autogluon_model", raising=False)
    from autogluon_model import VicinalModel

    monkeypatch.delitem(sys.modules, "autogluon_model")
    X, y = (load_diabetes if task == "regression" else load_iris)(return_X_y=True, as_frame=True)
    rows = np.flatnonzero(y < 2) if task == "binary" else np.arange(len(y))
    rows = np.random.RandomState(0).permutation(rows)
    X["half"] = pandas.Categorical(np.where(np.arange(len(X)) % 2, "odd", "even"))
    train, test = rows[:-30], rows[-30:]
    model = VicinalModel(task, families=["linear"], cv=3, random_state=0)
    weight = np.ones(len(train))
    model._fit(X.iloc[train], y.iloc[train], time_limit=100.0, num_cpus=1, sample_weight=weight)
    assert task in VicinalModel.supported_problem_types()
    assert set(model._get_default_auxiliary_params()) == {"max_rows", "valid_raw_types"}
    assert (model.model.max_fit_time, model.model.n_jobs) == (90.0, 1)
    assert model.model.score(X.iloc[test], y.iloc[test]) > (0.3 if task == "regression" else 0.85)


@pytest.mark.parametrize("task", ["multiclass", "regression"])
def test_autogluon_fits_and_predicts_with_our_models(task, tmp_path):
    reason = "needs AutoGluon in an environment of its own: pip install autogluon.tabular"
    tabular = pytest.importorskip("autogluon.tabular", reason=reason)
    from autogluon_model import VicinalModel

    load = load_iris if task == "multiclass" else load_diabetes
    frame = load(as_frame=True).frame.sample(frac=1.0, random_state=0)
    frame["half"] = pandas.Categorical(np.where(np.arange(len(frame)) % 2, "odd", "even"))
    predictor = tabular.TabularPredictor(
        label="target", path=str(tmp_path / "models"), problem_type=task, verbosity=0
    )
    predictor.fit(frame[:120], hyperparameters={VicinalModel: {"families": ["linear"], "cv": 3}})
    assert predictor.model_names()[0] == "Vicinal"
    score = predictor.evaluate(frame[120:])
    if task == "multiclass":
        assert score["accuracy"] > 0.85
        assert predictor.predict_proba(frame[120:]).shape == (30, 3)
    else:
        assert score["r2"] > 0.3
