"""What the local classifier does behind its methods: models, scores, probabilities, choice."""

from copy import copy
from typing import Any

import numpy as np
from scipy.special import softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from vicinal._base import encode_labels, is_array_api, positive_rows
from vicinal._base._compat import num_samples
from vicinal._kernels.calibration._temperature import (
    clipped_proba,
    fit_temperature,
    temperature_proba,
)
from vicinal.local._anchors import ridge_planes
from vicinal.local._base import BaseLocal
from vicinal.local._class_models import (
    Objective,
    class_scores,
    exact_objective,
    iterative_fits,
)
from vicinal.local._classifier_on_device import ClassifierOnDevice
from vicinal.local._fits import pure_queries
from vicinal.local._generic import check_local_estimator, generic_class_scores
from vicinal.local._neighborhood import Neighborhoods, take_queries
from vicinal.local._selection import ALPHA_LADDER, MAX_ROWS, draw_rows
from vicinal.local._stacking import ClassJudge

# Newton's method costs ten times a ridge solve: fewer candidates, around those that win.
_ITERATIVE_ALPHAS = (0.01, 0.03, 0.1, 0.3, 1.0)
_ITERATIVE_NEIGHBORS = (10, 20, 40, 80, 160)


class BaseLocalClassifier(ClassifierMixin, ClassifierOnDevice, BaseLocal):
    """Private base of the local classifier."""

    # The estimator fitted around every query, when compiled code does not reproduce it.
    _generic: Any = None
    _objective: Any
    estimator: Any
    solver: str
    class_weight: Any

    # --- fit ---

    def _fit_rows(self, X, y, sample_weight, groups, classes) -> None:
        """Validate, settle everything that depends on the data, and calibrate."""
        if is_array_api(X):
            self._fit_device_rows(X, y, sample_weight, groups, classes)
            return
        X, y, weights, groups = self._validate_training(X, y, sample_weight, groups)
        check_classification_targets(y)
        weights, X, y, groups = positive_rows(weights, X, y, groups, compact=True)
        if classes is None:
            self.classes_, codes = encode_labels(y)
        else:
            self.classes_, _ = encode_labels(np.asarray(classes))
            codes = self._encode(y)
        self._codes = codes.astype(np.int64)
        self._dtype = X.dtype
        self._resolve_model()
        self._factor = self._class_factors(weights)
        self._stack = None
        self._check_anchors(X)
        if self.anchors is not None and self._objective.solver == "multinomial":
            raise ValueError(
                "Multinomial local models have no score for an absent class, which anchors would "
                'need; use solver="logistic", or anchors=None.'
            )
        if self._climbs(X):
            indicators = np.eye(len(self.classes_))[self._codes]
            self._climb(X, indicators, self._codes, self._codes, weights, groups)
            return
        self._choose(X, self._codes, self._codes, weights, groups)
        if self.anchors is None:
            self._calibrate(X, weights, groups)
        else:
            self._anchor(X, weights, groups)

    def _append_rows(self, X, y, sample_weight, groups, classes) -> None:
        """Validate further rows and take them in."""
        if classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(
                f"classes={classes!r} differ from those of the first call, {self.classes_!r}."
            )
        X, y, weights, groups = self._validate_training(
            X, y, sample_weight, groups, reset=False, min_samples=1
        )
        weights, X, y, groups = positive_rows(weights, X, y, groups, compact=True)
        codes = self._encode(y)
        joined = np.concatenate([self._codes, codes])
        if self._stack is not None:
            self._extend_stack(X, codes, weights, groups, joined)
            return
        self._add_rows(X, weights, groups)
        self._codes = joined
        self._factor = self._class_factors(self._data.sample_weight)

    def _extend_stack(self, X, codes, weights, groups, joined) -> None:
        """Give every rung the further rows; global models are fitted again."""

        def append(rung):
            rung = copy(rung)
            rung._add_rows(X, weights, groups)
            rung._codes = joined
            rung._factor = rung._class_factors(rung._data.sample_weight)
            return rung

        self._stack = self._stack.joined(
            append, X, np.eye(len(self.classes_))[codes], codes, weights
        )
        self._codes = joined
        self.rungs_ = self._stack.rungs

    def _encode(self, y) -> np.ndarray:
        """Return the codes of labels that must be among the classes."""
        codes = np.clip(np.searchsorted(self.classes_, y), 0, len(self.classes_) - 1)
        unknown = np.unique(np.asarray(y)[self.classes_[codes] != y])
        if unknown.size:
            raise ValueError(
                f"y holds labels {unknown.tolist()} that are not among the classes "
                f"{self.classes_.tolist()}; name all of them in the first call (classes=)."
            )
        return codes.astype(np.int64)

    # --- answers of every candidate ---

    def _held_out_arrays(self, X, y, sample_weight, groups) -> tuple:
        """Validate and keep what candidates need; return (X, codes, targets, weights, groups)."""
        X, y, weights, groups = self._validate_training(X, y, sample_weight, groups)
        weights = self._positive_weights(weights)
        self.classes_, codes = encode_labels(y)
        self._codes = codes.astype(np.int64)
        self._resolve_model()
        self._factor = self._class_factors(weights)
        return X, self._codes, self._codes, weights, groups

    def _n_outputs(self) -> int:
        return len(self.classes_)

    def _as_answers(self, scores, rows, weights) -> np.ndarray:
        """Return probabilities: scores of each candidate at its own best temperature."""
        codes = self._codes[rows]
        for said in scores:
            self.temperature_ = None
            if self._has_temperature():
                self.temperature_ = fit_temperature(said.astype(np.float64), codes, weights)
            said[:] = self._proba(said)
        return scores

    def _prior(self, weights) -> np.ndarray:
        counts = np.bincount(self._codes, weights, minlength=len(self.classes_))
        return counts / counts.sum()

    # --- rungs ---

    def _has_linear_rungs(self) -> bool:
        return self._objective is not None and self._objective.solver == "ridge"

    def _judge(self, rows, weights) -> ClassJudge:
        return ClassJudge(self._codes[rows], None if weights is None else weights[rows])

    def _adopt(self, rung) -> None:
        """Give a rung what it shares with the whole."""
        for name in ("classes_", "_codes", "_dtype", "_factor", "n_features_in_"):
            setattr(rung, name, getattr(self, name))
        if hasattr(self, "feature_names_in_"):
            rung.feature_names_in_ = self.feature_names_in_
        rung._resolve_model()
        rung.temperature_ = None

    def _set_temperature(self, temperature: float) -> None:
        self.temperature_ = temperature if self.calibration == "temperature" else None

    def _raw_scores(self, X) -> np.ndarray:
        return self._scores(X)

    def _raw_slopes(self, X) -> np.ndarray:
        parts = [self._class_slopes(design, found) for _, design, found in self._localized(X)]
        return self._pull_back(np.concatenate(parts), X)

    def _raw_left_out(self) -> np.ndarray:
        return self._left_out_scores(np.arange(self._data.n_samples), self._data)

    # --- models ---

    def _resolve_model(self) -> None:
        """Settle on compiled code, or on clones of an estimator it does not reproduce."""
        self._exact_alpha = None
        if self.estimator is None:
            # A class of tiny weight bends the logistic loss little: the gradient must be smaller.
            tol = 1e-11 if self.solver == "logistic" else 1e-9
            self._objective = Objective(self.solver, tol=tol)
            return
        exact = exact_objective(self.estimator, len(self.classes_))
        if exact is not None:
            self._objective, self._exact_alpha = exact
            return
        self._objective = None
        self._generic = self.estimator
        self._generic_weighted = check_local_estimator(self.estimator, self.kernel)

    def _check_compiled(self, what: str) -> None:
        if self._generic is not None:
            raise ValueError(
                f"{what} needs a built-in local model, but estimator={self._generic!r} is fitted "
                "as a black box; use solver= instead."
            )

    def _class_factors(self, weights) -> np.ndarray | None:
        if self.class_weight is None:
            return None
        y = self.classes_[self._codes]
        factors = compute_class_weight(
            self.class_weight, classes=self.classes_, y=y, sample_weight=weights
        )
        return np.asarray(factors, dtype=np.float64)[self._codes]

    def _evaluate(self, data, design, found: Neighborhoods, alphas, degree) -> np.ndarray:
        return class_scores(
            self._objective,
            data,
            self._codes,
            len(self.classes_),
            design,
            found,
            alphas,
            relative=self._is_relative(),
            degree=degree,
            n_jobs=self.n_jobs,
        )

    def _block_scores(self, design, found: Neighborhoods, method: str) -> np.ndarray:
        if self.anchors_ is not None:
            return self.anchors_.predict(design, found, self.n_jobs)
        if self._generic is None:
            settings = self._settings
            return self._evaluate(self._data, design, found, [settings.alpha], settings.degree)[0]
        return generic_class_scores(
            self._generic,
            self._data.rows,
            self._codes,
            len(self.classes_),
            design,
            found,
            method=method,
            weighted=self._generic_weighted,
            n_jobs=self.n_jobs,
        )

    def _scores(self, X, method: str | None = None) -> np.ndarray:
        """Return one score per class; the class shares where nobody is near."""
        if method is None:
            offered = ("predict_proba", "decision_function")
            method = next((m for m in offered if hasattr(self.estimator, m)), "predict")
        if self._stack is not None:
            return self._stack.scores(X)
        out = np.empty((num_samples(X), len(self.classes_)))
        if self._has_global_model():
            return self._global_scores(X)
        for block, design, found in self._localized(X):
            empty = found.sizes() == 0
            if not empty.any():
                out[block] = self._block_scores(design, found, method)
                continue
            some = np.flatnonzero(~empty)
            out[block][empty] = self._class_shares()
            if some.size:
                out[block.start + some] = self._block_scores(
                    design[some], take_queries(found, some), method
                )
        return out

    def _class_shares(self) -> np.ndarray:
        counts = np.bincount(
            self._codes, self._data.sample_weight, minlength=len(self.classes_)
        ).astype(np.float64)
        return counts / counts.sum()

    def _class_slopes(self, design, found: Neighborhoods) -> np.ndarray:
        """Return slopes of the scores, shape (n_queries, n_classes, n_columns)."""
        if self.anchors_ is not None:
            return self.anchors_.blended_slopes(found)
        if self._objective.solver == "ridge":
            indicators = np.eye(len(self.classes_))[self._codes]
            return self._slopes(design, found, indicators)
        return iterative_fits(
            self._objective,
            self._data.rows,
            self._codes,
            len(self.classes_),
            design,
            found,
            self._settings.alpha,
            relative=self._settings.relative,
            degree=self._settings.degree,
            want_slopes=True,
            n_jobs=self.n_jobs,
        )[1]

    # --- the global model ---

    def _has_global_model(self) -> bool:
        """One fit answers all queries if the model does not depend on the origin."""
        return (
            self._settings.is_global
            and self._settings.degree == 1
            and self._generic is None
            and (self._exact_alpha is None or self._objective.solver == "ridge")
        )

    def _global_scores(self, X) -> np.ndarray:
        data = self._data
        weights = np.ones(data.n_samples) if data.sample_weight is None else data.sample_weight
        weights = weights if self._factor is None else weights * self._factor
        centre = np.asarray(weights @ data.rows / weights.sum()).reshape(1, -1)
        everybody = Neighborhoods(
            np.array([0, data.n_samples]),
            np.arange(data.n_samples),
            weights,
            np.zeros(data.n_samples),
            np.full(1, np.inf),
        )
        level = self._block_scores(centre, everybody, "decision_function")
        slopes = self._class_slopes(centre, everybody)[0]
        _, design = self._locate(X)
        return level + (design - centre) @ slopes.T

    # --- anchors ---

    def _anchor(self, X, weights, groups) -> None:
        """Keep models at anchors instead of the rows, with a temperature of their own."""
        arrays = (X, self._codes, self._codes, weights, groups)
        held_out = self._drop_to_anchors(*arrays, hold_out=self._has_temperature())
        self.temperature_ = None
        if held_out is not None:
            scores, rows = held_out
            share = None if weights is None else weights[rows]
            self.temperature_ = fit_temperature(scores, self._codes[rows], share)
        self._codes = np.empty(0, dtype=np.int64)

    def _can_refit(self) -> bool:
        return self._objective.solver == "ridge"

    def _target_columns(self, rows) -> np.ndarray:
        return np.eye(len(self.classes_))[self._codes[rows]]

    def _tangents(self, data, origins, found: Neighborhoods, alphas):
        """Yield scores and slopes of the models at the origins, for each penalty."""
        shares = self._class_shares()
        values = np.tile(shares, (found.n_queries, 1))
        slopes = np.zeros((found.n_queries, len(shares), origins.shape[1]))
        near = np.flatnonzero(found.sizes() > 0)
        pure = near[pure_queries(take_queries(found, near), self._codes)]
        is_ridge = self._objective.solver == "ridge"
        if is_ridge:
            values[pure] = np.eye(len(shares))[self._codes[found.indices[found.indptr[pure]]]]
            near = np.setdiff1d(near, pure)
        some = take_queries(found, near)
        used, numbers = np.unique(some.indices, return_inverse=True)
        some = some._replace(indices=numbers)
        rows, codes = data.rows[used], self._codes[used]
        settings: dict[str, Any] = {
            "relative": self._is_relative(),
            "degree": self._settings.degree,
            "n_jobs": self.n_jobs,
        }
        for alpha in alphas:
            values, slopes = values.copy(), slopes.copy()
            at = (origins[near], some, alpha)
            if is_ridge:
                indicators = np.eye(len(shares))[codes]
                values[near], slopes[near] = ridge_planes(rows, indicators, *at, **settings)
            else:
                values[near], slopes[near] = iterative_fits(
                    self._objective, rows, codes, len(shares), *at, want_slopes=True, **settings
                )
            yield values, slopes

    # --- probabilities ---

    def _proba(self, scores: np.ndarray) -> np.ndarray:
        if self._generic is not None:
            return scores
        if self._objective.solver == "multinomial":
            return softmax(scores, axis=1)
        if self._exact_alpha is not None and self._objective.solver == "logistic":
            second = 1.0 / (1.0 + np.exp(-scores[:, 1]))
            return np.column_stack([1.0 - second, second])
        if self.temperature_ is not None:
            return temperature_proba(scores, self.temperature_)
        if self._objective.solver != "ridge":
            scores = 1.0 / (1.0 + np.exp(-scores))
        return clipped_proba(scores)

    def _calibrate(self, X, weights, groups) -> None:
        """Fit the temperature to scores of rows that their models, and metrics, did not see."""
        self.temperature_ = None
        if not self._has_temperature():
            return
        rows = draw_rows(self._data.n_samples, self.random_state, MAX_ROWS)
        arrays = (X, self._codes, self._codes, weights, groups)
        metric = self.metric if hasattr(self.metric, "transform") else self.metric_
        scores, used = [], []
        for data, some in self._views(metric, rows, arrays, fitted=self._data):
            scores.append(self._left_out_scores(some, data))
            used.append(some)
        order = np.concatenate(used)
        share = None if weights is None else weights[order]
        self.temperature_ = fit_temperature(np.concatenate(scores), self._codes[order], share)

    def _has_temperature(self) -> bool:
        if self._generic is not None or self.calibration is None:
            return False
        # Logistic models of an estimator's own come with their probabilities.
        is_own = self._exact_alpha is not None
        return not (is_own and self._objective.solver in ("logistic", "multinomial"))

    def _left_out_scores(self, rows, data) -> np.ndarray:
        scores = np.empty((len(rows), len(self.classes_)))
        settings = self._settings
        for block, design, found in self._localized_training(rows, leave_out=True, data=data):
            empty = np.flatnonzero(found.sizes() == 0)
            scores[block] = self._evaluate(data, design, found, [settings.alpha], settings.degree)[
                0
            ]
            scores[block.start + empty] = self._class_shares()
        return scores

    # --- choice ---

    def _criterion(self, data, alphas, degree):
        """Error rate of held-out labels."""
        codes = self._codes

        def evaluate(design, found):
            return self._evaluate(data, design, found, alphas, degree)

        def loss(scores, rows):
            wrong = (scores.argmax(axis=1) != codes[rows]).astype(np.float64)
            return wrong if data.sample_weight is None else wrong * data.sample_weight[rows]

        return evaluate, loss

    def _is_relative(self) -> bool:
        return self._exact_alpha is None and self.penalty == "relative"

    def _size_is_open(self) -> bool:
        # A black box is too slow to compare sizes with: it takes the good fixed value.
        return self._generic is None and super()._size_is_open()

    def _metric_candidates(self, X, codes, total_weight: float) -> list:
        if self._generic is not None and isinstance(self.metric, str) and self.metric == "auto":
            return ["euclidean"]
        return super()._metric_candidates(X, codes, total_weight)

    def _neighbor_candidates(self) -> tuple[int, ...]:
        if self._objective is not None and self._objective.solver != "ridge":
            return _ITERATIVE_NEIGHBORS
        return super()._neighbor_candidates()

    def _alpha_candidates(self) -> list[float]:
        if self._exact_alpha is not None:
            return [self._exact_alpha]
        if self._generic is not None:
            return [0.0]
        if self.alpha != "auto":
            return [float(self.alpha)]
        return list(ALPHA_LADDER if self.solver == "ridge" else _ITERATIVE_ALPHAS)
