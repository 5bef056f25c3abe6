"""Families of base models that are tried: cheap ones first, each by its own rule."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from vicinal._base import saved
from vicinal._base._compat import target_encoder
from vicinal._kernels.ensemble._trees import COLUMN_SHARE, MANY_COLUMNS
from vicinal._kernels.linear._covariance import normal_score_knots, normal_scores
from vicinal.auto._linear import LinearClassifier, LinearRegressor
from vicinal.ensemble import ObliviousBoostingClassifier, ObliviousBoostingRegressor
from vicinal.local import LocalClassifier, LocalRegressor
from vicinal.metric import (
    GradientKernelClassifier,
    GradientKernelRegressor,
    NeuralNeighborsClassifier,
    NeuralNeighborsRegressor,
)
from vicinal.pretrained import PretrainedNeighborsClassifier, PretrainedNeighborsRegressor

# Local models live in at most so many coordinates; wider tables are reduced to principal axes.
_MAX_COORDINATES = 100
_MAX_LINEAR_COLUMNS = 1000
# Squares and products are tried where their scatter and its eigenvectors cost no more than this.
_MAX_QUADRATIC_FLOPS = 3e9
# A logistic model of squares and products is tried up to this many rows x terms x classes.
_MAX_LOGISTIC_SIZE = 3e6
# Boosting of so many classes, and of wide tables with several, takes too long.
_MAX_BOOSTED_CLASSES, _WIDE, _MAX_BOOSTED_CELLS = 10, 200, 1e7
_MIN_BOOSTED_ROWS = {True: 200, False: 100}  # classification, regression
# Symmetric trees have a smaller held-out loss than histogram boosting, which is faster on large
# tables. Of many rows, numbers to predict depend on finer bins.
_MAX_SYMMETRIC_ROWS, _FINE_ROWS, _FINE_BINS = 30_000, 5000, 254
# Of fewer rows, random trees and trees that see all columns are two base models: the average is
# better than a choice. Of more rows, ``bootstrap="auto"`` chooses by held-out rows.
_BOTH_ROWS = 2000
# Histogram boosting with categories: a slow rate, with many rows stopped early. Of many columns
# every split samples some: trees that differ average better.
_MAX_SLOW_ROWS = 10_000
_SLOW = {"learning_rate": 0.05, "max_leaf_nodes": 8, "max_iter": 150}
_STOPPED = {"learning_rate": 0.05, "max_leaf_nodes": 16, "max_iter": 500, "early_stopping": True}
# A second gradient metric is learned where its start is within a factor of the better one, and the
# first metric has reduced the loss of its start by a share.
_SLACK, _GAIN = 1.25, 0.8
# Where the loss of kernel ridge is this share of that of local models, these hardly add anything.
_KERNEL_LEAD = 0.7
# Kernel ridge takes time cubic in the rows; of many, one fit predicts all held-out rows.
_MAX_KERNEL_ROWS = {True: 2000, False: 5000}  # classification, regression
_MAX_KERNEL_FOLDS = 2000
# Relative reduction of the held-out loss that one processor second per 1,000 rows must bring.
PRICES = {"fast": 0.02, "default": 0.0005, "best": 0.0001}
# What ``preset="fast"`` tries: the last one with classes only, and of categories the first three,
# because boosted trees are better there. It fits kernel ridge of so many rows once.
_FAST_FAMILIES = ["constant", "linear", "boosting", "kernel", "forest"]
_FAST_KERNEL_ROWS = 2400
# Trees of the small forest by which the gain of a large one is estimated, and what a local model
# over the leaves of a large one gains in addition in classification.
_PROBE_TREES, _PROBE_BONUS = 30, 0.02

# Names of base models, by the metric or the coordinates of a local model.
_COORDINATES = {
    "standardized": "standardized",
    "ranked": "normal scores",
    "euclidean": "columns as given",
}
_FORESTS = {"extra_forest": "extra trees neighbours", "forest": "random forest neighbours"}
_KERNEL = "kernel ridge (gradient metric)"
_BOOSTING, _BOOSTED_STATISTICS = "gradient boosting", "gradient boosting (target statistics)"
_SYMMETRIC = "boosted symmetric trees"
_LABEL_FREE = tuple(_COORDINATES)
# Rows that base models are tried on: more rows would hardly change what is chosen.
_MAX_TABLE = 30_000


@dataclass(frozen=True)
class Spec:
    """A base model to be tried.

    Attributes
    ----------
    name : str
        Name in tables.
    estimator : estimator
        Unfitted.
    encoding : {"distance", "tree"}
        Which encoding of the table it is given.
    once : bool
        One repetition of the folds is enough: more matters little compared with the cost, or the
        predictions do not depend on the folds.
    seconds : float
        Estimated processor time of the trial and the fit. A default model is tried beyond its first
        fold if the expected gain of the ensemble is larger than the price of this time.
    whole : bool
        All folds are predicted together, because most of the work is common to them.
    probe : estimator or None
        A cheap relative, whose first fold estimates the gain where ``whole`` leaves no first fold.
    bonus : float
        What is added to the gain of the probe, or of the first fold.
    price : float
        Factor on the price of its time.
    reason : str
        Why it is skipped, empty if it is tried.
    """

    name: str
    estimator: Any
    encoding: str = "distance"
    once: bool = False
    seconds: float = 0.0
    whole: bool = False
    probe: Any = None
    bonus: float = 0.0
    price: float = 1.0
    reason: str = ""


@dataclass(frozen=True)
class Rules:
    """Which base models are tried, and how, where the rows of a table are."""

    families: tuple[str, ...] | None = None  # that run there; None is all
    metrics: tuple[str, ...] = _LABEL_FREE  # coordinates of local models
    max_coordinates: float = _MAX_COORDINATES  # of local models
    max_rows: float = _MAX_TABLE  # on which models are tried
    transforms: bool = True  # by scikit-learn
    at_once: bool = False  # all folds are predicted together
    has_gpu: bool = False


ON_HOST = Rules()
# A GPU trains the networks of all folds at once, and needs no sample of the rows.
ON_DEVICE = Rules(
    families=("constant", "local", "gradient", "pretrained", "neural"),
    metrics=("standardized", "euclidean"),
    max_coordinates=np.inf,
    max_rows=np.inf,
    transforms=False,
    at_once=True,
    has_gpu=True,
)


@dataclass(frozen=True)
class TableShape:
    """Properties of a table that the rules depend on."""

    n_rows: int
    n_columns: int
    n_outputs: int
    is_classification: bool
    has_groups: bool
    categorical: np.ndarray | None
    n_jobs: int | None
    rules: Rules = ON_HOST
    is_timed: bool = False
    preset: str = "default"
    device: str | None = None
    quantile: float | None = None  # of the target that is predicted; None is the mean
    monotonic: Any = None  # constraints on the columns of each encoding
    n_tree_columns: int = 1  # of the encoding of trees

    @property
    def thousands(self) -> float:
        """Thousands of rows."""
        return self.n_rows / 1000.0

    @property
    def n_coordinates(self) -> int:
        """Number of columns that local models have."""
        return int(min(self.n_columns, self.rules.max_coordinates))

    @property
    def has_gpu(self) -> bool:
        """Whether a GPU trains networks."""
        return self.device is not None or self.rules.has_gpu

    @property
    def n_scores(self) -> int:
        """Number of outputs that are modelled; two classes have one."""
        return 1 if self.is_classification and self.n_outputs == 2 else self.n_outputs


Tried = dict[str, float]  # name of a base model -> its held-out loss


@saved()
class NormalScores(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Map every column, piecewise linearly, to normal scores of mean 0 and variance 1."""

    def fit(self, X, y=None, sample_weight=None):
        """Learn the knots of every column."""
        self.n_features_in_ = X.shape[1]
        self.knots_ = [normal_score_knots(column, sample_weight) for column in X.T]
        return self

    def transform(self, X):
        """Map rows; values beyond those seen take the scores of the extremes."""
        return normal_scores(X, self.knots_)

    def write_graph(self, graph, x):
        """Write the map into a graph of :func:`vicinal.io.to_onnx`."""
        return graph.piecewise_linear(x, self.knots_)


def _local(shape: TableShape, **settings):
    model = LocalClassifier if shape.is_classification else LocalRegressor
    return model(n_jobs=shape.n_jobs, **settings)


def _coordinates(name: str, shape: TableShape, most: int) -> list:
    """Return the transformers of named coordinates, reduced to ``most`` of them."""
    if not shape.rules.transforms:
        return []
    steps: list = {"standardized": [StandardScaler()], "ranked": [NormalScores()]}.get(name, [])
    if shape.n_columns > most:
        n_axes = min(most, shape.n_rows - 1)
        steps = [*steps, PCA(n_axes, svd_solver="auto", random_state=0)]
    return steps


def _local_in(name: str, shape: TableShape):
    """Return a local model in named coordinates."""
    if shape.n_columns <= shape.rules.max_coordinates:
        return _local(shape, metric=name)
    steps = _coordinates(name, shape, _MAX_COORDINATES)
    return make_pipeline(*steps, _local(shape, metric="euclidean"))


def _local_name(metric: str) -> str:
    return f"local linear ({_COORDINATES[metric]})"


def _ridge_name(metric: str) -> str:
    return f"ridge ({_COORDINATES[metric]})"


def _gradient_name(metric: str) -> str:
    return f"gradient metric ({_COORDINATES[metric]})"


def constant(shape: TableShape, tried: Tried) -> Iterator[Spec]:
    """Yield the prediction that uses no column."""
    model = DummyClassifier(strategy="prior") if shape.is_classification else DummyRegressor()
    yield Spec("constant", model, once=True, whole=True)


def local(shape: TableShape, tried: Tried) -> Iterator[Spec]:
    """Yield local ridge models in coordinates that need no labels."""
    seconds = 0.3 * shape.thousands * (1.0 + shape.n_coordinates / 40.0)
    metrics = shape.rules.metrics
    if shape.preset != "best" and _KERNEL in tried and shape.n_columns <= _MAX_COORDINATES:
        # Where kernel ridge is tried, the units that columns are given in add nothing.
        metrics = tuple(metric for metric in metrics if metric != "euclidean")
    for metric in metrics:
        yield Spec(_local_name(metric), _local_in(metric, shape), once=True, seconds=seconds)
        if tried.get(_KERNEL, np.inf) < _KERNEL_LEAD * tried.get(_local_name(metric), np.inf):
            return


def forest(shape: TableShape, tried: Tried) -> Iterator[Spec]:
    """Yield local models over leaves; trees not fitted to a row may have seen its group."""
    if shape.monotonic is not None:
        # A local model over leaves cannot obey constraints.
        for metric, name in (("extra_forest", "extra trees"), ("forest", "random forest")):
            model = _small_forest(metric, shape).set_params(n_estimators=100)
            yield Spec(name, model, once=True, seconds=0.5 * shape.thousands)
    elif not shape.has_groups:
        # Where columns are too many for a slope each, leaves vote.
        degree = 1 if shape.n_columns <= _MAX_COORDINATES else 0
        # Splits look at the root of the columns in classification, and at half of them or all.
        n_looked_at = np.sqrt(shape.n_columns) if shape.is_classification else shape.n_columns / 4
        seconds = 0.4 * shape.thousands * (1.0 + n_looked_at / 4.0)
        options: dict[str, Any] = {
            "once": True,
            "whole": True,
            "seconds": seconds,
            "bonus": _PROBE_BONUS if shape.is_classification else 0.0,
        }
        # In regression a random forest adds nothing to extra trees and boosting.
        has_both = shape.preset == "best" or (shape.is_classification and shape.preset != "fast")
        for metric, name in [*_FORESTS.items()][: 1 + has_both]:
            model = _local(shape, metric=metric, degree=degree)
            # With classes, a local model over leaves is much better than a small forest.
            is_probed = metric == "forest" or not shape.is_classification
            probe = _small_forest(metric, shape) if is_probed else None
            yield Spec(name, model, probe=probe, **options)


def _small_forest(metric: str, shape: TableShape) -> Any:
    """Return a plain forest of few trees."""
    if shape.is_classification:
        kinds: Any = {"extra_forest": ExtraTreesClassifier, "forest": RandomForestClassifier}
        return kinds[metric](_PROBE_TREES)
    kinds = {"extra_forest": ExtraTreesRegressor, "forest": RandomForestRegressor}
    return kinds[metric](_PROBE_TREES, max_features=min(0.5, 20 / shape.n_columns))


def linear(shape: TableShape, tried: Tried) -> Iterator[Spec]:
    """Yield linear, quadratic, discriminant and logistic models."""
    threads = {"n_jobs": shape.n_jobs}
    ridge: Any = LinearRegressor(**threads)
    if shape.is_classification:
        ridge = LinearClassifier("ridge", **threads)
    steps = {}
    for metric in ("standardized", "ranked"):
        steps[metric] = _coordinates(metric, shape, _MAX_LINEAR_COLUMNS)
        yield Spec(_ridge_name(metric), make_pipeline(*steps[metric], ridge), whole=True)
    losses = {metric: tried.get(_ridge_name(metric), np.inf) for metric in steps}
    best = min(losses, key=losses.__getitem__)
    best_steps, degree = steps[best], ""
    width = min(shape.n_columns, _MAX_LINEAR_COLUMNS)
    n_terms = width + width * (width + 1) // 2
    if (shape.n_rows + 10 * n_terms) * n_terms**2 <= _MAX_QUADRATIC_FLOPS:
        squared = [*steps[best], PolynomialFeatures(2, include_bias=False)]
        name = f"quadratic {_ridge_name(best)}"
        yield Spec(name, make_pipeline(*squared, ridge), whole=True)
        is_affordable = shape.n_rows * shape.n_outputs * n_terms <= _MAX_LOGISTIC_SIZE
        if tried.get(name, np.inf) < losses[best] and is_affordable:
            best_steps, degree = squared, "quadratic "
    if shape.is_classification and shape.n_outputs > 2:
        # Least squares hides a class that lies between others; of two it is the same direction.
        lda = make_pipeline(*steps["standardized"], LinearClassifier("lda", **threads))
        yield Spec("linear discriminant analysis", lda, whole=True)
    if shape.is_classification:
        name = f"{degree}logistic regression ({_COORDINATES[best]})"
        logistic = make_pipeline(*best_steps, LinearClassifier("logistic", **threads))
        seconds = 1e-6 * shape.n_rows * (n_terms if degree else width) * shape.n_scores
        yield Spec(name, logistic, seconds=seconds)


def boosting(shape: TableShape, tried: Tried) -> Iterator[Spec]:
    """Yield boosted symmetric trees, or histogram boosting of many rows."""
    n_cells = shape.n_rows * shape.n_columns * shape.n_scores
    if shape.n_rows < _MIN_BOOSTED_ROWS[shape.is_classification]:
        return
    if shape.n_columns > _WIDE and n_cells > _MAX_BOOSTED_CELLS:
        yield Spec(_SYMMETRIC, None, reason="so many columns and classes take too long")
        return
    if shape.n_outputs > (_MAX_BOOSTED_CLASSES if shape.is_classification else 1):
        return
    categorical, is_fast = shape.categorical, shape.preset == "fast"
    spec = partial(Spec, encoding="tree", once=True)
    quantile = {} if shape.quantile is None else {"loss": "quantile", "quantile": shape.quantile}
    if shape.n_rows <= _MAX_SYMMETRIC_ROWS and shape.monotonic is None:
        seconds = shape.thousands * (1 + shape.n_tree_columns / 30) * (1 + shape.n_scores) / 10
        options: Any = {"n_runs": 2, "n_jobs": shape.n_jobs, "categorical_features": categorical}
        if is_fast:
            # Twice the default rate, and half of the rounds.
            depth, rate = (4, 0.1) if shape.is_classification else (6, 0.2)
            options |= {"n_runs": 1, "n_estimators": 500, "depth": depth, "learning_rate": rate}
            options["bootstrap"] = True  # nothing to select
            seconds /= 2
        if shape.is_classification:
            trees: Any = ObliviousBoostingClassifier(**options)
            yield spec(_SYMMETRIC, trees, seconds=seconds)
            if shape.n_rows < _BOTH_ROWS and not is_fast:
                trees = clone(trees).set_params(max_features=1.0, bootstrap=False)
                yield spec(f"{_SYMMETRIC} (all columns)", trees, seconds=seconds)
        else:
            if shape.n_rows > _FINE_ROWS:
                options["max_bins"] = _FINE_BINS
            trees = ObliviousBoostingRegressor(**options, **quantile)
            # The average of two runs gains more than the one that is tried.
            yield spec(_SYMMETRIC, trees, seconds=2.0 * seconds, bonus=0.02)
    has_categories = categorical is not None and bool(categorical.any())
    is_slow = has_categories and shape.is_classification
    settings = _SLOW if shape.n_rows <= _MAX_SLOW_ROWS else _STOPPED if is_slow else {}
    n_columns = shape.n_columns if categorical is None else len(categorical)
    if n_columns >= MANY_COLUMNS and (shape.is_classification or settings):
        settings = settings | {"max_features": COLUMN_SHARE}
    model: Any = HistGradientBoostingRegressor(**settings, **quantile)
    if shape.is_classification:
        model = HistGradientBoostingClassifier(**settings)
    seconds = (1.0 + 0.45 * shape.n_scores) * (1.0 + 0.1 * shape.thousands)
    seconds *= 1.0 + shape.n_columns / 50.0
    if shape.n_rows > _MAX_SYMMETRIC_ROWS or shape.monotonic is not None:
        native = clone(model).set_params(categorical_features=categorical)
        yield spec(_BOOSTING, native, seconds=seconds)
    if has_categories and not is_fast:
        # Splits between categories overfit where these are many, target statistics where the target
        # has outliers; an average of several treatments has a smaller error than any.
        encoded = make_pipeline(_statistics(shape), model)
        yield spec(_BOOSTED_STATISTICS, encoded, seconds=seconds)


def _statistics(shape: TableShape) -> ColumnTransformer:
    """Return a transformer of categories to cross-fitted statistics of the target."""
    target_type = "continuous"
    if shape.is_classification:
        target_type = "binary" if shape.n_outputs == 2 else "multiclass"
    encoder = target_encoder(target_type, 5)
    return ColumnTransformer([("categories", encoder, shape.categorical)], remainder="passthrough")


def gradient(shape: TableShape, tried: Tried) -> Iterator[Spec]:
    """Yield local models in the gradient metric, started from the best coordinates."""
    is_wide = shape.n_columns > shape.rules.max_coordinates
    # Principal axes have a unit in common; single columns as given may have any.
    starts = _LABEL_FREE if is_wide else _LABEL_FREE[:2]
    losses = {m: tried[_local_name(m)] for m in starts if _local_name(m) in tried}
    best = sorted(losses, key=losses.__getitem__)[:2]
    for metric in best or ["standardized"]:
        if best and metric != best[0]:
            # A second start may be better where irrelevant columns hide which one is.
            gains = tried.get(_gradient_name(best[0]), np.inf) <= _GAIN * losses[best[0]]
            if not gains or losses[metric] > _SLACK * losses[best[0]]:
                return
        # The metric standardises by itself, so that arrays of a device stay there; principal axes
        # made equally long would be mostly noise.
        steps = _coordinates(metric, shape, _MAX_COORDINATES)
        settings = {"metric_params": {"standardize": False}} if is_wide else {}
        degree = {} if shape.is_classification else {"degree": 1}
        model = _local(shape, metric="gradient", **settings, **degree)
        model = make_pipeline(*steps, model) if steps else model
        seconds = 0.8 * shape.thousands * (2.0 + shape.n_coordinates / 15.0)
        yield Spec(_gradient_name(metric), model, once=True, seconds=seconds)


def kernel(shape: TableShape, tried: Tried) -> Iterator[Spec]:
    """Yield kernel ridge in the gradient metric, on small tables."""
    if shape.n_rows > _MAX_KERNEL_ROWS[shape.is_classification]:
        return
    seconds, whole = 1.5 * shape.thousands, shape.n_rows > _MAX_KERNEL_FOLDS
    model: Any = GradientKernelRegressor(metric="diagonal", n_rounds=3)
    if shape.is_classification:
        # Most of the work is common to the folds.
        model, whole = GradientKernelClassifier(metric="diagonal", n_rounds=1), True
        seconds = 0.5 * shape.thousands
    if shape.preset == "fast" and shape.n_rows <= _FAST_KERNEL_ROWS:
        model, whole = model.set_params(max_block_size=_FAST_KERNEL_ROWS), True
    yield Spec(_KERNEL, model, once=True, seconds=seconds, whole=whole)


# Networks of each fold, all of which are kept.
_N_FOLD_NETS = 2


def neural(shape: TableShape, tried: Tried) -> Iterator[Spec]:
    """Yield neighbours in coordinates learned by small nets."""
    kind = NeuralNeighborsClassifier if shape.is_classification else NeuralNeighborsRegressor
    # On a GPU the networks of all folds are trained at once.
    model = kind(_N_FOLD_NETS, device=shape.device)
    yield Spec("neural neighbours", model, once=True, whole=shape.has_gpu)


# Training tables of the pretrained network had at most 1,800 rows; a pass sees so many columns.
_MAX_PRETRAINED_ROWS, _MAX_PRETRAINED_COLUMNS = 1500, 128
# Passes of the network where time matters less, or little of it is needed; one otherwise.
_MANY_PASSES = 6
# The network takes ten times as long for a single row as other models do, so that it must gain as
# many times as much.
_PRETRAINED_PRICE = 10.0


def pretrained(shape: TableShape, tried: Tried) -> Iterator[Spec]:
    """Yield neighbours weighted by a network that was trained on simulated tables."""
    if shape.n_rows > _MAX_PRETRAINED_ROWS or (not shape.is_classification and shape.n_outputs > 1):
        return
    kind: Any = PretrainedNeighborsRegressor
    options: dict[str, Any] = {}
    if shape.is_classification:
        # One fold of few rows shows little.
        kind, options = PretrainedNeighborsClassifier, {"bonus": 0.5 * _PROBE_BONUS}
    n_passes, device = _MANY_PASSES, None if shape.device is None else "auto"
    if not shape.has_gpu and shape.preset != "best":
        n_passes, options = 1, options | {"price": _PRETRAINED_PRICE}
    if not shape.has_gpu:
        # Every fold reads its rows again; on a GPU that takes a fraction of a second.
        width = min(shape.n_tree_columns, _MAX_PRETRAINED_COLUMNS)
        options["seconds"] = n_passes * shape.thousands * (1.2 + width / 25.0)
    model = kind(n_passes, categorical_features=shape.categorical, device=device)
    yield Spec("pretrained neighbours", model, encoding="tree", once=True, **options)


FAMILIES: dict[str, Callable[[TableShape, Tried], Iterator[Spec]]] = {
    "constant": constant,
    "linear": linear,
    "kernel": kernel,
    "local": local,
    "forest": forest,
    "boosting": boosting,
    "gradient": gradient,
    "pretrained": pretrained,
    "neural": neural,
}
# Networks take seconds on a GPU, up to so many rows.
_MAX_NET_ROWS = 30_000


def default_families(shape: TableShape) -> dict[str, str]:
    """Return the families in the order of trial; those that are skipped have a reason."""
    families = dict.fromkeys(FAMILIES, "")
    if shape.is_timed:
        # Where time may end before all are tried, boosting goes first.
        families = {"constant": "", "boosting": "", **families}
    if shape.n_rows > _MAX_KERNEL_ROWS[shape.is_classification]:
        limit = _MAX_KERNEL_ROWS[shape.is_classification]
        families["kernel"] = f"its time grows with the cube of the rows; tried on at most {limit:,}"
    if shape.preset == "fast":
        fast = _FAST_FAMILIES if shape.is_classification else _FAST_FAMILIES[:-1]
        if shape.is_classification and shape.categorical is not None and shape.categorical.any():
            fast = _FAST_FAMILIES[:3]
        for family in FAMILIES:
            if family not in fast and not families[family]:
                families[family] = "it is not part of preset='fast'"
    for family in set(families).difference(shape.rules.families or families):
        families[family] = "it does not run on a GPU; pass NumPy arrays to try it"
    if shape.preset == "best":
        return families
    if not families["kernel"] and not families["gradient"] and shape.monotonic is None:
        families["gradient"] = "kernel ridge learns such a metric in less time"
    if not shape.has_gpu:
        families["neural"] = "it is part of preset='best'; name it in families to try it"
    elif shape.n_rows > _MAX_NET_ROWS:
        families["neural"] = f"{shape.n_rows} rows take it minutes; name it in families to try it"
    return families


# --- monotone constraints ---


_CANNOT = "it cannot obey monotonic_cst"


def signs_for(spec: Spec, signs: np.ndarray, categorical: np.ndarray | None) -> dict | None:
    """Return the parameters by which a base model obeys, ``None`` if it cannot.

    Transformers must preserve the order of every column; statistics of categories go first.
    """
    steps = spec.estimator.steps if isinstance(spec.estimator, Pipeline) else [("", spec.estimator)]
    *before, (name, last) = steps
    if isinstance(last, DummyClassifier | DummyRegressor):
        return {}
    if "monotonic_cst" not in last.get_params() or getattr(last, "solver", "ridge") != "ridge":
        return None
    for _, step in before:
        if isinstance(step, ColumnTransformer) and spec.encoding == "tree":
            mask = np.asarray(categorical)
            signs = np.concatenate([np.zeros(mask.sum(), dtype=np.int8), signs[~mask]])
        elif not isinstance(step, StandardScaler | NormalScores):
            return None
    return {f"{name}__monotonic_cst" if before else "monotonic_cst": signs}


def monotone_specs(specs: Iterator[Spec], shape: TableShape) -> Iterator[Spec]:
    """Yield base models that obey the constraints; those that cannot have a reason."""
    for spec in specs:
        params = None
        if not spec.reason:
            params = signs_for(spec, shape.monotonic[spec.encoding], shape.categorical)
        if params is None:
            yield replace(spec, estimator=None, reason=spec.reason or _CANNOT)
        else:
            yield replace(spec, estimator=clone(spec.estimator).set_params(**params), probe=None)
