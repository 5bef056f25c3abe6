"""What the fusions share: local models on subspaces, out-of-fold scores, and a model on top."""

import functools
from numbers import Integral, Real

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin, clone, is_classifier
from sklearn.model_selection import check_cv
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted, validate_data

from vicinal._base import (
    Progress,
    check_magnitude,
    cross_fit,
    documented,
    draw_seeds,
    fit_weighted,
    parallel_map,
    positive_rows,
    seeded_clone,
    takes_weights,
)
from vicinal._base._compat import HasMethods, Interval, StrOptions
from vicinal._base._explanation import ExplainRowMixin
from vicinal.subspace._explain import fusion_sections
from vicinal.subspace._feature_space_decomposition import FeatureSpaceDecomposition

METHODS = ("random", "principal", "discriminant", "cholesky", "approximate")
_FULL = "all features"

# A local model is kept as a tuple (decomposition, index of its subspace, fitted estimator), the
# decomposition being None for all features: plain containers are what persistence understands.


def features_of(decomposition, index, X):
    """Return the subspace of valid rows; all columns without a decomposition."""
    if decomposition is None:
        return X
    if type(decomposition) is FeatureSpaceDecomposition:
        return decomposition._transform_valid(X, index)
    return decomposition.transform_subspace(X, index)


def _fit_view(estimator, decomposition, index, X, y, weights):
    fitted = fit_weighted(estimator, features_of(decomposition, index, X), y, weights)
    return decomposition, index, fitted


def _fit_fold(estimator, decomposition, relearn, index, X, y, weights):
    """Fit outside a fold; a decomposition that saw y is learned there too."""
    if relearn:
        decomposition = clone(decomposition).fit(X, y, weights)
    return _fit_view(clone(estimator), decomposition, index, X, y, weights)


@documented
class BaseSubspaceFusion(ExplainRowMixin, TransformerMixin, BaseEstimator):
    """Local models on subspaces and a fusion of their scores.

    Parameters
    ----------
    n_subspaces : int, default=4
        Subspaces per named decomposition.
    subspace_size : int, float or None, default=0.75
        Columns per subspace, for the methods that draw subsets; ``None`` partitions instead.
    n_blocks : int, default=2
        Blocks per partition, for the methods that partition; ``n_subspaces / n_blocks``
        partitions are made.
    n_jobs : int, default=None
        Subspaces and folds at once, through joblib; ``None`` is one, unless
        ``joblib.parallel_config`` says otherwise. Results do not depend on it.
    verbose : int, default=0
        Shows progress.

    Attributes
    ----------
    decompositions_ : list of FeatureSpaceDecomposition
        Fitted on all rows.
    views_ : list of lists of tuple
        For every subspace its models, each with its decomposition (or ``None``), the number of the
        subspace in it, and the estimator; several without ``refit``.
    score_mask_ : ndarray of bool
        Columns of scores that varied in training, which the fusion sees.

    References
    ----------
    .. [1] Q. Guo, B.-W. Chen, F. Jiang, X. Ji and S.-Y. Kung, "Efficient divide-and-conquer
       classification based on feature-space decomposition", arXiv:1501.07584, 2015.
    """

    _parameter_constraints: dict = {
        "decompositions": ["array-like"],
        "estimator": [HasMethods(["fit", "predict"]), None],
        "fusion_estimator": [HasMethods(["fit", "predict"]), None],
        "n_subspaces": [Interval(Integral, 1, None, closed="left")],
        "subspace_size": [
            Interval(Integral, 1, None, closed="left"),
            Interval(Real, 0, 1, closed="right"),
            None,
        ],
        "n_blocks": [Interval(Integral, 1, None, closed="left")],
        "cv": ["cv_object", StrOptions({"in-sample"})],
        "include_full": ["boolean"],
        "refit": ["boolean"],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    # --- fitting ----------------------------------------------------------------------------------

    def _validate(self, X, y, sample_weight, **options):
        """Return rows of positive weight; weights stay ``None`` when none were given."""
        X, y = validate_data(
            self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], **options
        )
        if sample_weight is None:
            return X, y, None
        weights, X, y = positive_rows(sample_weight, X, y)
        return X, y, weights

    def _fit_locals(self, X, y, weights, rng):
        """Learn decompositions and local models; returns the training scores, (n, columns)."""
        self._check_weights_are_taken(weights)
        specs = self._decomposition_specs(rng)
        self.decompositions_ = [spec.fit(X, y, weights) for spec in specs]
        self._set_places()
        template = self._local_template(X)
        seeds = draw_seeds(rng, len(self._places))
        locals_ = [seeded_clone(template, seed) for seed in seeds]
        if isinstance(self.cv, str):
            return self._in_sample(X, y, weights, locals_)
        return self._out_of_fold(X, y, weights, locals_, draw_seeds(rng, 1)[0])

    def _in_sample(self, X, y, weights, locals_):
        if not self.refit:
            raise ValueError(
                "refit=False keeps the models of the folds, and cv='in-sample' makes none; use "
                "refit=True or a number of folds."
            )
        self.views_ = [[view] for view in self._fit_views(X, y, weights, locals_)]
        return np.hstack([self._local_scores(views[0], X) for views in self.views_])

    def _out_of_fold(self, X, y, weights, locals_, seed):
        splitter = check_cv(self.cv, y, classifier=is_classifier(self))
        if isinstance(self.cv, Integral) or self.cv is None:
            splitter = type(splitter)(splitter.n_splits, shuffle=True, random_state=seed)
        tests = [test for _, test in splitter.split(X, y)]
        rows = np.concatenate(tests)
        if len(np.unique(rows)) < X.shape[0]:
            raise ValueError(
                f"cv={self.cv!r} leaves some rows out of every test fold; fusion needs a partition "
                "of the rows, such as KFold."
            )
        label = f"{type(self).__name__} folds"
        views, blocks = [], []
        with Progress(len(locals_), label, verbose=self.verbose) as progress:
            for (number, index), local in zip(self._places, locals_, strict=True):
                place = self._decomposition_at(number)
                models, scores = cross_fit(
                    functools.partial(_fit_fold, local, *place, index),
                    self._local_scores,
                    X,
                    y,
                    tests,
                    sample_weight=weights,
                    keep_models=not self.refit,
                    n_jobs=self.n_jobs,
                    prefer="threads",
                )
                block = np.empty((X.shape[0], scores.shape[1]))
                block[rows] = scores
                blocks.append(block)
                views.append(models)
                progress.advance()
        if self.refit:
            views = [[view] for view in self._fit_views(X, y, weights, locals_)]
        self.views_ = views
        return np.hstack(blocks)

    def _fit_views(self, X, y, weights, locals_):
        """Fit every local model on all rows."""
        return parallel_map(
            _fit_view,
            [
                (local, self._decomposition_at(number)[0], index, X, y, weights)
                for (number, index), local in zip(self._places, locals_, strict=True)
            ],
            n_jobs=self.n_jobs,
            prefer="threads",
            label=f"{type(self).__name__} subspaces",
            verbose=self.verbose,
        )

    def _fit_fusion(self, scores, y, weights, dtype, rng):
        """Standardise the scores and fit the model on top of them."""
        total = np.ones(len(scores)) if weights is None else weights
        mean = np.average(scores, axis=0, weights=total)
        scale = np.sqrt(np.average((scores - mean) ** 2, axis=0, weights=total))
        self._set_score_scale(mean, scale)
        R = ((scores[:, self.score_mask_] - self.score_mean_) / self.score_scale_).astype(dtype)
        fusion = seeded_clone(self._fusion_template(R, y, total), draw_seeds(rng, 1)[0])
        self.fusion_estimator_ = fit_weighted(fusion, R, y, weights)

    # --- the parts --------------------------------------------------------------------------------

    def _set_places(self):
        """List the local models: decomposition and subspace, or all features."""
        self._places = [
            (number, index)
            for number, decomposition in enumerate(self.decompositions_)
            for index in range(decomposition.n_subspaces_)
        ]
        if self.include_full:
            self._places.append((-1, 0))
        self.subspace_names_ = self._name_places()

    def _set_score_scale(self, mean, scale):
        """Keep the scores that vary, and how to standardise them."""
        self.score_mask_ = scale > 1e-12 * np.maximum(1.0, np.abs(mean))
        if not self.score_mask_.any():
            raise ValueError(
                "every local model gives the same score to all rows, so there is nothing to fuse; "
                "check the local estimator and the scale of X."
            )
        self.score_mean_, self.score_scale_ = mean[self.score_mask_], scale[self.score_mask_]

    def _decomposition_specs(self, rng):
        """Unfitted decompositions with seeds, from names and instances."""
        specs = []
        for spec in self.decompositions:
            if isinstance(spec, str):
                self._check_method(spec)
                spec = FeatureSpaceDecomposition(
                    spec,
                    n_subspaces=self.n_subspaces,
                    subspace_size=self.subspace_size,
                    n_blocks=self.n_blocks,
                    n_repeats=-(-self.n_subspaces // self.n_blocks),
                )
            elif not (hasattr(spec, "fit") and hasattr(spec, "transform_subspace")):
                raise ValueError(
                    f"decompositions holds {spec!r}; give names among {METHODS} or objects with "
                    "fit and transform_subspace."
                )
            specs.append(seeded_clone(spec, draw_seeds(rng, 1)[0]))
        if not specs and not self.include_full:
            raise ValueError(
                "decompositions is empty and include_full=False, so no local model is left; name "
                "a decomposition."
            )
        return specs

    def _check_method(self, name):
        if name not in METHODS:
            raise ValueError(f"decomposition {name!r} is unknown; choose among {METHODS}.")

    def _decomposition_at(self, number):
        """Return the decomposition, and whether folds must learn it anew (it saw y)."""
        if number < 0:
            return None, False
        decomposition = self.decompositions_[number]
        return decomposition, bool(get_tags(decomposition).target_tags.required)

    def _name_places(self):
        names = []
        for number, index in self._places:
            if number < 0:
                names.append(_FULL)
                continue
            spec = self.decompositions[number]
            label = spec if isinstance(spec, str) else getattr(spec, "method", f"part {number}")
            names.append(f"{label} {index}")
        return names

    def _check_weights_are_taken(self, weights):
        if weights is None:
            return
        for name in ("estimator", "fusion_estimator"):
            model = getattr(self, name)
            if model is not None and not takes_weights(model):
                raise ValueError(
                    f"sample_weight was given, but {name}={model!r} takes none; leave "
                    f"sample_weight out or choose another {name}."
                )

    @staticmethod
    def _wants_linear(X):
        return sp.issparse(X) or X.shape[1] > 500

    # --- predicting -------------------------------------------------------------------------------

    def transform(self, X):
        """Return the standardised scores of the local models, which the fusion sees.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Queries.

        Returns
        -------
        R : ndarray of shape (n_samples, n_scores)
            One column per local model, or one per local model and class; columns that never
            varied in training are left out.
        """
        return self._fusion_input(X)

    def get_feature_names_out(self, input_features=None):
        """Return a name for every column that ``transform`` gives.

        Parameters
        ----------
        input_features : None
            Ignored; the columns are scores, not features.

        Returns
        -------
        names : ndarray of str
            The subspace, with the class where there is a column for each.
        """
        check_is_fitted(self)
        width = len(self.score_mask_) // len(self.views_)
        names = [
            name if width == 1 else f"{name}, {label}"
            for name in self.subspace_names_
            for label in (self.classes_ if width > 1 else [None])
        ]
        return np.array(names, dtype=object)[self.score_mask_]

    def _fusion_input(self, X):
        """``transform``, always as an array."""
        X = self._validate_queries(X)
        R = (self._all_scores(X)[:, self.score_mask_] - self.score_mean_) / self.score_scale_
        return R.astype(X.dtype, copy=False)

    def _validate_queries(self, X):
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, accept_sparse="csr", dtype=[np.float64, np.float32])
        check_magnitude("X", X)
        return X

    def _all_scores(self, X):
        """Raw scores of all local models, side by side."""
        tasks = [(views, X) for views in self.views_]
        return np.hstack(
            parallel_map(self._mean_scores, tasks, n_jobs=self.n_jobs, prefer="threads")
        )

    def _mean_scores(self, views, X):
        return sum(self._local_scores(view, X) for view in views) / len(views)

    @property
    def estimators_(self):
        """The fitted local models, one per subspace, or one list of them without ``refit``."""
        if not hasattr(self, "views_"):
            raise AttributeError(f"{type(self).__name__} has no estimators_ before fit.")
        if self.refit:
            return [views[0][2] for views in self.views_]
        return [[estimator for _, _, estimator in views] for views in self.views_]

    def _sections(self, X, columns):
        return fusion_sections(self, X)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = (
            self.estimator is None or get_tags(self.estimator).input_tags.sparse
        )
        return tags
