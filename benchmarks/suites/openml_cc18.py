"""AutoClassifier on the tasks of OpenML-CC18 with their own folds (needs ``pip install openml``).

Prints a line per task: mean accuracy and log loss over the folds, processor seconds of the fits,
and the same for histogram boosting. The comparison in ``docs/results`` has the sets of this suite
that need no download.

    python benchmarks/suites/openml_cc18.py --tasks 37 3917 --folds 2
"""

import argparse
import time

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import accuracy_score, log_loss

from vicinal.auto import AutoClassifier

SUITE = "OpenML-CC18"
MODELS = {
    "AutoClassifier": lambda: AutoClassifier(n_jobs=1, random_state=0),
    "HistGradientBoosting": lambda: HistGradientBoostingClassifier(
        categorical_features="from_dtype", random_state=0
    ),
}


def judge(model, X, y, train, test):
    """Return accuracy and log loss on the test rows, and processor seconds of the fit."""
    started = time.process_time()
    model.fit(X.iloc[train], y.iloc[train])
    seconds = time.process_time() - started
    proba = model.predict_proba(X.iloc[test])
    predicted = model.classes_[proba.argmax(axis=1)]
    loss = log_loss(y.iloc[test], proba, labels=model.classes_)
    return accuracy_score(y.iloc[test], predicted), loss, seconds


def run(task, n_folds):
    """Return the name of the data set and the means of each model over the folds."""
    X, y = task.get_X_and_y(dataset_format="dataframe")
    folds = [task.get_train_test_split_indices(fold=k) for k in range(n_folds)]
    found = {
        label: np.mean([judge(new(), X, y, *fold) for fold in folds], axis=0)
        for label, new in MODELS.items()
    }
    return task.get_dataset().name, found


def main(arguments=None):
    """Run the tasks named, or the whole suite."""
    import openml

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", nargs="*", type=int, help="all tasks of the suite by default")
    parser.add_argument("--folds", type=int, default=10)
    options = parser.parse_args(arguments)
    print("set model accuracy log_loss seconds")
    for number in options.tasks or openml.study.get_suite(SUITE).tasks:
        name, found = run(openml.tasks.get_task(number), options.folds)
        for label, (accuracy, loss, seconds) in found.items():
            print(f"{name} {label} {accuracy:.4f} {loss:.4f} {seconds:.1f}", flush=True)


if __name__ == "__main__":
    main()
