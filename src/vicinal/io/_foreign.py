"""Objects of NumPy, SciPy and scikit-learn in model files: conversion to arrays, and checks.

Compiled code uses the indices of trees, sparse matrices and support vectors without bounds checks,
so all of them are checked here before the object is used.
"""

from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.interpolate import BSpline
from sklearn.neighbors import BallTree, KDTree
from sklearn.preprocessing import FunctionTransformer, OrdinalEncoder
from sklearn.utils import check_array
from sklearn.utils._param_validation import HasMethods, make_constraint

from vicinal._base._compat import svc_has_probability
from vicinal.io._attributes import check_attributes
from vicinal.io._errors import ModelFileError

_TREE_COLUMNS = (
    "left_child right_child feature threshold impurity n_node_samples weighted_n_node_samples "
    "missing_go_to_left"
).split()
_PREDICTOR_COLUMNS = (
    "value count feature_idx num_threshold missing_go_to_left left right gain depth is_leaf "
    "bin_threshold is_categorical bitset_idx"
).split()


_HISTOGRAMS = "sklearn.ensemble._hist_gradient_boosting"


class Conversion(NamedTuple):
    """Conversion of an object to plain values, and back from the name of its class and those."""

    to_state: Callable[[Any], dict[str, Any]]
    build: Callable[[str, dict[str, Any]], Any]


def _named(name: str) -> Any:
    """Return a class or a dtype by its full name, imported when it is needed."""
    module, _, short = name.rpartition(".")
    return getattr(import_module(module), short)


def _require(condition: Any, message: str) -> None:
    if not condition:
        raise ModelFileError(message)


# --- numbers and matrices ---


def _random_state(name, state) -> np.random.RandomState:
    _require(
        state["bit_generator"] == "MT19937" and 0 <= state["state"]["pos"] <= 624,
        "a RandomState has another generator than MT19937.",
    )
    made = np.random.RandomState(0)
    made.set_state(state)
    return made


def _generator(name, state) -> np.random.Generator:
    _require(
        state["bit_generator"] == "PCG64",
        "a random Generator has another bit generator than PCG64.",
    )
    bits = np.random.PCG64(0)
    bits.state = state
    return np.random.Generator(bits)


def _compressed_parts(matrix) -> dict[str, Any]:
    return {
        "shape": tuple(int(length) for length in matrix.shape),
        "data": matrix.data,
        "indices": matrix.indices,
        "indptr": matrix.indptr,
    }


def _compressed(name, state) -> Any:
    # Copied, because matrices that share indices may change them.
    parts = state["data"], state["indices"], state["indptr"]
    made = _named(name)(parts, shape=state["shape"], copy=True)
    made.check_format(full_check=True)
    return made


def _spline(name, state) -> BSpline:
    return BSpline(state["t"], state["c"], int(state["k"]), extrapolate=state["extrapolate"])


# --- decision trees ---


def _tree_parts(tree) -> dict[str, Any]:
    nodes = tree.__getstate__()["nodes"]
    return {
        "n_features": int(tree.n_features),
        "n_classes": np.asarray(tree.n_classes),
        "value": tree.value,
        **{name: _narrowed(nodes[name]) for name in _TREE_COLUMNS},
    }


def _narrowed(column: np.ndarray) -> np.ndarray:
    """Return a column in the smallest type that holds its values exactly; files are smaller."""
    kinds = (np.float32,) if column.dtype.kind == "f" else (np.int8, np.int16, np.int32)
    for kind in kinds:
        with np.errstate(over="ignore"):
            narrow = column.astype(kind)
        if np.array_equal(narrow, column):
            return narrow
    return np.ascontiguousarray(column)


def _tree(name, state) -> Any:
    columns = {name: state[name] for name in _TREE_COLUMNS}
    n_nodes = len(columns["left_child"])
    n_features, n_classes, value = state["n_features"], state["n_classes"], state["value"]
    left, right = (columns[name].astype(np.int64) for name in ("left_child", "right_child"))
    inner = left != -1
    _require(np.array_equal(inner, right != -1), "a decision tree has a node with one child.")
    depth = _check_nodes(inner, left, right, columns["feature"], n_features)
    _require(
        len(n_classes)
        and n_classes.min() >= 1
        and value.shape[2] == n_classes.max()
        and value.dtype == np.float64,
        "a decision tree has values of a wrong shape.",
    )
    tree = _named(name)(n_features, n_classes.astype(np.intp), len(n_classes))
    nodes = np.zeros(n_nodes, dtype=_named("sklearn.tree._tree.NODE_DTYPE"))
    for column, values in columns.items():
        nodes[column] = values
    shape = {"max_depth": depth, "node_count": n_nodes}
    tree.__setstate__({**shape, "nodes": nodes, "values": np.ascontiguousarray(value)})
    return tree


def _predictor_parts(predictor) -> dict[str, Any]:
    return {
        **{name: np.ascontiguousarray(predictor.nodes[name]) for name in _PREDICTOR_COLUMNS},
        "binned_sets": predictor.binned_left_cat_bitsets,
        "raw_sets": predictor.raw_left_cat_bitsets,
    }


def _predictor(name, state) -> Any:
    """Build a tree of histogram boosting; its features are checked with the whole model."""
    columns = {name: state[name] for name in _PREDICTOR_COLUMNS}
    inner = columns["is_leaf"] == 0
    left, right = (columns[name].astype(np.int64) for name in ("left", "right"))
    _check_nodes(inner, left, right, columns["feature_idx"], np.iinfo(np.int64).max)
    sets = state["binned_sets"], state["raw_sets"]
    categorical = inner & (columns["is_categorical"] != 0)
    _require(
        not categorical.any() or columns["bitset_idx"][categorical].max() < min(map(len, sets)),
        "a boosted tree refers to a set of categories that does not exist.",
    )
    nodes = np.zeros(len(inner), dtype=_named(f"{_HISTOGRAMS}.common.PREDICTOR_RECORD_DTYPE"))
    for column, values in columns.items():
        nodes[column] = values
    return _named(name)(nodes, *sets)


def _check_nodes(inner, left, right, feature, n_features) -> int:
    """Return the depth of a tree; every node but the first must have one earlier parent."""
    _require(len(inner), "a decision tree has no nodes.")
    rows = np.flatnonzero(inner)
    children = np.concatenate([left[rows], right[rows]])
    in_range = (children > np.tile(rows, 2)) & (children < len(inner))
    _require(in_range.all(), "a decision tree has a node with a child out of range.")
    parents = np.bincount(children, minlength=len(inner))
    _require(
        parents[0] == 0 and np.all(parents[1:] == 1),
        "a decision tree has a node without a parent, or with two.",
    )
    used = feature[rows]
    _require(
        np.all((used >= 0) & (used < n_features)),
        "a decision tree uses a feature that does not exist.",
    )
    depths, parent = (np.arange(len(inner)) > 0).astype(np.int64), np.zeros(len(inner), np.int64)
    parent[children] = np.tile(rows, 2)
    while parent.any():  # to the grandparent, then twice as far each time
        depths, parent = depths + depths[parent], parent[parent]
    return int(depths.max())


# --- losses ---


def _loss_parts(loss) -> dict[str, Any]:
    settings = {"n_classes": loss.n_classes} if loss.is_multiclass else {}
    for name in ("quantile", "power", "delta"):
        if hasattr(loss.closs, name):
            settings[name] = float(getattr(loss.closs, name))
    return settings


_LOSSES = (
    "AbsoluteError ExponentialLoss HalfBinomialLoss HalfGammaLoss HalfMultinomialLoss "
    "HalfPoissonLoss HalfSquaredError HalfTweedieLoss HalfTweedieLossIdentity HuberLoss PinballLoss"
).split()
_SGD_LOSSES = (
    "EpsilonInsensitive Hinge ModifiedHuber SquaredEpsilonInsensitive SquaredHinge".split()
)

# Histogram boosting with categories validates the other columns with this partial function.
_ROW_CHECK = {"dtype": [np.float64], "ensure_all_finite": False}


def _row_check_parts(function) -> dict[str, Any]:
    _require(
        function.func is check_array and not function.args and function.keywords == _ROW_CHECK,
        "the model has a functools.partial, which cannot be saved; use an object of vicinal or "
        "scikit-learn instead.",
    )
    return {}


CONVERSIONS: dict[str, Conversion] = {
    "functools.partial": Conversion(
        _row_check_parts, lambda name, state: partial(check_array, **_ROW_CHECK)
    ),
    "numpy.random.mtrand.RandomState": Conversion(
        lambda random_state: random_state.get_state(legacy=False), _random_state
    ),
    "numpy.random._generator.Generator": Conversion(
        lambda rng: rng.bit_generator.state, _generator
    ),
    "scipy.interpolate._bsplines.BSpline": Conversion(
        lambda spline: {name: getattr(spline, name) for name in ("t", "c", "k", "extrapolate")},
        _spline,
    ),
    "sklearn.tree._tree.Tree": Conversion(_tree_parts, _tree),
    f"{_HISTOGRAMS}.predictor.TreePredictor": Conversion(_predictor_parts, _predictor),
    **dict.fromkeys(
        [f"sklearn._loss.loss.{name}" for name in _LOSSES],
        Conversion(_loss_parts, lambda name, state: _named(name)(**state)),
    ),
    **dict.fromkeys(
        [
            *(f"sklearn._loss._loss.Cy{name}" for name in _LOSSES),
            *(f"sklearn.linear_model._sgd_fast.{name}" for name in _SGD_LOSSES),
        ],
        Conversion(
            lambda loss: {"numbers": tuple(map(float, loss.__reduce__()[1]))},
            lambda name, state: _named(name)(*state["numbers"]),
        ),
    ),
    **dict.fromkeys(
        [
            f"{kind.__module__}.{kind.__name__}"
            for kind in (sparse.csr_matrix, sparse.csr_array, sparse.csc_matrix, sparse.csc_array)
        ],
        Conversion(_compressed_parts, _compressed),
    ),
}


# --- estimators of scikit-learn: stored attributes, and checks ---


def state_of(part: Any) -> dict[str, Any]:
    """Return the attributes of an object that a file stores."""
    if isinstance(part, tuple | dict):
        return {"*": tuple(part) if isinstance(part, tuple) else dict(part)}
    state = dict(part.__getstate__() or {})
    if state.get("_fit_method") in _SEARCH_TREES:
        del state["_tree"]
    if "_cached_dict" in state:
        state["_cached_dict"] = None
    if isinstance(results := state.get("cv_results_"), dict):
        state["cv_results_"] = {key: _unmasked(column) for key, column in results.items()}
    return state


def _unmasked(column: Any) -> Any:
    """Return a masked array as a plain one, with ``None`` for masked values."""
    is_masked = isinstance(column, np.ma.MaskedArray)
    return np.asarray(column.astype(object).filled(None)) if is_masked else column


def check_state(kind: type, state: dict[str, Any]) -> None:
    """Raise unless the attributes of a scikit-learn object are as declared.

    A subclass in this library may have further attributes, which it declares itself.
    """
    package = kind.__module__.partition(".")[0]
    is_child = any(
        base.__module__.startswith("sklearn.") and "_parameter_constraints" in vars(base)
        for base in kind.__mro__
    )
    if package == "sklearn" or (package == "vicinal" and is_child):
        names = [base.__name__ for base in kind.__mro__]
        check_attributes(names, state, _constraints(kind), may_have_others=package != "sklearn")


@cache
def _constraints(kind: type) -> dict[str, list]:
    """Return the constraints of the parameters of a class."""
    declared = getattr(kind, "_parameter_constraints", {})
    return {
        name: [HasMethods([])] if rules == "no_validation" else list(map(make_constraint, rules))
        for name, rules in declared.items()
    }


def check_converted(name: str, state: dict[str, Any]) -> None:
    """Raise unless the values that an object is built from are as declared."""
    check_attributes([name.rpartition(".")[2]], state)


def check_foreign(part: Any) -> None:
    """Raise if an estimator would have side effects or read beyond its arrays."""
    for kind in type(part).__mro__:
        check = _CHECKS.get(f"{kind.__module__}.{kind.__name__}")
        if check is not None:
            check(part)


def restore_foreign(part: Any, state: dict[str, Any]) -> None:
    """Set the attributes of a new object, and rebuild its search tree."""
    if hasattr(type(part), "__setstate__"):
        part.__setstate__(state)
    else:
        vars(part).update(state)
    if (kind := _SEARCH_TREES.get(vars(part).get("_fit_method"))) is not None:
        _check_neighbors(part)
        metric, options = part.effective_metric_, part.effective_metric_params_
        part._tree = kind(part._fit_X, part.leaf_size, metric, **options)


_SEARCH_TREES = {"kd_tree": KDTree, "ball_tree": BallTree}


def _check_pipeline(part) -> None:
    _require(
        part.memory is None,
        "a Pipeline has a cache on disk, which is not allowed; save it with memory=None.",
    )


def _check_function_transformer(part) -> None:
    _require(
        not part.kw_args and not part.inv_kw_args,
        "a FunctionTransformer has kw_args, which are not allowed; use a function without further "
        "arguments.",
    )


def _check_vectorizer(part) -> None:
    _check_vocabulary(part)
    _require(
        part.input == "content",
        f"a {type(part).__name__} reads files (input={part.input!r}), which is not allowed; save "
        "it with input='content'.",
    )


def _check_decision_tree(part) -> None:
    if hasattr(part, "tree_"):
        _require(
            part.tree_.n_features == part.n_features_in_,
            "a decision tree has another number of features than its estimator.",
        )


def _check_forest(part) -> None:
    widths = getattr(part, "estimators_features_", None)
    for i, tree in enumerate(np.ravel(getattr(part, "estimators_", []))):
        width = part.n_features_in_ if widths is None else len(widths[i])
        _require(
            hasattr(tree, "tree_") and tree.tree_.n_features == width,
            f"a {type(part).__name__} has a tree with another number of features.",
        )


def _check_gradient_boosting(part) -> None:
    _check_forest(part)
    if hasattr(part, "estimators_"):
        trees = part.estimators_
        first = part._raw_predict_init(np.zeros((1, part.n_features_in_), np.float32))
        _require(
            trees.ndim == 2
            and first.shape == (1, trees.shape[1])
            and all(tree.tree_.value.shape[1:] == (1, 1) for tree in trees.ravel()),
            "a gradient boosting has trees of the wrong shape.",
        )


def _check_hist_gradient_boosting(part) -> None:
    if not hasattr(part, "_predictors"):
        return
    bins, width = part._bin_mapper, part.n_features_in_
    _require(
        type(bins.is_categorical_) is np.ndarray
        and len(bins.is_categorical_) == len(bins.bin_thresholds_) == width,
        "a histogram boosting has bins for another number of features.",
    )
    if part._preprocessor is not None:
        # It must return as many columns as the trees use.
        parts = part._preprocessor.transformers_[:2]
        masks = [mask for _, _, mask in parts if type(mask) is np.ndarray and mask.dtype == bool]
        _require(
            [type(encoder) for _, encoder, _ in parts] == [OrdinalEncoder, FunctionTransformer]
            and sum(map(np.count_nonzero, masks)) == width,
            "a histogram boosting encodes another number of features.",
        )
    for predictor in (predictor for round_ in part._predictors for predictor in round_):
        nodes = predictor.nodes[predictor.nodes["is_leaf"] == 0]
        feature = nodes["feature_idx"]
        _require(
            np.all(feature < width)
            and bins.is_categorical_[feature[nodes["is_categorical"] != 0]].all(),
            "a boosted tree uses a feature or a category that does not exist.",
        )


def _check_neighbors(part) -> None:
    """Check the codes of targets, which compiled code uses as indices."""
    if not hasattr(part, "_fit_X"):
        return
    _require(
        part._fit_X.shape[0] == part.n_samples_fit_,
        f"a {type(part).__name__} has another number of rows than {part.n_samples_fit_}.",
    )
    classes, targets = getattr(part, "classes_", None), getattr(part, "_y", None)
    if targets is not None and classes is not None:
        one = type(classes) is np.ndarray
        _require(
            one == (targets.ndim == 1) == (not part.outputs_2d_)
            and (one or len(classes) == targets.shape[1]),
            f"a {type(part).__name__} has a row of an unknown class.",
        )


def _check_one_hot_encoder(part) -> None:
    """Check numbers of columns and categories, which compiled code uses as indices."""
    if not hasattr(part, "categories_"):
        return
    n = len(part.categories_)
    mappings = getattr(part, "_default_to_infrequent_mappings", None) or [None] * n
    dropped = part._drop_idx_after_grouping
    widths = []
    for k, categories in enumerate(part.categories_):
        mapping = mappings[k]
        _require(
            mapping is None or (len(mapping) == len(categories) and mapping.min() >= 0),
            "a OneHotEncoder maps infrequent categories that do not exist.",
        )
        last = len(categories) - 1 if mapping is None else int(mapping.max())
        widths.append(last + (dropped is None or dropped[k] is None))
    _require(
        len(mappings) == n and widths == list(part._n_features_outs),
        "a OneHotEncoder has another number of columns than categories.",
    )


def _check_vocabulary(part) -> None:
    columns = getattr(part, "vocabulary_", {}).values()
    _require(
        sorted(columns) == list(range(len(columns))),
        f"a {type(part).__name__} has a vocabulary whose columns are not 0, 1, 2, ...",
    )


def _check_libsvm(part) -> None:
    if not hasattr(part, "support_"):
        return
    n_support, intercept, coefficients = part._n_support, part._intercept_, part._dual_coef_
    n_vectors, n_classes = len(part.support_), len(part._n_support)
    n_pairs = n_classes * (n_classes - 1) // 2
    is_precomputed = part.kernel == "precomputed" or callable(part.kernel)
    _require(
        n_classes >= 2
        and n_support.min() >= 0
        and (n_support.sum() == n_vectors or part._impl not in ("c_svc", "nu_svc"))
        and (
            len(part.shape_fit_) == 2
            and (part.support_ < part.shape_fit_[0]).all()
            and (part.support_ >= 0).all()
            if is_precomputed
            else part.support_vectors_.shape == (n_vectors, part.n_features_in_)
        )
        and (not sparse.issparse(coefficients) or coefficients.nnz == (n_classes - 1) * n_vectors)
        and intercept.shape == (n_pairs,)
        # Sigmoids of probabilities: one for each pair of classes, or none.
        and len(part._probA) == len(part._probB) == n_pairs * svc_has_probability(part),
        f"a {type(part).__name__} has support vectors, coefficients and intercepts of inconsistent "
        "shapes.",
    )


_CHECKS: dict[str, Callable[[Any], None]] = {
    # full name of a class: check of it and its subclasses
    "sklearn.pipeline.Pipeline": _check_pipeline,
    "sklearn.preprocessing._function_transformer.FunctionTransformer": _check_function_transformer,
    "sklearn.feature_extraction.text._VectorizerMixin": _check_vectorizer,
    "sklearn.tree._classes.BaseDecisionTree": _check_decision_tree,
    "sklearn.ensemble._forest.BaseForest": _check_forest,
    "sklearn.ensemble._iforest.IsolationForest": _check_forest,
    "sklearn.ensemble._gb.BaseGradientBoosting": _check_gradient_boosting,
    f"{_HISTOGRAMS}.gradient_boosting.BaseHistGradientBoosting": _check_hist_gradient_boosting,
    "sklearn.neighbors._base.NeighborsBase": _check_neighbors,
    "sklearn.feature_extraction._dict_vectorizer.DictVectorizer": _check_vocabulary,
    "sklearn.preprocessing._encoders.OneHotEncoder": _check_one_hot_encoder,
    "sklearn.svm._base.BaseLibSVM": _check_libsvm,
}
