"""Readers: every file with its published counts, every way to find or miss one."""

import json
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import sklearn.datasets
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import issparse
from sklearn.utils import Bunch

from _datasets import dataset_info, list_datasets, load_dataset

# Rows, test rows, columns and classes as the folder's own description states them; written here
# a second time so that a slip in the table of the package is found.
PUBLISHED = {
    "adult": (32561, 16281, 14, 2),
    "airfoil": (1503, 0, 5, 0),
    "banana": (5300, 0, 2, 2),
    "census_income": (199523, 99762, 40, 2),
    "covtype": (581012, 0, 54, 7),
    "grid_stability": (10000, 0, 12, 0),
    "isolet": (6238, 1559, 617, 26),
    "laser": (993, 0, 4, 0),
    "letter": (16000, 4000, 16, 26),
    "mortgage": (1049, 0, 15, 0),
    "newsgroups20": (11314, 7532, 130107, 20),
    "optdigits": (3823, 1797, 64, 10),
    "orl": (400, 0, 1024, 40),
    "pendigits": (7494, 3498, 16, 10),
    "pie": (11554, 0, 1024, 68),
    "puma32h": (8192, 0, 32, 0),
    "rcv1_subset": (12419, 11346, 47236, 2),
    "satimage": (4435, 2000, 36, 6),
    "shuttle": (43500, 14500, 9, 7),
    "spambase": (3065, 1536, 57, 2),
    "vertebral": (310, 0, 6, 3),
    "wbc_original": (699, 0, 9, 2),
    "wdbc": (569, 0, 30, 2),
    "wine": (178, 0, 13, 3),
    "yaleb": (2414, 0, 1024, 38),
}
SINGLE_PRECISION = {"covtype", "pie", "newsgroups20", "rcv1_subset"}
CLASS_COUNTS = {
    "adult": ([24720, 7841], [12435, 3846]),
    "banana": ([2924, 2376], None),
    "census_income": ([187141, 12382], [93576, 6186]),
    "covtype": ([211840, 283301, 35754, 2747, 9493, 17367, 20510], None),
    "isolet": ([240] * 5 + [238] + [240] * 20, [60] * 12 + [59] + [60] * 13),
    "orl": ([10] * 40, None),
    "pie": ([170] * 37 + [164] + [170] * 30, None),
    "satimage": ([1072, 479, 961, 415, 470, 1038], [461, 224, 397, 211, 237, 470]),
    "shuttle": ([34108, 37, 132, 6748, 2458, 6, 11], [11478, 13, 39, 2155, 809, 4, 2]),
    "spambase": ([1847, 1218], [941, 595]),
    "vertebral": ([60, 150, 100], None),
    "wbc_original": ([458, 241], None),
    "wdbc": ([357, 212], None),
    "wine": ([59, 71, 48], None),
    "yaleb": ([64] * 10 + [60, 59, 60, 63, 62, 63, 63] + [64] * 21, None),
}


@pytest.fixture(scope="module")
def read(data_folder):
    """Read a set once for all tests of this file."""
    kept = {}

    def load(name):
        if name not in kept:
            kept[name] = load_dataset(name, data_home=data_folder)
        return kept[name]

    return load


@pytest.fixture
def no_folder(monkeypatch):
    monkeypatch.delenv("VICINAL_DATA", raising=False)


# --- every file ---------------------------------------------------------------------------------


def test_the_table_lists_every_published_set():
    assert list_datasets() == sorted(PUBLISHED)


def test_no_file_of_the_folder_lacks_a_reader(data_folder):
    assert sorted(path.stem for path in data_folder.glob("*.npz")) == list_datasets()


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_file_has_the_published_rows_columns_and_classes(read, name):
    data = read(name)
    n, n_test, n_features, n_classes = PUBLISHED[name]
    parts = {"_train": n, "_test": n_test} if n_test else {"": n}
    for i, (part, rows) in enumerate(parts.items()):
        X, y = data[f"X{part}"], data[f"y{part}"]
        assert X.shape == (rows, n_features)
        assert y.shape == (rows,)
        assert X.dtype == (np.float32 if name in SINGLE_PRECISION else np.float64)
        assert np.isfinite(y).all()
        if n_classes:
            labels, counts = np.unique(y, return_counts=True)
            assert y.dtype == np.int64
            assert_array_equal(labels, data.classes)
            assert len(labels) == len(data.target_names) == n_classes
            if name in CLASS_COUNTS:
                assert_array_equal(counts, CLASS_COUNTS[name][i])
        else:
            assert y.dtype == np.float64
    assert data.name == name
    assert data.task == ("classification" if n_classes else "regression")
    assert data.feature_names is None or len(set(data.feature_names)) == n_features


def test_reader_returns_the_published_split(data_folder):
    X_train, X_test, y_train, y_test = load_dataset(
        "letter", return_X_y=True, data_home=data_folder
    )
    assert X_train.shape == (16000, 16)
    assert X_test.shape == (4000, 16)
    assert "".join("ABCDEFGHIJKLMNOPQRSTUVWXYZ"[i] for i in y_train[:5]) == "TIDNG"
    assert y_test.shape == (4000,)


def test_published_values_survive(read):
    """First rows and totals that the originals are known by."""
    assert_array_equal(read("covtype").X[0, :6], [2596, 51, 3, 258, 0, 510])
    assert read("covtype").y[0] == 5
    assert_array_equal(read("optdigits").X_test, sklearn.datasets.load_digits().data)
    assert read("isolet").X_train.min() == -1.0
    assert read("isolet").X_train.max() == 1.0
    assert read("spambase").X_train[:, :48].max() <= 100.0
    assert_allclose(read("rcv1_subset").X_test.power(2).sum(axis=1), 1.0, atol=1e-3)


def test_decimals_are_the_nearest_doubles_to_those_published(read):
    X = read("isolet").X_test[:50]
    assert_array_equal(X, np.array([[float(f"{v:.4f}") for v in row] for row in X]))


@pytest.mark.parametrize(("name", "peer"), [("wine", "load_wine"), ("wdbc", "load_breast_cancer")])
def test_scikit_learn_gives_the_same_rows_as_the_file(read, no_folder, name, peer):
    file, embedded = read(name), load_dataset(name)
    assert_array_equal(file.X, embedded.X)
    assert_array_equal(file.y, embedded.y)
    assert file.feature_names == list(getattr(sklearn.datasets, peer)().feature_names)


def test_missing_grades_are_nan_in_one_column(read):
    X = read("wbc_original").X
    assert_array_equal(np.isnan(X).sum(axis=0), [0, 0, 0, 0, 0, 16, 0, 0, 0])
    assert np.nanmin(X) == 1.0


# --- extra keys ---------------------------------------------------------------------------------


def test_banana_realisations_are_usable_as_cross_validation(read):
    data = read("banana")
    assert len(data.splits) == 10
    for (train, test), mask in zip(data.splits, data.in_train, strict=True):
        assert (len(train), len(test)) == (400, 4900)
        assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(5300))
        assert mask[train].all()
    assert_array_equal(data.splits[0][0], np.arange(400))
    assert data.X_keel.shape == (5300, 2)


def test_census_weights_are_not_features(read):
    data = read("census_income")
    assert data.sample_weight_train.shape == (199523,)
    assert data.sample_weight_test.shape == (99762,)
    assert data.sample_weight_train.min() == 37.87
    assert data.categorical_features.sum() == 33
    counts = [len(data.categories[name]) for name in list(data.categories)[:5]]
    assert counts == [9, 52, 47, 17, 3]


def test_other_extra_keys(read):
    assert_array_equal(np.bincount(read("isolet").groups_train), [0, 1560, 1560, 1560, 1558])
    assert read("vertebral").y_binary.sum() == 210
    assert_array_equal(read("vertebral").y_binary == 0, read("vertebral").y == 2)
    assert read("wbc_original").sample_id.shape == (699,)
    assert read("spambase").is_test.sum() == 1536
    assert read("pie").image_number.max() == 170
    rcv1 = read("rcv1_subset")
    positive = rcv1.roots_train[:, :2].any(axis=1)
    assert list(rcv1.root_names) == ["CCAT", "ECAT", "GCAT", "MCAT"]
    assert_array_equal(np.where(positive, 1, -1), rcv1.y_train)


def test_covtype_partition_covers_all_rows_once(read):
    y = read("covtype").y
    parts = [y[rows] for rows in read("covtype").partition.values()]
    assert [len(part) for part in parts] == [11340, 3780, 565892]
    assert_array_equal(np.bincount(parts[0])[1:], [1620] * 7)


@pytest.mark.parametrize("name", ["orl", "yaleb", "pie"])
def test_images_are_views_of_the_rows(read, name):
    data = read(name)
    assert data.images.shape == (len(data.X), 32, 32)
    assert np.shares_memory(data.images, data.X)


@pytest.mark.parametrize("name", ["newsgroups20", "rcv1_subset"])
def test_sparse_sets_are_canonical_csr(read, name):
    X = read(name).X_train
    assert issparse(X)
    assert X.format == "csr"
    assert X.has_canonical_format
    assert X.indices.dtype == X.indptr.dtype == np.int32


# --- return_X_y and as_frame --------------------------------------------------------------------


def test_return_X_y_of_a_set_without_split(no_folder):
    X, y = load_dataset("wine", return_X_y=True)
    data = load_dataset("wine")
    assert_array_equal(X, data.data)
    assert_array_equal(y, data.target)


def test_frame_of_numbers(no_folder):
    data = load_dataset("wine", as_frame=True)
    assert list(data.X.columns) == data.feature_names
    assert data.frame.shape == (178, 14)
    assert data.frame["target"].equals(data.y)
    assert data.data is data.X


def test_frame_of_mixed_types_agrees_with_the_codes(data_folder, read):
    frame = load_dataset("adult", as_frame=True, data_home=data_folder).X_train
    codes = read("adult")
    assert list(frame.columns) == codes.feature_names == list(dataset_info("adult").feature_names)
    assert frame["workclass"].iloc[0] == "State-gov"
    assert frame["native_country"].iloc[0] == "United-States"
    assert frame.loc[0, "age"] == 39
    is_category = [dtype.name == "category" for dtype in frame.dtypes]
    assert_array_equal(is_category, codes.categorical_features)
    for j, column in enumerate(frame):
        series = frame[column]
        values = series.cat.codes if codes.categorical_features[j] else series
        assert_array_equal(values, codes.X_train[:, j])


def test_frames_of_both_parts_share_categories(data_folder):
    data = load_dataset("census_income", as_frame=True, data_home=data_folder)
    assert data.X_train.dtypes.equals(data.X_test.dtypes)


def test_sparse_set_refuses_a_frame():
    with pytest.raises(ValueError, match="as_frame=True is not available for 'newsgroups20'"):
        load_dataset("newsgroups20", as_frame=True)


# --- where a file is looked for -----------------------------------------------------------------


def write_wine(folder, **changes):
    X, y = sklearn.datasets.load_wine(return_X_y=True)
    np.savez_compressed(folder / "wine.npz", **{"X": X, "y": y, **changes})


def test_given_folder_wins_over_the_variable(tmp_path, monkeypatch):
    X = sklearn.datasets.load_wine().data
    given, named = tmp_path / "given", tmp_path / "named"
    given.mkdir()
    named.mkdir()
    write_wine(given, X=X + 1)
    write_wine(named, X=X + 2)
    monkeypatch.setenv("VICINAL_DATA", str(named))
    assert_array_equal(load_dataset("wine", data_home=given).X, X + 1)
    assert_array_equal(load_dataset("wine").X, X + 2)


def test_variable_that_names_no_folder_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setenv("VICINAL_DATA", str(tmp_path / "absent"))
    with pytest.raises(FileNotFoundError, match="is not a folder; set it"):
        load_dataset("wine")


def test_set_that_needs_its_file_says_what_it_is_and_where_to_put_it(no_folder):
    with pytest.raises(FileNotFoundError) as error:
        load_dataset("satimage")
    message = str(error.value)
    for part in ("Landsat", "satimage.npz", "UCI Statlog", "VICINAL_DATA", "OpenML 182 has 6430"):
        assert part in message


def test_missing_file_names_the_folders_searched(tmp_path, no_folder):
    with pytest.raises(FileNotFoundError, match=str(tmp_path)):
        load_dataset("mortgage", data_home=tmp_path)


def test_unknown_name_lists_the_choices():
    with pytest.raises(ValueError, match="name='irises' is not a benchmark set; .*'wine'"):
        load_dataset("irises")
    with pytest.raises(ValueError, match="task='ranking'"):
        list_datasets(task="ranking")


# --- damaged and foreign files ------------------------------------------------------------------


def test_truncated_file_is_named(tmp_path):
    write_wine(tmp_path)
    path = tmp_path / "wine.npz"
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(ValueError, match="wine.npz is not a readable file of the set 'wine'"):
        load_dataset("wine", data_home=tmp_path)


def test_flipped_bytes_are_noticed(tmp_path):
    write_wine(tmp_path)
    path = tmp_path / "wine.npz"
    content = bytearray(path.read_bytes())
    content[400:420] = bytes(20)
    path.write_bytes(bytes(content))
    with pytest.raises(ValueError, match="not a readable file"):
        load_dataset("wine", data_home=tmp_path)


@pytest.mark.parametrize("content", [b"", b"not an archive", pickle.dumps({"X": 1})])
def test_foreign_content_is_refused(tmp_path, content):
    (tmp_path / "wine.npz").write_bytes(content)
    with pytest.raises(ValueError, match="not a readable file"):
        load_dataset("wine", data_home=tmp_path)


class Trap:
    def __reduce__(self):
        return os.mkdir, ("sprung",)


def test_pickled_objects_are_never_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_wine(tmp_path, X=np.array([[Trap()]], dtype=object))
    with pytest.raises(ValueError, match="not a readable file"):
        load_dataset("wine", data_home=tmp_path)
    assert not (tmp_path / "sprung").exists()


def test_lone_array_under_the_name_is_refused(tmp_path):
    with (tmp_path / "wine.npz").open("wb") as file:
        np.save(file, np.zeros((178, 13)))
    with pytest.raises(ValueError, match="not a readable file"):
        load_dataset("wine", data_home=tmp_path)


def test_file_without_a_key_is_refused(tmp_path):
    np.savez(tmp_path / "wine.npz", X=np.zeros((178, 13)))
    with pytest.raises(ValueError, match="not a readable file of the set 'wine'.*y"):
        load_dataset("wine", data_home=tmp_path)


def test_wrong_shape_and_wrong_classes_are_refused(tmp_path):
    write_wine(tmp_path, X=np.zeros((177, 13)))
    with pytest.raises(ValueError, match=r"X has shape \(177, 13\).*\(178, 13\)"):
        load_dataset("wine", data_home=tmp_path)
    write_wine(tmp_path, y=np.zeros(178))
    with pytest.raises(ValueError, match=r"class counts \(178, 0, 0\).*\(59, 71, 48\)"):
        load_dataset("wine", data_home=tmp_path)


# --- layouts, without the published files -------------------------------------------------------


def test_codes_and_numbers_return_to_their_columns(tmp_path, rng):
    X, y = imitation("adult", rng)
    codes = [1, 3, 5, 6, 7, 8, 9, 13]
    numbers = [0, 2, 4, 10, 11, 12]
    names = np.array(dataset_info("adult").feature_names)
    for part in X:
        X[part][:, codes] %= 2
    stored = {f"y_{part}": y[part] for part in y}
    stored |= {f"Xcat_{part}": X[part][:, codes] for part in X}
    stored |= {f"Xnum_{part}": X[part][:, numbers] for part in X}
    np.savez(
        tmp_path / "adult.npz",
        cat_columns=codes,
        num_columns=numbers,
        cat_names=names[codes],
        num_names=names[numbers],
        categories=json.dumps([["no", "yes"]] * 8),
        **stored,
    )
    data = load_dataset("adult", data_home=tmp_path)
    assert_array_equal(data.X_train, X["train"])
    assert_array_equal(np.flatnonzero(data.categorical_features), codes)
    assert data.feature_names == list(names)
    frame = load_dataset("adult", data_home=tmp_path, as_frame=True).X_test
    assert_array_equal(frame["sex"] == "yes", X["test"][:, 9])
    assert frame["age"].dtype == np.float64


def test_sparse_parts_become_csr_matrices(tmp_path):
    info = dataset_info("rcv1_subset")
    stored = {"root_names": np.array(["CCAT", "ECAT", "GCAT", "MCAT"])}
    for part, counts in (("train", info.class_counts), ("test", info.class_counts_test)):
        n = sum(counts)
        stored |= {
            f"X_{part}_data": np.ones(n, dtype=np.float16),
            f"X_{part}_indices": np.full(n, 47235, dtype=np.uint16),
            f"X_{part}_indptr": np.arange(n + 1),
            f"X_{part}_shape": np.array([n, 47236]),
            f"y_{part}": np.repeat(info.classes, counts).astype(np.int8),
            f"roots_{part}": np.zeros((n, 4), dtype=np.uint8),
            f"subset_{part}": np.ones(n, dtype=np.uint8),
        }
    np.savez(tmp_path / "rcv1_subset.npz", **stored)
    data = load_dataset("rcv1_subset", data_home=tmp_path)
    assert data.X_train.format == "csr"
    assert data.X_train.dtype == np.float32
    assert data.X_test[:, [47235]].sum() == info.n_test
    assert data.feature_names is None


# --- OpenML -------------------------------------------------------------------------------------


def imitation(name, rng):
    """Random rows with the published class counts of both parts, in random order."""
    info = dataset_info(name)
    X, y = {}, {}
    for part, counts in (("train", info.class_counts), ("test", info.class_counts_test)):
        y[part] = rng.permutation(np.repeat(info.classes, counts))
        X[part] = rng.randint(0, 100, size=(len(y[part]), info.n_features)).astype(np.uint8)
    return X, y


def openml_labels(y, names):
    return np.array([names[label] for label in y], dtype=object)


@pytest.fixture
def openml(monkeypatch, no_folder):
    """Put a table in the place of OpenML's answer, in the form scikit-learn's parser gives it."""
    calls = []

    def serve(**table):
        def fetch_openml(**arguments):
            calls.append(arguments)
            return Bunch(**table)

        monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch_openml)
        return calls

    return serve


@pytest.mark.parametrize("name", ["letter", "isolet", "optdigits", "pendigits", "shuttle"])
@pytest.mark.parametrize("test_first", [False, True])
def test_split_is_rebuilt_from_the_order_of_openml(openml, rng, name, test_first):
    info, (X, y) = dataset_info(name), imitation(name, rng)
    order = ("test", "train") if test_first else ("train", "test")
    names = dict(zip(info.classes, map(str, info.classes), strict=True))
    if name == "letter":
        names = dict(zip(info.classes, info.target_names, strict=True))
    calls = openml(
        data=np.concatenate([X[part] for part in order]),
        target=openml_labels(np.concatenate([y[part] for part in order]), names),
    )
    X_train, X_test, y_train, y_test = load_dataset(name, return_X_y=True)
    assert_array_equal(X_train, X["train"])
    assert_array_equal(X_test, X["test"])
    assert_array_equal(y_train, y["train"])
    assert_array_equal(y_test, y["test"])
    assert calls[0]["data_id"] == info.openml_id


def test_shuffled_openml_rows_are_never_passed_off_as_the_split(openml, rng):
    X, y = imitation("pendigits", rng)
    order = rng.permutation(10992)
    openml(
        data=np.concatenate([X["train"], X["test"]])[order],
        target=np.concatenate([y["train"], y["test"]])[order].astype(str).astype(object),
    )
    with pytest.raises(ValueError, match="published split .* cannot be rebuilt .*pendigits.npz"):
        load_dataset("pendigits")


def test_openml_with_other_classes_is_refused(openml):
    openml(data=np.zeros((4, 16)), target=np.array(["A", "B", "A", "B"], dtype=object))
    with pytest.raises(ValueError, match="has 2 classes where 'letter' has 26"):
        load_dataset("letter")


@pytest.mark.parametrize("name", ["airfoil", "grid_stability", "puma32h"])
def test_regression_sets_come_from_openml(openml, rng, name):
    info = dataset_info(name)
    X, y = rng.normal(size=(info.n_samples, info.n_features)), rng.normal(size=info.n_samples)
    openml(data=X, target=y)
    assert_array_equal(load_dataset(name).X, X)
    assert_array_equal(load_dataset(name).y, y)
    openml(data=X[:-1], target=y[:-1])
    with pytest.raises(ValueError, match="OpenML .* is not the set"):
        load_dataset(name)


def test_missing_cells_of_openml_stay_missing(read, openml):
    file = read("wbc_original")
    openml(data=file.X, target=openml_labels(file.y, ["benign", "malignant"]))
    fetched = load_dataset("wbc_original")
    assert_array_equal(fetched.X, file.X)
    assert_array_equal(fetched.y, file.y)
    assert "sample_id" not in fetched


def test_numbers_that_openml_declares_nominal_are_decoded(openml, rng):
    """The parser gives such a column as positions in its list of names."""
    y = rng.permutation(np.repeat([0, 1], [458, 241]))
    X = rng.randint(1, 11, size=(699, 9)).astype(float)
    X[5, 2] = np.nan
    coded = X.copy()
    coded[:, 2] = 10 - X[:, 2]
    openml(
        data=coded,
        target=openml_labels(y, ["benign", "malignant"]),
        feature_names=list("abcdefghi"),
        categories={"c": [str(value) for value in range(10, 0, -1)]},
    )
    assert_array_equal(load_dataset("wbc_original").X, X)


def adult_as_openml_has_it(file, rng):
    """Hyphenated names, columns and categories in another order, '?' as missing."""
    X = np.concatenate([file.X_test, file.X_train])
    columns = rng.permutation(14)
    data, categories, names = np.empty_like(X), {}, []
    for position, j in enumerate(columns):
        name = file.feature_names[j]
        names.append(name.replace("_", "-"))
        data[:, position] = X[:, j]
        if file.categorical_features[j]:
            ours = file.categories[name]
            theirs = [value for value in reversed(ours) if value != "?"]
            code = np.array([theirs.index(v) if v != "?" else np.nan for v in ours])
            data[:, position] = code[X[:, j].astype(int)]
            categories[names[-1]] = theirs
    y = np.concatenate([file.y_test, file.y_train])
    return {
        "data": data,
        "target": openml_labels(y, ["<=50K", ">50K"]),
        "feature_names": names,
        "categories": categories,
    }


def test_mixed_table_of_openml_becomes_that_of_the_file(read, openml, rng):
    file = read("adult")
    table = adult_as_openml_has_it(file, rng)
    openml(**table)
    fetched = load_dataset("adult")
    for key in ("X_train", "y_train", "X_test", "y_test", "categorical_features"):
        assert_array_equal(fetched[key], file[key])
    assert fetched.categories == file.categories
    table["feature_names"][0] = "unheard-of"
    with pytest.raises(ValueError, match="lacks the columns"):
        load_dataset("adult")


def test_unreachable_openml_is_explained(monkeypatch, no_folder, tmp_path):
    def fetch_openml(**arguments):
        assert arguments["data_home"] == tmp_path
        raise OSError("no route to host")

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch_openml)
    with pytest.raises(FileNotFoundError, match="data_id=6.*could not be reached.*no route"):
        load_dataset("letter", data_home=tmp_path)


def test_large_sets_come_from_scikit_learn(monkeypatch, no_folder, read):
    covtype, news = read("covtype"), read("newsgroups20")

    def fetch_covtype(*, data_home, return_X_y):
        return covtype.X.astype(np.float64), covtype.y.astype(np.int32)

    def fetch_20newsgroups_vectorized(*, subset, data_home, normalize, return_X_y):
        assert not normalize
        return news[f"X_{subset}"].astype(np.int64), news[f"y_{subset}"]

    monkeypatch.setattr(sklearn.datasets, "fetch_covtype", fetch_covtype)
    monkeypatch.setattr(
        sklearn.datasets, "fetch_20newsgroups_vectorized", fetch_20newsgroups_vectorized
    )
    fetched = load_dataset("covtype")
    assert fetched.X.dtype == np.float32
    assert_array_equal(fetched.y, covtype.y)
    X_train, _, _, y_test = load_dataset("newsgroups20", return_X_y=True)
    assert (X_train != news.X_train).nnz == 0
    assert_array_equal(y_test, news.y_test)


def test_description_names_source_terms_and_extra_keys(no_folder):
    assert "UCI Wine" in load_dataset("wine").DESCR


def test_the_readme_states_every_set_as_the_registry_has_it():
    guide = Path(__file__).parents[2] / "benchmarks" / "README.md"
    stated = {
        cells[0].strip("` "): [cell.strip() for cell in cells[1:5]]
        for line in guide.read_text().splitlines()
        if line.startswith("| `") and len(cells := line.strip("| ").split("|")) == 7
    }
    assert sorted(stated) == list_datasets()
    for name, cells in stated.items():
        info = dataset_info(name)
        numbers = (info.n_samples, info.n_test, info.n_features, info.n_classes)
        assert cells == [f"{number:,}" if number else "" for number in numbers], name
