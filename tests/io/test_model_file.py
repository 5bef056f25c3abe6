"""Models survive a file, unchanged and in another process."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier
from tests.common.instances import all_instances
from tests.io.helpers import LABELS, NAMES, TARGET, X, answers, fitted, members_of, same

import vicinal
from vicinal import (
    LocalClassifier,
    LocalRegressor,
    LoessRegressor,
    SpacePartitioningClassifier,
)
from vicinal.io import ModelFileError, ModelInfo, ModelVersionWarning, info, load, save
from vicinal.neighbors import NeighborSearch

pytest.importorskip("skops")

ROOT = Path(__file__).parents[2]


def others():
    """Models of scikit-learn and mixtures, as the command line saves them."""
    return [
        make_pipeline(StandardScaler(), LogisticRegression()),
        make_pipeline(FunctionTransformer(np.cbrt), KNeighborsClassifier(algorithm="kd_tree")),
        KNeighborsRegressor(algorithm="ball_tree", metric="manhattan"),
        RandomForestRegressor(n_estimators=3, random_state=0),
        HistGradientBoostingClassifier(max_iter=3),
        GradientBoostingClassifier(n_estimators=3),
        CalibratedClassifierCV(LogisticRegression(), cv=StratifiedKFold(3)),
        GridSearchCV(LocalClassifier(metric="euclidean"), {"n_neighbors": [10, 20]}, cv=2),
        LocalClassifier(metric=StandardScaler(), n_neighbors=20, class_weight="balanced"),
        LocalRegressor(estimator=DecisionTreeClassifier(max_depth=1), n_neighbors=20),
        LocalRegressor(metric="manhattan", bandwidth=3.0, kernel="gaussian"),
        LoessRegressor(span=0.8, degree=1, surface="direct"),
        SpacePartitioningClassifier(
            DecisionTreeClassifier(max_depth=2), n_regions=2, n_init=1, random_state=0
        ),
        NeighborSearch(algorithm="brute"),
    ]


@pytest.fixture(scope="module")
def zoo():
    """Every public estimator, fitted and used once, so that lazily built parts exist too."""
    models = []
    for model in [*all_instances(), *others()]:
        if isinstance(model, LocalRegressor) and isinstance(
            model.estimator, DecisionTreeClassifier
        ):
            model.fit(X, LABELS)
        else:
            fitted(model)
        models.append((model, answers(model)))
    return models


@pytest.mark.filterwarnings("ignore")
def test_every_model_predicts_the_same_after_a_round_trip(zoo, tmp_path):
    for model, said in zoo:
        path = save(model, tmp_path / "model.vicinal")
        again = load(path)
        assert type(again) is type(model)
        assert same(answers(again), said), model


FRESH = """
import sys
import numpy as np
from tests.io.helpers import answers, same
from vicinal.io import load
folder, n = sys.argv[1], int(sys.argv[2])
for i in range(n):
    with np.load(f"{folder}/{i}.npz") as expected:
        said = [expected[key] for key in expected.files]
    model = load(f"{folder}/{i}.vicinal")
    if not same(answers(model), said):
        print(model)
"""


@pytest.mark.filterwarnings("ignore")
def test_every_model_predicts_the_same_in_a_fresh_process(zoo, tmp_path):
    for i, (model, said) in enumerate(zoo):
        save(model, tmp_path / f"{i}.vicinal")
        np.savez(tmp_path / f"{i}.npz", *said)
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FRESH, str(tmp_path), str(len(zoo))],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "PATH": "/usr/bin:/bin"},
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout == ""


def test_unfitted_models_keep_their_parameters(tmp_path):
    model = LocalClassifier(n_neighbors=7, kernel="gaussian")
    again = load(save(model, tmp_path / "model.vicinal"))
    assert again.get_params() == model.get_params()


def test_frames_and_string_labels_survive_an_encoder(tmp_path):
    frame = pd.DataFrame({"size": X[:, 0], "kind": np.where(X[:, 1] > 0, "a", "b")})
    encoder = make_column_transformer((OneHotEncoder(), ["kind"]), remainder=StandardScaler())
    model = make_pipeline(encoder, LocalClassifier(n_neighbors=30, metric="euclidean")).fit(
        frame, NAMES
    )
    again = load(save(model, tmp_path / "model.vicinal"))
    assert np.array_equal(again.predict(frame), model.predict(frame))
    assert list(again.feature_names_in_) == ["size", "kind"]
    found = info(tmp_path / "model.vicinal")
    assert found.feature_names_in == ["size", "kind"]
    assert found.classes == ["no", "yes"]


def test_sparse_rows_survive(tmp_path):
    rows = sparse.csr_matrix(np.where(X > 0, X, 0.0))
    model = LocalClassifier(n_neighbors=30, metric="euclidean").fit(rows, LABELS)
    again = load(save(model, tmp_path / "model.vicinal"))
    assert np.array_equal(again.predict_proba(rows), model.predict_proba(rows))


def test_saving_leaves_the_model_as_it_was(tmp_path):
    model = fitted(LocalRegressor(n_neighbors=20, metric="euclidean"))
    before = model.predict(X)
    engine = model._data.index._search._engine
    save(model, tmp_path / "model.vicinal")
    assert model._data.index._search._engine is engine
    assert np.array_equal(model.predict(X), before)


def test_files_hold_rows_and_no_search_trees(tmp_path):
    path = save(fitted(KNeighborsClassifier(algorithm="kd_tree")), tmp_path / "model.vicinal")
    assert "KDTree" not in members_of(path)["schema.json"].decode()
    assert type(load(path)._tree).__name__ == "KDTree"


def test_models_learn_on_after_loading(tmp_path):
    model = fitted(LocalClassifier(n_neighbors=20, metric="euclidean"))
    again = load(save(model, tmp_path / "model.vicinal"))
    for part in (model, again):
        part.partial_fit(X[:30] + 0.1, NAMES[:30])
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))


class FakeGraph:
    """Stands for the graph of pynndescent, which takes long to compile."""

    built: list = []

    def __init__(self, X, *settings):
        self.X, self.compiled = X, compile("0", "graph", "eval")
        self.built.append((X, settings))


def test_approximate_search_is_built_again_from_rows_and_seed(tmp_path, monkeypatch):
    monkeypatch.setattr("vicinal.neighbors._neighbor_search.GraphEngine", FakeGraph)
    monkeypatch.setattr(NeighborSearch, "_measure_recall", lambda self, X, seed: 1.0)
    search = NeighborSearch(5, algorithm="approximate", random_state=3).fit(X)
    load(save(search, tmp_path / "model.vicinal"))
    (rows, settings), (rows_again, settings_again) = FakeGraph.built
    assert np.array_equal(rows, rows_again)
    assert settings == settings_again


def test_info_describes_the_file_without_making_the_model(tmp_path):
    path = save(
        fitted(SpacePartitioningClassifier(n_regions=2, n_init=1, random_state=0)),
        tmp_path / "model.vicinal",
        metadata={"target": "y", "rows": 90},
    )
    found = info(path)
    assert isinstance(found, ModelInfo)
    assert found.model.endswith(".SpacePartitioningClassifier")
    assert found.parameters["n_regions"] == "2"
    assert found.metadata == {"target": "y", "rows": 90}
    assert found.versions["vicinal"] == vicinal.__version__
    assert found.n_features_in == 5
    assert found.size == path.stat().st_size
    assert "vicinal.partition._cascade.Cascade" in found.types
    assert found.untrusted == []


def test_a_failed_save_leaves_the_old_file(tmp_path):
    path = save(
        fitted(LocalClassifier(n_neighbors=20, metric="euclidean")), tmp_path / "model.vicinal"
    )
    before = path.read_bytes()
    with pytest.raises(ModelFileError, match="tests.io.test_model_file.Shift"):
        save(
            fitted(make_pipeline(Shift(), LocalClassifier(n_neighbors=20, metric="euclidean"))),
            path,
        )
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.vicinal"]


class Shift(TransformerMixin, BaseEstimator):
    """A class of the user's."""

    def fit(self, X, y=None):
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X):
        return X + 1.0


def test_classes_from_elsewhere_are_named_by_the_reader(tmp_path):
    model = fitted(make_pipeline(Shift(), LocalClassifier(n_neighbors=20, metric="euclidean")))
    path = save(model, tmp_path / "model.vicinal", trusted=[Shift])
    name = "tests.io.test_model_file.Shift"
    assert info(path).untrusted == [name]
    with pytest.raises(ModelFileError, match=f"not trusted: {name}"):
        load(path)
    again = load(path, trusted=[name])
    assert np.array_equal(again.predict(X), model.predict(X))


def test_tensors_are_refused_with_the_remedy(tmp_path):
    torch = pytest.importorskip("torch")
    model = LocalRegressor(n_neighbors=20, metric="euclidean").fit(
        torch.asarray(X), torch.asarray(TARGET)
    )
    with pytest.raises(TypeError, match=r"fit it on numpy.asarray"):
        save(model, tmp_path / "model.vicinal")


def restamped(path, **versions):
    from tests.io.helpers import write_members

    members = members_of(path)
    stamp = json.loads(members["vicinal.json"])
    stamp["versions"].update(versions)
    members["vicinal.json"] = json.dumps(stamp).encode()
    return write_members(path, members)


@pytest.mark.parametrize("package", ["vicinal", "scikit-learn", "numpy", "python"])
def test_other_versions_are_told(tmp_path, package):
    model = fitted(LocalClassifier(n_neighbors=20, metric="euclidean"))
    path = restamped(save(model, tmp_path / "model.vicinal"), **{package: "0.0.1"})
    with pytest.warns(ModelVersionWarning, match=rf"saved under {package} 0.0.1 \(now "):
        again = load(path)
    assert np.array_equal(again.predict(X), model.predict(X))


def test_a_patch_release_of_numpy_is_no_news(tmp_path):
    major, minor, _ = np.__version__.split(".", 2)
    path = save(
        fitted(LocalClassifier(n_neighbors=20, metric="euclidean")), tmp_path / "model.vicinal"
    )
    load(restamped(path, numpy=f"{major}.{minor}.99"))


def test_a_missing_file_is_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none.vicinal")
