"""Any damaged array of a model file gives an error or a prediction, never a crash."""

import numpy as np
import pytest
import sklearn
from sklearn.utils.fixes import parse_version
from tests.common.processes import posix
from tests.io import foreign
from tests.io.damage import damages, models, outcomes, wrong
from tests.io.helpers import (
    NAMES,
    TARGET,
    X,
    difference,
    objects,
    predictions,
    repacked,
    unpacked,
)
from tests.versions import is_older_sklearn

from vicinal.ensemble import ObliviousBoostingRegressor
from vicinal.io import ModelFileError, _attributes, load, save
from vicinal.local import LocalClassifier, PrincipalSurface
from vicinal.neighbors import NeighborSearch
from vicinal.subspace import TruncatedRBFFeatures, TruncatedRBFRegressor


@pytest.fixture(scope="module")
def forest(tmp_path_factory):
    model = LocalClassifier(metric="forest", random_state=0).fit(X, NAMES)
    path = save(model, tmp_path_factory.mktemp("forest") / "model.vicinal")
    return path, damages(path)


@pytest.mark.parametrize("kind", ["shorter", "narrower", "flat", "of text", "of single floats"])
def test_counts_of_a_forest_that_lie_are_refused(forest, kind, tmp_path):
    """A compiled loop reads the leaves that follow from them."""
    path, ways = forest
    document, arrays = unpacked(path)
    ways[f"ForestIndex.counts {kind}"](document, arrays)
    with pytest.raises(ModelFileError, match="ForestIndex.counts|damaged"):
        load(repacked(tmp_path / "model.vicinal", document, arrays))


@posix
def test_damages_of_a_search_are_refused_or_predict(tmp_path):
    found = outcomes({"search": NeighborSearch().fit(X)}, tmp_path)
    assert not wrong(found)
    assert found["search: NeighborSearch._engine narrower"][0] == "refused"
    assert found["search: NeighborSearch._engine negative"][0] == "predicted"


@posix
@pytest.mark.filterwarnings("ignore")
def test_other_structures_of_attributes_are_refused_or_predicted_with(tmp_path):
    """A sample of all attributes of all scikit-learn classes; the benchmark tries them all."""
    found = outcomes(foreign.instances(), tmp_path, ways="structures", every=599)
    assert len(found) > 130
    assert not wrong(found, ["not finite"])


@pytest.mark.filterwarnings("ignore")
def test_every_class_of_scikit_learn_survives_and_every_entry_of_the_table_is_needed(
    tmp_path, monkeypatch
):
    used = set()

    class Watched(dict):
        def __contains__(self, key):
            used.update({key} & self.keys())
            return super().__contains__(key)

        def get(self, key, default=None):
            return self[key] if key in self else default

    monkeypatch.setattr(_attributes, "_SPECS", Watched(_attributes._SPECS))
    for name, model in foreign.instances().items():
        if "NeighborsClassifier" in name and is_older_sklearn("1.7"):
            continue  # it predicts no strings there
        again = load(save(model, tmp_path / "model.vicinal"))
        rows = foreign.rows(name)
        assert difference(predictions(again, rows), predictions(model, rows)) < 1e-9, name
    if parse_version(sklearn.__version__) >= parse_version("1.9.1"):
        assert set(_attributes._SPECS) - set(_attributes._OLDER_SPECS) == used


@posix
@pytest.mark.statistical
@pytest.mark.filterwarnings("ignore")
def test_every_array_of_every_model_may_be_wrong(tmp_path):
    found = outcomes(models(), tmp_path, bounds=tmp_path / "compiled")
    assert len(found) > 5000
    assert not wrong(found)


@pytest.mark.parametrize("kind", ["shorter", "empty"])
def test_boosted_trees_that_lack_columns_are_not_read_beyond(kind, tmp_path):
    path = save(ObliviousBoostingRegressor(5, random_state=0).fit(X, TARGET), tmp_path / "a")
    document, arrays = unpacked(path)
    damages(path)[f"ColumnCodes.numeric {kind}"](document, arrays)
    with pytest.raises(ValueError, match="shorter|longer|damaged"):
        load(repacked(tmp_path / "model.vicinal", document, arrays)).predict(X)


@pytest.mark.parametrize("estimator", [TruncatedRBFFeatures, TruncatedRBFRegressor])
def test_a_degree_cannot_choose_the_memory(estimator, tmp_path):
    """All monomials of a degree were counted and listed, of a file of 4 kB until memory ended."""
    path = save(estimator().fit(X, TARGET), tmp_path / "a")

    def loaded(order):
        document, arrays = unpacked(path)
        (entry,) = objects(document, estimator.__name__)
        entry["state"]["order"] = order
        return load(repacked(tmp_path / "model.vicinal", document, arrays))

    with pytest.raises(ModelFileError, match="order"):
        loaded(10**15)
    with pytest.raises(ValueError, match="order=1000 .* fit the model again"):
        predictions(loaded(1000), X)


def test_parameters_that_fit_would_refuse_are_refused(tmp_path):
    rng = np.random.RandomState(0)
    path = save(PrincipalSurface(n_components=1).fit(rng.normal(size=(40, 2))), tmp_path / "a")
    document, arrays = unpacked(path)
    ways = damages(path)
    ways["PrincipalSurface.n_components=1 negative"](document, arrays)
    with pytest.raises(ModelFileError, match="n_components"):
        load(repacked(tmp_path / "model.vicinal", document, arrays))
