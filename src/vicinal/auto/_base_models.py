"""Families of base models that are tried: cheap ones first, each by its own rule."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler, TargetEncoder
from sklearn.svm import SVC, SVR

from vicinal._base import saved
from vicinal._kernels.linear._covariance import normal_score_knots
from vicinal.auto._linear import LinearClassifier, LinearRegressor
from vicinal.local import LocalClassifier, LocalRegressor
from vicinal.metric import (
    GradientKernelRegressor,
    NeuralNeighborsClassifier,
    NeuralNeighborsRegressor,
)

# Local models live in at most so many coordinates; wider tables are reduced to principal axes.
_MAX_COORDINATES = 100
_MAX_LINEAR_COLUMNS = 1000
# Squares and products are tried where their scatter and its eigenvectors cost no more than this.
_MAX_QUADRATIC_FLOPS = 3e9
# A logistic model of squares and products is tried up to this many rows x terms x classes.
_MAX_LOGISTIC_SIZE = 3e6
# A logistic model is not worth its time where a linear one errs this much more than a local one.
_HOPELESS = 2.5
# Boosting is tried where a forest comes this near to the best local model. As classes are many, so
# are its trees: it ends with the first fold if that loses by more than its lead.
_TREES_PAY, _BOOSTING_LEAD, _MAX_BOOSTED_CLASSES = 1.1, 1.2, 10
_MIN_BOOSTED_ROWS = {True: 200, False: 100}  # classes, numbers
# Small trees, slowly: less to learn by chance from few rows and many levels. Many rows of a class
# bear larger ones; on large tables boosting stops by rows that it sets aside.
_SLOW, _MAX_SLOW_ROWS = {"learning_rate": 0.05, "max_leaf_nodes": 8}, 10_000
_LARGER = {"learning_rate": 0.05, "max_leaf_nodes": 16}
_FEW_ROWS, _MANY_OF_A_CLASS = 3000, 300
# Of many columns a split of boosted trees draws some: trees that differ average better. Where few
# columns tell all, numbers lose by it (puma32h: three times the error), so folds choose there.
_MANY_COLUMNS, _DRAWN = 10, 0.3
# A second metric of slopes is learned where its start is within a factor of the better one, and the
# first metric has taken a share off the loss of its start.
_SLACK, _GAIN = 1.25, 0.8
# Support vector machines take the square of the rows.
_MAX_SVM_ROWS, _MAX_SVM_CLASSES = 3000, 10

# Kernel ridge takes the cube of the rows: it is tried where a smooth member comes this near to the
# trees, and its first fold must be about as good as the best.
_SMOOTH_PAYS, _KERNEL_LEAD = 1.25, 1.1
# Where rows are few, so are those that its metric could be learned from in halves.
_MAX_KERNEL_ROWS, _FEW_FOR_HALVES = 5000, 2000

_OF_STATISTICS = "boosted trees of statistics"
_TREES = ("forest", "extra_forest", "boosted trees", _OF_STATISTICS)
_PLAIN = ("standardized", "ranked", "euclidean")
_PLAIN_ON_DEVICE = ("standardized", "euclidean")


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
    grid : list of dict
        Settings to choose from, where the estimator does not list its own.
    once : bool
        One repetition of the folds is enough: more matters little compared with the cost, or the
        predictions do not depend on the folds.
    lead : float
        A default model whose loss on the first fold is larger by this factor is not tried further.
    by_folds : bool
        Models of folds predict, even if the estimator has its own held-out predictions.
    """

    name: str
    estimator: Any
    encoding: str = "distance"
    grid: list[dict] = field(default_factory=lambda: [{}])
    once: bool = False
    lead: float = 1.5
    by_folds: bool = False


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
    on_device: bool = False
    is_timed: bool = False


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
        columns = [
            np.interp(column, values, scores)
            for column, (values, scores) in zip(X.T, self.knots_, strict=True)
        ]
        return np.stack(columns, axis=1)

    def write_graph(self, graph, x):
        """Write the map into a graph of :func:`vicinal.io.to_onnx`."""
        return graph.piecewise_linear(x, self.knots_)


@saved()
class ScaledSVR(SVR):
    """``SVR`` of the standardised target."""

    def fit(self, X, y, sample_weight=None):
        """Standardise y and fit."""
        self.target_mean_ = np.average(y, weights=sample_weight)
        spread = np.sqrt(np.average((y - self.target_mean_) ** 2, weights=sample_weight))
        self.target_scale_ = spread if spread > 0.0 else 1.0
        return super().fit(X, (y - self.target_mean_) / self.target_scale_, sample_weight)

    def predict(self, X):
        """Predict in the unit of y."""
        return self.target_mean_ + self.target_scale_ * super().predict(X)

    def write_graph(self, graph, x):
        """Write the predictions into a graph of :func:`vicinal.io.to_onnx`."""
        plain = SVR(**self.get_params())
        plain.__dict__.update(self.__dict__)  # the same machine, by the name that others know
        said = graph.borrow("values", plain, [x])
        return graph.affine(said, [[self.target_scale_]], [self.target_mean_])


def _local(shape: TableShape, **settings):
    model = LocalClassifier if shape.is_classification else LocalRegressor
    return model(n_jobs=shape.n_jobs, **settings)


def _coordinates(name: str, shape: TableShape, most: int) -> list:
    """Return the transformers of named coordinates, reduced to ``most`` of them."""
    steps: list = {"standardized": [StandardScaler()], "ranked": [NormalScores()]}.get(name, [])
    if shape.n_columns > most:
        n_axes = min(most, shape.n_rows - 1)
        steps = [*steps, PCA(n_axes, svd_solver="auto", random_state=0)]
    return steps


def _local_in(name: str, shape: TableShape):
    """Return a local model in named coordinates."""
    if shape.on_device or shape.n_columns <= _MAX_COORDINATES:
        return _local(shape, metric=name)
    steps = _coordinates(name, shape, _MAX_COORDINATES)
    return make_pipeline(*steps, _local(shape, metric="euclidean"))


def constant(shape: TableShape, tried: Tried) -> Iterator[Spec]:
    """Yield the answer that looks at no column."""
    model = DummyClassifier(strategy="prior") if shape.is_classification else DummyRegressor()
    yield Spec("constant", model, once=True)


def local(shape: TableShape, tried: Tried) -> Iterator[Spec]:
    """Yield local ridge models in coordinates that need no labels."""
    for name in _PLAIN if not shape.on_device else _PLAIN_ON_DEVICE:
        yield Spec(name, _local_in(name, shape), once=True)


def forest(shape: TableShape, tried: Tried) -> Iterator[Spec]:
    """Yield local models over leaves; trees that did not draw a row have seen its group."""
    if not shape.has_groups:
        # Where columns are too many for a slope each, leaves vote.
        degree = 1 if shape.n_columns <= _MAX_COORDINATES else 0
        for name in ("forest", "extra_forest"):
            yield Spec(name, _local(shape, metric=name, degree=degree), once=True)


def linear(shape: TableShape, tried: Tried) -> Iterator[Spec]:
    """Yield linear, quadratic, discriminant and logistic models."""
    threads = {"n_jobs": shape.n_jobs}
    ridge: Any = LinearRegressor(**threads)
    if shape.is_classification:
        ridge = LinearClassifier("ridge", **threads)
    best_before = min(tried.values(), default=np.inf)
    places = {}
    for name in ("standardized", "ranked"):
        places[name] = _coordinates(name, shape, _MAX_LINEAR_COLUMNS)
        yield Spec(f"{name} ridge", make_pipeline(*places[name], ridge))
    best = min(places, key=lambda name: tried.get(f"{name} ridge", np.inf))
    width = min(shape.n_columns, _MAX_LINEAR_COLUMNS)
    n_terms = width + width * (width + 1) // 2
    losses = [tried.get(f"{name} ridge", np.inf) for name in places]
    steps, wide = places[best], width
    if (shape.n_rows + 10 * n_terms) * n_terms**2 <= _MAX_QUADRATIC_FLOPS:
        squared = [*places[best], PolynomialFeatures(2, include_bias=False)]
        name = f"{best} quadratic ridge"
        yield Spec(name, make_pipeline(*squared, ridge))
        is_affordable = shape.n_rows * shape.n_outputs * n_terms <= _MAX_LOGISTIC_SIZE
        if tried.get(name, np.inf) < min(losses) and is_affordable:
            steps, wide = squared, n_terms
        losses.append(tried.get(name, np.inf))
    if shape.is_classification and shape.n_outputs > 2:
        # Least squares hides a class that lies between others; of two it is the same direction.
        yield Spec(
            "lda", make_pipeline(*places["standardized"], LinearClassifier("lda", **threads))
        )
    if shape.is_classification and min(losses) <= _HOPELESS * best_before:
        name = f"{best}{' quadratic' if wide > width else ''} logistic"
        yield Spec(name, make_pipeline(*steps, LinearClassifier("logistic", **threads)))


def boosting(shape: TableShape, tried: Tried) -> Iterator[Spec]:
    """Yield boosted trees where forests show that steps matter."""
    forests = [tried[name] for name in ("forest", "extra_forest") if name in tried]
    if shape.n_rows < _MIN_BOOSTED_ROWS[shape.is_classification]:
        return
    if shape.is_classification and shape.n_outputs > _MAX_BOOSTED_CLASSES:
        return
    if forests and min(forests) > _TREES_PAY * min(tried.values()):
        return
    if shape.is_classification:
        model: Any = HistGradientBoostingClassifier()
    elif shape.n_outputs == 1:
        model = HistGradientBoostingRegressor()
    else:
        return
    levels = shape.categorical
    has_levels = levels is not None and bool(levels.any())
    grid = _paces(shape, has_levels)
    lead = _BOOSTING_LEAD if shape.is_classification else 1.5
    spec = partial(Spec, encoding="tree", once=True, lead=lead)
    as_given = clone(model).set_params(categorical_features=levels)
    yield spec("boosted trees", as_given, grid=grid)
    if has_levels:
        # Splits between levels learn by chance where levels are many, statistics of the target
        # where it has outliers; a mean of both errs less than either.
        model.set_params(**grid[-1])
        yield spec(_OF_STATISTICS, make_pipeline(_statistics(shape), model))


def _paces(shape: TableShape, has_levels: bool) -> list[dict]:
    """Return the settings of boosted trees to choose from: how large, how slowly, how many."""
    levels = shape.categorical
    n_columns = shape.n_columns if levels is None else len(levels)
    drawn = {"max_features": _DRAWN} if n_columns >= _MANY_COLUMNS else {}
    slow = _SLOW | {"max_iter": 150 if shape.n_rows <= _FEW_ROWS else 200} | drawn
    is_small = shape.n_rows <= _MAX_SLOW_ROWS
    if not shape.is_classification:
        return [{}, slow] if is_small else [{}]
    if not is_small:
        stops = {"max_iter": 500, "early_stopping": True}
        return [_LARGER | stops | drawn] if has_levels else [drawn]
    if has_levels or shape.n_rows < _MANY_OF_A_CLASS * shape.n_outputs:
        return [slow]
    return [_LARGER | {"max_iter": 200} | drawn]


def _statistics(shape: TableShape) -> ColumnTransformer:
    """Return what replaces levels by statistics of the target, cross-fitted."""
    kind = "continuous"
    if shape.is_classification:
        kind = "binary" if shape.n_outputs == 2 else "multiclass"
    encoder = TargetEncoder(target_type=kind, cv=KFold(5, shuffle=True, random_state=0))
    return ColumnTransformer([("levels", encoder, shape.categorical)], remainder="passthrough")


def gradient(shape: TableShape, tried: Tried) -> Iterator[Spec]:
    """Yield local models in the metric of their slopes, from the coordinates that suit best."""
    is_wide = shape.n_columns > _MAX_COORDINATES and not shape.on_device
    # Principal axes have a unit in common; single columns as given may have any.
    starts = _PLAIN if is_wide else _PLAIN[:2]
    bases = sorted((name for name in starts if name in tried), key=tried.__getitem__)
    for name in bases[:2] or ["standardized"]:
        if bases and name != bases[0] and not _second_pays(bases, tried):
            return
        # The metric standardises by itself, so that arrays of a device stay there; principal axes
        # made equally long would be mostly noise.
        steps = [] if shape.on_device else _coordinates(name, shape, _MAX_COORDINATES)
        settings = {"metric_params": {"standardize": False}} if is_wide else {}
        degree = {} if shape.is_classification else {"degree": 1}
        model = _local(shape, metric="gradient", **settings, **degree)
        yield Spec(f"{name} gradient", make_pipeline(*steps, model) if steps else model, once=True)


def _second_pays(bases: list[str], tried: Tried) -> bool:
    """Tell whether a second start may be the better one: columns that say nothing hide which."""
    first, second = bases[:2]
    gains = tried.get(f"{first} gradient", np.inf) <= _GAIN * tried[first]
    return gains and tried[second] <= _SLACK * tried[first]


def svm(shape: TableShape, tried: Tried) -> Iterator[Spec]:
    """Yield a support vector machine with a radial kernel on small tables."""
    if shape.n_rows > _MAX_SVM_ROWS:
        return
    if shape.is_classification and shape.n_outputs <= _MAX_SVM_CLASSES:
        grid = [{"svc__C": c} for c in (1.0, 10.0)]
        yield Spec("svm", make_pipeline(StandardScaler(), SVC()), grid=grid, once=True)
    elif not shape.is_classification and shape.n_outputs == 1:
        grid = [{"scaledsvr__C": c} for c in (1.0, 10.0, 100.0)]
        yield Spec("svm", make_pipeline(StandardScaler(), ScaledSVR()), grid=grid, once=True)


def kernel(shape: TableShape, tried: Tried) -> Iterator[Spec]:
    """Yield kernel ridge in the metric of its gradients, for smooth targets of small tables."""
    smooth = [loss for name, loss in tried.items() if name not in _TREES]
    trees = [loss for name, loss in tried.items() if name in _TREES]
    is_near = not trees or min(smooth, default=np.inf) < _SMOOTH_PAYS * min(trees)
    if not shape.is_classification and shape.n_rows <= _max_kernel_rows(shape) and is_near:
        model = GradientKernelRegressor(metric="diagonal", n_rounds=3)
        by_folds = shape.n_rows <= _FEW_FOR_HALVES
        yield Spec("gradient kernel", model, once=True, lead=_KERNEL_LEAD, by_folds=by_folds)


def _max_kernel_rows(shape: TableShape) -> int:
    """Return how many rows kernel ridge is tried on: halves cannot be stopped in time."""
    return _FEW_FOR_HALVES if shape.is_timed else _MAX_KERNEL_ROWS


def neural(shape: TableShape, tried: Tried) -> Iterator[Spec]:
    """Yield neighbours in coordinates learned by small nets: minutes without a device."""
    if shape.is_classification:
        yield Spec("neural neighbors", NeuralNeighborsClassifier(), once=True)
    else:
        yield Spec("neural neighbors", NeuralNeighborsRegressor(), once=True)


FAMILIES: dict[str, Callable[[TableShape, Tried], Iterator[Spec]]] = {
    "constant": constant,
    "local": local,
    "forest": forest,
    "boosting": boosting,
    "linear": linear,
    "gradient": gradient,
    "svm": svm,
    "kernel": kernel,
    "neural": neural,
}
# Kinds that compute where the arrays of a device are. Nets take seconds there, up to so many rows.
_DEVICE_FAMILIES, _MAX_NET_ROWS = ("constant", "local", "gradient", "neural"), 30_000


def default_families(shape: TableShape) -> dict[str, str]:
    """Return the families to try in turn, those that are left out with the reason."""
    families = dict.fromkeys(FAMILIES, "")
    if shape.is_timed:
        # Where time may end before all had their turn, the surest go first.
        families = {"constant": "", "boosting": "", **families}
    if shape.n_rows > _MAX_SVM_ROWS:
        families["svm"] = f"it takes the square of the rows, so at most {_MAX_SVM_ROWS:,} of them"
    most = _max_kernel_rows(shape)
    if shape.n_rows > most and not shape.is_classification:
        limit = " where time is limited" if shape.is_timed else ""
        families["kernel"] = f"it takes the cube of the rows, so at most {most:,} of them{limit}"
    if not shape.on_device:
        families["neural"] = "it takes minutes without a device; name it in members to try it"
        return families
    for family in FAMILIES:
        if family not in _DEVICE_FAMILIES:
            families[family] = "it does not run on a device; hand NumPy arrays in to try it"
    if shape.n_rows > _MAX_NET_ROWS:
        families["neural"] = f"{shape.n_rows} rows take it minutes; name it in members to try it"
    return families
