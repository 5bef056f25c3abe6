"""Models survive a file, unchanged and in another process."""

import errno
import os
import sys

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.decomposition import TruncatedSVD
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestRegressor,
)
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import (
    LogisticRegression,
    OrthogonalMatchingPursuitCV,
    SGDClassifier,
)
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler, TargetEncoder
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier
from tests.common.instances import all_instances
from tests.io.damage import variants
from tests.io.helpers import (
    LABELS,
    NAMES,
    TARGET,
    X,
    edit,
    fitted,
    objects,
    predictions,
    run_python,
    same,
    unpacked,
)
from tests.io.kills import killed

import vicinal
from vicinal import (
    LocalClassifier,
    LocalRegressor,
    LoessRegressor,
    SpacePartitioningClassifier,
)
from vicinal._base import _saved
from vicinal.io import ModelFileError, ModelVersionWarning, _document, info, load, save
from vicinal.io._types import Vocabulary
from vicinal.neighbors import NeighborSearch
from vicinal.table import TableEncoder


def others():
    """Models of scikit-learn and mixtures, as the command line saves them."""
    return [
        make_pipeline(StandardScaler(), LogisticRegression()),
        make_pipeline(FunctionTransformer(np.cbrt), KNeighborsClassifier(algorithm="kd_tree")),
        KNeighborsRegressor(algorithm="ball_tree", metric="manhattan"),
        RandomForestRegressor(n_estimators=3, random_state=0),
        HistGradientBoostingClassifier(max_iter=3),
        GradientBoostingClassifier(n_estimators=3),
        SGDClassifier(loss="modified_huber", random_state=0),
        KNeighborsClassifier(algorithm="brute"),
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
        models.append((model, predictions(model)))
    return models


@pytest.mark.filterwarnings("ignore")
def test_histogram_boosting_with_categories_keeps_its_check_of_rows(tmp_path):
    rng = np.random.RandomState(0)
    X = np.column_stack([rng.randint(4, size=90), rng.rand(90)])
    model = HistGradientBoostingClassifier(max_iter=3, categorical_features=[True, False])
    model.fit(X, (X[:, 0] > 1) ^ (X[:, 1] > 0.5))
    save(model, tmp_path / "model.vicinal")
    found = load(tmp_path / "model.vicinal")
    queries = np.array([[0, 0.2], [3, np.nan], [9, 0.7]])
    np.testing.assert_array_equal(found.predict_proba(queries), model.predict_proba(queries))
    assert found._preprocessor.transformers_[1][1].func.keywords["ensure_all_finite"] is False


def test_every_model_predicts_the_same_after_a_round_trip(zoo, tmp_path):
    for model, expected in zoo:
        path = save(model, tmp_path / "model.vicinal")
        again = load(path)
        assert type(again) is type(model)
        assert same(predictions(again), expected), model


FRESH = """
import sys
import numpy as np
from tests.io.helpers import difference, predictions
from vicinal.io import load
folder, n = sys.argv[1], int(sys.argv[2])
for i in range(n):
    with np.load(f"{folder}/{i}.npz") as expected:
        saved = [expected[key] for key in expected.files]
    model = load(f"{folder}/{i}.vicinal")
    off = difference(predictions(model), saved)
    # Code compiled by another process may round otherwise, and a solver stop a step sooner.
    if off > 1e-9:
        print(off, model)
"""


@pytest.mark.filterwarnings("ignore")
def test_every_model_predicts_the_same_in_a_fresh_process(zoo, tmp_path):
    for i, (model, expected) in enumerate(zoo):
        save(model, tmp_path / f"{i}.vicinal")
        np.savez(tmp_path / f"{i}.npz", *expected)
    result = run_python(FRESH, tmp_path, len(zoo))
    assert result.returncode == 0, result.stderr
    assert result.stdout == ""


def test_every_declared_array_is_held_by_some_model(zoo, monkeypatch):
    """Declarations follow the names of attributes: one that was renamed is checked no more."""
    held = set()

    def note(part):
        for kind in type(part).__mro__:
            names = vars(kind).get("__saved_shapes__", {})
            held.update((kind, name) for name in names if _saved._arrays(part, name))

    monkeypatch.setattr(_document, "check_saved", note)
    for model in [*(model for model, _ in zoo), *variants().values()]:
        _document.Writer(Vocabulary()).value(model)
    missing = [
        f"{kind.__qualname__}.{name}"
        for kind in _saved._PARTS.values()
        if getattr(sys.modules[kind.__module__], kind.__name__, None) is kind
        for name in set(kind.__saved_shapes__).difference(*map(_declared, kind.__bases__))
        if (kind, name) not in held
    ]
    assert not missing


def _declared(kind):
    return getattr(kind, "__saved_shapes__", ())


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


def test_target_statistics_of_several_classes_survive(tmp_path):
    rows = np.random.RandomState(0).randint(20, size=(120, 2)).astype(float)
    encoder = TargetEncoder(random_state=0).fit(rows, np.arange(120) % 3)
    again = load(save(encoder, tmp_path / "encoder.vicinal"))
    np.testing.assert_array_equal(again.transform(rows), encoder.transform(rows))


def test_sparse_rows_survive(tmp_path):
    rows = sparse.csr_matrix(np.where(X > 0, X, 0.0))
    model = LocalClassifier(n_neighbors=30, metric="euclidean").fit(rows, LABELS)
    again = load(save(model, tmp_path / "model.vicinal"))
    assert np.array_equal(again.predict_proba(rows), model.predict_proba(rows))


def test_saving_leaves_the_model_as_it_was(tmp_path):
    search = NeighborSearch(algorithm="tree").fit(X)
    before = dict(vars(search))
    save(search, tmp_path / "model.vicinal")
    assert vars(search) == before


@pytest.mark.parametrize("max_depth", [1, 2, 5, None])
def test_trees_have_their_depths_again(max_depth, tmp_path):
    rng = np.random.RandomState(0)
    X = rng.exponential(size=(200, 1)) ** 3
    tree = DecisionTreeClassifier(max_depth=max_depth, random_state=0).fit(X, rng.rand(200) < 0.5)
    again = load(save(tree, tmp_path / "tree.vicinal"))
    assert again.get_depth() == tree.get_depth()
    assert max_depth is not None or tree.get_depth() > 10


def test_files_hold_rows_once_and_no_search_trees(tmp_path):
    path = save(fitted(KNeighborsClassifier(algorithm="kd_tree")), tmp_path / "model.vicinal")
    document, arrays = unpacked(path)
    assert not objects(document, "KDTree")
    assert sum(array.shape == X.shape for array in arrays) == 1
    assert type(load(path)._tree).__name__ == "KDTree"


def test_parts_that_were_one_are_one_again(tmp_path):
    shared = DecisionTreeClassifier(max_depth=2).fit(X, LABELS)
    model = [shared, shared, X, {"rows": X}]
    first, second, rows, more = load(save(model, tmp_path / "model.vicinal"))
    assert first is second
    assert rows is more["rows"]


def test_a_model_that_contains_itself_is_refused(tmp_path):
    model = make_pipeline(StandardScaler())
    model.steps[0][1].owner = model
    with pytest.raises(ModelFileError, match="contains itself"):
        save(model, tmp_path / "model.vicinal")


@pytest.mark.parametrize(
    "value",
    [
        None, True, 3, 2**80, 1.5, -0.0, "text", "\ud800", float("inf"), 3 + 4j, b"bytes",
        (1, [2.0, {"a": (None,)}]), {1: "int", "1": "text", 1.5: None}, {1, 2}, slice(1, None, 2),
        np.float32(0.1), np.int8(3), np.str_("x"), np.dtype("float32"), np.float64, float,
        np.array(["a", "bb"]), np.array(["a", None, 2.5], dtype=object), np.array("2020", "M8[Y]"),
        np.zeros((2, 0, 3)), np.asfortranarray(np.ones((2, 3))), np.ones((4, 4))[::2, 1:],
    ],
    ids=repr,
)  # fmt: skip
def test_values_come_back_with_their_types(value, tmp_path):
    again = load(save([value], tmp_path / "model.vicinal"))[0]
    assert type(again) is type(value)
    assert repr(again) == repr(value)
    if isinstance(value, np.ndarray):
        assert again.dtype == value.dtype
        assert again.flags.f_contiguous == value.flags.f_contiguous or value.base is not None
        assert again.flags.writeable


def test_not_a_number_and_random_states_come_back(tmp_path):
    rng, generator = np.random.RandomState(3), np.random.default_rng(3)
    rng.normal(size=3), generator.normal(size=3)
    nan, *again = load(save([float("nan"), rng, generator], tmp_path / "model.vicinal"))
    assert np.isnan(nan)
    assert again[0].normal() == rng.normal()
    assert again[1].normal() == generator.normal()


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
    assert found.model.endswith(".SpacePartitioningClassifier")
    assert found.parameters["n_regions"] == "2"
    assert found.metadata == {"target": "y", "rows": 90}
    assert found.versions["vicinal"] == vicinal.__version__
    assert found.n_features_in == 5
    assert found.size == path.stat().st_size
    assert "vicinal.partition.Cascade" in found.types
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
    with pytest.raises(ModelFileError, match=f"the file has {name}, which model files"):
        load(path)
    for trusted in ([Shift], [name], Shift):
        again = load(path, trusted=trusted)
        assert np.array_equal(again.predict(X), model.predict(X))


def test_classes_of_scikit_learn_on_no_list_can_be_trusted(tmp_path):
    model = OrthogonalMatchingPursuitCV(cv=2).fit(X, TARGET)
    with pytest.raises(ModelFileError, match="may not contain"):
        save(model, tmp_path / "model.vicinal")
    path = save(model, tmp_path / "model.vicinal", trusted=[OrthogonalMatchingPursuitCV])
    again = load(path, trusted=[OrthogonalMatchingPursuitCV])
    assert same(predictions(again), predictions(model))


def test_tensors_are_refused_with_the_remedy(tmp_path):
    torch = pytest.importorskip("torch")
    model = LocalRegressor(n_neighbors=20, metric="euclidean").fit(
        torch.asarray(X), torch.asarray(TARGET)
    )
    with pytest.raises(TypeError, match=r"fit it to numpy.asarray"):
        save(model, tmp_path / "model.vicinal")


def restamped(path, **versions):
    return edit(path, lambda document, arrays: document["versions"].update(versions))


@pytest.mark.parametrize("package", ["vicinal", "scikit-learn", "numpy", "python"])
def test_other_versions_give_a_warning(tmp_path, package):
    model = fitted(LocalClassifier(n_neighbors=20, metric="euclidean"))
    path = restamped(save(model, tmp_path / "model.vicinal"), **{package: "0.0.1"})
    with pytest.warns(ModelVersionWarning, match=rf"saved with {package} 0.0.1 \(now "):
        again = load(path)
    assert np.array_equal(again.predict(X), model.predict(X))


def test_a_patch_release_of_numpy_is_no_news(tmp_path):
    major, minor, _ = np.__version__.split(".", 2)
    path = save(
        fitted(LocalClassifier(n_neighbors=20, metric="euclidean")), tmp_path / "model.vicinal"
    )
    load(restamped(path, numpy=f"{major}.{minor}.99"))


def test_equal_arrays_are_stored_once_and_loaded_apart(tmp_path):
    rows = np.random.RandomState(0).normal(size=(500, 20))
    path = tmp_path / "model.vicinal"
    size = save([rows], path).stat().st_size
    assert save([rows, rows.copy()], path).stat().st_size < 1.1 * size
    first, second = load(path)
    second += 1.0
    np.testing.assert_array_equal(first, rows)


def test_rows_changed_since_the_fit_do_not_change_the_file(tmp_path):
    rows = np.array(X, dtype=np.float64)
    model = LocalClassifier(n_neighbors=20, metric="standardized").fit(rows, NAMES)
    expected = model.predict_proba(X)
    rows *= 2.0
    found = load(save(model, tmp_path / "model.vicinal"))
    np.testing.assert_array_equal(found.predict_proba(X), expected)


def test_a_missing_file_is_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none.vicinal")


def test_metadata_must_be_json(tmp_path):
    with pytest.raises(TypeError, match="metadata must hold types of JSON"):
        save(StandardScaler(), tmp_path / "model.vicinal", metadata={"when": X})


def test_pipelines_of_text_and_imputation_survive(tmp_path):
    texts = [f"{'red' if label else 'white'} wine {i % 7}" for i, label in enumerate(LABELS)]
    model = make_pipeline(TfidfVectorizer(), TruncatedSVD(3, random_state=0), LogisticRegression())
    again = load(save(model.fit(texts, LABELS), tmp_path / "text.vicinal"))
    assert np.array_equal(again.predict_proba(texts), model.predict_proba(texts))
    holes = np.where(np.abs(X) < 0.1, np.nan, X)
    model = make_pipeline(SimpleImputer(add_indicator=True), SVC())
    again = load(save(model.fit(holes, LABELS), tmp_path / "holes.vicinal"))
    assert np.array_equal(again.decision_function(holes), model.decision_function(holes))


# --- save that is killed, or a full disk ---


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork, which Windows lacks")
@pytest.mark.parametrize(
    "n_kills", [16, pytest.param(200, marks=pytest.mark.statistical)], ids=["some", "many"]
)
def test_save_killed_at_any_moment_leaves_the_old_model_or_the_new_one(tmp_path, n_kills):
    old, new = killed(tmp_path / "model.vicinal", n_kills)
    assert old + new == n_kills
    assert min(old, new) > 0


_OPEN = os.open


def _full(path, *args):
    return _OPEN("/dev/full", os.O_WRONLY)


def _locked(path, *args):
    raise PermissionError(errno.EACCES, "Permission denied", str(path))


@pytest.mark.parametrize(
    ("name", "opened", "match"),
    [
        ("model", _full, "No space left on device"),
        ("model", _locked, "Permission denied"),
        ("x" * 300, os.open, "File name too long"),
        ("none/model", os.open, "No such file or directory"),
    ],
    ids=["full", "read-only", "long", "missing"],
)
def test_save_where_nothing_can_be_written_is_one_line(tmp_path, monkeypatch, name, opened, match):
    if opened is _full and not os.path.exists("/dev/full"):
        pytest.skip("needs /dev/full, a device of Linux")
    path, before = tmp_path / name, b"old"
    if name == "model":
        path.write_bytes(before)
    monkeypatch.setattr("vicinal._base._files.os.open", opened)
    with pytest.raises(OSError, match=match) as caught:
        save([X] * 3, path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    monkeypatch.undo()
    assert [entry.read_bytes() for entry in tmp_path.iterdir()] == [before] * (name == "model")


def test_files_of_a_version_with_other_parameters_are_refused(tmp_path):
    """As those of dates were, when the encoder read one form of them only."""
    model = TableEncoder().fit(pd.DataFrame({"day": ["2020-01-01", "2021-03-04"]}))
    del model.column_encoders_["day"].formats
    save(model, tmp_path / "old.vicinal")
    with pytest.raises(ModelFileError, match="no attribute 'formats'.*fit and save again"):
        load(tmp_path / "old.vicinal")
