"""Objects of NumPy, SciPy and scikit-learn that are more than their attributes, and checks of them.

Each is written as plain arrays and numbers and built again from them. Compiled code follows the
indices of trees, sparse matrices and support vectors without looking, so everything it would
follow is checked here, whole, before the object exists or before anyone sees it.
"""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.neighbors import BallTree, KDTree
from sklearn.utils import check_array

from vicinal.io._errors import ModelFileError

_BIT_GENERATORS = {"MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64"}
_TREE_COLUMNS = {
    "left_child": "i",
    "right_child": "i",
    "feature": "i",
    "threshold": "f",
    "impurity": "f",
    "n_node_samples": "i",
    "weighted_n_node_samples": "f",
    "missing_go_to_left": "u",
}
_PREDICTOR_COLUMNS = {
    "value": "f",
    "count": "u",
    "feature_idx": "i",
    "num_threshold": "f",
    "missing_go_to_left": "u",
    "left": "u",
    "right": "u",
    "gain": "f",
    "depth": "u",
    "is_leaf": "u",
    "bin_threshold": "u",
    "is_categorical": "u",
    "bitset_idx": "u",
}
_LOSS_SETTINGS = ("n_classes", "quantile", "power", "delta")


class Form(NamedTuple):
    """How an object is taken apart and built again."""

    take_apart: Callable[[Any], dict[str, Any]]
    build: Callable[[dict[str, Any]], Any]


def _private(module: str, name: str) -> Any:
    """Return a name of scikit-learn that has no public door, when it is needed."""
    return getattr(import_module(f"sklearn.{module}"), name)


def _require(condition: Any, message: str) -> None:
    if not condition:
        raise ModelFileError(message)


# --- numbers and matrices ---


def _random_state_parts(random_state) -> dict[str, Any]:
    return random_state.get_state(legacy=False)


def _random_state(state) -> np.random.RandomState:
    _require(state["bit_generator"] == "MT19937", "a RandomState is no Mersenne twister.")
    made = np.random.RandomState(0)
    made.set_state(state)
    return made


def _generator(state) -> np.random.Generator:
    name = state["bit_generator"]
    _require(name in _BIT_GENERATORS, f"there is no random number generator {name!r}.")
    bits = getattr(np.random, name)(0)
    bits.state = state
    return np.random.Generator(bits)


def _masked(state) -> np.ma.MaskedArray:
    return np.ma.MaskedArray(state["data"], mask=state["mask"])


def _compressed_parts(matrix) -> dict[str, Any]:
    return {
        "shape": tuple(int(length) for length in matrix.shape),
        "data": matrix.data,
        "indices": matrix.indices,
        "indptr": matrix.indptr,
    }


def _compressed(kind) -> Callable[[dict[str, Any]], Any]:
    def build(state):
        parts = state["data"], state["indices"], state["indptr"]
        for name, part in zip(("data", "indices", "indptr"), parts, strict=True):
            kinds = "biufc" if name == "data" else "i"
            _require(
                isinstance(part, np.ndarray) and part.ndim == 1 and part.dtype.kind in kinds,
                f"a sparse matrix has {name} that are no list of numbers.",
            )
        made = kind(parts, shape=state["shape"], copy=False)
        made.check_format(full_check=True)
        return made

    return build


def _spline(state):
    from scipy.interpolate import BSpline

    return BSpline(state["t"], state["c"], int(state["k"]), extrapolate=state["extrapolate"])


# --- decision trees ---


def _tree_parts(tree) -> dict[str, Any]:
    nodes = tree.__getstate__()["nodes"]
    return {
        "n_features": int(tree.n_features),
        "n_classes": np.asarray(tree.n_classes),
        "value": tree.value,
        **{name: np.ascontiguousarray(nodes[name]) for name in _TREE_COLUMNS},
    }


def _tree(state) -> Any:
    columns = _columns(state, _TREE_COLUMNS)
    n_nodes = len(columns["left_child"])
    n_features, n_classes, value = state["n_features"], state["n_classes"], state["value"]
    left, right = (columns[name].astype(np.int64) for name in ("left_child", "right_child"))
    inner = left != -1
    _require(np.array_equal(inner, right != -1), "a decision tree has nodes that lead nowhere.")
    depth = _check_nodes(inner, left, right, columns["feature"], n_features)
    _require(
        _is_numbers(n_classes, "iu", 1) and len(n_classes) and n_classes.min() >= 1,
        "a decision tree has no number of classes.",
    )
    shape = n_nodes, len(n_classes), int(n_classes.max())
    _require(
        isinstance(value, np.ndarray)
        and value.dtype == np.float64
        and value.shape == shape
        and np.isfinite(value).all(),
        f"a decision tree has other values than the {shape} finite numbers that it needs.",
    )
    tree = _private("tree._tree", "Tree")(n_features, n_classes.astype(np.intp), len(n_classes))
    nodes = np.zeros(n_nodes, dtype=_private("tree._tree", "NODE_DTYPE"))
    for name, column in columns.items():
        nodes[name] = column
    tree.__setstate__(
        {
            "max_depth": depth,
            "node_count": n_nodes,
            "nodes": nodes,
            "values": np.ascontiguousarray(value),
        }
    )
    return tree


def _predictor_parts(predictor) -> dict[str, Any]:
    return {
        **{name: np.ascontiguousarray(predictor.nodes[name]) for name in _PREDICTOR_COLUMNS},
        "binned_sets": predictor.binned_left_cat_bitsets,
        "raw_sets": predictor.raw_left_cat_bitsets,
    }


def _predictor(state) -> Any:
    """Build a tree of histogram boosting; its features are checked with the model around it."""
    columns = _columns(state, _PREDICTOR_COLUMNS)
    inner = columns["is_leaf"] == 0
    left, right = (columns[name].astype(np.int64) for name in ("left", "right"))
    _check_nodes(inner, left, right, columns["feature_idx"], np.iinfo(np.int64).max)
    sets = state["binned_sets"], state["raw_sets"]
    for one in sets:
        _require(
            isinstance(one, np.ndarray) and one.dtype == np.uint32 and one.shape[1:] == (8,),
            "a boosted tree has sets of categories of a wrong shape.",
        )
    asked = inner & (columns["is_categorical"] != 0)
    _require(
        not asked.any() or columns["bitset_idx"][asked].max() < min(map(len, sets)),
        "a boosted tree asks for a set of categories that it lacks.",
    )
    module = "ensemble._hist_gradient_boosting"
    nodes = np.zeros(len(inner), dtype=_private(f"{module}.common", "PREDICTOR_RECORD_DTYPE"))
    for name, column in columns.items():
        nodes[name] = column
    return _private(f"{module}.predictor", "TreePredictor")(nodes, *sets)


def _columns(state, kinds) -> dict[str, np.ndarray]:
    """Return the columns of nodes, all of one length and of the right kind of number."""
    columns = {name: state[name] for name in kinds}
    lengths = set()
    for name, column in columns.items():
        _require(_is_numbers(column, kinds[name], 1), f"a tree has nodes without {name!r}.")
        lengths.add(len(column))
    _require(len(lengths) == 1 and 0 not in lengths, "a tree has no nodes, or too few.")
    return columns


def _check_nodes(inner, left, right, feature, n_features) -> int:
    """Return the depth of a tree in which every node but the first has one parent before it."""
    _require(isinstance(n_features, int) and n_features > 0, "a tree has no number of features.")
    rows = np.flatnonzero(inner)
    children = np.concatenate([left[rows], right[rows]])
    in_range = (children > np.tile(rows, 2)) & (children < len(inner))
    _require(in_range.all(), "a decision tree has a node with a child out of range.")
    parents = np.bincount(children, minlength=len(inner))
    _require(
        parents[0] == 0 and np.all(parents[1:] == 1),
        "a decision tree has a node with no parent, or with two.",
    )
    asked = feature[rows]
    _require(
        np.all((asked >= 0) & (asked < n_features)),
        "a decision tree asks about a feature that it was not given.",
    )
    depth, level = 0, np.zeros(1, dtype=np.int64)
    while (level := level[inner[level]]).size:
        depth, level = depth + 1, np.concatenate([left[level], right[level]])
    return depth


def _is_numbers(array: Any, kinds: str, ndim: int) -> bool:
    return isinstance(array, np.ndarray) and array.dtype.kind in kinds and array.ndim == ndim


# --- losses and search trees ---


def _loss_parts(loss) -> dict[str, Any]:
    settings = {"n_classes": loss.n_classes} if loss.is_multiclass else {}
    for name in _LOSS_SETTINGS[1:]:
        if hasattr(loss.closs, name):
            settings[name] = float(getattr(loss.closs, name))
    return settings


def _loss(name: str) -> Callable[[dict[str, Any]], Any]:
    def build(state):
        _require(set(state) <= set(_LOSS_SETTINGS), f"the loss {name} has unknown settings.")
        return _private("_loss.loss", name)(**state)

    return build


def _compiled_loss(module: str, name: str) -> Callable[[dict[str, Any]], Any]:
    def build(state):
        numbers = state["numbers"]
        _require(
            type(numbers) is tuple and all(type(number) is float for number in numbers),
            f"the loss {name} has settings that are no numbers.",
        )
        return _private(module, name)(*numbers)

    return build


def _search_tree_parts(tree) -> dict[str, Any]:
    """Take apart a tree that nobody else keeps the rows of, such as that of a density."""
    state = tree.__getstate__()
    metric, weight = type(state[-2]).__name__, state[-1]
    _require(metric in _TREE_METRICS, f"the model holds a search tree with the metric {metric}.")
    return {
        "rows": np.array(tree.data),
        "leaf_size": int(state[4]),
        "metric": metric,
        "weight": None if weight is None else np.array(weight),
    }


def _search_tree(kind) -> Callable[[dict[str, Any]], Any]:
    def build(state):
        return kind(
            state["rows"],
            leaf_size=state["leaf_size"],
            metric=_TREE_METRICS[state["metric"]],
            sample_weight=state["weight"],
        )

    return build


_TREE_METRICS = {
    f"{name.title()}Distance{bits}": name
    for name in ("euclidean", "manhattan", "chebyshev")
    for bits in ("", "64", "32")
}
_LOSSES = (
    "AbsoluteError",
    "ExponentialLoss",
    "HalfBinomialLoss",
    "HalfGammaLoss",
    "HalfMultinomialLoss",
    "HalfPoissonLoss",
    "HalfSquaredError",
    "HalfTweedieLoss",
    "HalfTweedieLossIdentity",
    "HuberLoss",
    "PinballLoss",
)

_COMPILED_LOSSES = {
    "_loss._loss": "CyAbsoluteError CyExponentialLoss CyHalfBinomialLoss CyHalfGammaLoss "
    "CyHalfMultinomialLoss CyHalfPoissonLoss CyHalfSquaredError CyHalfTweedieLoss CyHuberLoss "
    "CyPinballLoss",
    "linear_model._sgd_fast": "EpsilonInsensitive Hinge ModifiedHuber SquaredEpsilonInsensitive "
    "SquaredHinge",
}

# Histogram boosting with categories checks its other columns by one function of fixed arguments.
_ROW_CHECK = {"dtype": [np.float64], "ensure_all_finite": False}


def _row_check_parts(function) -> dict[str, Any]:
    _require(
        function.func is check_array and not function.args and function.keywords == _ROW_CHECK,
        "the model holds functools.partial, which model files know as the check of rows in "
        "histogram boosting alone; put a part of vicinal or scikit-learn in its place.",
    )
    return {}


def _row_check(state) -> Any:
    return partial(check_array, **_ROW_CHECK)


FORMS: dict[str, Form] = {
    "functools.partial": Form(_row_check_parts, _row_check),
    # full name of the class: how it is taken apart and built again
    "numpy.random.mtrand.RandomState": Form(_random_state_parts, _random_state),
    "numpy.random._generator.Generator": Form(lambda rng: rng.bit_generator.state, _generator),
    "numpy.ma.MaskedArray": Form(
        lambda array: {"data": array.data, "mask": np.ma.getmaskarray(array)}, _masked
    ),
    "scipy.interpolate._bsplines.BSpline": Form(
        lambda spline: {name: getattr(spline, name) for name in ("t", "c", "k", "extrapolate")},
        _spline,
    ),
    "sklearn.tree._tree.Tree": Form(_tree_parts, _tree),
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor": Form(
        _predictor_parts, _predictor
    ),
    "sklearn.neighbors._kd_tree.KDTree": Form(_search_tree_parts, _search_tree(KDTree)),
    "sklearn.neighbors._ball_tree.BallTree": Form(_search_tree_parts, _search_tree(BallTree)),
    **{f"sklearn._loss.loss.{name}": Form(_loss_parts, _loss(name)) for name in _LOSSES},
    **{
        f"sklearn.{module}.{name}": Form(
            lambda loss: {"numbers": tuple(map(float, loss.__reduce__()[1]))},
            _compiled_loss(module, name),
        )
        for module, names in _COMPILED_LOSSES.items()
        for name in names.split()
    },
    **{
        f"{kind.__module__}.{kind.__name__}": Form(_compressed_parts, _compressed(kind))
        for kind in (sparse.csr_matrix, sparse.csr_array, sparse.csc_matrix, sparse.csc_array)
    },
}


# --- estimators of scikit-learn: what they keep, and what must hold in them ---


def state_of(part: Any) -> dict[str, Any]:
    """Return the attributes of a foreign object that a file keeps: all but its search tree."""
    state = part.__getstate__() or {}
    if state.get("_fit_method") in _SEARCH_TREES:
        return {name: value for name, value in state.items() if name != "_tree"}
    return state


def check_foreign(part: Any) -> None:
    """Raise where an estimator would act when used, or would read beyond its arrays."""
    if type(part).__module__.startswith("sklearn."):
        _check_finite(part)
    for kind in type(part).__mro__:
        check = _CHECKS.get(f"{kind.__module__}.{kind.__name__}")
        if check is not None:
            check(part)


def restore_foreign(part: Any, state: dict[str, Any]) -> None:
    """Give a bare object its attributes, by its own door where it has one; build search trees."""
    if hasattr(type(part), "__setstate__"):
        part.__setstate__(state)
    else:
        vars(part).update(state)
    if (kind := _SEARCH_TREES.get(vars(part).get("_fit_method"))) is not None:
        _check_neighbors(part)
        part._tree = kind(
            part._fit_X,
            part.leaf_size,
            metric=part.effective_metric_,
            **part.effective_metric_params_,
        )


# Numbers that every answer is computed from; other arrays of scikit-learn may have gaps.
_FINITE = (
    "_dual_coef_",
    "_intercept_",
    "cluster_centers_",
    "coef_",
    "components_",
    "dual_coef_",
    "intercept_",
    "support_vectors_",
    "theta_",
)
# Of a column that is all gaps, a scaler keeps NaN; infinity it never keeps.
_NOT_INFINITE = ("mean_", "scale_")


def _check_finite(part) -> None:
    values: Any
    for name in _NOT_INFINITE:
        values = getattr(part, "__dict__", {}).get(name)
        if isinstance(values, np.ndarray) and values.dtype.kind == "f":
            _require(~np.isinf(values).any(), f"{type(part).__name__}.{name} holds infinity.")
    for name in _FINITE:
        values = getattr(part, "__dict__", {}).get(name)
        values = values.data if sparse.issparse(values) else values
        if isinstance(values, np.ndarray) and values.dtype.kind == "f":
            _require(
                np.isfinite(values).all(), f"{type(part).__name__}.{name} holds NaN or infinity."
            )


_SEARCH_TREES = {"kd_tree": KDTree, "ball_tree": BallTree}


def _check_pipeline(part) -> None:
    _require(
        part.memory is None,
        "a Pipeline keeps a cache on disk, which a file may not ask for; save it with memory=None.",
    )


def _check_function_transformer(part) -> None:
    _require(
        not part.kw_args and not part.inv_kw_args,
        "a FunctionTransformer has kw_args, with which a file could write into arrays; put a "
        "function without arguments in its place.",
    )


def _check_vectorizer(part) -> None:
    _require(
        part.input == "content",
        f"a {type(part).__name__} reads files (input={part.input!r}), which a file may not ask "
        "for; save it with input='content'.",
    )


def _check_decision_tree(part) -> None:
    if hasattr(part, "tree_"):
        _require(
            part.tree_.n_features == part.n_features_in_,
            "a decision tree has another number of features than its estimator.",
        )


def _check_forest(part) -> None:
    widths = getattr(part, "estimators_features_", None)
    for i, member in enumerate(np.ravel(getattr(part, "estimators_", []))):
        width = part.n_features_in_ if widths is None else len(widths[i])
        _require(
            hasattr(member, "tree_") and member.tree_.n_features == width,
            f"a {type(part).__name__} has a tree with another number of features than itself.",
        )


def _check_gradient_boosting(part) -> None:
    _check_forest(part)
    if hasattr(part, "estimators_"):
        members = part.estimators_
        first = part._raw_predict_init(np.zeros((1, part.n_features_in_), np.float32))
        _require(
            members.ndim == 2
            and first.shape == (1, members.shape[1])
            and all(tree.tree_.value.shape[1:] == (1, 1) for tree in members.ravel()),
            "a gradient boosting has trees of other shapes than its answers.",
        )


def _check_hist_gradient_boosting(part) -> None:
    for round_ in getattr(part, "_predictors", []):
        for predictor in round_:
            nodes = predictor.nodes
            _require(
                np.all(nodes["feature_idx"][nodes["is_leaf"] == 0] < part.n_features_in_),
                "a boosted tree asks about a feature that it was not given.",
            )
    if hasattr(part, "_bin_mapper"):
        _require(
            part._bin_mapper.is_categorical_.shape == (part.n_features_in_,),
            "a histogram boosting has bins for another number of features.",
        )


def _check_neighbors(part) -> None:
    if not hasattr(part, "_fit_X"):
        return
    rows = part._fit_X
    _require(
        rows.ndim == 2 and rows.shape == (part.n_samples_fit_, part.n_features_in_),
        f"a {type(part).__name__} has other rows than the {part.n_samples_fit_} x "
        f"{part.n_features_in_} that it says.",
    )
    targets = getattr(part, "_y", None)
    if targets is not None:
        _require(len(targets) == len(rows), f"a {type(part).__name__} has too few targets.")
        classes = getattr(part, "classes_", None)
        if isinstance(classes, np.ndarray) and targets.ndim == 1:
            _require(
                np.all((targets >= 0) & (targets < len(classes))),
                f"a {type(part).__name__} has a row of an unknown class.",
            )


def _check_kmeans(part) -> None:
    if hasattr(part, "cluster_centers_"):
        _require(
            part.cluster_centers_.shape[1:] == (part.n_features_in_,),
            f"a {type(part).__name__} has centres with another number of features.",
        )


def _check_libsvm(part) -> None:
    if not hasattr(part, "support_vectors_"):
        return
    n_support, intercept = part._n_support, part._intercept_
    n_vectors, n_classes = part.support_vectors_.shape[0], len(n_support)
    n_pairs = n_classes * (n_classes - 1) // 2
    coefficients = part._dual_coef_
    size = coefficients.nnz if sparse.issparse(coefficients) else coefficients.size
    is_precomputed = part.kernel == "precomputed" or callable(part.kernel)
    _require(
        _is_numbers(n_support, "i", 1)
        and n_classes >= 2
        and n_support.min() >= 0
        and (n_support.sum() == n_vectors or part._impl not in ("c_svc", "nu_svc"))
        and part.support_.shape == (n_vectors,)
        and (
            (part.support_ < part.shape_fit_[0]).all() and (part.support_ >= 0).all()
            if is_precomputed
            else part.support_vectors_.shape[1] == part.n_features_in_
        )
        and coefficients.shape == (n_classes - 1, n_vectors)
        and size == (n_classes - 1) * n_vectors
        and intercept.shape == (n_pairs,)
        and all(len(p) in (0, n_pairs) for p in (part._probA, part._probB)),
        f"a {type(part).__name__} has support vectors, coefficients and intercepts of shapes that "
        "do not fit.",
    )


_CHECKS: dict[str, Callable[[Any], None]] = {
    # full name of a class, for it and its children: what must hold
    "sklearn.pipeline.Pipeline": _check_pipeline,
    "sklearn.preprocessing._function_transformer.FunctionTransformer": _check_function_transformer,
    "sklearn.feature_extraction.text._VectorizerMixin": _check_vectorizer,
    "sklearn.tree._classes.BaseDecisionTree": _check_decision_tree,
    "sklearn.ensemble._forest.BaseForest": _check_forest,
    "sklearn.ensemble._iforest.IsolationForest": _check_forest,
    "sklearn.ensemble._gb.BaseGradientBoosting": _check_gradient_boosting,
    "sklearn.ensemble._hist_gradient_boosting.gradient_boosting.BaseHistGradientBoosting": (
        _check_hist_gradient_boosting
    ),
    "sklearn.neighbors._base.NeighborsBase": _check_neighbors,
    "sklearn.cluster._kmeans._BaseKMeans": _check_kmeans,
    "sklearn.svm._base.BaseLibSVM": _check_libsvm,
}
