"""Ridge regression with the truncated RBF kernel."""

import array_api_compat as compat
import numpy as np
from sklearn.base import RegressorMixin

from vicinal._base import (
    atomic_fit,
    atomic_fit_blocks,
    documented,
    is_array_api,
    namespace,
    saved,
)
from vicinal.subspace._base import BaseTruncatedRBF
from vicinal.subspace._truncated_rbf_blocks import fit_regressor_blocks


def _device_targets(y, X):
    """Return numeric targets beside ``X`` in double precision, as given in shape."""
    xp = namespace(X)
    Y = xp.asarray(y, dtype=xp.float64, device=compat.device(X))
    if Y.ndim not in (1, 2):
        raise ValueError(f"y should be a 1d or 2d array, got one of shape {tuple(Y.shape)}.")
    if not bool(xp.all(xp.isfinite(Y))):
        raise ValueError("y contains NaN or infinity; impute or drop those rows first.")
    return Y


@saved(mean_="p", primal_coef_="j t", intercept_="t")
@documented
class TruncatedRBFRegressor(RegressorMixin, BaseTruncatedRBF):
    r"""Kernel ridge regression with the truncated RBF kernel, at a cost linear in the rows.

    The model is linear in the ``J = C(n_features + order, order)`` monomials of
    :class:`TruncatedRBFFeatures`, which are made block by block and never stored; with more
    monomials than rows the equivalent dual problem is solved instead.

    Read more in the :doc:`user guide </guide/subspace>`.

    Parameters
    ----------
    solver : {"auto", "primal", "dual"}, default="auto"
        ``"primal"`` solves ``J`` equations, ``"dual"`` one per row and keeps the rows for
        prediction; ``"auto"`` takes the smaller system.

    See Also
    --------
    TruncatedRBFClassifier : The same for classes.
    sklearn.kernel_ridge.KernelRidge : Ridge regression with any kernel, in the dual only.

    Notes
    -----
    With :math:`P` the features less their weighted mean, :math:`y` the target less its own, and
    :math:`D` the weights [1]_:

    .. math::

        u = (P^\top D P + \alpha I)^{-1} P^\top D y
        \quad\text{or}\quad
        u = P^\top D^{1/2} (D^{1/2} P P^\top D^{1/2} + \alpha I)^{-1} D^{1/2} y .

    Torch tensors and other array-API arrays are fitted where they are, and the answers stay there.

    Examples
    --------
    >>> import numpy as np
    >>> from vicinal.subspace import TruncatedRBFRegressor
    >>> X = np.random.RandomState(0).uniform(-1, 1, size=(500, 2))
    >>> y = np.sin(2 * X[:, 0]) * X[:, 1]
    >>> for order in (1, 3, 5):
    ...     model = TruncatedRBFRegressor(order, gamma=0.3, alpha=1e-3).fit(X, y)
    ...     print(order, round(model.score(X, y), 3))
    1 0.005
    3 0.976
    5 1.0
    """

    _parameter_constraints: dict = {**BaseTruncatedRBF._parameter_constraints}

    def __init__(
        self,
        order=2,
        *,
        gamma="scale",
        alpha=0.01,
        center=True,
        solver="auto",
        max_features=20_000,
    ):
        self.order = order
        self.gamma = gamma
        self.alpha = alpha
        self.center = center
        self.solver = solver
        self.max_features = max_features

    @atomic_fit
    def fit(self, X, y, sample_weight=None):
        """Fit the ridge.

        Parameters
        ----------
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets.
        """
        X, y, weights = self._training(X, y, sample_weight, multi_output=True, y_numeric=True)
        Y = _device_targets(y, X) if is_array_api(X) else y.astype(np.float64)
        self._is_flat = Y.ndim == 1
        Z = self._learn_map(X, weights)
        dtype = Z.dtype if is_array_api(X) else X.dtype
        self._fit_ridge(Z, Y[:, None] if self._is_flat else Y, weights, dtype)
        return self

    @atomic_fit_blocks
    def fit_blocks(self, blocks):
        """Fit to a table in blocks of rows, from sums over them: two passes, equal to memory."""
        fit_regressor_blocks(self, blocks)

    def predict(self, X):
        """Predict the target."""
        scores = self._scores(X)
        return scores[:, 0] if self._is_flat else scores

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
