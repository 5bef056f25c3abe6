"""Cleveland's LOESS."""

from numbers import Integral, Real
from typing import Any

import numpy as np

from vicinal._base import atomic_fit, documented
from vicinal._base._compat import HasMethods, Interval, Options, StrOptions
from vicinal._kernels.local._polynomials import (
    grid_twists,
    hermite_grid,
    hermite_line,
    quantile_nodes,
)
from vicinal.local._coordinates import METRICS
from vicinal.local._fits import LineFit
from vicinal.local._neighborhoods import NearestRule
from vicinal.local._regression import BaseLocalRegressor


@documented
class LoessRegressor(BaseLocalRegressor):
    r"""Local polynomial regression with tricube weights and standard errors (LOESS).

    A polynomial is fitted around every query to the share ``span`` of the rows nearest to it. The
    preset of :class:`LocalRegressor` for smoothing noisy curves and surfaces in one to four
    columns, with standard errors, confidence and prediction intervals, and robust refits against
    outliers.

    Read more in the :doc:`user guide </guide/local>`.

    Parameters
    ----------
    span : float, default=0.75
        Share of the rows in each neighbourhood. Above 1 all rows are used and the bandwidth is the
        largest distance times ``span ** (1 / n_features)``.
    degree : {0, 1, 2}, default=2
        Degree of the local polynomial.
    surface : {"direct", "interpolate"}, default="direct"
        ``"interpolate"`` fits at the nodes of a grid only and joins them by cubic blending: much
        faster for many rows, at a small error. For one or two columns.
    cell : float, default=0.2
        With ``surface="interpolate"``: rows in a grid cell, as a share of those in a neighbourhood.
        Smaller is closer to the direct surface.
    metric : str or transformer, default="euclidean"
        As for :class:`LocalRegressor`; ``"standardized"`` for columns in different units.

    Attributes
    ----------
    n_neighbors_ : int
        Number of rows in each neighbourhood.
    alpha_ : float
        0: LOESS has no penalty.
    bandwidth_ : None
        Neighbourhoods adapt to the density of the rows.
    metric_ : str or transformer
        Metric in use.
    n_nodes_ : int or None
        Number of fits behind an interpolated surface.

    See Also
    --------
    LocalRegressor : Any kernel, penalty and bandwidth.

    Notes
    -----
    With :math:`k = \lfloor n\,\mathrm{span} + 10^{-5} \rfloor` and h the distance of the k-th
    nearest row (the query itself included, if it is one) the weights are
    :math:`(1 - (d/h)^3)^3`, 1 below 0.001 h and 0 above 0.999 h; robust iterations multiply them by
    the bisquare of :math:`|r_i| / (6 \operatorname{median}|r|)` [1]_, [2]_. The fit is linear in y,
    :math:`\hat y = L y`; with :math:`\delta_1 = \operatorname{tr}(I-L)^\top(I-L)` and
    :math:`\delta_2 = \operatorname{tr}[(I-L)^\top(I-L)]^2` the noise level is
    :math:`\hat\sigma^2 = RSS/\delta_1`, the standard error :math:`\hat\sigma \|l(q)\|`, and
    intervals use the t distribution with :math:`\delta_1^2/\delta_2` degrees of freedom. They are
    those of the direct surface, and of the last weights after robust iterations.

    Values equal those of the reference code with ``surface="direct"`` and ``normalize=False``; its
    ``iterations`` counts the same reweightings.

    References
    ----------
    .. [1] W. S. Cleveland, "Robust locally weighted regression and smoothing scatterplots",
       Journal of the American Statistical Association 74 (1979), 829-836.
       :doi:`10.1080/01621459.1979.10481038`
    .. [2] W. S. Cleveland and E. Grosse, "Computational methods for local regression", Statistics
       and Computing 1 (1991), 47-62. :doi:`10.1007/BF01890836`

    Examples
    --------
    >>> import numpy as np
    >>> from vicinal.local import LoessRegressor
    >>> rng = np.random.RandomState(0)
    >>> x = np.linspace(0, 6, 200)[:, None]
    >>> y = np.sin(x).ravel() + 0.1 * rng.normal(size=200)
    >>> model = LoessRegressor(span=0.3).fit(x, y)
    >>> value, error = model.predict([[1.5]], return_std=True)
    >>> print(value.round(2), error.round(2), model.statistics().sigma.round(2))
    [0.95] [0.02] [0.1]
    """

    _parameter_constraints: dict = {
        "span": [Interval(Real, 0, None, closed="neither")],
        "degree": [Options(Integral, {0, 1, 2})],
        "robust_iterations": [Interval(Integral, 0, None, closed="left")],
        "surface": [StrOptions({"direct", "interpolate"})],
        "cell": [Interval(Real, 0, 1, closed="right")],
        "metric": [StrOptions(METRICS), callable, HasMethods(["fit", "transform"])],
        "algorithm": [StrOptions({"auto", "tree", "brute"})],
        "n_jobs": [Integral, None],
    }

    _surface: Any = None
    _accepts_sparse = False

    # What a preset fixes.
    n_neighbors = "auto"
    bandwidth = None
    kernel = "tricube"
    metric_params = None
    alpha = 0.0
    penalty = "relative"
    location_columns = None
    outside = "nearest"
    clip = False
    random_state = None
    verbose = 0

    def __init__(
        self,
        span=0.75,
        *,
        degree=2,
        robust_iterations=0,
        surface="direct",
        cell=0.2,
        metric="euclidean",
        algorithm="auto",
        n_jobs=None,
    ):
        self.span = span
        self.degree = degree
        self.robust_iterations = robust_iterations
        self.surface = surface
        self.cell = cell
        self.metric = metric
        self.algorithm = algorithm
        self.n_jobs = n_jobs

    @atomic_fit
    def fit(self, X, y, sample_weight=None):
        """Keep the rows, run robust iterations and build the surface.

        Parameters
        ----------
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets.
        """
        self.n_nodes_ = None
        self._surface = None
        self._fit_rows(X, y, sample_weight, None)
        self._build_surface()
        return self

    def _answers(self, X) -> np.ndarray:
        if self._surface is None:
            return self._model.answers(X)
        return self._from_surface(self._model.data.locate(X)[1])

    # --- rules ---

    def _size_is_open(self) -> bool:
        return False

    def _rules(self, data) -> list[NearestRule]:
        total = data.total_weight
        if self.span > 1.0:
            stretch = float(self.span ** (1.0 / data.rows.shape[1]))
            return [NearestRule(total, "tricube", loess=True, stretch=stretch)]
        count = max(1.0, float(np.floor(total * self.span + 1e-5)))
        return [NearestRule(count, "tricube", loess=True)]

    # --- interpolation ---

    def _fitted_values(self) -> np.ndarray:
        if self.surface == "direct":
            return super()._fitted_values()
        self._build_surface()
        return self._from_surface(self._model.data.rows)

    def _build_surface(self) -> None:
        if self.surface == "direct":
            return
        data = self._model.data
        rows = data.rows
        if rows.shape[1] > 2:
            raise ValueError(
                f'surface="interpolate" handles one or two columns, X has {rows.shape[1]}; use '
                'surface="direct".'
            )
        n_cells = data.total_weight / max(1.0, self.cell * self.n_neighbors_)
        if rows.shape[1] == 1:
            self._surface = self._fit_line(quantile_nodes(rows[:, 0], int(np.ceil(n_cells))))
        else:
            # Twice as many cells a side as rows alone would ask for: a grid cannot follow the
            # density as a tree can.
            side = 2 * int(np.ceil(np.sqrt(n_cells)))
            nodes = tuple(quantile_nodes(rows[:, a], side) for a in range(2))
            self._surface = self._fit_grid(nodes)

    def _fit_line(self, nodes: np.ndarray):
        if len(nodes) < 2:
            return None
        values, slopes = self._fit_nodes(nodes[:, None])
        return nodes, values, slopes[:, :, 0]

    def _fit_grid(self, nodes):
        if min(map(len, nodes)) < 2:
            return None
        points = np.stack(np.meshgrid(*nodes, indexing="ij"), axis=-1)
        values, slopes = self._fit_nodes(points.reshape(-1, 2))
        values = values.reshape(*points.shape[:2], -1)
        slopes = slopes.reshape(*values.shape, 2)
        return nodes, values, slopes, grid_twists(nodes, slopes)

    def _fit_nodes(self, nodes):
        """Return values and slopes of the direct surface at the nodes."""
        self.n_nodes_ = len(nodes)
        model = self._model
        if isinstance(model, LineFit):
            values, slopes, _, solved = model.on_line(nodes)
            if solved.all():
                return values, slopes[:, :, None]
        localizer = model.data.localizer(model.rule, model.factor)
        values, slopes = [], []
        for block in model.data.blocks(len(nodes), model.rule):
            found = localizer.neighborhoods(nodes[block])
            kernel = model.block_kernel(nodes[block], found)
            values.append(model.data.targets.smooth(found, kernel[None])[0])
            slopes.append(model.solver.slopes(model.data, nodes[block], found, model.alpha))
        return np.concatenate(values), np.concatenate(slopes)

    def _from_surface(self, design) -> np.ndarray:
        """Interpolate inside the nodes; queries outside are fitted directly."""
        if self._surface is None:
            return self._direct(design)
        nodes = self._surface[0] if design.shape[1] == 2 else (self._surface[0],)
        inside = np.all(
            [
                (design[:, a] >= axis[0]) & (design[:, a] <= axis[-1])
                for a, axis in enumerate(nodes)
            ],
            axis=0,
        )
        if design.shape[1] == 1:
            points, values, slopes = self._surface
            out = hermite_line(points, values, slopes, design[:, 0])
        else:
            axes, values, slopes, twists = self._surface
            out = hermite_grid(axes, values, slopes, twists, design)
        if not inside.all():
            out[~inside] = self._direct(np.ascontiguousarray(design[~inside]))
        return out

    def _direct(self, design) -> np.ndarray:
        return self._model.at(design)
