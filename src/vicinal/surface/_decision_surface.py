"""Geometry of the decision surface of any classifier."""

import warnings
from numbers import Integral, Real

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags
from sklearn.utils.validation import check_array, check_is_fitted

from vicinal._base import (
    atomic_fit,
    documented,
    is_frame,
    query_rows,
    random_seeds,
    row_blocks,
    saved,
    store_parameters,
    training_data,
)
from vicinal._base._compat import HasMethods, Interval, StrOptions
from vicinal._base._tables import column_names, column_values, sampled_rows
from vicinal._base._unseen import unreported
from vicinal._kernels.surface._nearest_point import bisect, mixed_distance
from vicinal._kernels.surface._roots import NO_CROSSING, NO_SURFACE, norms
from vicinal.neighbors import NeighborSearch
from vicinal.surface import _problem as problems
from vicinal.surface import _search as searches
from vicinal.surface._counterfactuals import Counterfactuals, CounterfactualSearch
from vicinal.surface._oracles import Model, RowFormat, make_oracle

# Neighbours whose half-way points label-only searches use.
_N_MIDPOINTS = 10
# Points of the surface closer than this, in units of `length_`, count as one.
_CELL = 0.02


def _is_fitted(estimator) -> bool:
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        return False
    return True


def _check_complete(rows) -> None:
    """Raise if a row of a frame misses a number."""
    for j, name in enumerate(rows.columns if is_frame(rows) else ()):
        cells = column_values(rows, j)
        if None in cells:
            raise ValueError(
                f"Row {cells.index(None)} misses the number {name!r}, and has no distance; impute "
                "it, or use vicinal.inspection.explain, which leaves it missing."
            )


@saved(_X="n p", _surface_points="m p", classes_="c labels", _codes="n <c", _weights="p | p p")
@documented
class DecisionSurface(BaseEstimator):
    r"""Geometry of the decision surface of any classifier.

    The decision surface is where the prediction changes. This class finds the point of the surface
    nearest to a row, the signed distance and the normal there, and the counterfactual of a row:
    the smallest change that gives another prediction. It uses exact gradients of local models,
    linear models, support vector machines and neural networks, finite differences of other smooth
    scores, the leaves of single trees, and only ``predict`` of everything else (forests, boosting,
    nearest neighbours).

    In data frames, columns that hold anything but numbers are categories: a change of one is a
    distance of one, searches use ``predict`` only, and points are returned as frames.

    Read more in the :doc:`user guide </guide/surface>`.

    Parameters
    ----------
    estimator : classifier
        A fitted classifier is used as it is. One that is not fitted is cloned, and fitted when
        ``fit`` is given y.
    oracle : {"auto", "gradient", "differences", "labels"}, default="auto"
        What the search knows of the classifier. ``"gradient"`` needs a gradient in closed form (a
        classifier can provide its own as ``decision_function_and_gradient``), ``"differences"``
        takes central differences of ``decision_function`` or of the logit of ``predict_proba``,
        ``"labels"`` uses ``predict`` only. ``"auto"`` takes the first of these that agrees with
        ``predict`` on the rows given and is not piecewise constant.
    metric : {"euclidean", "standardized", "mad", "mahalanobis"}, array-like or None, default=None
        How distances are measured: in columns as given (``None``), divided by their standard
        deviation or median absolute deviation, or by the inverse covariance; or weights m of shape
        (n_features,) or a matrix M of shape (n_features, n_features), for
        :math:`\sum_j m_j (x_j - z_j)^2` or :math:`(x - z)^\top M (x - z)`.
    n_starts : int, default=3
        Number of descents from different sides for each row. With 1, some rows end at a local
        minimum of the distance.
    n_surface_points : int, default=500
        Number of rows from which ``fit`` searches for points of the surface. Later searches start
        at these points.
    tol : float, default=1e-6
        Accuracy, in units of ``length_``.
    random_state : int, RandomState instance or None, default=None
        Seed of the sampled rows and of the proposals of the label-only search (the same for every
        row).

    Attributes
    ----------
    estimator_ : classifier
        The classifier in use.
    classes_ : ndarray of shape (n_classes,)
        Its labels.
    oracle_ : {"gradient", "differences", "tree", "labels"}
        What the search knows of it.
    length_ : float
        Median distance from a row to the nearest row with another predicted label: the unit of
        ``tol`` and the longest step.
    surface_points_ : ndarray of shape (n_points, n_features), or frame
        Points of the surface found in ``fit``.

    See Also
    --------
    SurfaceCalibratedClassifier : Probabilities from signed distances.
    vicinal.inspection.DecisionSurfaceDisplay : Plot of a surface in the plane.

    Notes
    -----
    Let F be the score, positive on the side of the row q. ``project`` takes Newton steps along
    grad F until the sign changes and refines that bracket (Algorithm 1 of [1]_); ``along`` does so
    on a ray (Algorithm 2); ``orthogonal_projection`` solves

    .. math:: \min_y \tfrac12 \|y - q\|^2 \quad \text{subject to} \quad F(y) = 0

    by sequential quadratic programming with damped BFGS updates, from the nearest known point of
    the surface and then from known points in other directions (Algorithm 3). The printed
    algorithms refit the local model at q instead of the moving point, drop the offset of the
    constrained projection, and mix vectors of unlike length; even corrected they cycle for small
    bandwidths.

    With more than two classes the region of class c ends where the score of c equals the largest
    of the others. Each descent compares c with the second-best class at its start. If a third
    class has a larger score at its end, the descent is repeated for that class.

    From labels alone, the segments to the nearest rows of another label are bisected, and the best
    point is moved closer by random proposals and by setting columns back. The result is an upper
    bound of the distance. Distances to single trees are exact, because the nearest point of a leaf
    is a clip.

    A surface that is touched and not crossed is not found, and ``along`` may step over a region
    thinner than its steps (at most half of ``length_``, shorter where the score is close to zero,
    longer far from all rows). A failed search of a single row raises no error; see ``status``.

    References
    ----------
    .. [1] C. S. Brown and R. G. Benton, "Decision Surfaces of Localized Classifiers".

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from vicinal.surface import DecisionSurface
    >>> X = np.array([[-2.0, 0.0], [-1.0, 1.0], [1.0, 1.0], [2.0, 0.0]])
    >>> model = LogisticRegression().fit(X, [0, 0, 1, 1])
    >>> surface = DecisionSurface(model).fit(X)
    >>> surface.distance([[3.0, 5.0], [-0.5, 0.0]]).round(3)
    array([ 3. , -0.5])
    >>> surface.counterfactual([[-0.5, 0.0]]).points.round(2)
    array([[0., 0.]])
    """

    _parameter_constraints: dict = {
        "estimator": [HasMethods(["fit", "predict"])],
        "oracle": [StrOptions({"auto", "gradient", "differences", "labels"})],
        "metric": [StrOptions(set(problems.METRICS)), "array-like", None],
        "n_starts": [Interval(Integral, 1, None, closed="left")],
        "n_surface_points": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        estimator,
        *,
        oracle="auto",
        metric=None,
        n_starts=3,
        n_surface_points=500,
        tol=1e-6,
        random_state=None,
    ):
        store_parameters(self, locals())

    # --- fit ---

    @atomic_fit
    def fit(self, X, y=None):
        """Find points of the surface between rows of X, where later searches start.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Rows like the training rows of the classifier. Rows of a frame that miss a number serve
            to fit the classifier only.
        y : array-like of shape (n_samples,), default=None
            Labels, needed if the classifier is not fitted yet, else ignored.
        """
        given, wrap = X, RowFormat(X)
        is_fitted = _is_fitted(self.estimator)
        options = {"ensure_all_finite": "allow-nan"} if is_frame(X) else {}
        if is_fitted or y is None:
            X = training_data(self, wrap.numbers(X), **options).X
        else:
            data = training_data(self, wrap.numbers(X), y, ensure_min_samples=2, **options)
            X, y = data.X, data.y
        self._dtype = X.dtype
        self._X = self._complete_rows(X.astype(np.float64))
        self.estimator_ = self._fitted_estimator(given, y, is_fitted)
        self.classes_ = self.estimator_.classes_
        if len(self.classes_) < 2:
            raise ValueError(
                f"{type(self.estimator_).__name__} was fitted to the class {self.classes_[0]!r} "
                "only; a decision surface needs two classes, so fit it to labels of both."
            )
        self._codes = np.searchsorted(self.classes_, self.estimator_.predict(wrap(self._X)))
        numeric = wrap.is_numeric(X.shape[1])
        self._weights = problems.metric_matrix(self.metric, self._X, numeric)
        chart = problems.Chart(self._X, self._weights)
        self._references = problems.ReferenceRows(chart.Z, self._codes, numeric)
        seeds = random_seeds(self.random_state, 2)
        self._proposals = searches.random_proposals(np.random.RandomState(seeds[0]), X.shape[1])
        with unreported():
            self._sample_surface(chart, wrap, seeds[1])
        return self

    def _complete_rows(self, X) -> np.ndarray:
        """Return the rows of a frame that miss no number."""
        complete = np.isfinite(X).all(axis=1)
        if complete.any():
            return np.ascontiguousarray(X[complete])
        worst = int(np.isnan(X).sum(axis=0).argmax())
        raise ValueError(
            f"Every row misses a number, most often in column {self.feature_names_in_[worst]!r}; "
            "a decision surface needs complete rows, so impute it or leave it out."
        )

    def _fitted_estimator(self, X, y, is_fitted):
        if is_fitted:
            if not hasattr(self.estimator, "classes_"):
                raise ValueError(
                    f"{type(self.estimator).__name__} has no classes_; a decision surface needs a "
                    "classifier."
                )
            return self.estimator
        if y is None:
            raise ValueError(
                f"{type(self.estimator).__name__} is not fitted, and fit requires y to be passed, "
                "but the target y is None. Pass y, or a fitted classifier."
            )
        return clone(self.estimator).fit(X, y)

    def _sample_surface(self, chart, wrap, seed) -> None:
        """Find points of the surface on segments between rows; select oracle and length."""
        labels, numeric = self._codes, self._references.numeric
        rows = sampled_rows(len(self._X), self.n_surface_points, seed)
        any_other = np.full(len(rows), -1)
        found = self._references.opposites(chart.Z[rows], labels[rows], any_other, 1)[:, 0]
        rows, found = rows[found >= 0], found[found >= 0]
        start, end = self._references.rows[rows], self._references.rows[found]
        lengths = mixed_distance(end, start, numeric)
        self.length_ = float(np.median(lengths)) if len(rows) else 1.0
        by_label = Model(self.estimator_, wrap, "labels", None)
        near = np.linspace(0, max(len(rows) - 1, 0), min(len(rows), 30)).astype(int)
        problem = self._problem(self._X[rows[near]], labels[rows[near]], model=by_label)
        ends = start[near], end[near], np.arange(len(near)), numeric
        ends = bisect(problem.flipped, *ends, n_halvings=4)
        probe = chart.columns(0.5 * (ends[0] + ends[1]), rows[near])
        kind, oracle = make_oracle(self.estimator_, self._X, wrap, self.oracle, probe)
        has_boxes = self.oracle == "auto" and not wrap.is_mixed
        self._boxes = searches.tree_boxes(self.estimator_) if has_boxes else None
        self.oracle_ = "tree" if self._boxes is not None else kind
        self._model = Model(self.estimator_, wrap, kind, oracle)
        if oracle is None:
            self._label_midpoints(chart, seed)
        problem = self._problem(self._X[rows], labels[rows])
        self._pool = self._pool_of(problem, start, end, labels[rows]).thinned(_CELL * self.length_)
        self._surface_points = chart.columns(self._pool.points, rows).astype(self._dtype)
        if not len(rows):
            warnings.warn(
                f"{type(self.estimator_).__name__} predicts {self.classes_[labels[0]]!r} for every "
                "row given to fit, so no point of its surface is known; give rows that get "
                "different predictions.",
                UserWarning,
                stacklevel=3,
            )

    def _label_midpoints(self, chart, seed) -> None:
        """Label points half-way between neighbours too: a region of a label may have no row."""
        Z, codes, numeric = self._references.rows, self._references.codes, self._references.numeric
        rows = np.random.RandomState(seed).permutation(len(Z))[: 4 * self.n_surface_points]
        k = min(_N_MIDPOINTS, len(Z) - 1)
        if k < 1 or not numeric.any():
            return
        N = np.ascontiguousarray(Z[:, numeric])
        found = NeighborSearch(n_jobs=1).fit(N).kneighbors(N[rows], k + 1)[1][:, 1:]
        own = Z[rows][:, None]
        middle = np.where(numeric, 0.5 * (own + Z[found]), own).reshape(-1, Z.shape[1])
        labels = self._model.codes(chart.columns(middle, np.repeat(rows, k)))
        self._references = problems.ReferenceRows(
            np.concatenate([Z, middle]), np.concatenate([codes, labels]), numeric
        )

    def _pool_of(self, problem, start, end, own) -> problems.SurfacePool:
        rows = np.arange(len(start))
        if self._model.oracle is None or not len(start):
            inner, outer = bisect(problem.flipped, start, end, rows, self._references.numeric)
            points = 0.5 * (inner + outer)
        else:
            f_start, _ = problem.evaluate(start, rows, False)
            f_end, _ = problem.evaluate(end, rows, False)
            good = (f_start > 0.0) & (f_end <= 0.0)
            rows, own = rows[good], own[good]
            segments = start[rows], end[rows], rows, f_start[rows], f_end[rows]
            roots = self._search().roots(problem, *segments)
            inner, outer, points = roots.inner, roots.outer, roots.points
        other = problem.model.codes(problem.chart.columns(outer, rows))
        return problems.SurfacePool(inner, outer, points, np.column_stack([own, other]))

    def _search(self) -> searches.SurfaceSearch:
        return searches.SurfaceSearch(
            references=self._references,
            # Between two rows of a mixed frame the inner end has the categories of the outer one.
            pool=None if self._model.wrap.is_mixed else getattr(self, "_pool", None),
            proposals=self._proposals,
            boxes=self._boxes,
            length=self.length_,
            tol=self.tol * self.length_,
            n_starts=self.n_starts,
        )

    @property
    def surface_points_(self):
        """Points of the surface found in ``fit``."""
        wrap = self._model.wrap
        return wrap(self._surface_points) if wrap.is_mixed else self._surface_points

    # --- queries ---

    def _validate(self, X) -> tuple[np.ndarray, Model]:
        """Return queries as numbers, and the model for the categories that they hold."""
        check_is_fitted(self)
        wrap = self._model.wrap.including(X)
        numbers = wrap.numbers(X)
        _check_complete(numbers)
        X = query_rows(self, numbers).astype(np.float64)
        return X, Model(self.estimator_, wrap, self._model.kind, self._model.oracle)

    def _problem(self, X, own, target=-1, model=None) -> problems.Problem:
        return problems.Problem(model or self._model, problems.Chart(X, self._weights), own, target)

    def _blocks(self, n_rows: int):
        d = self.n_features_in_
        return row_blocks(n_rows, 8 * d * (3 * min(d, 50) + 200), max_rows=4096)

    def _positive(self, own, label) -> np.ndarray:
        """Return on which side of the surface the rows lie, as signs."""
        if label is not None:
            return np.where(own == label, 1.0, -1.0)
        return np.where(own == 1, 1.0, -1.0) if len(self.classes_) == 2 else np.ones(len(own))

    def _encode(self, label, name: str) -> int:
        found = np.flatnonzero(self.classes_ == label)
        if not found.size:
            known = self.classes_.tolist()
            raise ValueError(f"{name}={label!r} is not one of the classes {known}.")
        return int(found[0])

    def _over_blocks(self, rows, model, find) -> dict:
        """Return the joined results of ``find(block, own codes)`` on blocks, rows as given."""
        parts = []
        for block in self._blocks(len(rows)):
            with unreported():
                parts.append(find(block, model.codes(rows[block])))
        joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        for name in {"rows", "points"}.intersection(joined) if model.wrap.is_mixed else ():
            joined[name] = model.wrap(joined[name])
        return joined

    def _projection(self, X, find, label=None, rays=None) -> searches.SurfaceProjection:
        """Search the surface by ``find(problem, search)``, with the rays of a block if given."""
        X, model = self._validate(X)
        search = self._search()
        label = None if label is None else self._encode(label, "label")

        def find_in(block, own):
            target = np.full(len(own), -1)
            if label is not None and len(self.classes_) > 2:
                target[own != label] = label
            problem = self._problem(X[block], own, target, model)
            found = find(problem, search, *(() if rays is None else (rays[block],)))
            gradients = searches.surface_gradients(problem, search, found)
            return self._describe(problem, found, gradients, self._positive(own, label))

        return searches.SurfaceProjection(**self._over_blocks(X, model, find_in))

    def _describe(self, problem, found: searches.NearestPoints, gradients, side) -> dict:
        """Turn points in coordinates into what a user sees."""
        lost = np.isin(found.status, (NO_CROSSING, NO_SURFACE))
        numeric = self._references.numeric
        distances = np.where(lost, np.inf, mixed_distance(found.points, problem.Z, numeric))
        points = problem.chart.columns(found.points, np.arange(len(lost)))
        points[lost] = problem.chart.base[lost]
        normals = problem.chart.covectors(gradients)
        size = norms(normals)
        normals = normals * (side / np.where(size > 0.0, size, 1.0))[:, None]
        normals[lost] = 0.0
        box = self._X.min(axis=0), self._X.max(axis=0)
        return {
            "points": points.astype(self._dtype),
            "distances": (side * distances).astype(self._dtype),
            "normals": normals.astype(self._dtype),
            "status": found.status,
            "extrapolated": ((points < box[0]) | (points > box[1])).any(axis=1) & ~lost,
            "n_evaluations": problem.n_evaluations.copy(),
        }

    # --- searches ---

    def project(self, X):
        """Find some point of the surface near each row.

        It takes less time than ``orthogonal_projection`` and finds points that are farther away.

        Returns
        -------
        found : SurfaceProjection
            Attributes as those of ``orthogonal_projection``.
        """
        return self._projection(X, searches.some_point)

    def along(self, X, direction, *, max_distance=None):
        """Find the first crossing of the surface on a ray from each row.

        Parameters
        ----------
        direction : array-like of shape (n_features,) or (n_rows, n_features)
            Directions; their lengths do not matter.
        max_distance : float, default=None
            End of the rays; ``None`` takes twice the diagonal of the box of the rows seen in
            ``fit``, plus the distance to it.

        Returns
        -------
        found : SurfaceProjection
            Attributes as those of ``orthogonal_projection``; ``status`` is 3 and the distance
            infinite where the ray ends before the surface.
        """
        directions = check_array(np.atleast_2d(direction), dtype=np.float64)
        n_rows = len(self._validate(X)[0])
        if directions.shape[1] != self.n_features_in_ or len(directions) not in (1, n_rows):
            raise ValueError(
                f"direction has shape {np.shape(direction)}; give {self.n_features_in_} numbers, "
                f"or that many for each of the {n_rows} rows."
            )
        if np.any(norms(directions) == 0.0):
            raise ValueError("direction holds a zero vector; every direction must be non-zero.")
        if np.any(directions[:, ~self._references.numeric]):
            raise ValueError(
                "direction changes a column of categories; it must be 0 in these columns."
            )
        if max_distance is not None and not max_distance > 0.0:
            raise ValueError(f"max_distance={max_distance!r} must be positive.")
        rays = np.broadcast_to(directions, (n_rows, self.n_features_in_))

        def find(problem, search, V):
            return searches.first_crossing(problem, search, V, max_distance)

        return self._projection(X, find, rays=rays)

    def orthogonal_projection(self, X, *, label=None):
        """Find the nearest point of the surface for each row.

        Parameters
        ----------
        label : object, default=None
            Measure to the region of this class: distances are positive inside and negative
            outside. ``None`` measures to the end of the region that a row is in.

        Returns
        -------
        found : SurfaceProjection
            Arrays with one entry per row:

            - ``points`` (n_rows, n_features): points on the surface, the row itself where none was
              found;
            - ``distances``: signed distances in the metric of the surface, infinite where no point
              was found; with two classes positive where the second one is predicted;
            - ``normals`` (n_rows, n_features): unit normals towards the positive side, zero where
              unknown;
            - ``status``: 0 the search converged, 1 the row lies on the surface, 2 the gradient
              jumps at the point (the distance is valid, the normal is not), 3 the ray ends before
              the surface, 4 no point with another label is known, 5 the search did not converge;
            - ``converged``: whether the status is 0 or 1;
            - ``extrapolated``: whether the point lies outside the box of the rows of ``fit``;
            - ``n_evaluations``: evaluations of the classifier (one gradient counts as one).
        """
        return self._projection(X, searches.nearest, label=label)

    def distance(self, X, *, label=None, method="orthogonal"):
        r"""Return the signed distance of each row to the surface.

        Parameters
        ----------
        label : object, default=None
            See ``orthogonal_projection``.
        method : {"orthogonal", "first_order"}, default="orthogonal"
            ``"first_order"`` is :math:`F / \|\nabla F\|`, one evaluation. It is exact for linear
            scores and wrong where the gradient nearly vanishes.

        Returns
        -------
        ndarray of shape (n_rows,)
            Two classes: positive where the second one is predicted. More: positive, or with
            ``label`` positive where it is predicted. Infinite where no surface is known.
        """
        if method == "orthogonal":
            return self.orthogonal_projection(X, label=label).distances
        if method != "first_order":
            raise ValueError(f"method={method!r} must be 'orthogonal' or 'first_order'.")
        check_is_fitted(self)
        if self._model.oracle is None:
            raise ValueError(
                f"method='first_order' needs a score, but {type(self.estimator_).__name__} has "
                "labels only; use method='orthogonal'."
            )
        return self._projection(
            X, lambda problem, _: searches.first_order(problem), label=label
        ).distances

    def normal(self, X):
        """Return the unit normal of the surface at the nearest point of each row.

        Returns
        -------
        ndarray of shape (n_rows, n_features)
            Direction of the gradient in the columns of X, towards the side where ``distance`` is
            positive; for label-only classifiers the least-squares direction of the labels within
            a tenth of ``length_``. Zero where no surface is known.
        """
        return self.orthogonal_projection(X).normals

    def counterfactual(
        self,
        X,
        *,
        target=None,
        immutable=None,
        bounds=None,
        categorical=None,
        sparsity=0.0,
        plausibility=None,
    ):
        """Find the smallest change of each row that gives another prediction.

        Parameters
        ----------
        target : object, default=None
            Wanted label; ``None`` means any other than the predicted one. Rows that have it
            already are returned unchanged.
        immutable : array-like, default=None
            Columns (numbers, names or a mask) that must not change.
        bounds : tuple of (low, high), default=None
            Limits of the columns, each a number or one per column. ``None`` for one of them, or
            NaN for a column, means no limit. A row outside has its own value as limit.
        categorical : array-like, default=None
            Columns that hold codes of categories, in addition to columns of a frame that hold
            anything but numbers. They take values of rows seen in ``fit`` only, and a change of
            one counts as a distance of one. Matrix metrics cannot be combined with ``bounds`` or
            ``categorical``.
        sparsity : float, default=0
            Share by which the distance may grow so that fewer columns change; ``inf`` changes as
            few as possible.
        plausibility : float in (0, 1], default=None
            How close to known rows a counterfactual must be: its distance to the fifth-nearest
            row of ``fit`` must not exceed this quantile of the same distance among those rows.

        Returns
        -------
        found : Counterfactuals
            Arrays with one entry per row:

            - ``rows``, ``points`` (n_rows, n_features): the queries, and the changed rows
              (unchanged where nothing was found);
            - ``changes`` (n_rows, n_features), ``n_changed``: what to add to each row, and the
              number of columns that change;
            - ``labels``: labels predicted for the points;
            - ``found``: whether a point with a wanted label was found; each was predicted again, in
              the precision in which it is returned;
            - ``distances``: distances from row to point in the metric, infinite where nothing was
              found;
            - ``status``: as of ``orthogonal_projection``.

            ``feature_names`` holds the names of the columns.
        """
        rows, model = self._validate(X)
        search = self._search()
        conditions = CounterfactualSearch(
            self,
            model,
            immutable=immutable,
            bounds=bounds,
            categorical=categorical,
            sparsity=sparsity,
            plausibility=plausibility,
        )
        code = -1 if target is None else self._encode(target, "target")

        def find_in(block, own):
            found = None
            if conditions.is_free:
                found = searches.nearest(self._problem(rows[block], own, code, model), search)
            return conditions.find(rows[block], own, code, found)

        joined = self._over_blocks(rows, model, find_in)
        joined["labels"] = self.classes_[joined["labels"]]
        return Counterfactuals(**joined, feature_names=column_names(self._X, self))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = not _is_fitted(self.estimator)
        tags.input_tags = get_tags(self.estimator).input_tags
        tags.input_tags.sparse = False
        tags.input_tags.allow_nan = False
        return tags
