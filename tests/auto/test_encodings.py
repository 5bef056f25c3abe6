"""Tables of every kind: frames, missing values, sparse rows and device arrays."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_iris
from tests.auto.tables import QUICK, blobs, tried

from vicinal.auto import AutoClassifier, AutoRegressor
from vicinal.auto import _tables as auto_tables
from vicinal.local import LocalClassifier


def test_objects_of_one_type_are_targets():
    from decimal import Decimal

    X, y = blobs()
    truths = np.array(y == 1, dtype=object)
    model = AutoClassifier(["local"], random_state=0).fit(X, truths)
    assert model.classes_.dtype == bool
    prices = [Decimal(str(round(value, 2))) for value in X[:, 0]]
    assert AutoRegressor(["local"], random_state=0).fit(X, prices).score_ > 0.9


def test_categories_of_a_group_do_not_leak_its_label():
    """Coin labels of groups, and a column that names the group."""
    pandas = pytest.importorskip("pandas")
    groups = np.repeat(np.arange(60), 4)
    y = np.random.RandomState(0).randint(0, 2, 60)[groups]
    X = pandas.DataFrame({"name": [f"n{k}" for k in groups], "x": np.arange(240.0) % 7})
    model = AutoClassifier(["linear"], random_state=0).fit(X, y, groups=groups)
    assert model.score_ < 0.7


@pytest.mark.parametrize("task", ["classes", "numbers"])
def test_constant_columns_and_targets_are_accepted(task):
    rng = np.random.RandomState(0)
    X = np.hstack([rng.normal(size=(40, 2)), np.ones((40, 2))])
    if task == "classes":
        assert np.isfinite(
            AutoClassifier(random_state=0).fit(X, X[:, 0] > 0).predict_proba(X)
        ).all()
        model = AutoClassifier(random_state=0).fit(np.ones((40, 2)), np.arange(40) % 2)
        np.testing.assert_allclose(model.predict_proba(np.ones((1, 2))), 0.5, atol=1e-6)
    else:
        model = AutoRegressor(random_state=0).fit(X, np.full(40, 3.0))
        np.testing.assert_allclose(model.predict(X), 3.0)


def test_missing_values_are_accepted():
    X, y = load_iris(return_X_y=True)
    rng = np.random.RandomState(0)
    X = np.where(rng.uniform(size=X.shape) < 0.2, np.nan, X)
    X = np.hstack([X, np.full((150, 1), np.nan)])
    model = AutoClassifier(random_state=0).fit(X, y)
    assert model.score_ > 0.85
    assert np.isfinite(model.predict_proba(np.full((1, 5), np.nan))).all()


@pytest.mark.parametrize("families", [["linear"], ["local"]])
def test_a_new_missing_value_gets_the_median(families):
    X, y = load_iris(return_X_y=True)
    model = AutoClassifier(families, unseen="ignore", random_state=0).fit(X, y)
    missing, filled = X[:2].copy(), X[:2].copy()
    missing[0, 2], filled[0, 2] = np.nan, np.median(X[:, 2])
    np.testing.assert_array_equal(model.predict_proba(missing), model.predict_proba(filled))
    np.testing.assert_array_equal(model.typicality(missing) == 1 / 151, [True, False])


def test_sparse_rows_give_the_same_model():
    X, y = blobs()
    X = np.where(np.abs(X) < 1.0, 0.0, X)
    dense = AutoClassifier(QUICK, random_state=0).fit(X, y)
    thin = AutoClassifier(QUICK, random_state=0).fit(sparse.csr_array(X), y)
    np.testing.assert_allclose(thin.predict_proba(sparse.csr_array(X)), dense.predict_proba(X))


def test_wide_sparse_rows_are_reduced_to_principal_axes(monkeypatch):
    monkeypatch.setattr("vicinal.auto._encodings._MAX_DENSE", 1000)
    X = sparse.random(100, 300, density=0.05, random_state=0, format="csr")
    y = np.asarray(X[:, :20].sum(axis=1)).ravel()
    model = AutoRegressor(QUICK, random_state=0).fit(X, y)
    assert model.predict(X).shape == (100,)


def test_torch_tensors_give_the_same_predictions_as_arrays():
    torch = pytest.importorskip("torch")
    X, y = blobs()
    plain = AutoClassifier(QUICK, random_state=0).fit(X, y)
    model = AutoClassifier(QUICK, random_state=0).fit(torch.asarray(X), torch.asarray(y))
    proba = model.predict_proba(torch.asarray(X))
    assert torch.is_tensor(proba)
    np.testing.assert_array_equal(proba.numpy(), plain.predict_proba(X))


@pytest.fixture
def tensors_count_as_device(monkeypatch):
    """Send tensors of the CPU the way that tensors of a GPU take."""
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(auto_tables, "is_on_device", torch.is_tensor)
    return torch.asarray


DEVICE_QUICK = ["constant", "local"]


def test_device_rows_are_predicted_by_base_models_on_the_device(tensors_count_as_device):
    to_device = tensors_count_as_device
    X, y = blobs()
    host = AutoClassifier([("standardized", LocalClassifier())], random_state=0).fit(X, y)
    model = AutoClassifier([("standardized", LocalClassifier())], random_state=0)
    model.fit(to_device(X), to_device(y))
    proba = model.predict_proba(to_device(X))
    np.testing.assert_allclose(proba.numpy(), host.predict_proba(X), atol=1e-8)
    assert model.predict(to_device(X)).dtype == to_device(y).dtype
    assert model.typicality(to_device(X)).shape == (len(X),)
    with pytest.raises(TypeError, match="convert X"):
        model.predict(X)


def test_families_that_do_not_run_on_a_device_are_named(tensors_count_as_device):
    to_device = tensors_count_as_device
    X, y = blobs()
    model = AutoClassifier(random_state=0, max_fit_time=1e-3).fit(to_device(X), y)
    reason_of = {base.name: base.reason for base in tried(model)}
    assert "NumPy" in reason_of["forest"]
    assert "NumPy" in reason_of["boosting"]
    assert {"local linear (standardized)", "local linear (columns as given)"} <= set(reason_of)


def test_weights_reach_base_models_on_a_device(tensors_count_as_device):
    to_device = tensors_count_as_device
    X, y = blobs()
    weight = np.ones(len(y))
    weight[::3] = 2.0
    weighted = AutoRegressor(DEVICE_QUICK, random_state=0).fit(to_device(X), y, weight)
    assert np.isfinite(weighted.predict(to_device(X)).numpy()).all()
    zero = np.where(np.arange(len(y)) < 10, 0.0, weight)
    left = AutoRegressor(DEVICE_QUICK, random_state=0).fit(to_device(X), y, zero)
    short = AutoRegressor(DEVICE_QUICK, random_state=0).fit(to_device(X[10:]), y[10:], zero[10:])
    np.testing.assert_array_equal(left.predict(to_device(X)), short.predict(to_device(X)))


def test_missing_values_on_a_device_are_refused(tensors_count_as_device):
    X, y = blobs()
    X[3, 1] = np.nan
    with pytest.raises(ValueError, match="NaN or infinity"):
        AutoClassifier(DEVICE_QUICK).fit(tensors_count_as_device(X), y)


def mixed_frame(pandas, n_rows=160, seed=0):
    rng = np.random.RandomState(seed)
    town = rng.choice(["Aix", "Bonn", "Cork"], n_rows)
    area = np.where(rng.uniform(size=n_rows) < 0.1, np.nan, rng.uniform(20, 200, n_rows))
    frame = pandas.DataFrame(
        {
            "town": town,
            "area": area,
            "sold": pandas.Timestamp("2020-01-01")
            + pandas.to_timedelta(rng.randint(900, size=n_rows), "D"),
            "tax": [f"{value:.1f} %" for value in rng.uniform(0, 9, n_rows)],
        }
    )
    price = (
        3.0 * np.nan_to_num(area, nan=100.0) + 100.0 * (town == "Bonn") + rng.normal(size=n_rows)
    )
    return frame, price


def test_frames_are_accepted_as_they_are():
    pandas = pytest.importorskip("pandas")
    frame, price = mixed_frame(pandas)
    number = AutoRegressor(["local", "linear", "boosting"], random_state=0).fit(frame, price)
    assert number.score_ > 0.9
    assert list(number.feature_names_in_) == list(frame.columns)
    label = np.where(price > np.median(price), "dear", "cheap")
    model = AutoClassifier(["local", "linear"], random_state=0).fit(frame[:120], label[:120])
    assert model.score(frame[120:], label[120:]) > 0.8
    unseen = frame[:3].assign(town="Delft", area=np.nan)
    with pytest.warns(UserWarning, match="'town': 3 unseen categories such as 'Delft'"):
        np.testing.assert_allclose(model.contributions(unseen).sum(axis=(1, 2)), 1.0)


def test_a_numeric_frame_equals_its_array():
    pandas = pytest.importorskip("pandas")
    X, y = blobs()
    frame = pandas.DataFrame(X, columns=["a", "b"])
    plain = AutoClassifier(QUICK, random_state=0).fit(X, y).predict_proba(X)
    named = AutoClassifier(QUICK, random_state=0).fit(frame, y).predict_proba(frame)
    np.testing.assert_array_equal(named, plain)


def test_identifiers_in_a_numeric_frame_are_ignored():
    pandas = pytest.importorskip("pandas")
    X, y = blobs()
    frame = pandas.DataFrame(X, columns=["a", "b"])
    row_id = np.random.RandomState(0).permutation(len(y))
    plain = AutoClassifier(["linear"], random_state=0).fit(frame, y)
    keyed = AutoClassifier(["linear"], random_state=0).fit(frame.assign(row_id=row_id), y)
    predictions = [
        model.predict_proba(frame.assign(row_id=-1)[list(model.feature_names_in_)])
        for model in (plain, keyed)
    ]
    np.testing.assert_allclose(*predictions)


def test_rows_of_weight_zero_are_removed_from_a_frame():
    pandas = pytest.importorskip("pandas")
    frame, price = mixed_frame(pandas)
    weight = (np.arange(len(price)) % 4 > 0).astype(float)
    model = AutoRegressor(["linear"], random_state=0).fit(frame, price, sample_weight=weight)
    assert np.isnan(model.held_out_[::4]).all()


@pytest.mark.parametrize("kind", ["boolean", "Int64", "string", "category"])
def test_labels_of_frames_keep_their_type(kind):
    pandas = pytest.importorskip("pandas")
    X, y = blobs(60)
    labels = {"boolean": y > 0, "string": np.array(["so so", "good", "no"])[y]}.get(kind, y)
    model = AutoClassifier(["linear"], random_state=0).fit(X, pandas.Series(labels, dtype=kind))
    np.testing.assert_array_equal(model.classes_, np.unique(labels))
    assert np.asarray(model.classes_).dtype.kind in {"boolean": "b", "string": "OU"}.get(kind, "i")


def test_errors_of_a_frame_are_explained():
    pandas, arrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    frame, price = mixed_frame(pandas)
    labels = np.where(price > np.median(price), "dear", "cheap").astype(object)
    classifier, regressor = AutoClassifier(["linear"]), AutoRegressor(["linear"])
    with pytest.raises(ValueError, match="2 columns named 'a'"):
        classifier.fit(frame.iloc[:, :2].set_axis(["a", "a"], axis=1), labels)
    with pytest.raises(TypeError, match=r"pyarrow.*to_pandas"):
        classifier.fit(arrow.Table.from_pandas(frame), labels)
    with pytest.raises(ValueError, match="X holds"):
        regressor.fit(frame.assign(area=1e298 * frame.area), price)
    with pytest.raises(ValueError, match="y must be numeric: use a classifier"):
        regressor.fit(frame, labels)
    # Strings of the frame are no reason, even if they are those of y.
    with pytest.raises(ValueError, match="y must be numeric: use a classifier"):
        regressor.fit(frame.assign(copy=labels), labels)
    with pytest.raises(ValueError, match="X must be numeric: pass a data frame"):
        classifier.fit(frame.to_numpy(dtype=object), labels)
    with pytest.raises(TypeError, match="all input features have string names"):
        classifier.fit(frame.rename(columns={frame.columns[0]: 0}), labels)
    fitted = AutoClassifier(["linear"], random_state=0).fit(frame, labels)
    for row, message in (
        (frame.iloc[0], r"X is a Series; pass a data frame, for one row X\[:1\]"),
        ([frame.iloc[0].tolist()], "X is a list; pass a data frame"),
        (frame.iloc[0].to_dict(), "X is a dictionary"),
    ):
        with pytest.raises(ValueError, match=message):
            fitted.predict(row)
    labels[7] = None
    for table in (frame, frame[["area"]]):
        with pytest.raises(ValueError, match=r"1 missing label.*row 7"):
            classifier.fit(table, pandas.Series(labels))
    with pytest.raises(ValueError, match="X holds the target: its column 'price' is y"):
        regressor.fit(frame.assign(price=price), pandas.Series(price, name="price"))


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_columns_of_a_mixed_frame_are_found_by_name(kind):
    frame, price = mixed_frame(pytest.importorskip("pandas"))
    if kind == "polars":
        frame = pytest.importorskip(kind).from_pandas(frame)
    model = AutoRegressor(["linear"], random_state=0).fit(frame, price)
    turned = frame[list(frame.columns)[::-1]]
    more = turned.assign(more=1) if kind == "pandas" else turned.with_row_index("more")
    np.testing.assert_array_equal(model.predict(more), model.predict(frame))
    with pytest.raises(ValueError, match="now missing"):
        model.predict(frame[list(frame.columns)[1:]])
