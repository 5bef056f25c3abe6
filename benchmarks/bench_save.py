"""What do saving and loading a model cost, compared with joblib's pickle?"""

import tempfile
import warnings
from pathlib import Path

import joblib
from sklearn.datasets import load_diabetes
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

from _datasets import load_dataset
from _harness import ResultsPage, timed
from vicinal import (
    BootstrapEnsembleClassifier,
    LocalClassifier,
    LocalRegressor,
    SpacePartitioningClassifier,
)
from vicinal.io import load, save

REPEAT = 5


# Models of satimage and of diabetes: rows, regions, trees.
MODELS = {
    "local, satimage": LocalClassifier(n_neighbors=40, metric="standardized"),
    "partition, satimage": SpacePartitioningClassifier(n_regions=5, random_state=0),
    "bootstrap of trees, satimage": BootstrapEnsembleClassifier(random_state=0),
    "scikit-learn's forest, satimage": RandomForestClassifier(random_state=0),
    "histogram boosting, satimage": HistGradientBoostingClassifier(random_state=0),
    "local, diabetes": LocalRegressor(),
}


def rows_of(name):
    if name.endswith("diabetes"):
        return load_diabetes(return_X_y=True)
    satimage = load_dataset("satimage")
    return satimage.X_train.astype(float), satimage.y_train


def measured(name):
    """Return seconds and bytes of both ways, the least of a few runs."""
    fitted = MODELS[name].fit(*rows_of(name))
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = Path(folder) / "model.vicinal", Path(folder) / "model.joblib"
        return {
            "save": timed(lambda: save(fitted, ours), repeat=REPEAT)[0],
            "dump": timed(lambda: joblib.dump(fitted, theirs), repeat=REPEAT)[0],
            "load": timed(lambda: load(ours), repeat=REPEAT)[0],
            "undump": timed(lambda: joblib.load(theirs), repeat=REPEAT)[0],
            "size": ours.stat().st_size,
            "their_size": theirs.stat().st_size,
        }


def main():
    warnings.simplefilter("ignore")
    page = ResultsPage(
        "save",
        "Model files",
        "What do `vicinal.io.save` and `load` cost, compared with `joblib.dump` and "
        "`joblib.load`, which "
        "write a pickle that runs what its author wrote? Ours checks every array and waits until "
        f"the disk has it; least of {REPEAT} runs on a shared machine.",
    )
    rows = []
    for name in MODELS:
        found = page.case((name,), lambda name=name: measured(name))
        rows.append(
            [
                name,
                *(f"{1e3 * found[key]:.1f}" for key in ("save", "dump", "load", "undump")),
                *(f"{found[key] / 2**20:.2f}" for key in ("size", "their_size")),
            ]
        )
    page.table(
        [
            "model",
            "save, ms",
            "joblib, ms",
            "load, ms",
            "joblib, ms",
            "file, MiB",
            "joblib, MiB",
        ],
        rows,
    )
    page.write()


if __name__ == "__main__":
    main()
