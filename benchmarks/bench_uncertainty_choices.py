"""Which choices of ``LocallyAdaptiveClassifier`` are good defaults, by folds of training rows?

Test rows are never read: five folds of the training rows of six sets (at most ``N_ROWS`` of each,
drawn at random) compare the default with one change at a time.
"""

import time
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold

from _datasets import load_dataset
from _harness import ResultsPage
from vicinal.uncertainty import LocallyAdaptiveClassifier

N_ROWS = 1200
SETS = ("satimage", "letter", "optdigits", "pendigits", "spambase", "adult")
CHOICES = {
    "default": {},
    "objective of the source": {"objective": "accuracy"},
    "one split": {"n_splits": 1},
    "two splits": {"n_splits": 2},
    "eight splits": {"n_splits": 8},
    "one metric": {"n_regions": 1},
    "four metrics": {"n_regions": 4},
    "twice n_iter_no_change": {"n_iter_no_change": 10},
    "components by density": {"region_method": "density"},
}


def training_rows(name):
    data = load_dataset(name)
    X, y = (data.X_train, data.y_train) if "X_train" in data else (data.X, data.y)
    chosen = np.random.RandomState(0).permutation(len(y))[:N_ROWS]
    return np.nan_to_num(np.asarray(X, float)[chosen]), np.asarray(y)[chosen]


def measure(name, options):
    """Mean error (%), log loss and processor time of a fit over the folds."""
    X, y = training_rows(name)
    found = []
    folds = StratifiedKFold(5, shuffle=True, random_state=0).split(X, y)
    for seed, (train, test) in enumerate(folds):
        model = LocallyAdaptiveClassifier(random_state=seed, **options)
        began = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X[train], y[train])
        spent = time.process_time() - began
        p = model.predict_proba(X[test])
        codes = np.searchsorted(model.classes_, y[test])
        wrong = p.argmax(axis=1) != codes
        # One row voted to be impossible must not decide.
        loss = -np.mean(np.log(np.maximum(p[np.arange(len(codes)), codes], 1e-3)))
        found.append((100 * float(np.mean(wrong)), float(loss), spent))
    return [float(value) for value in np.mean(found, axis=0)]


def main():
    page = ResultsPage(
        "uncertainty_choices",
        "The defaults of the locally adaptive classifier",
        "Does each default pay? Five folds of the training rows (at most "
        f"{N_ROWS} of a set, sampled at random; test rows are not read), one change at a time, "
        "one seed.",
    )
    known = {
        name: {
            choice: page.case((name, choice), lambda n=name, o=options: measure(n, o))
            for choice, options in CHOICES.items()
        }
        for name in SETS
    }
    for column, caption in enumerate(("Error, %:", "Log loss:", "Processor time of a fit, s:")):
        page.table(
            ["choice", *SETS, "mean of ratios to the default"],
            [
                (
                    choice,
                    *(f"{known[name][choice][column]:.3g}" for name in SETS),
                    f"{_ratio(known, choice, column):.3f}",
                )
                for choice in CHOICES
            ],
            caption,
        )
    page.text(
        "The ratio is the geometric mean over the sets. Below one, the change is better; "
        "differences of one or two hundredths are chance."
    )
    page.write()


def _ratio(known, choice, column):
    ratios = [known[name][choice][column] / known[name]["default"][column] for name in SETS]
    return float(np.exp(np.mean(np.log(ratios))))


if __name__ == "__main__":
    main()
