"""Files that want to run something, to fill the memory, or to crash the process."""

import json
import os
import pickle
import zipfile
import zlib

import numpy as np
import pytest
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    IsolationForest,
    RandomForestClassifier,
    StackingClassifier,
)
from sklearn.feature_extraction import DictVectorizer
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.neighbors import KNeighborsClassifier, RadiusNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier
from tests.io.damage import structures
from tests.io.helpers import (
    LABELS,
    X,
    column,
    edit,
    fitted,
    objects,
    parts_of,
    repacked,
    run_python,
    unpacked,
    write_parts,
)

from vicinal import (
    AnchoredLocalClassifier,
    LocalClassifier,
    LocallyAdaptiveClassifier,
    PrunedTreeClassifier,
    SpacePartitioningClassifier,
)
from vicinal._base._compat import openmp_threads
from vicinal.io import ModelFileError, info, load, save
from vicinal.neighbors import NeighborSearch

MARKER = "VICINAL_WAS_FOOLED"


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    model = fitted(SpacePartitioningClassifier(n_regions=2, n_init=1, random_state=0))
    return save(model, tmp_path_factory.mktemp("good") / "model.vicinal")


@pytest.fixture
def model_file(good, tmp_path):
    path = tmp_path / "model.vicinal"
    path.write_bytes(good.read_bytes())
    return path


class Bomb:
    def __reduce__(self):
        return exec, (f"import os; os.environ[{MARKER!r}] = '1'",)


@pytest.fixture(autouse=True)
def nothing_runs():
    os.environ.pop(MARKER, None)
    yield
    assert MARKER not in os.environ


def refused(path, match):
    with pytest.raises(ModelFileError, match=match) as caught:
        load(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


# --- not a model ---


@pytest.mark.parametrize(
    "content",
    [b"", b"PK", b"not a model", pickle.dumps(Bomb()), b"\x80\x04." * 10, bytes(10_000)],
    ids=["empty", "PK", "text", "pickle", "opcodes", "zeros"],
)
def test_foreign_files_are_refused(tmp_path, content):
    path = tmp_path / "model.vicinal"
    path.write_bytes(content)
    refused(path, "no zip archive|truncated")
    with pytest.raises(ModelFileError):
        info(path)


def test_changed_contents_do_not_match_the_checksum(model_file):
    content = bytearray(model_file.read_bytes())
    at = content.index(parts_of(model_file)["arrays.bin"])
    content[at] ^= 1
    model_file.write_bytes(content)
    refused(model_file, "Bad CRC-32")


def test_other_formats_need_an_update(model_file):
    edit(model_file, lambda document, arrays: document.update(format_version=5))
    refused(model_file, "update vicinal")


# --- parts, sizes, arrays ---


@pytest.mark.parametrize("name", ["../escape.npy", "/etc/passwd", "a\\b.npy", "x.py", "é.npy"])
def test_other_parts_are_refused(model_file, name):
    refused(
        write_parts(model_file, {**parts_of(model_file), name: b""}), "not a model file: it holds"
    )


def test_parts_of_the_same_name_are_refused(model_file):
    with zipfile.ZipFile(model_file, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("model.json", "{}")
    refused(model_file, "not a model file: it holds")


def test_arrays_that_expand_too_much_are_refused(tmp_path):
    path, bomb = tmp_path / "model.vicinal", zlib.compress(bytes(2**26), 9)
    document, _ = unpacked(save(np.zeros(3), path))
    document["arrays"] = [["|u1", [2**26], "C", len(bomb)]]
    write_parts(path, {"model.json": json.dumps(document), "arrays.bin": bomb})
    refused(path, "more than 50 times")
    for claimed in (2**20, len(bomb) + 1, 2**26):
        document["arrays"] = [["|u1", [claimed], "C", len(bomb)], ["|u1", [2**20], "C", 2**20]]
        content = bomb + bytes(2**20)
        write_parts(path, {"model.json": json.dumps(document), "arrays.bin": content})
        refused(path, "another length|more than 50 times")


def test_constant_arrays_are_saved_so_that_they_can_be_loaded(tmp_path):
    zeros = np.zeros(2**20)
    path = save([zeros, np.arange(2**20)], tmp_path / "model.vicinal")
    assert path.stat().st_size < 4 * 2**20
    assert (load(path)[0] == 0).all()
    path = save(zeros, path)
    assert path.stat().st_size > zeros.nbytes
    assert (load(path) == 0).all()


@pytest.mark.parametrize("same", [1, 2, -1, True, "0", None, 0.0])
def test_numbers_of_equal_arrays_must_be_of_stored_ones(tmp_path, same):
    path = save([np.zeros(3), np.zeros(3), np.ones(2)], tmp_path / "model.vicinal")
    parts = parts_of(path)
    document = json.loads(parts["model.json"])
    assert document["arrays"][1] == 0
    document["arrays"][1] = same
    write_parts(path, {**parts, "model.json": json.dumps(document)})
    refused(path, "the invalid array")


@pytest.mark.parametrize("packing", [zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA])
def test_parts_that_zip_compresses_are_refused(model_file, packing):
    parts = {**parts_of(model_file), "arrays.bin": bytes(2**24)}
    refused(write_parts(model_file, parts, compression=packing), "compressed or encrypted")


@pytest.mark.parametrize(
    "layout",
    [
        ["|O", [3], "C"], ["<f8", [-1], "C"], ["<f8", [10**12], "C"], ["<f8", [True], "C"],
        ["<f8", [2.0], "C"], ["<f8", [3], "A"], ["<U0", [10**12], "C"], ["f8,i4", [3], "C"],
        ["|V8", [3], "C"], ["(2,)f8", [3], "C"], [["a", "f8"], [3], "C"], ["os", [3], "C"],
    ],
    ids=repr,
)  # fmt: skip
def test_arrays_must_be_as_the_document_declares(model_file, layout):
    parts = parts_of(model_file)
    document = json.loads(parts["model.json"])
    document["arrays"][0] = [*layout, document["arrays"][0][3]]
    write_parts(model_file, {**parts, "model.json": json.dumps(document)})
    refused(model_file, "dtype|length|array|damaged")


# --- names and references ---

POISON = {
    "function": ["function", "os.system"],
    "function of ours with effects": ["function", "vicinal.cli._app.run"],
    "function of ours": ["function", "vicinal.partition.stages.gate_scores"],
    "function of an estimator's module": ["function", "numpy.lib._npyio_impl.save"],
    "type": ["type", "subprocess.Popen"],
    "type of ours": ["type", "vicinal.local.LocalClassifier"],
    "builtin": ["type", "eval"],
    "unknown kind": ["eval", "1"],
    "no kind": {"class": "os.system"},
    "empty": [],
    "kind that is no text": [["list"], 1],
    "object to come": ["object", 10**6],
    "object before the first": ["object", -1],
    "object by another number": ["object", True],
    "array that is not there": ["array", 10**6],
    "array as a number": ["number", 0],
    "cells beyond their shape": ["cells", [10**9], 1],
    "dtype": ["dtype", "|V8"],
    "unhashable key": ["dict", [["list"], 1]],
}


@pytest.mark.parametrize("poison", POISON.values(), ids=POISON)
def test_values_that_name_something_else_are_refused(model_file, poison):
    def change(document, arrays):
        document["objects"][-1]["state"]["poison"] = poison

    refused(edit(model_file, change), "may not contain|the document|damaged")


@pytest.mark.parametrize(
    "name",
    [
        "subprocess.Popen", "os.system", "builtins.object", "numpy.ndarray", "pathlib.Path",
        "vicinal.io.ModelInfo", "vicinal.cli.Source", "vicinal.cli._app.run", "vicinal.local.np",
        "vicinal.partition._cascade.Cascade", "vicinal.local.BaseLocal", "vicinal", "",
        "vicinal.local.",
        "sklearn.cluster.FeatureAgglomeration", "sklearn.externals.array_api_compat.numpy",
    ],
)  # fmt: skip
def test_classes_on_no_list_are_refused_before_anything_is_made(model_file, name, monkeypatch):
    def change(document, arrays):
        document["objects"].append({"class": name, "state": {}})

    edit(model_file, change)
    assert info(model_file).untrusted == [name]
    monkeypatch.setattr("vicinal.io._model_file.Reader.model", None)
    refused(model_file, "which model files may not contain")


def test_nothing_can_contain_itself(model_file):
    def change(document, arrays):
        last = len(document["objects"]) - 1
        document["objects"][last]["state"]["owner"] = ["object", last]

    refused(edit(model_file, change), "not an earlier part")


@pytest.mark.parametrize("name", ["__class__", "__reduce_ex__", "__setstate__", "__dict__"])
def test_special_attributes_are_refused(model_file, name):
    def change(document, arrays):
        document["objects"][-1]["state"][name] = 1

    refused(edit(model_file, change), "special attribute")


def test_endless_nesting_is_refused(model_file):
    parts = parts_of(model_file)
    parts["model.json"] = b"[" * 200_000 + b"]" * 200_000
    refused(write_parts(model_file, parts), "damaged or not a model file")


# --- estimators that would act when used ---


def test_functions_come_from_a_short_list(tmp_path):
    model = make_pipeline(FunctionTransformer(np.log1p), StandardScaler()).fit(np.abs(X))
    assert info(save(model, tmp_path / "model.vicinal")).untrusted == []
    with pytest.raises(ModelFileError, match="FunctionTransformer has kw_args"):
        save(FunctionTransformer(np.log1p, kw_args={"where": False}), tmp_path / "model.vicinal")
    for function in (np.save, os.system, print, np.isfinite):
        with pytest.raises(ModelFileError, match="which model files may not contain"):
            save(FunctionTransformer(function), tmp_path / "model.vicinal")


@pytest.mark.parametrize(
    ("model", "attribute", "value", "match"),
    [
        (FunctionTransformer(np.exp), "kw_args", ["dict", ["out", ["array", 0]]], "kw_args"),
        (FunctionTransformer(np.exp), "inv_kw_args", ["dict", ["where", False]], "kw_args"),
        (make_pipeline(StandardScaler()), "memory", "/tmp/cache", "a cache on disk"),
        (CountVectorizer(), "input", "filename", "reads files"),
    ],
)
def test_settings_that_write_or_read_files_are_refused(tmp_path, model, attribute, value, match):
    path = save([X, model], tmp_path / "model.vicinal")

    def change(document, arrays):
        document["objects"][-1]["state"][attribute] = value

    refused(edit(path, change), match)


def test_the_command_line_cannot_be_reached_from_a_model(tmp_path, capsys):
    """A chain of functions that would run a command with the attacker's arguments in predict."""
    pytest.importorskip("typer")
    from vicinal.cli._app import run

    model = make_pipeline(
        FunctionTransformer(np.exp), FunctionTransformer(np.log), FunctionTransformer(np.sqrt)
    ).fit(X)
    path = save(model, tmp_path / "model.vicinal")
    (tmp_path / "table.csv").write_text("a,b,c,d,e\n1,2,3,4,5\n2,3,4,5,1\n")
    chain = ["vicinal.cli._check_table._is_whole", "numpy.isfinite", "vicinal.cli._app.run"]
    command = ["check", str(tmp_path / "table.csv"), "--out", str(tmp_path / "ran")]

    def change(document, arrays):
        for entry, name in zip(objects(document, "FunctionTransformer"), chain, strict=True):
            entry["state"]["func"] = ["function", name]
        arguments = ["dict", ["out", ["cells", [4], *command]], ["where", False]]
        objects(document, "FunctionTransformer")[1]["state"]["kw_args"] = arguments

    edit(path, change)
    assert info(path).untrusted == sorted(chain)
    assert run(["predict", str(path), str(tmp_path / "table.csv")]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "vicinal.cli._app.run" in error
    assert not (tmp_path / "ran").exists()


# --- arrays that compiled code would follow ---


def tampered(model, tmp_path, change):
    return edit(save(model, tmp_path / "model.vicinal"), change)


@pytest.mark.parametrize(
    ("name", "value", "match"),
    [
        ("left_child", 10**6, "child out of range"),
        ("left_child", 0, "child out of range"),
        ("left_child", -1, "with one child"),
        ("left_child", 2, "without a parent, or with two"),
        ("right_child", 0, "child out of range"),
        ("feature", 5, "feature that does not exist"),
        ("feature", -3, "feature that does not exist"),
    ],
)
def test_trees_that_lie_are_refused(tmp_path, name, value, match):
    def change(document, arrays):
        column(objects(document, "Tree")[0], arrays, name)[0] = value

    refused(tampered(fitted(PrunedTreeClassifier(cv=3, random_state=0)), tmp_path, change), match)


def test_the_depth_of_a_tree_is_computed_not_believed(tmp_path):
    model = DecisionTreeClassifier(random_state=0).fit(X, LABELS)
    again = load(save(model, tmp_path / "model.vicinal"))
    assert again.get_depth() == model.get_depth() > 2
    path = tampered(
        model,
        tmp_path,
        lambda document, arrays: objects(document, "Tree")[0]["state"].update(max_depth=0),
    )
    refused(path, "Tree.max_depth is not allowed")


@pytest.mark.parametrize("name", ["value", "threshold", "n_classes"])
def test_trees_with_other_shapes_are_refused(tmp_path, name):
    def change(document, arrays):
        index = objects(document, "Tree")[0]["state"][name][1]
        arrays[index] = arrays[index][:-1]

    refused(tampered(DecisionTreeClassifier().fit(X, LABELS), tmp_path, change), "tree")


@pytest.mark.parametrize(
    "model",
    [
        DecisionTreeClassifier(), RandomForestClassifier(3), GradientBoostingClassifier(),
        IsolationForest(n_estimators=3, max_features=3),
    ],
    ids=lambda model: type(model).__name__,
)  # fmt: skip
def test_trees_with_more_features_than_their_model_are_refused(tmp_path, model):
    def change(document, arrays):
        tree = objects(document, "Tree")[0]
        tree["state"]["n_features"] = 50
        column(tree, arrays, "feature")[0] = 49
        for kind in ("DecisionTreeClassifier", "DecisionTreeRegressor", "ExtraTreeRegressor"):
            for entry in objects(document, kind):
                entry["state"]["n_features_in_"] = 50
        document["objects"][-1]["state"]["n_features_in_"] = 5

    refused(tampered(model.fit(X, LABELS), tmp_path, change), "number of features")


def test_boosting_with_fewer_outputs_than_trees_is_refused(tmp_path):
    def change(document, arrays):
        dummy = objects(document, "DummyClassifier")[0]["state"]
        index = dummy["class_prior_"][1]
        arrays[index] = arrays[index][:2]

    model = GradientBoostingClassifier(n_estimators=2).fit(X, LABELS + (X[:, 0] > 1))
    refused(tampered(model, tmp_path, change), "wrong shape|damaged")


@pytest.mark.parametrize(
    ("name", "value"), [("left", 10**6), ("right", 0), ("feature_idx", 5), ("bitset_idx", 10**6)]
)
def test_histogram_trees_that_lie_are_refused(tmp_path, name, value):
    def change(document, arrays):
        predictor = objects(document, "TreePredictor")[0]
        column(predictor, arrays, "is_categorical")[0] = name == "bitset_idx"
        column(predictor, arrays, name)[0] = value

    refused(tampered(fitted(HistGradientBoostingClassifier(max_iter=2)), tmp_path, change), "tree")


@pytest.mark.parametrize(
    "name", ["support_vectors_", "_dual_coef_", "_intercept_", "_n_support", "support_"]
)
def test_support_vector_machines_that_lie_are_refused(tmp_path, name):
    def change(document, arrays):
        index = objects(document, "SVC")[0]["state"][name][1]
        arrays[index] = np.ascontiguousarray(arrays[index][..., :-1])

    refused(tampered(SVC().fit(X, LABELS), tmp_path, change), "inconsistent|SVC.*but must be")


def test_probabilities_without_their_sigmoids_are_refused(tmp_path):
    """Compiled code read the first sigmoid of none."""

    def change(document, arrays):
        state = objects(document, "SVC")[0]["state"]
        older = "_effective_probability" not in state  # scikit-learn before 1.9
        state["probability" if older else "_effective_probability"] = True

    rows = sparse.csr_matrix(X)
    refused(tampered(SVC().fit(rows, LABELS), tmp_path, change), "inconsistent")


def test_neighbours_and_centres_that_lie_are_refused(tmp_path):
    def narrow(name):
        def change(document, arrays):
            index = document["objects"][-1]["state"][name][1]
            arrays[index] = np.ascontiguousarray(arrays[index][:, :-1])

        return change

    def unknown_class(document, arrays):
        column(document["objects"][-1], arrays, "_y")[0] = 10**6

    for algorithm in ("brute", "kd_tree"):
        model = KNeighborsClassifier(algorithm=algorithm).fit(X, LABELS)
        refused(tampered(model, tmp_path, narrow("_fit_X")), "_fit_X is .* but must be")
        refused(tampered(model, tmp_path, unknown_class), "_y is .* but must be")
    clusters = KMeans(3, n_init=1).fit(X)
    refused(tampered(clusters, tmp_path, narrow("cluster_centers_")), "centers_ is .* but must be")
    search = NeighborSearch(5).fit(X)
    refused(tampered(search, tmp_path, narrow("_engine")), "rows of a search|rows have shape")


def test_sparse_matrices_with_wrong_indices_are_refused(tmp_path):
    rows = sparse.csr_matrix(np.where(X > 0, X, 0.0))

    def change(document, arrays):
        column(objects(document, "csr_matrix")[0], arrays, "indices")[0] = 10**6

    refused(tampered(rows, tmp_path, change), "damaged or not a model file")


def test_arrays_must_have_the_shapes_that_their_class_declares(tmp_path):
    def change(document, arrays):
        state = objects(document, "AnchorModels")[0]["state"]
        arrays[state["slopes"][1]] = arrays[state["slopes"][1]][:, :, :-1].copy()

    model = fitted(AnchoredLocalClassifier(4, n_neighbors=20, metric="euclidean", random_state=0))
    refused(tampered(model, tmp_path, change), r"AnchorModels.slopes has the shape \(4, 2, 4\)")


def test_class_bounds_that_kernels_would_follow_are_refused(tmp_path):
    model = fitted(LocallyAdaptiveClassifier(n_components=2, tol=1e-3))
    for bounds, match in (
        ([0, 45], "_voters.bounds has the shape"),
        ([0, 45, 10**6], "holds 10{6}"),
    ):

        def change(document, arrays, bounds=bounds):
            voters = objects(document, "References")[0]["state"]["*"]
            arrays[voters[2][1]] = np.array(bounds)

        refused(tampered(model, tmp_path, change), match)


@pytest.mark.parametrize(
    "model",
    [
        KNeighborsClassifier(algorithm="brute", metric="manhattan"),
        RadiusNeighborsClassifier(3.0, algorithm="brute", metric="manhattan", outlier_label=0),
    ],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.parametrize("label", [5, 10**9])
def test_labels_beyond_the_classes_are_refused_also_where_classes_are_a_list(
    tmp_path, model, label
):
    """Compiled code once used the label as an index."""

    def change(document, arrays):
        state = objects(document, type(model).__name__)[0]["state"]
        arrays[state["_y"][1]][0] = label
        state["classes_"] = ["list", 0, 1]

    refused(tampered(model.fit(X, LABELS), tmp_path, change), "but must be|unknown class")


def test_labels_of_several_outputs_belong_to_as_many_lists_of_classes(tmp_path):
    def change(document, arrays):
        state = objects(document, "KNeighborsClassifier")[0]["state"]
        state["outputs_2d_"] = False

    model = KNeighborsClassifier(algorithm="brute").fit(X, np.c_[LABELS, LABELS])
    refused(tampered(model, tmp_path, change), "unknown class")


@pytest.mark.parametrize(
    ("model", "kind", "attribute"),
    [
        (DecisionTreeClassifier(random_state=0), "Tree", "feature"),
        (DecisionTreeClassifier(random_state=0), "Tree", "left_child"),
        (PrunedTreeClassifier(cv=3, random_state=0), "Tree", "feature"),
        (GradientBoostingClassifier(n_estimators=1), "Tree", "feature"),
        (SVC(), "SVC", "_n_support"),
        (KNeighborsClassifier(), "KNeighborsClassifier", "_y"),
        (LocalClassifier(metric="forest", random_state=0), "ForestIndex", "counts"),
        (LocalClassifier(metric="euclidean", n_neighbors=20), "LocalRows", "y"),
    ],
    ids=lambda part: part if isinstance(part, str) else type(part).__name__,
)
@pytest.mark.parametrize("structure", ["masked", "a list"])
def test_lists_and_masked_arrays_in_the_position_of_arrays_are_refused(
    tmp_path, model, kind, attribute, structure
):
    """What is masked passed every check, and compiled code read it."""
    path = save(model.fit(X, LABELS), tmp_path / "model.vicinal")
    edit(path, structures(path)[f"{kind}.{attribute} {structure}"])
    refused(path, "MaskedArray" if structure == "masked" else "must be|must have|damaged")


@pytest.mark.parametrize(
    "model",
    [
        OneHotEncoder(sparse_output=False),
        CountVectorizer(),
        DictVectorizer(),
        RandomForestClassifier(2),
    ],
    ids=lambda model: type(model).__name__,
)
def test_columns_beyond_those_of_a_matrix_are_refused(tmp_path, model):
    """A sparse matrix made of them wrote beyond its end."""
    kind = type(model).__name__
    rows = {
        "OneHotEncoder": X.round(),
        "CountVectorizer": ["one two"],
        "DictVectorizer": [{"one": 1}],
    }.get(kind, X)

    def change(document, arrays):
        state = objects(document, kind)[0]["state"]
        if kind == "OneHotEncoder":
            state["_n_features_outs"] = ["list", 1, 1, 1, 1, 1]
        elif kind == "RandomForestClassifier":
            state["n_jobs"], state["n_classes_"] = 12, -1
        else:
            state["vocabulary_"][1][1] = 10**9

    refused(tampered(model.fit(rows, LABELS), tmp_path, change), "columns|must be")


def test_a_category_where_a_model_has_none_is_refused(tmp_path):
    """Compiled code read the first set of categories of none."""

    def change(document, arrays):
        predictor = objects(document, "TreePredictor")[0]
        state = predictor["state"]
        column(predictor, arrays, "is_categorical")[0] = 1
        for name in ("binned_sets", "raw_sets"):
            arrays[state[name][1]] = np.zeros((1, 8), np.uint32)

    model = fitted(HistGradientBoostingClassifier(max_iter=2))
    refused(tampered(model, tmp_path, change), "a category that does not exist")


def test_boosting_whose_encoder_gives_fewer_columns_is_refused(tmp_path):
    """Compiled code reads as many columns as the trees use."""

    def change(document, arrays):
        inner = objects(document, "ColumnTransformer")[0]["state"]
        del inner["transformers_"][2]

    rows = np.c_[LABELS, X]
    model = HistGradientBoostingClassifier(max_iter=2, categorical_features=[0]).fit(rows, LABELS)
    refused(tampered(model, tmp_path, change), "encodes another number of features")


@pytest.mark.parametrize("value", [["dict", ["w", ["array", 1]]], ["dict", ["n_jobs", 12]]])
def test_settings_of_metrics_that_compiled_code_reads_are_refused(tmp_path, value):
    def change(document, arrays):
        arrays[1] = np.ones(1)
        objects(document, "KNeighborsClassifier")[0]["state"]["metric_params"] = value

    model = KNeighborsClassifier(algorithm="brute").fit(X, LABELS)
    path = save([np.ones(1), np.ones(2), model], tmp_path / "model.vicinal")
    refused(edit(path, change), "metric_params is a dict, but must be")


def test_states_of_random_numbers_beyond_their_end_are_refused(tmp_path):
    def change(document, arrays):
        state = objects(document, "RandomState")[0]["state"]["state"]
        next(pair for pair in state[1:] if pair[0] == "pos")[1] = 10**9

    refused(tampered(np.random.RandomState(0), tmp_path, change), "MT19937")


def test_processes_and_threads_are_not_chosen_by_a_file(tmp_path):
    model = make_pipeline(
        ColumnTransformer([("a", StandardScaler(), [0, 1]), ("b", "passthrough", [2])]),
        StackingClassifier([("forest", RandomForestClassifier(2))], cv=2),
    ).fit(X, LABELS)
    # Set after the fit, which would start twelve processes.
    model.set_params(**{name: 12 for name in model.get_params() if name.endswith("n_jobs")})
    model[-1].estimators_[0].n_jobs = 12
    again = load(save(model, tmp_path / "model.vicinal"))
    found = [value for name, value in again.get_params().items() if name.endswith("n_jobs")]
    assert len(found) >= 3
    assert set(found) == {None}
    assert again[-1].estimators_[0].n_jobs is None
    assert load(save(LocalClassifier(n_jobs=12), tmp_path / "model.vicinal")).n_jobs is None
    clusters = load(save(KMeans(2, n_init=1).fit(X), tmp_path / "model.vicinal"))
    assert clusters._n_threads == openmp_threads()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("versions", None), ("versions", {"numpy": 2}), ("versions", ["1.0"]), ("metadata", "x"),
        ("metadata", None), ("saved", 1), ("about", []), ("about", {"model": 1}),
    ],
)  # fmt: skip
def test_descriptions_of_a_wrong_type_are_one_error(model_file, key, value):
    edit(model_file, lambda document, arrays: document.update({key: value}))
    refused(model_file, "has a wrong type|damaged")
    with pytest.raises(ModelFileError, match="has a wrong type|damaged"):
        info(model_file)


def test_messages_and_info_do_not_steer_a_terminal(model_file, capsys):
    pytest.importorskip("typer")
    from vicinal.cli._app import run

    escape = "\x1b]0;fooled\x07\x9b31m"

    def change(document, arrays):
        document["metadata"] = {"target": escape, "columns": {escape: escape}, escape: 1}
        document["versions"][escape] = escape
        document["about"]["classes"] = [escape]

    edit(model_file, change)
    for arguments in (["info", str(model_file)], ["info", str(model_file), "--json"]):
        assert run(arguments) == 0
        assert capsys.readouterr().out.replace("\n", "").isprintable()
    edit(model_file, lambda document, arrays: document["metadata"].update(columns=[1]))
    assert run(["info", str(model_file)]) == 0
    edit(model_file, lambda document, arrays: document["objects"][0].update({"class": escape}))
    refused(model_file, "may not contain")
    with pytest.raises(ModelFileError) as caught:
        load(model_file)
    assert str(caught.value).isprintable()


def test_objects_that_hold_one_another_many_times_are_refused(model_file):
    """A walk over forty that hold each other twice takes 2 ** 40 steps."""

    def change(document, arrays):
        n = len(document["objects"])
        for i in range(40):
            held = ["list", ["object", n + i - 1], ["object", n + i - 1]] if i else ["list"]
            bunch = {"class": "sklearn.utils.Bunch", "state": {"*": ["dict", ["a", held]]}}
            document["objects"].append(bunch)

    refused(edit(model_file, change), "too many nested objects")


def test_objects_built_from_the_same_arrays_without_end_are_refused(tmp_path):
    """A small file of a large array and many matrices made of it once filled the memory."""

    def change(document, arrays):
        document["objects"] *= 100

    refused(tampered(sparse.random(2000, 2000, 0.05, "csr"), tmp_path, change), "too many objects")


def test_truth_values_and_characters_are_made_such(tmp_path):
    path = save([np.array([True, False]), np.array(["a"])], tmp_path / "model.vicinal")
    parts = parts_of(path)
    parts["arrays.bin"] = b"\x07\x00" + parts["arrays.bin"][2:]
    flags, _ = load(write_parts(path, parts))
    assert flags.view(np.uint8).tolist() == [1, 0]
    parts["arrays.bin"] = b"\x07\x00\xff\xff\xff\x7f"
    refused(write_parts(path, parts), "invalid characters")


# --- mutations, and an honest run, under watch ---

WATCH = """
import sys
watched, is_watching = [], False
RUNS = ("os.", "subprocess.", "socket.", "shutil.", "ctypes.", "pickle.", "marshal.", "exec",
        "urllib.", "webbrowser.", "ftplib.", "http.")
HARMLESS = ("os.listdir", "os.scandir")
def watch(event, arguments):
    if not is_watching or event in HARMLESS:
        return
    if event.startswith(RUNS) or (event == "open" and set(str(arguments[1])) & set("wax+")):
        watched.append((event, repr(arguments)[:200]))
sys.addaudithook(watch)
"""

USE = (
    WATCH
    + """
import contextlib, io
from tests.io.helpers import X, predictions
from vicinal.inspection import explain
from vicinal.io import info, load

def use(path):
    model = load(path)
    info(path)
    predictions(model)
    explain(model, X[0]).text()

for path in sys.argv[1:]:
    use(path)  # everything is imported and compiled
is_watching = True
for path in sys.argv[1:]:
    use(path)
is_watching = False
print(watched)
"""
)


def test_load_info_predict_and_explain_run_nothing_and_write_nothing(good, tmp_path):
    models = {
        "local": LocalClassifier(n_neighbors=20, metric="euclidean"),
        "tree": PrunedTreeClassifier(cv=3, random_state=0),
        "pipeline": make_pipeline(StandardScaler(), RandomForestClassifier(3, random_state=0)),
    }
    paths = [save(fitted(model), tmp_path / f"{name}.vicinal") for name, model in models.items()]
    result = run_python(USE, good, *paths)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "[]"


FUZZ = (
    WATCH
    + """
import json, os, random, warnings
from pathlib import Path

import scipy.special, sklearn.feature_selection, sklearn.metrics  # whose functions may be named
from tests.io.helpers import predictions, parts_of, repacked, same, unpacked
from vicinal._base import n_threads
from vicinal.io import ModelFileError, info, load

warnings.simplefilter("ignore")
n, paths = int(sys.argv[1]), [Path(path) for path in sys.argv[2:]]
random.seed(0)
victim = paths[0].with_suffix(".victim")

def flipped():
    changed = bytearray(data)
    for _ in range(random.choice([1, 1, 2, 8])):
        changed[random.randrange(len(changed))] = random.randrange(256)
    return bytes(changed)

def cut():
    return data[: random.randrange(len(data))]

def spliced():
    at, length = random.randrange(len(data)), random.randrange(1, 64)
    middle = random.choice([b"", os.urandom(length), data[:length]])
    return data[:at] + middle + data[at + random.choice([0, length]) :]

NAMES = ["os.system", "builtins.eval", "subprocess.Popen", "function", "object", "array", "list",
         "dict", "type", "numpy.exp", "vicinal.cli._app.run", "vicinal.local.LocalClassifier", ""]

def rewritten():
    '''Another name, number, reference or shape somewhere in the document, checksums right.'''
    document, arrays = unpacked(path)
    if random.random() < 0.2:
        array = random.choice([array for array in arrays if array.size])
        array.ravel(order="K")[random.randrange(array.size)] = random.choice([0, 1, 100])
    else:
        entries, pending = [], [document]
        while pending:
            part = pending.pop()
            for key, value in list(part.items() if isinstance(part, dict) else enumerate(part)):
                entries.append((part, key))
                if isinstance(value, (dict, list)):
                    pending.append(value)
        for part, key in random.sample(entries, random.choice([1, 1, 2, 3])):
            n_objects = len(document["objects"])
            part[key] = random.choice([
                random.choice(NAMES), random.randrange(-9, 10**9), None, [], {}, random.random(),
                ["object", random.randrange(-1, n_objects + 1)],  # an object used again
                ["array", random.randrange(len(arrays))], ["function", random.choice(NAMES)],
            ])
    try:
        repacked(victim, document, arrays)
    except Exception:
        return b"PK"
    return victim.read_bytes()

assert [repr(load(path)) for path in paths]  # everything that is imported later is imported
is_watching = True
os.system("true")
is_watching = False
assert watched.pop()[0] == "os.system"

n_loaded = {flipped: 0, cut: 0, spliced: 0, rewritten: 0}
for i in range(n):
    if i % (n // len(paths)) == 0:
        path = paths[i // (n // len(paths))]
        data, expected = path.read_bytes(), predictions(load(path))
    kind = list(n_loaded)[i % 4]
    victim.write_bytes(kind())
    is_watching = True
    try:
        model = load(victim)
    except ModelFileError:
        model = None
    try:
        info(victim)
    except ModelFileError:
        pass
    is_watching = False
    if model is not None:
        n_loaded[kind] += 1
        # Damage never passes: without new checksums, only bytes that mean nothing may differ.
        if kind is not rewritten:
            if not same(predictions(model), expected):
                print("changed", kind.__name__, i)
            continue
        is_watching = True
        try:
            predictions(model)
        except Exception:
            pass
        is_watching = False
print(*n_loaded.values(), watched)
"""
)


@pytest.mark.parametrize("n", [300, pytest.param(1000, marks=pytest.mark.statistical)])
def test_mutations_run_nothing_and_raise_one_error(good, tmp_path, n):
    models = {
        "local": LocalClassifier(n_neighbors=20, metric="euclidean"),
        "forest": RandomForestClassifier(2, max_depth=3, random_state=0),
        "boosting": GradientBoostingClassifier(n_estimators=2, random_state=0),
    }
    paths = [save(fitted(model), tmp_path / f"{name}.vicinal") for name, model in models.items()]
    partition = tmp_path / "partition.vicinal"
    partition.write_bytes(good.read_bytes())
    result = run_python(FUZZ, n, partition, *paths)
    assert result.returncode == 0, result.stderr
    *n_loaded, watched = result.stdout.strip().split(" ", 4)
    assert watched == "[]"
    # Of random bytes, only those in fields that mean nothing (times, comments) may pass.
    n_flipped, n_cut, n_spliced, n_rewritten = map(int, n_loaded)
    assert n_cut == 0
    assert max(n_flipped, n_spliced) < 0.1 * n
    assert 0 < n_rewritten < 0.2 * n


def test_the_helpers_repack_a_file_without_changing_it(good, tmp_path):
    document, arrays = unpacked(good)
    again, same = unpacked(repacked(tmp_path / "again.vicinal", *unpacked(good)))
    assert {**again, "arrays": None} == {**document, "arrays": None}
    for first, second in zip(arrays, same, strict=True):
        np.testing.assert_array_equal(first, second)
