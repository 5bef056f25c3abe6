"""On a CUDA device: the same answers as on the host, no data copied to it, clear errors.

Skipped where torch finds no CUDA device; the other tests of device arrays run on torch's CPU
tensors and on array-api-strict.
"""

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.datasets import make_classification

from vicinal._base import as_numpy, take_rows
from vicinal.auto import AutoClassifier
from vicinal.local import LocalClassifier, LocalRegressor
from vicinal.neighbors import NeighborSearch
from vicinal.partition import SpacePartitioningClassifier
from vicinal.subspace import FeatureSpaceDecomposition, TruncatedRBFClassifier
from vicinal.uncertainty import LocallyAdaptiveClassifier

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("needs a CUDA device that torch finds", allow_module_level=True)

# Numbers of the size of a model or a decision may cross; rows of data may not.
_FEW_BYTES = 64 * 1024


@pytest.fixture(scope="module")
def data():
    X, y = make_classification(
        24_000, 16, n_informative=10, n_classes=3, class_sep=0.7, random_state=0
    )
    X = X.astype(np.float32)
    return X[:8000], y[:8000], X[8000:]


def on_gpu(*arrays):
    return [torch.as_tensor(a, device="cuda") for a in arrays]


def copied_bytes(function, tmp_path):
    """Run once to warm up, then return the bytes that cross to and from the device."""
    function()
    torch.cuda.synchronize()
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities, acc_events=True) as trace:
        function()
        torch.cuda.synchronize()
    trace.export_chrome_trace(str(tmp_path / "trace.json"))
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    copies = [e for e in events if e.get("cat") == "gpu_memcpy" and "DtoD" not in e["name"]]
    assert any(e.get("cat") == "kernel" for e in events), "the trace holds no kernel"
    return sum(e["args"]["bytes"] for e in copies)


MODELS = {
    "ridge": LocalClassifier(n_neighbors=40, alpha=1.0, metric="euclidean", calibration=None),
    "logistic": LocalClassifier(
        loss="log_loss", n_neighbors=40, alpha=0.1, metric="standardized", calibration=None
    ),
    "squared_hinge": LocalClassifier(
        loss="squared_hinge", n_neighbors=40, alpha=0.1, metric="euclidean", calibration=None
    ),
    "trbf": TruncatedRBFClassifier(2),
    "partition": SpacePartitioningClassifier("lda", n_regions=3, n_init=1, random_state=0),
}


@pytest.mark.parametrize("name", MODELS)
def test_predictions_agree_and_stay_on_the_device(data, name, tmp_path):
    X, y, Q = data
    model = clone(MODELS[name]).fit(*on_gpu(X, y))
    (queries,) = on_gpu(Q)
    found = model.decision_function(queries) if name in MODELS and hasattr(
        model, "decision_function"
    ) else model.predict_proba(queries)  # fmt: skip
    assert found.is_cuda
    host = clone(MODELS[name]).fit(X, y)
    ask = host.decision_function if hasattr(host, "decision_function") else host.predict_proba
    assert_allclose(as_numpy(found[:500]), ask(Q[:500]), atol=1e-4)
    assert copied_bytes(lambda: model.predict_proba(queries), tmp_path) < _FEW_BYTES


def test_search_stays_on_the_device(data, tmp_path):
    X, _, Q = data
    rows, queries = on_gpu(X, Q)
    search = NeighborSearch().fit(rows)
    assert copied_bytes(lambda: search.kneighbors(queries, 50), tmp_path) < _FEW_BYTES


@pytest.mark.parametrize("name", ["choice", "regression", "trbf", "partition", "decomposition"])
def test_fits_stay_on_the_device(data, name, tmp_path):
    X, y, _ = data
    rows, labels = on_gpu(X, y)
    numbers = rows[:, 0] * rows[:, 1]
    fits = {
        "choice": lambda: LocalClassifier(calibration=None, random_state=0).fit(rows, labels),
        "regression": lambda: LocalRegressor(degree=1, random_state=0).fit(rows, numbers),
        "trbf": lambda: TruncatedRBFClassifier(2).fit(rows, labels),
        "partition": lambda: SpacePartitioningClassifier(
            "lda", n_regions=3, n_init=2, random_state=0
        ).fit(rows, labels),
        "decomposition": lambda: FeatureSpaceDecomposition("cholesky", random_state=0).fit(rows),
    }
    # Left-out predictions of all candidates cross once, for their losses.
    limit = 2**21 if name in ("choice", "regression") else 4 * _FEW_BYTES
    assert copied_bytes(fits[name], tmp_path) < limit


def test_two_devices_are_refused(data):
    X, y, Q = data
    rows, labels = on_gpu(X, y)
    for model in (
        clone(MODELS["ridge"]),
        clone(MODELS["trbf"]),
        clone(MODELS["partition"]),
        FeatureSpaceDecomposition("discriminant"),
    ):
        with pytest.raises(ValueError, match="y is on device cpu, but X is on cuda"):
            model.fit(rows, torch.as_tensor(y))
        with pytest.raises(ValueError, match="sample_weight is on device cpu"):
            model.fit(rows, labels, sample_weight=torch.ones(len(y)))
        fitted = model.fit(rows, labels)
        ask = fitted.transform if hasattr(fitted, "transform") else fitted.predict
        with pytest.raises(ValueError, match="X is on device cpu"):
            ask(torch.as_tensor(Q))


def test_little_memory_only_makes_more_blocks(data):
    X, y, Q = data
    queries, rows, labels = on_gpu(Q, X, y)
    model = clone(MODELS["squared_hinge"]).fit(rows, labels)
    expected = model.decision_function(queries)
    free = torch.cuda.mem_get_info()[0]
    torch.cuda.empty_cache()
    ballast = torch.empty(int(free - 600 * 2**20), dtype=torch.uint8, device="cuda")
    try:
        assert_allclose(as_numpy(model.decision_function(queries)), as_numpy(expected), atol=1e-5)
        fit = TruncatedRBFClassifier(2).fit(rows, labels)
        assert bool(torch.isfinite(fit.decision_function(queries)).all())
        SpacePartitioningClassifier("lda", n_regions=2, n_init=1).fit(rows, labels)
    finally:
        del ballast
        torch.cuda.empty_cache()


@pytest.mark.parametrize("width", [1, 7, 16, 33])
def test_rows_are_taken_whole(width):
    X = torch.arange(100 * width, device="cuda").reshape(100, width)
    indices = torch.randint(0, 100, (5, 3), device="cuda")
    assert torch.equal(take_rows(X, indices), X[indices])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_metrics_agree(data):
    X, y, Q = data
    model = LocallyAdaptiveClassifier(n_regions=1, max_iter=5, random_state=0)
    single = clone(model).fit(torch.as_tensor(X[:1500], device="cuda"), y[:1500])
    host = clone(model).fit(X[:1500].astype(np.float64), y[:1500])
    found = as_numpy(single.predict_proba(torch.as_tensor(Q[:300], device="cuda")))
    assert np.mean(np.abs(found - host.predict_proba(Q[:300])) > 0.02) < 0.05


def test_nets_are_base_models_on_the_device(data):
    X, y, Q = data
    rows, labels, queries = on_gpu(X[:1500], y[:1500], Q[:500])
    model = AutoClassifier(random_state=0).fit(rows, labels)
    reasons = {base.name: base.reason for base in model.skipped_}
    assert "improve" in reasons.get("neural neighbours", "improve")
    assert bool(torch.isfinite(model.predict_proba(queries)).all())


def test_a_mixture_stays_on_the_device(data):
    X, y, Q = data
    rows, labels, queries = on_gpu(X[:4000], y[:4000], Q[:2000])
    families = ["constant", "local", "gradient"]
    model = AutoClassifier(families, random_state=0).fit(rows, labels)
    assert {base.name for base in model.estimators_} <= {
        "local linear (standardized)",
        "local linear (columns as given)",
        "gradient metric (standardized)",
    }
    proba = model.predict_proba(queries)
    assert proba.is_cuda
    assert proba.dtype == torch.float32
    assert model.predict(queries).is_cuda
    host = AutoClassifier(families, random_state=0).fit(X[:4000], y[:4000])
    agree = (as_numpy(model.predict(queries)) == host.predict(Q[:2000])).mean()
    assert agree > 0.97
