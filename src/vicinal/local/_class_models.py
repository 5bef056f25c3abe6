"""Local classifiers in compiled form: scores and slopes of a block of neighbourhoods."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.svm import LinearSVC

from vicinal._base import saved
from vicinal._kernels.local._classifiers import local_classifiers
from vicinal._kernels.local._workspace import (
    LOGISTIC,
    MULTINOMIAL,
    SQUARED,
    SQUARED_HINGE,
    FitObjective,
    Fits,
    Queries,
)
from vicinal.local._data import LocalData, smoothers
from vicinal.local._fits import over_queries, pure_queries, smooth_labels
from vicinal.local._neighborhood import Neighborhoods
from vicinal.local._sparse import dense_blocks

_LOSSES = {
    "ridge": SQUARED,
    "squared_hinge": SQUARED_HINGE,
    "logistic": LOGISTIC,
    "multinomial": MULTINOMIAL,
}


@saved()
@dataclass(frozen=True)
class Objective:
    """Loss and penalties of a local classifier.

    ``C`` multiplies the loss; the intercept's penalty is ``rho + rho_per_weight * sum(w)``.
    """

    solver: str = "ridge"
    C: float = 1.0
    rho: float = 0.0
    rho_per_weight: float = 1e-8
    tol: float = 1e-9
    max_iter: int = 100

    def compiled(self, alpha: float, relative: bool) -> FitObjective:
        """Return what compiled code reads; the multinomial model has absolute penalties only.

        Every number has one type, whatever the user gave: another type would be compiled anew.
        """
        return FitObjective(
            _LOSSES[self.solver],
            float(alpha),
            bool(relative) and self.solver != "multinomial",
            float(self.C),
            float(self.rho),
            float(self.rho_per_weight),
            float(self.tol),
            int(self.max_iter),
        )


def exact_objective(estimator, n_classes: int = 2) -> tuple[Objective, float] | None:
    """Return the objective and penalty of an estimator that compiled code reproduces.

    By exact type only: a subclass may differ. Beyond two classes ``LogisticRegression`` is one
    multinomial model, not one against the rest.
    """
    if getattr(estimator, "class_weight", None) is not None or not getattr(
        estimator, "fit_intercept", False
    ):
        return None
    if type(estimator) is RidgeClassifier and not estimator.positive:
        return Objective("ridge"), float(estimator.alpha)
    if type(estimator) is LinearSVC and _is_plain_svc(estimator):
        scale = 1.0 / estimator.intercept_scaling**2
        return Objective("squared_hinge", C=2.0 * estimator.C, rho=scale, rho_per_weight=0.0), 1.0
    if type(estimator) is LogisticRegression and _is_plain_logistic(estimator):
        solver = "logistic" if n_classes == 2 else "multinomial"
        return Objective(solver, C=estimator.C, rho_per_weight=0.0, tol=1e-11), 1.0
    return None


def _is_plain_svc(estimator: LinearSVC) -> bool:
    return (
        estimator.penalty == "l2"
        and estimator.loss == "squared_hinge"
        and estimator.multi_class == "ovr"
    )


def _is_plain_logistic(estimator: LogisticRegression) -> bool:
    params = estimator.get_params()
    return (
        params.get("penalty", "deprecated") in ("deprecated", "l2")
        and params.get("l1_ratio") in (None, 0, 0.0)
        and bool(np.isfinite(estimator.C))
        and estimator.solver != "liblinear"
    )


def class_scores(
    objective: Objective,
    data: LocalData,
    codes: np.ndarray,
    n_classes: int,
    design,
    found: Neighborhoods,
    alphas,
    *,
    relative: bool,
    degree: int,
    n_jobs: int | None,
) -> np.ndarray:
    """Return scores at the queries, shape (n_alphas, n_queries, n_classes)."""
    if objective.solver == "ridge":
        flat = smoothers(
            data,
            design,
            found,
            alphas,
            relative=relative,
            degree=degree,
            skip=pure_queries(found, codes),
            n_jobs=n_jobs,
        )
        return np.stack([smooth_labels(found, smoother, codes, n_classes) for smoother in flat])
    settings: dict[str, Any] = {"relative": relative, "degree": degree, "n_jobs": n_jobs}
    return np.stack(
        [
            iterative_fits(
                objective,
                data.rows,
                codes,
                n_classes,
                design,
                found,
                alpha,
                want_slopes=False,
                **settings,
            )[0]
            for alpha in alphas
        ]
    )


def iterative_fits(
    objective: Objective,
    rows,
    codes,
    n_classes: int,
    design,
    found: Neighborhoods,
    alpha: float,
    *,
    relative: bool,
    degree: int,
    want_slopes: bool,
    n_jobs: int | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return scores (n_queries, n_classes) and slopes (n_queries, n_classes, n_features)."""
    scores = np.full((found.n_queries, n_classes), np.nan)
    width = rows.shape[1] if want_slopes else 0
    slopes = np.zeros((found.n_queries, n_classes, width))
    converged = np.ones(found.n_queries, dtype=bool)
    if sparse.issparse(rows):
        for t, block, query, used, one, scaled in dense_blocks(
            rows, design, found, alpha, relative, degree
        ):
            some = codes[found.indices[found.indptr[t] : found.indptr[t + 1]]]
            part = np.zeros((1, n_classes, block.shape[1] if want_slopes else 0))
            where = slice(t, t + 1)
            queries = Queries(block, query, one.indptr, one.indices, one.weights, degree)
            out = Fits(scores[where], part, converged[where])
            local_classifiers(queries, some, objective.compiled(scaled, relative), out)
            if want_slopes:
                slopes[t][:, used] = part[0]
    else:

        def solve(some):
            indptr = found.indptr[some.start : some.stop + 1]
            queries = Queries(rows, design[some], indptr, found.indices, found.weights, degree)
            out = Fits(scores[some], slopes[some], converged[some])
            local_classifiers(queries, codes, objective.compiled(alpha, relative), out)

        over_queries(solve, found.n_queries, n_jobs)
    warn_unconverged(objective, int((~converged).sum()), len(converged))
    return scores, slopes


def warn_unconverged(objective: Objective, n_failed: int, n_fits: int) -> None:
    """Warn if some of the fits stopped early."""
    if n_failed:
        warnings.warn(
            f"{n_failed} of {n_fits} local {objective.solver} fits stopped after "
            f"{objective.max_iter} iterations without meeting the tolerance; raise alpha or the "
            "number of neighbours.",
            ConvergenceWarning,
            stacklevel=2,
        )
