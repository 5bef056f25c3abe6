"""Every array of a model file may be wrong: an error, or an answer, and never a crash."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse
from tests.common.instances import all_instances
from tests.io.damage import damages
from tests.io.helpers import LABELS, NAMES, ROOT, TARGET, X, fitted, repacked, unpacked

from vicinal.io import ModelFileError, load, save
from vicinal.local import LocalClassifier, LocalRegressor, LoessRegressor, PrincipalSurface
from vicinal.neighbors import NeighborSearch

THIN = sparse.csr_matrix(np.where(X > 0, X, 0.0))


def variants():
    """Models whose compiled code reads other arrays than that of the common instances."""
    return {
        "forest": LocalClassifier(metric="forest", random_state=0).fit(X, NAMES),
        "ranked": LocalRegressor(metric="ranked", random_state=0).fit(X, TARGET),
        "located": LocalRegressor(location_columns=[0, 1], n_neighbors=30).fit(X, TARGET),
        "radius": LocalRegressor(bandwidth=2.0, kernel="gaussian").fit(X, np.c_[TARGET, X]),
        "three": LocalClassifier(solver="logistic").fit(X, LABELS + (X[:, 0] > 1)),
        "sparse": LocalClassifier(n_neighbors=20, metric="euclidean").fit(THIN, NAMES),
        "loess": LoessRegressor(span=0.8, degree=1, surface="direct").fit(X, TARGET),
        "tree": NeighborSearch(algorithm="tree").fit(X),
    }


def outcomes(folder, bounds=False):
    """Damage the models of a folder in every way; return {name of the damage: (outcome, why)}."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    if bounds:  # compiled code then looks at every index, in a cache of its own
        environment |= {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(folder / "compiled")}
    found, first = {}, 0
    while True:
        command = [sys.executable, "-m", "tests.io.damage", folder, str(first), str(10**9)]
        options = {"capture_output": True, "text": True, "env": environment, "check": False}
        lines = subprocess.run(command, **options)
        rows = [json.loads(line) for line in lines.stdout.splitlines()]
        names = {row[0]: row[1] for row in rows if len(row) == 2}
        found |= {names[row[0]]: (row[1], row[2]) for row in rows if len(row) == 3}
        if lines.returncode == 0:
            return found
        if not names or len(names) * 2 == len(rows):
            raise RuntimeError(lines.stderr)
        first = max(names) + 1
        found[names[first - 1]] = ("crashed", f"exit status {lines.returncode}")


def wrong(found):
    allowed = ("refused", "answered", "raised")
    # A scaler of scikit-learn may hold NaN, for a column that is all gaps, and so may its answers.
    gaps = ("StandardScaler.mean_ NaN", "StandardScaler.scale_ NaN")
    return {
        name: outcome
        for name, outcome in found.items()
        if outcome[0] not in allowed and not name.endswith(gaps)
    }


@pytest.fixture(scope="module")
def forest(tmp_path_factory):
    model = LocalClassifier(metric="forest", random_state=0).fit(X, NAMES)
    path = save(model, tmp_path_factory.mktemp("forest") / "model.vicinal")
    return path, damages(path)


@pytest.mark.parametrize("name", ["_members", "_start", "_offsets", "leaves", "_counts"])
@pytest.mark.parametrize("kind", ["shorter", "negative", "of text"])
def test_leaves_of_a_forest_that_lie_are_refused(forest, name, kind, tmp_path):
    """A compiled loop writes where they point."""
    path, ways = forest
    document, arrays = unpacked(path)
    ways[f"ForestIndex.{name} {kind}"](document, arrays)
    with pytest.raises(ModelFileError, match=f"ForestIndex.{name}|damaged"):
        load(repacked(tmp_path / "model.vicinal", document, arrays))


def test_damages_of_a_search_are_refused_or_answered(tmp_path):
    save(NeighborSearch().fit(X), tmp_path / "search.vicinal")
    found = outcomes(tmp_path)
    assert not wrong(found)
    assert found["search: NeighborSearch._engine narrower"][0] == "refused"
    assert found["search: NeighborSearch._engine negative"][0] == "answered"


@pytest.mark.statistical
@pytest.mark.filterwarnings("ignore")
def test_every_array_of_every_model_may_be_wrong(tmp_path):
    models = {
        f"{type(model).__name__}{i}": fitted(model)
        for i, model in enumerate(all_instances())
        if not type(model).__name__.startswith("Auto")  # members of the other families
    }
    for name, model in {**models, **variants()}.items():
        save(model, tmp_path / f"{name}.vicinal")
    found = outcomes(tmp_path, bounds=True)
    assert len(found) > 5000
    assert not wrong(found)


def test_parameters_that_fit_would_refuse_are_refused(tmp_path):
    rng = np.random.RandomState(0)
    path = save(PrincipalSurface(n_components=1).fit(rng.normal(size=(40, 2))), tmp_path / "a")
    document, arrays = unpacked(path)
    ways = damages(path)
    ways["PrincipalSurface.n_components=1 negative"](document, arrays)
    with pytest.raises(ModelFileError, match="n_components"):
        load(repacked(tmp_path / "model.vicinal", document, arrays))
