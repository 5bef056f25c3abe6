"""Members, held-out log densities and weights, shared by both averaging estimators."""

import warnings
from numbers import Integral

import numpy as np
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import KFold, LeaveOneOut, StratifiedKFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, PolynomialFeatures
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.validation import check_is_fitted, validate_data

from vicinal._base import (
    Progress,
    check_magnitude,
    cross_fit,
    draw_seeds,
    fit_weighted,
    parallel_map,
    positive_rows,
    takes_weights,
)
from vicinal._base._compat import Interval, NamedParts, StrOptions
from vicinal._base._explanation import ExplainRowMixin
from vicinal._kernels.ensemble._weights import (
    bootstrapped_weights,
    effective_number,
    information_weights,
    stacking_weights,
)
from vicinal.ensemble._learners import fold_count, fresh_learner

_N_DIRICHLET = 1000


def _learns_nothing_from_rows(step) -> bool:
    """Tell whether a transformer does the same whatever rows it is fitted to."""
    if isinstance(step, str):
        return step in ("passthrough", "drop")
    if isinstance(step, ColumnTransformer):
        return all(_learns_nothing_from_rows(part) for _, part, _ in step.transformers)
    return type(step) in (FunctionTransformer, PolynomialFeatures)


def linear_part(member, X):
    """Return the linear model and the columns it sees, or ``None``.

    Looks through pipelines whose transformers learn nothing from the rows (selections of columns,
    functions, polynomials), so that leaving one row out leaves them alone.
    """
    if isinstance(member, Pipeline):
        steps = [step for _, step in member.steps]
        if not all(step is None or _learns_nothing_from_rows(step) for step in steps[:-1]):
            return None
        if len(steps) > 1:
            X = clone(member[:-1]).fit(X).transform(X)
        member = steps[-1]
    is_plain = type(member) is LinearRegression and not member.positive
    is_ridge = type(member) is Ridge and np.ndim(member.alpha) == 0 and not member.positive
    if not (is_plain or is_ridge) or hasattr(X, "tocsr"):
        return None
    return member, np.asarray(X, dtype=np.float64)


def count_parameters(name, model) -> int:
    """Count the coefficients that a linear member uses, its intercepts included."""
    if not hasattr(model, "coef_"):
        raise ValueError(
            f"weighting='bic' counts coefficients, and the member {name!r} ({model!r}) has no "
            "coef_; use weighting='stacking'."
        )
    return int(np.count_nonzero(model.coef_)) + int(np.count_nonzero(model.intercept_))


class BaseModelAveraging(ExplainRowMixin, NamedParts):
    """Weighted mean of unlike models.

    Parameters
    ----------
    n_jobs : int, default=None
        Fits at once, through joblib; ``None`` is one, unless ``joblib.parallel_config`` says
        otherwise. Results do not depend on it.
    random_state : int, RandomState instance or None, default=None
        Folds and bootstraps.

    Attributes
    ----------
    weights_ : ndarray of shape (n_models,)
        Weights of the members, not negative, of sum one.
    elpd_se_ : ndarray of shape (n_models,)
        Its standard error.
    n_effective_ : float
        Exponential of the entropy of the weights, the effective number of members.
    named_estimators_ : dict
        The same by name.
    """

    _parameter_constraints: dict = {
        "estimators": [list],
        "cv": [Interval(Integral, 2, None, closed="left"), StrOptions({"loo"})],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def get_params(self, deep=True):
        """Get the parameters, with those of the members by their names.

        Parameters
        ----------
        deep : bool, default=True
            Also the members and their parameters.

        Returns
        -------
        params : dict
            Names and values.
        """
        return self._get_params("estimators", deep=deep)

    def set_params(self, **params):
        """Set parameters, members by name, or ``name__parameter`` of a member.

        Parameters
        ----------
        **params : dict
            Names and values; a member set to ``"drop"`` is left out.

        Returns
        -------
        self : object
            The estimator.
        """
        self._set_params("estimators", **params)
        return self

    def _validated(self, X, y, sample_weight, **options):
        """Check training data; the members decide whether rows may be sparse."""
        X, y = validate_data(
            self,
            X,
            y,
            accept_sparse="csr" if get_tags(self).input_tags.sparse else False,
            accept_large_sparse=False,
            dtype=[np.float64, np.float32],
            **options,
        )
        weight, X, y = positive_rows(sample_weight, X, y)
        if len(y) < 2:
            raise ValueError(
                f"n_samples={len(y)} row of positive weight cannot be both fitted and held out; "
                f"{type(self).__name__} needs two or more."
            )
        return X, y, weight

    def _members(self, weight):
        """Names and copies of the members, with the weights each is handed."""
        if not all(isinstance(pair, tuple) and len(pair) == 2 for pair in self.estimators):
            raise ValueError(
                f"estimators must be a list of (name, estimator) tuples, got {self.estimators!r}."
            )
        self._validate_names([name for name, _ in self.estimators])
        pairs = [(name, member) for name, member in self.estimators if member != "drop"]
        if not pairs:
            raise ValueError(
                f"estimators={self.estimators!r} holds no member; give at least one that is not "
                "'drop'."
            )
        is_right_kind = is_classifier if is_classifier(self) else is_regressor
        for name, member in pairs:
            if not is_right_kind(member):
                kind = "classifier" if is_classifier(self) else "regressor"
                raise ValueError(f"the member {name!r} ({member!r}) is not a {kind}.")
        is_uniform = np.ptp(weight) == 0.0
        for name, member in pairs:
            if not is_uniform and not takes_weights(member):
                raise ValueError(
                    f"sample_weight was given, but the member {name!r} ({member!r}) takes none; "
                    "leave it out, or repeat rows instead of weighting them."
                )
        self._member_names = [name for name, _ in pairs]
        # One seed per member, the same in every fold, so that the order of the fits cannot matter.
        rng = check_random_state(self.random_state)
        members = [fresh_learner(member, rng) for _, member in pairs]
        return members, None if is_uniform else weight

    def _fold_list(self, y, *, classifier):
        if self.cv == "loo":
            return list(LeaveOneOut().split(y))
        seed = draw_seeds(self.random_state, 1)[0]
        kind = StratifiedKFold if classifier else KFold
        folds = kind(fold_count(self.cv, y, classifier), shuffle=True, random_state=seed)
        return list(folds.split(y, y))

    def _held_out(self, members, scorer, X, y, weight, folds):
        """Scores of every held-out row by every member, ``None`` for members that failed."""
        tests = [test for _, test in folds]
        answers = []
        with Progress(len(members), type(self).__name__, verbose=self.verbose) as progress:
            for m, member in enumerate(members):
                answers.append(self._scored(m, member, scorer, X, y, weight, tests))
                progress.advance()
        if all(answer is None for answer in answers):
            raise ValueError(
                f"every member of {type(self).__name__} failed in cross-validation; the warnings "
                "above say why."
            )
        return answers

    def _scored(self, m, member, scorer, X, y, weight, tests):
        """Scores of every held-out row by one member, ``None`` if it fails."""
        try:
            _, parts = cross_fit(
                lambda *some: fit_weighted(clone(member), *some),
                scorer,
                X,
                y,
                tests,
                sample_weight=weight,
                n_jobs=self.n_jobs,
            )
        except Exception as error:
            warnings.warn(
                f"member {m} ({member!r}) failed in a fold and gets weight 0: "
                f"{type(error).__name__}: {error}",
                UserWarning,
                stacklevel=5,
            )
            return None
        whole = np.empty((len(y), *parts.shape[1:]))
        whole[np.concatenate(tests)] = parts
        return whole

    def _weigh(self, weight, log_evidence=None, mean_weights=None):
        """Turn log densities (n_samples, n_models) into weights by the chosen rule."""
        usable = np.isfinite(self.log_densities_).all(axis=0)
        density = self.log_densities_[:, usable]
        share = weight / weight.sum()
        self.elpd_ = weight @ np.where(np.isfinite(self.log_densities_), self.log_densities_, 0.0)
        self.elpd_[~usable] = -np.inf
        spread = np.full(len(usable), np.nan)
        mean = share @ density
        spread[usable] = weight.sum() * np.sqrt(share @ (density - mean) ** 2 / weight.sum())
        self.elpd_se_ = spread
        if self.weighting == "stacking":
            found, n_iter = stacking_weights(density, share)
            if n_iter >= 20_000:
                warnings.warn(
                    "the weights of stacking did not converge in 20000 steps; members may be "
                    "near copies of one another.",
                    ConvergenceWarning,
                    stacklevel=4,
                )
        elif self.weighting == "stacking_mean":
            found = mean_weights(usable)
        elif self.weighting == "pseudo_bma":
            found = information_weights(self.elpd_[usable])
        elif self.weighting == "pseudo_bma+":
            # Gamma variables over their sum are Dirichlet; a weight of two is the row twice.
            rng = check_random_state(draw_seeds(self.random_state, 2)[1])
            draws = (g / g.sum() for g in (rng.gamma(weight) for _ in range(_N_DIRICHLET)))
            found = bootstrapped_weights(density, weight, list(draws))
        else:
            found = information_weights(log_evidence[usable])
        self.weights_ = np.zeros(len(usable))
        self.weights_[usable] = found
        self.n_effective_ = effective_number(self.weights_)

    def _fit_final(self, members, X, y, weight):
        """Fit every member on all rows; those that fail there too are an error."""
        self.estimators_ = parallel_map(
            fit_weighted,
            [(clone(member), X, y, weight) for member in members],
            n_jobs=self.n_jobs,
        )
        self.named_estimators_ = dict(zip(self._member_names, self.estimators_, strict=True))

    def _checked(self, X):
        check_is_fitted(self)
        check_magnitude("X", X)
        return validate_data(
            self,
            X,
            accept_sparse="csr" if get_tags(self).input_tags.sparse else False,
            accept_large_sparse=False,
            dtype=[np.float64, np.float32],
            reset=False,
        )

    def _weighted_members(self):
        """Members that carry weight, with it."""
        return [
            (member, w, m)
            for m, (member, w) in enumerate(zip(self.estimators_, self.weights_, strict=True))
            if w > 0.0
        ]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # Members that are not (name, estimator) tuples are named by ``fit``.
        tags.input_tags.sparse = all(
            isinstance(pair, tuple) and (pair[1] == "drop" or get_tags(pair[1]).input_tags.sparse)
            for pair in self.estimators
        )
        return tags
