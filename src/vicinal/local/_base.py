"""What the local models share: data, blocks of queries, explanation of a prediction."""

from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from vicinal._base import check_weights, is_ready, row_blocks
from vicinal._base._compat import HasMethods, Interval, StrOptions, num_samples
from vicinal._base._explanation import ExplainRowMixin
from vicinal._kernels.local._smoothing import KERNELS
from vicinal.local._anchored import Anchored
from vicinal.local._choice import LeaveOneOutChoice
from vicinal.local._climbing import Climbing
from vicinal.local._coordinates import Coordinates
from vicinal.local._data import LocalData, Settings, smoothers
from vicinal.local._explain import local_sections
from vicinal.local._fits import local_slopes
from vicinal.local._forest import FORESTS, ForestIndex, grow_forest
from vicinal.local._metrics import learn_coordinates, search_metric
from vicinal.local._neighborhood import Localizer
from vicinal.local._on_device import OnDevice
from vicinal.local._search import NeighborIndex
from vicinal.local._sparse import sparse_slopes

SHARED_CONSTRAINTS: dict = {
    "n_neighbors": [
        Interval(Integral, 1, None, closed="left"),
        Interval(Real, 0, 1, closed="right"),
        StrOptions({"auto"}),
    ],
    "bandwidth": [Interval(Real, 0, None, closed="right"), StrOptions({"auto"}), None],
    "kernel": [StrOptions(set(KERNELS)), callable],
    "metric": [str, callable, HasMethods(["fit", "transform"])],
    "metric_params": [dict, None],
    "alpha": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
    "penalty": [StrOptions({"relative", "absolute"})],
    "location_columns": ["array-like", None],
    "anchors": [
        Interval(Integral, 1, None, closed="left"),
        StrOptions({"auto"}),
        "array-like",
        None,
    ],
    "algorithm": [StrOptions({"auto", "tree", "brute"})],
    "n_jobs": [Integral, None],
    "random_state": ["random_state"],
    "verbose": ["verbose"],
}


class BaseLocal(ExplainRowMixin, OnDevice, Anchored, Climbing, LeaveOneOutChoice, BaseEstimator):
    r"""Private base of the local classifier and regressors."""

    # Factors on the weights of training rows, set by robust iterations.
    _factor: np.ndarray | None = None
    _accepts_sparse = True
    _data: LocalData
    _settings: Settings

    # --- fit ---

    def _validate_training(
        self, X, y, sample_weight, groups, *, reset=True, min_samples=2, **options
    ):
        """Check the training data; return X, y, weights (ones at first) and groups."""
        X, y = validate_data(
            self,
            X,
            y,
            reset=reset,
            accept_sparse="csr" if self._accepts_sparse else False,
            dtype=[np.float64, np.float32],
            ensure_min_samples=min_samples,
            **options,
        )
        weights = check_weights(sample_weight, X)
        if groups is not None:
            groups = np.unique(np.asarray(groups), return_inverse=True)[1]
            if len(groups) != X.shape[0]:
                raise ValueError(f"groups has {len(groups)} entries for {X.shape[0]} rows of X.")
        return X, y, weights, groups

    def _make_data(self, X, codes, targets, sample_weight, groups, metric) -> LocalData:
        """Learn coordinates and build the search."""
        located, _ = self._split_columns(X)
        coordinates = learn_coordinates(metric, located, codes, targets, sample_weight)
        if isinstance(metric, str) and metric in FORESTS:
            return self._forest_data(X, codes, targets, sample_weight, groups, metric, coordinates)
        return self._place_data(X, sample_weight, groups, metric, coordinates)

    def _place_data(self, X, sample_weight, groups, metric, coordinates) -> LocalData:
        """Put the rows into coordinates and build the search."""
        located, described = self._split_columns(X)
        place = coordinates(located)
        rows = place if described is None else Coordinates()(described)
        index = self._make_index(place, metric)
        return LocalData(rows, index, coordinates, sample_weight, groups)

    def _forest_data(
        self, X, codes, targets, sample_weight, groups, metric, coordinates
    ) -> LocalData:
        """Grow a forest whose leaves say who is near; models are fitted in the coordinates."""
        if self.location_columns is not None:
            raise ValueError(
                f'metric="{metric}" splits on all columns; leave location_columns out, or name '
                "another metric."
            )
        X = np.require(X, dtype=np.float64, requirements=["C"])
        index = grow_forest(
            metric,
            X,
            targets,
            sample_weight,
            classify=codes is not None,
            random_state=self.random_state,
            n_jobs=self.n_jobs,
        )
        return LocalData(coordinates(X), index, coordinates, sample_weight, groups)

    def _make_index(self, place, metric) -> NeighborIndex:
        return NeighborIndex(
            place,
            metric=search_metric(metric),
            metric_params=self.metric_params,
            algorithm=self.algorithm,
            n_jobs=self.n_jobs,
        )

    def _add_rows(self, X, sample_weight, groups) -> None:
        """Append rows to the data; coordinates, choice and calibration stay as they are."""
        self._check_on_host("partial_fit")
        old = self._data
        if (groups is None) != (old.groups is None):
            raise ValueError(
                "groups must be given in every call of fit and partial_fit, or in none."
            )
        if groups is not None and old.groups is not None:
            # New rows never share a group with earlier ones: labels are local to a call.
            groups = np.concatenate([old.groups, groups + old.groups.max() + 1])
        fresh = sample_weight
        if sample_weight is not None or old.sample_weight is not None:
            first = np.ones(old.n_samples) if old.sample_weight is None else old.sample_weight
            new = np.ones(X.shape[0]) if sample_weight is None else sample_weight
            sample_weight = np.concatenate([first, new])
        if isinstance(old.index, ForestIndex):
            index: Any = old.index.extended(np.asarray(X, dtype=np.float64), fresh)
            rows = _stack(old.rows, old.coordinates(X))
        else:
            located, described = self._split_columns(X)
            place = _stack(old.index.X, old.coordinates(located))
            rows = place if described is None else _stack(old.rows, Coordinates()(described))
            index = self._make_index(place, self.metric_)
        self._data = LocalData(rows, index, old.coordinates, sample_weight, groups)
        if self.bandwidth is None and isinstance(self.n_neighbors, float):
            rule = self._nearest_rule(self.n_neighbors, self._data.total_weight)
            self._settings = replace(self._settings, rule=rule)
            self.n_neighbors_ = int(rule.count)

    def _split_columns(self, X):
        """Return the columns that locate a row and those of its model (None: the same ones)."""
        if self.location_columns is None:
            return X, None
        chosen = self._location_mask(X.shape[1])
        return X[:, np.flatnonzero(chosen)], X[:, np.flatnonzero(~chosen)]

    def _location_mask(self, n_features: int) -> np.ndarray:
        columns = np.asarray(self.location_columns)
        if columns.dtype.kind in "OUS":
            names = list(getattr(self, "feature_names_in_", []))
            missing = [name for name in columns if name not in names]
            if missing:
                raise ValueError(f"location_columns names {missing}, but X has columns {names}.")
            columns = np.array([names.index(name) for name in columns])
        mask = np.zeros(n_features, dtype=bool)
        if columns.dtype == bool and len(columns) == n_features:
            mask = columns.copy()
        elif columns.size and (columns.min() < -n_features or columns.max() >= n_features):
            raise ValueError(
                f"location_columns={self.location_columns!r} reaches beyond the {n_features} "
                "columns of X."
            )
        else:
            mask[columns.astype(np.int64)] = True
        if not mask.any() or mask.all():
            raise ValueError(
                f"location_columns={self.location_columns!r} must leave at least one column to "
                f"locate and one to regress on, of {n_features}."
            )
        return mask

    # --- queries ---

    def _validate_queries(self, X):
        check_is_fitted(self)
        if self._device is not None:
            return self._validate_device_queries(X)
        if is_ready(self, X, np.float64):
            return X
        return validate_data(
            self,
            X,
            reset=False,
            accept_sparse="csr" if self._holds_sparse_rows() else False,
            dtype=[np.float64, np.float32],
        )

    def _holds_sparse_rows(self) -> bool:
        return self._stack is None and sparse.issparse(self._data.rows)

    def _locate(self, X):
        """Return (place in the search, row of the design) of queries."""
        if isinstance(self._data.index, ForestIndex):
            return np.asarray(X, dtype=np.float64), self._data.coordinates(X)
        located, described = self._split_columns(X)
        place = self._data.coordinates(located)
        if sparse.issparse(self._data.rows) and not sparse.issparse(place):
            place = sparse.csr_matrix(place)
        return place, place if described is None else Coordinates()(described)

    def _query_blocks(self, n_queries: int, localizer: Localizer):
        # A neighbour costs its number, distance, two weights, a mask and temporaries.
        width = 10 + (0 if sparse.issparse(self._data.rows) else self._data.rows.shape[1])
        return row_blocks(n_queries, 8 * (10 * localizer.expected_size() + width), max_rows=8192)

    def _localized(self, X):
        """Yield (block, design rows of the queries, their neighbourhoods)."""
        self._check_on_host("This method")
        localizer = self._data.localizer(self._settings.rule, self._factor)
        place, design = self._locate(X)
        for block in self._query_blocks(num_samples(X), localizer):
            yield block, design[block], localizer.neighborhoods(place[block])

    def _localized_training(self, rows, *, leave_out: bool, data=None):
        """Yield the same for training rows, left out of their own neighbourhoods if asked."""
        self._check_on_host("This method")
        data = self._data if data is None else data
        localizer = data.localizer(self._settings.rule, self._factor)
        for block in self._query_blocks(len(rows), localizer):
            own = rows[block]
            left = {"rows": own, "groups": data.groups} if leave_out else {}
            yield block, data.rows[own], localizer.neighborhoods(data.index.X[own], **left)

    def _smoother(self, design, found, skip=None) -> np.ndarray:
        """Return the equivalent kernel of a block, flat as ``found.indices``."""
        self._check_rows("The equivalent kernel")
        settings = self._settings
        return smoothers(
            self._data,
            design,
            found,
            [settings.alpha],
            relative=settings.relative,
            degree=settings.degree,
            skip=skip,
            n_jobs=self.n_jobs,
        )[0]

    def _slopes(self, design, found, Y) -> np.ndarray:
        if self.anchors_ is not None:
            return self.anchors_.blended_slopes(found)
        settings = self._settings
        shared: dict[str, Any] = {"relative": settings.relative, "degree": settings.degree}
        if sparse.issparse(self._data.rows):
            return sparse_slopes(self._data.rows, Y, design, found, settings.alpha, **shared)
        return local_slopes(
            self._data.rows, Y, design, found, settings.alpha, **shared, n_jobs=self.n_jobs
        )

    # --- what a user sees of a prediction ---

    def neighbors(self, X):
        """Return who speaks for each query, and with which weight.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)
            Queries.

        Returns
        -------
        weights : CSR matrix of shape (n_queries, n_samples)
            Smoothing weight of each training row (rows of zero sample weight are not counted);
            zero weights are not stored. With ``anchors``: weight of each anchor, shape
            (n_queries, n_anchors).
        """
        X = self._validate_queries(X)
        return self._raw_neighbors(X) if self._stack is None else self._stack.neighbors(X)

    def _raw_neighbors(self, X):
        return self._stack_rows(X, lambda design, found: found.weights)

    def _raw_kernel(self, X):
        return self._stack_rows(X, self._smoother)

    def _sections(self, X, columns):
        return local_sections(self, X, columns)

    def effective_sample_size(self, X):
        r"""Return how many equally weighted rows each local model is worth.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)
            Queries.

        Returns
        -------
        ndarray of shape (n_queries,)
            :math:`(\sum_i w_i)^2 / \sum_i w_i^2`; with ``anchors``, over the anchors blended.
        """
        X = self._validate_queries(X)
        if self._stack is not None:
            voices = self._stack.neighbors(X)
            square = np.asarray(voices.multiply(voices).sum(axis=1)).ravel()
            return np.asarray(voices.sum(axis=1)).ravel() ** 2 / square
        out = np.zeros(num_samples(X))
        for block, _, found in self._localized(X):
            query = np.repeat(np.arange(found.n_queries), found.sizes())
            total = np.bincount(query, found.weights, minlength=found.n_queries)
            square = np.bincount(query, found.weights**2, minlength=found.n_queries)
            out[block] = total**2 / np.where(square > 0, square, 1.0)
        return out

    def _stack_rows(self, X, values):
        """Return a CSR matrix of per-neighbour values over all training rows."""
        self._check_on_host("This method")
        parts = [sparse.csr_matrix((0, self._data.n_samples))]
        for _, design, found in self._localized(X):
            flat = values(design, found)
            shape = (found.n_queries, self._data.n_samples)
            parts.append(sparse.csr_matrix((flat, found.indices, found.indptr), shape=shape))
        return sparse.vstack(parts, format="csr")

    def _pull_back(self, slopes: np.ndarray, X) -> np.ndarray:
        """Return slopes with respect to the columns of X; location columns have slope 0."""
        if self.location_columns is None:
            return self._data.coordinates.pull_back(slopes, X)
        full = np.zeros((*slopes.shape[:2], self.n_features_in_))
        full[:, :, ~self._location_mask(self.n_features_in_)] = slopes
        return full


def _stack(first, second):
    """Join rows, dense or sparse."""
    if sparse.issparse(first):
        return sparse.vstack([first, second], format="csr")
    return np.ascontiguousarray(np.vstack([first, second]))
