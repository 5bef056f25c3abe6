"""MAPIE, crepes and cleanlab on the rows of ``bench_rows.py``, in an environment of their own.

Called with a folder: ``data.npz`` comes in, ``peers.json`` goes out.
"""

import json
import sys
import time
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np

warnings.filterwarnings("ignore")


def forest_regressor():
    from sklearn.ensemble import RandomForestRegressor

    return RandomForestRegressor(100, min_samples_leaf=3, random_state=0)


def mapie_cv(X, y, Q, coverages):
    """CV+ with five folds, the same in every run."""
    from mapie.regression import CrossConformalRegressor

    model = CrossConformalRegressor(
        forest_regressor(),
        confidence_level=list(coverages),
        cv=5,
        method="plus",
        random_state=0,
    ).fit_conformalize(X, y)
    ends = model.predict_interval(Q)[1]
    return [ends[:, :, j] for j in range(len(coverages))]


def _halves(X, y):
    rows = np.random.RandomState(0).permutation(len(y))
    fit, calibrate = rows[len(y) // 4 :], rows[: len(y) // 4]
    return X[fit], y[fit], X[calibrate], y[calibrate]


def mapie_normalized(X, y, Q, coverages):
    """Residuals over a second model of them, calibrated on a quarter of the rows."""
    from mapie.conformity_scores import ResidualNormalisedScore
    from mapie.regression import SplitConformalRegressor

    A, a, C, c = _halves(X, y)
    score = ResidualNormalisedScore(residual_estimator=forest_regressor(), random_state=0)
    model = SplitConformalRegressor(
        forest_regressor(), confidence_level=list(coverages), conformity_score=score, prefit=False
    )
    ends = model.fit(A, a).conformalize(C, c).predict_interval(Q)[1]
    return [ends[:, :, j] for j in range(len(coverages))]


def crepes_normalized(X, y, Q, coverages):
    """Nearest-neighbour difficulty, calibrated on a quarter of the rows."""
    from crepes import WrapRegressor
    from crepes.extras import DifficultyEstimator

    A, a, C, c = _halves(X, y)
    model = WrapRegressor(forest_regressor())
    model.fit(A, a)
    difficulty = DifficultyEstimator()
    difficulty.fit(X=A, y=a, scaler=True)
    model.calibrate(C, c, de=difficulty)
    return [model.predict_int(Q, confidence=coverage) for coverage in coverages]


def cleanlab_order(labels, proba):
    """Return the scores of cleanlab's default ranking, low for suspicious, and its count."""
    from cleanlab.count import num_label_issues
    from cleanlab.rank import get_label_quality_scores

    scores = get_label_quality_scores(labels, proba)
    return scores.tolist(), int(num_label_issues(labels, proba))


def main():
    folder = Path(sys.argv[1])
    data = np.load(folder / "data.npz")
    if "versions" in data:
        found = {name: version(name) for name in ("mapie", "crepes", "cleanlab", "scikit-learn")}
    elif "proba" in data:
        found = cleanlab_order(data["labels"], data["proba"])
    else:
        X, y, Q, coverages = (data[name] for name in ("X", "y", "Q", "coverages"))
        found = {}
        for method in (mapie_cv, mapie_normalized, crepes_normalized):
            started = time.process_time()
            ends = [np.asarray(part, dtype=float) for part in method(X, y, Q, coverages)]
            found[method.__name__] = {
                "seconds": time.process_time() - started,
                "ends": [part.tolist() for part in ends],
            }
    (folder / "peers.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
