"""What both mixtures share: members tried on rows held out, weighed, and fitted to all rows."""

import time
import warnings
from abc import ABCMeta, abstractmethod
from collections.abc import Iterator
from html import escape
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.utils import check_consistent_length, check_random_state, estimator_html_repr
from sklearn.utils.validation import check_is_fitted, validate_data

from vicinal._base import (
    Progress,
    Survey,
    as_numpy,
    atomic_fit_blocks,
    check_groups,
    check_labels,
    check_magnitude,
    documented,
    draw_seeds,
    fit_weighted,
    import_optional,
    is_array_api,
    is_on_device,
    positive_rows,
    survey,
    thread_map,
    validate_array_api,
)
from vicinal._base._compat import (
    HasMethods,
    Interval,
    StrOptions,
    num_samples,
    rows_of,
    threadpool_controller,
)
from vicinal._base._explanation import ExplainRowMixin, column_names, member_section
from vicinal._conformal import HeldOutRows
from vicinal._kernels.ensemble._pool import mean_and_error
from vicinal.auto._blocks import draw_sample, fit_to_blocks
from vicinal.auto._default_members import KINDS, Shape, Spec, default_kinds
from vicinal.auto._explain import is_local, neighbor_section
from vicinal.auto._forms import (
    Forms,
    by_name,
    is_mixed_frame,
    plain_targets,
    refuse_target_among,
)
from vicinal.auto._member import Member
from vicinal.auto._scorers import Scorer
from vicinal.auto._search import (
    Pool,
    Rows,
    Search,
    Table,
    Trial,
    choose_pool,
    draw_folds,
    draw_rows,
    draw_table,
    nested_pool,
    search_deadline,
)
from vicinal.auto._training_rows import TrainingRows, spread_rows

# Rows answered to tell how long an answer takes.
_TIMED_ROWS = 100
# Training rows that a row is compared with.
_MOST_COMPARED = 200


@documented
class BaseAuto(ExplainRowMixin, BaseEstimator, metaclass=ABCMeta):
    """Mixture of members by their held-out answers.

    Parameters
    ----------
    max_fit_time : float, default=None
        Seconds for the whole fit: a member whose projected time does not fit is left out. ``None``
        sets no limit.
    cv : int, default=5
        Folds, drawn twice on tables of fewer than 1,000 rows.
    n_jobs : int, default=None
        Threads; ``None`` uses every core. Results do not depend on it.
    random_state : int, RandomState instance or None, default=None
        Folds, rows on which members are tried (at most 30,000) and compared (at most 3,000),
        forests.

    Attributes
    ----------
    members_ : list of Member
        Everything that was tried, heaviest first: ``name``, ``weight``, ``reason`` (why it was left
        out), ``loss``, ``params``, ``trial_time``, ``fit_time``, ``predict_time``, ``n_rows``,
        ``estimator``.
    weights_ : ndarray of shape (n_members,)
        Their weights, of sum one.
    cv_results_ : dict of ndarray
        Every setting that was tried: ``member``, ``params``, ``loss``.
    """

    _parameter_constraints: dict = {
        "members": [StrOptions({"default"}), list],
        "max_fit_time": [Interval(Real, 0, None, closed="neither"), None],
        "cv": [Interval(Integral, 2, None, closed="left")],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    @abstractmethod
    def __init__(self, members, *, max_fit_time, cv, n_jobs, random_state, verbose):
        self.members = members
        self.max_fit_time = max_fit_time
        self.cv = cv
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # --- what classes and numbers differ in ---

    @property
    @abstractmethod
    def _method(self) -> str:
        """Name of the method that members answer with."""

    @abstractmethod
    def _checked_targets(self, y) -> np.ndarray:
        """Return the targets of a frame, whose rows are checked by its encoder."""

    @abstractmethod
    def _scorer(self, y, entries, weight) -> Scorer:
        """Return the judge of answers to rows."""

    # --- fitting ---

    @atomic_fit_blocks
    def fit_blocks(self, blocks):
        """Fit the mixture to a table in blocks of rows.

        Up to 100,000 rows are fitted as in memory. Of more, a sample of that size chooses and
        weighs; members that learn from blocks (linear ones, and those given that have a method
        ``fit_blocks``) are then fitted to all rows, the others know the sample: ``n_rows`` of each
        member says so. ``held_out_`` has a row for each of the sample, in the order of the table.

        Parameters
        ----------
        blocks : Blocks
            The table, as :func:`vicinal.distributed.fit` hands it over.

        Returns
        -------
        self : object
            Fitted estimator.
        """
        blocks, found = survey(blocks, has_classes=is_classifier(self))
        rows, places = draw_sample(blocks, found, self.random_state)
        self.fit(rows.X, rows.y, sample_weight=rows.sample_weight)
        self._places = places[self._places]
        if len(rows) < found.n_rows:
            factors = self._class_factors(found)
            for member in self.members_:
                if member.weight > 0.0:
                    fit_to_blocks(member, blocks, found, self._forms, factors)

    def _class_factors(self, found: Survey) -> np.ndarray | None:
        """Return the factor of every class on the weights of its rows, ``None`` for ones."""
        return None

    def _validated(self, X, y, **options):
        """Return rows as an array, a sparse matrix or a frame, which may have gaps, and targets."""
        refuse_target_among(X, y)
        y = as_numpy(y) if is_array_api(y) else plain_targets(y)
        if isinstance(y, np.ndarray) and y.ndim == 1:
            check_labels(y)
        if is_mixed_frame(X):
            validate_data(self, X, skip_check_array=True)
            check_consistent_length(X, y)
            return X, self._checked_targets(y)
        if is_on_device(X):
            X = validate_array_api(self, X, reset=True)
            check_consistent_length(X, y)
            return X, self._checked_targets(y)
        X = as_numpy(X) if is_array_api(X) else X
        return validate_data(
            self,
            X,
            y,
            accept_sparse="csr",
            accept_large_sparse=False,
            dtype=[np.float64, np.float32],
            ensure_all_finite="allow-nan",
            **options,
        )

    def _weighted_rows(self, X, y, sample_weight, groups) -> tuple:
        """Return X, y, weights and groups of the rows that weigh something, and their places."""
        n_rows = num_samples(X)
        groups = check_groups(groups, n_rows)
        weight, rows, y, groups = positive_rows(sample_weight, np.arange(n_rows), y, groups)
        self._n_rows = n_rows
        return (X if len(rows) == n_rows else rows_of(X, rows)), y, weight, groups, rows

    def _learn(self, X, y, rows, counts, groups, codes, factors=1.0) -> None:
        """Try the members, weigh them and fit those that carry weight.

        ``rows`` are the places of X and y in the table given, which had rows of weight zero too;
        ``counts`` the weights given, ``factors`` those of the classes.
        """
        self._check_members()
        deadline = search_deadline(self.max_fit_time)
        fold_seed, row_seed, seed = draw_seeds(check_random_state(self.random_state), 3)
        self._forms, self._places, self._targets = Forms(), rows, y
        weight = counts * factors
        is_even = np.ptp(weight) == 0.0
        forms = self._forms.fit_transform(X, y, groups)
        whole = Rows(forms, y, None if is_even else weight, groups)
        check_magnitude("X", whole.forms["distance"])  # a column of a frame among words, too
        self._on_device = is_on_device(X)
        tried = np.arange(len(y)) if self._on_device else draw_table(len(y), codes, row_seed)
        part = whole.take(tried)
        tried_codes = None if codes is None else codes[tried]
        folds, n_draws = draw_folds(len(tried), tried_codes, part.groups, self.cv, fold_seed)
        drawn = draw_rows(len(tried), whole.n_columns, row_seed)
        table = Table(*part, folds, n_draws, drawn, growth=len(y) / len(tried))
        scorer = self._scorer(y if codes is None else codes, tried[table.entries], weight)
        # A device is filled by one member at a time, and cannot record the steps of two.
        n_jobs = 1 if self._on_device else self.n_jobs
        search = Search(table, scorer, self._method, deadline, n_jobs, seed)
        self._try_members(search, self._shape(whole, codes))
        trials = search.kept()
        if not trials:
            reasons = "; ".join(f"{t.spec.name}: {t.reason}" for t in search.trials)
            reasons = reasons or f"no kind of members={self.members!r} is tried on such a table"
            raise ValueError(f"No member of {type(self).__name__} could be judged: {reasons}.")
        self._warn_of_left_out(search)
        everything = np.arange(len(table.entries))
        pool = choose_pool(trials, scorer, everything, table.entries)
        answers = nested_pool(trials, scorer, table)
        error, self.score_error_ = mean_and_error(
            scorer.errors(answers),
            scorer.share,
            table.units[table.entries],
            n_learned=table.n_units_learned,
            step=scorer.error_step,
        )
        self.score_ = 1.0 - error
        self._keep_answers(answers, rows[tried[table.entries]])
        targets = y.reshape(len(y), -1) if codes is None else codes
        drawn = tried[drawn]
        self._answered = HeldOutRows(
            as_numpy(whole.forms["distance"][drawn]),
            self.held_out_[rows[drawn]],
            targets[drawn],
            counts[drawn],
            self.n_jobs,
            groups=None if groups is None else groups[drawn],
        )
        self._keep_members(search, pool, whole)
        self._training_rows = None
        if not self._on_device:
            # Neighbours are shown with their values; without any, some rows to compare with do.
            has_neighbors = any(is_local(member.estimator) for member in self.members_)
            kept = X if has_neighbors else rows_of(X, spread_rows(num_samples(X), _MOST_COMPARED))
            self._training_rows = TrainingRows(kept, column_names(X, self))

    def _check_members(self) -> None:
        """Refuse entries of ``members`` that name no kind and are no pairs with an estimator."""
        if isinstance(self.members, str):
            return
        if not self.members:
            raise ValueError("members is empty; name at least one, or leave members='default'.")
        for entry in self.members:
            is_kind = isinstance(entry, str) and entry in KINDS
            is_pair = isinstance(entry, tuple) and len(entry) == 2
            if not is_kind and not (is_pair and HasMethods("fit").is_satisfied_by(entry[1])):
                raise ValueError(
                    f"members holds {entry!r}; give pairs (name, estimator), the estimator an "
                    f"instance, or names of kinds among {', '.join(KINDS)}."
                )

    def _try_members(self, search: Search, shape: Shape) -> None:
        """Try every kind, or every pair, in the order given."""
        if isinstance(self.members, str):
            kinds = default_kinds(shape)
            plan = [kind for kind, reason in kinds.items() if not reason]
        else:
            kinds, plan = {}, self.members
        with Progress(len(plan), type(self).__name__, verbose=self.verbose) as progress:
            for entry in plan:
                search.run(self._specs(entry, shape, search.tried), cuts=isinstance(entry, str))
                last = search.trials[-1].spec.name if search.trials else str(entry)
                progress.advance(note=last)
        for kind, reason in kinds.items():
            if reason:
                search.leave_out(kind, reason)

    def _warn_of_left_out(self, search: Search) -> None:
        """Warn of members given by the user that could not be judged."""
        given = [] if isinstance(self.members, str) else self.members
        named = {entry[0] for entry in given if not isinstance(entry, str)}
        for trial in search.trials:
            if trial.reason and trial.spec.name in named:
                warnings.warn(
                    f"the member {trial.spec.name!r} is left out: {trial.reason}",
                    UserWarning,
                    stacklevel=6,
                )

    def _specs(self, entry, shape: Shape, tried: dict[str, float]) -> Iterator[Spec]:
        """Return the members that one entry of ``members`` stands for."""
        if isinstance(entry, str):
            return KINDS[entry](shape, tried)
        return iter([Spec(*entry)])

    def _shape(self, table: Rows, codes) -> Shape:
        X, n_outputs = table.forms["distance"], 1
        if codes is not None:
            n_outputs = int(codes.max()) + 1
        elif table.y.ndim == 2:
            n_outputs = table.y.shape[1]
        return Shape(
            X.shape[0],
            X.shape[1],
            n_outputs,
            codes is not None,
            table.groups is not None,
            self._forms.categorical,
            self.n_jobs,
            is_on_device(X),
            self.max_fit_time is not None,
        )

    def _keep_answers(self, answers: np.ndarray, rows: np.ndarray) -> None:
        """Keep the mean answer to every row that was answered."""
        out = np.zeros((self._n_rows, answers.shape[1]))
        count = np.zeros((self._n_rows, 1))
        np.add.at(out, rows, answers)
        np.add.at(count, rows, 1.0)
        with np.errstate(invalid="ignore"):
            self.held_out_ = out / count

    def _keep_members(self, search: Search, pool: Pool, table: Rows) -> None:
        """Fit the members that carry weight; the others are kept by name."""
        chosen = dict(zip(map(id, search.kept()), range(len(pool.weights)), strict=True))
        members: list[Member] = []
        fits: list[tuple[Member, Trial, int]] = []
        for trial in search.trials:
            spec = trial.spec
            member = Member(spec.name, reason=trial.reason, form=spec.form)
            members.append(member)
            if trial.reason:
                continue
            m = chosen[id(trial)]
            c = pool.candidates[m]
            member.loss = float(trial.mean_losses(search.scorer.share)[c])
            member.params = trial.candidates[c]
            member.trial_time = trial.seconds
            member.weight, member.slope = float(pool.weights[m]), float(pool.slopes[m])
            if member.weight > 0.0:
                fits.append((member, trial, c))
            else:
                member.reason = "it would not improve the mixture"
        was_sampled = len(search.table.y) < len(table.y)
        thread_map(lambda fit: self._finish(table, was_sampled, *fit), fits, search.n_jobs)
        members.sort(key=lambda member: -member.weight)
        self.members_ = members
        self.weights_ = np.array([member.weight for member in members])
        self.cv_results_ = _settings(search)

    def _finish(
        self, table: Rows, was_sampled: bool, member: Member, trial: Trial, candidate: int
    ) -> None:
        """Fit one member to all rows and take its times."""
        X = table.forms[member.form]
        # Members are fitted side by side, and threads of a library would only queue.
        with threadpool_controller().limit(limits=1, user_api="openmp"):
            start = time.perf_counter()
            if trial.fitted is not None:
                # The rows that it was tried on are all rows, or some of them.
                rows = (X, table.y, table.weight) if was_sampled else ()
                member.estimator = trial.fitted(candidate, *rows)
            else:
                model = clone(trial.spec.estimator).set_params(**trial.candidates[candidate])
                member.estimator = fit_weighted(model, X, table.y, table.weight)
            member.fit_time = time.perf_counter() - start
        member.n_rows = len(table.y)
        start = time.perf_counter()
        some = X[:_TIMED_ROWS]
        member.answers(some, self._labels())
        member.predict_time = (time.perf_counter() - start) * 1000.0 / len(some)

    def _labels(self) -> np.ndarray | None:
        """Return the class labels, ``None`` for numbers."""
        return getattr(self, "classes_", None)

    # --- answering ---

    def contributions(self, X):
        """Return what each member adds to the answers.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Queries.

        Returns
        -------
        ndarray of shape (n_queries, n_members, n_outputs)
            Weight times answer of every member with a positive weight, in the order of
            ``members_``; they add up to the answer.
        """
        check_is_fitted(self)
        X = self._queries(X)
        rows: dict[str, Any] = {}
        parts = []
        for member in self.members_:
            if member.weight > 0.0:
                if member.form not in rows:
                    rows[member.form] = self._forms.transform(X, member.form)
                answers = member.answers(rows[member.form], self._labels())
                parts.append(member.weight * self._calibrated(answers, member.slope))
        return np.stack(parts, axis=1)

    @property
    def encoders_(self) -> dict[str, Any]:
        """Fitted encoder of each form of the table that members are given, None for none."""
        return self._forms.encoders

    def _queries(self, X):
        if self._forms.reads_frames:
            return validate_data(self, by_name(X, self), reset=False, skip_check_array=True)
        if self._on_device:
            return validate_array_api(self, X, reset=False)
        return validate_data(
            self,
            as_numpy(X) if is_array_api(X) else X,
            reset=False,
            accept_sparse="csr",
            accept_large_sparse=False,
            dtype=[np.float64, np.float32],
            ensure_all_finite="allow-nan",
        )

    def _pooled(self, X) -> np.ndarray:
        return self.contributions(X).sum(axis=1)

    @abstractmethod
    def _calibrated(self, answers: np.ndarray, slope: float) -> np.ndarray:
        """Return what a member says after calibration."""

    def _held_out_rows(self) -> HeldOutRows:
        return self._answered

    def _row_numbers(self, X) -> np.ndarray:
        return as_numpy(self._forms.transform(self._queries(X), "distance"))

    # --- showing ---

    def _sections(self, X, columns):
        members = [member for member in self.members_ if member.weight > 0.0]
        weights = np.array([member.weight for member in members])
        answers = self.contributions(X)[0] / weights[:, None]
        X = self._queries(X)
        rows = {member.form: self._forms.transform(X, member.form) for member in members}
        classes = getattr(self, "classes_", None)
        summary = "One member answers alone."
        if len(members) > 1:
            summary = f"{len(members)} members, weighed by their answers to rows they had not seen."
        score = {"score": self.score_, "score_error": self.score_error_}
        names = [member.name for member in members]
        return [
            member_section(names, weights, answers, classes, summary, **score),
            neighbor_section(members, rows, self._places, self._targets, self._training_rows),
        ]

    def background(self, X, at_most=_MOST_COMPARED):
        """Return training rows to compare rows with, as `vicinal.inspection.explain` does.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_queries, n_features)
            Rows, of which only the kind matters.
        at_most : int, default=200
            Number of training rows, spread over the table.

        Returns
        -------
        rows : array, sparse matrix or frame, or None
            A table like X; ``None`` for a fit on a device, or where rows cannot be written as X is.
        """
        check_is_fitted(self)
        return None if self._training_rows is None else self._training_rows.like(X, at_most)

    def leaderboard(self):
        """Return the members with their weights, losses and times.

        Returns
        -------
        DataFrame
            One row per member that was tried, heaviest first; ``reason`` says why one was left out.
        """
        check_is_fitted(self)
        pandas = import_optional("pandas", needed_by="leaderboard", extra="frame")
        return pandas.DataFrame(self._columns())

    def _columns(self) -> dict[str, list]:
        names = ("name", "weight", "loss", "trial_time", "fit_time", "predict_time", "reason")
        return {name: [getattr(member, name) for member in self.members_] for name in names}

    def _repr_html_(self):
        """Return the estimator as scikit-learn shows it, and once fitted its members."""
        page = estimator_html_repr(self)
        if not hasattr(self, "members_"):
            return page
        columns = self._columns()
        head = "".join(f"<th>{name}</th>" for name in columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{_shown(value)}</td>" for value in row) + "</tr>"
            for row in zip(*columns.values(), strict=True)
        )
        score = f"held-out score {self.score_:.4g} ± {self.score_error_:.2g}"
        return (
            f"{page}<table><caption>{score}</caption><thead><tr>{head}</tr></thead>"
            f"<tbody>{body}</tbody></table>"
        )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        return tags


def _shown(value) -> str:
    if isinstance(value, str):
        return escape(value)
    return "" if np.isnan(value) else f"{value:.3g}"


def _settings(search: Search) -> dict[str, np.ndarray]:
    """Return every setting that was tried, with its loss."""
    names, params, losses = [], [], []
    for trial in search.kept():
        names += [trial.spec.name] * len(trial.candidates)
        params += trial.candidates
        losses.append(trial.mean_losses(search.scorer.share))
    return {
        "member": np.array(names, dtype=object),
        "params": np.array(params, dtype=object),
        "loss": np.concatenate(losses),
    }
