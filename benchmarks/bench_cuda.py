"""How fast are the families on a GPU, where does the time go, and do the answers agree?

Three parts, since the two machines differ: ``--part cpu`` on two CPU cores (smaller sizes),
``--part gpu`` where torch finds a CUDA device, ``--part page`` to write the page from the stored
cases of both.
"""

import argparse
import time
import warnings
from contextlib import contextmanager

import numpy as np
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from _datasets import load_dataset
from _harness import Cases, MissingCaseError, ResultsPage, machine, stored
from vicinal._kernels.cascade import _hard
from vicinal._kernels.local import _batched as _local_batched
from vicinal._kernels.metric._soft_votes import Anchors, References, expected_accuracy
from vicinal._kernels.subspace import _truncated_rbf
from vicinal.local import LocalClassifier, _solvers
from vicinal.neighbors import NeighborSearch
from vicinal.partition import SpacePartitioningClassifier, _learners, stages
from vicinal.subspace import (
    FeatureSpaceDecomposition,
    TruncatedRBFClassifier,
)
from vicinal.subspace import _truncated_rbf as _truncated_rbf_models

N_ROWS, N_FEATURES, K, N_QUERIES = 20_000, 16, 200, 65_536
N_COMPARED = 2_048
N_TRAIN = 500_000
SOLVERS = {
    "ridge": {"loss": "squared_error", "alpha": 1.0},
    "squared_hinge": {"loss": "squared_hinge", "alpha": 0.1},
    "logistic": {"loss": "log_loss", "alpha": 0.1},
}
# Sizes on two CPU cores, where the whole would take too long: queries, rows, rows, pairs, rows.
CPU_QUERIES, CPU_COVTYPE, CPU_TRBF, CPU_PAIRS, CPU_PARTITION = 4_096, 100_000, 20_000, 4_000, 50_000
SWEEPS = 5


# --- problems ---


def problem():
    X, y = make_classification(
        N_ROWS + N_QUERIES, N_FEATURES, n_informative=10, n_redundant=2, n_clusters_per_class=8,
        class_sep=0.6, random_state=0,
    )  # fmt: skip
    X = X.astype(np.float32)
    return X[:N_ROWS], y[:N_ROWS], X[N_ROWS:]


def letter():
    data = load_dataset("letter")
    rows, queries = (np.asarray(X, dtype=np.float32) for X in (data.X_train, data.X_test))
    return rows, data.y_train, queries, data.y_test


def covtype():
    data = load_dataset("covtype")
    X, y = (data.X, data.y) if hasattr(data, "X") else (data.data, data.target)
    order = np.random.RandomState(0).permutation(len(y))
    X, y = np.asarray(X, dtype=np.float32)[order], np.asarray(y)[order]
    scale = X[:N_TRAIN].std(axis=0)
    X = (X - X[:N_TRAIN].mean(axis=0)) / np.where(scale > 0, scale, 1)
    return X[:N_TRAIN], y[:N_TRAIN], X[N_TRAIN:], y[N_TRAIN:]


def local(solver, k):
    return LocalClassifier(
        **SOLVERS[solver], n_neighbors=k, metric="euclidean", calibration=None,
        n_jobs=1,
    )  # fmt: skip


def metric_problem(X, y, asarray):
    """Anchors and references of one metric over all rows, sorted by class."""
    order = np.argsort(y, kind="stable")
    bounds = np.r_[0, np.cumsum(np.bincount(y[order]))]
    rows = asarray(X[order].astype(np.float32))
    ones, zeros = asarray(np.ones(len(y), np.float32)), asarray(np.zeros(len(y), np.float32))
    anchors = Anchors(rows, bounds, ones, asarray(np.arange(len(y))))
    return anchors, References(rows, bounds, zeros)


def partition():
    return SpacePartitioningClassifier(
        "lda", n_regions=5, n_init=1, max_iter=SWEEPS, combine="best", scale=False, random_state=0
    )


def quietly(function):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return function()


# --- two CPU cores ---


def halved(function, repeat=1):
    """Return the least processor seconds of one thread, halved, and the last result.

    Two cores that divide the work perfectly would take that long; unlike wall time it does not
    depend on who else uses the machine.
    """
    best = float("inf")
    with threadpool_limits(1):
        for _ in range(repeat):
            started = time.process_time()
            result = quietly(function)
            best = min(best, time.process_time() - started)
    return best / 2, result


def measure_cpu():
    found = {"machine": machine()}
    X, y, Q = problem()
    L, Ly, _, _ = letter()
    for solver in SOLVERS:
        model = local(solver, K).fit(X.astype(np.float64), y)
        some = Q[:CPU_QUERIES].astype(np.float64)
        seconds, _ = halved(lambda m=model, q=some: m.decision_function(q), repeat=3)
        found[solver] = CPU_QUERIES / seconds
    X, y, Q, _ = covtype()
    model = local("ridge", 40).fit(X[:CPU_COVTYPE], y[:CPU_COVTYPE])
    seconds, _ = halved(lambda: model.decision_function(Q[:1000]))
    found["covtype"] = 1000 / seconds * CPU_COVTYPE / N_TRAIN
    A = np.eye(N_FEATURES)
    anchors, references = metric_problem(L[:CPU_PAIRS], Ly[:CPU_PAIRS] - Ly.min(), np.asarray)
    seconds, _ = halved(lambda: expected_accuracy(A, anchors, references, n_jobs=1), repeat=3)
    found["gradient"] = CPU_PAIRS**2 / seconds
    seconds, _ = halved(lambda: TruncatedRBFClassifier(2).fit(X[:CPU_TRBF], y[:CPU_TRBF]))
    found["trbf"] = CPU_TRBF / seconds
    seconds, _ = halved(
        lambda: FeatureSpaceDecomposition("cholesky", random_state=0).fit(X[:CPU_COVTYPE])
    )
    found["decomposition"] = CPU_COVTYPE / seconds
    seconds, model = halved(lambda: partition().fit(X[:CPU_PARTITION], y[:CPU_PARTITION]))
    found["partition"] = CPU_PARTITION * model.n_iter_ / seconds
    return found


# --- a GPU ---


class Watch:
    """Seconds of device work, with everything before it finished."""

    def __init__(self, torch):
        self.torch = torch

    def __call__(self, function, repeat=5):
        """Return the median over ``repeat`` calls after one to warm up, and the last result."""
        quietly(function)
        seconds = []
        for _ in range(repeat):
            self.torch.cuda.synchronize()
            started = time.perf_counter()
            result = quietly(function)
            self.torch.cuda.synchronize()
            seconds.append(time.perf_counter() - started)
        return float(np.median(seconds)), result


LOCAL_PHASES = {
    "search": [(NeighborSearch, "kneighbors")],
    "gather": [(_local_batched, "take_rows"), (_solvers, "take_rows")],
    "Gram": [(_local_batched, "weighted_gram"), (_local_batched, "smaller_gram")],
    "solve": [(_local_batched, "solve_regular")],
}
TRBF_PHASES = {
    "features": [(_truncated_rbf, "truncated_rbf_features")],
    "Gram and solve": [(_truncated_rbf, "ridge_primal")],
    "leverages": [(_truncated_rbf, "fitted_and_leverage")],
    "slope": [(_truncated_rbf_models, "fit_slope")],
}
PARTITION_PHASES = {
    "first regions": [(_hard, "assign_kmeans")],
    "sums": [(_learners, "lda_statistics")],
    "small systems (host)": [(stages, "lda_coefficients")],
    "errors of regions": [(_learners, "any_linear_errors")],
}


@contextmanager
def phases(torch, places):
    """Time the phases of a computation by wrapping the functions that do them."""
    spent, counts, undo = {}, {}, []

    def wrap(name, owner, attribute):
        inner = getattr(owner, attribute)

        def outer(*arguments, **options):
            torch.cuda.synchronize()
            started = time.perf_counter()
            result = inner(*arguments, **options)
            torch.cuda.synchronize()
            spent[name] = spent.get(name, 0.0) + time.perf_counter() - started
            counts[name] = counts.get(name, 0) + 1
            return result

        setattr(owner, attribute, outer)
        undo.append((owner, attribute, inner))

    for name, owners in places.items():
        for owner, attribute in owners:
            wrap(name, owner, attribute)
    try:
        yield spent, counts
    finally:
        for owner, attribute, inner in undo:
            setattr(owner, attribute, inner)


def watched(torch, places, function):
    """Return seconds of the whole, seconds of its phases and how often each ran."""
    with phases(torch, places) as (spent, counts):
        torch.cuda.synchronize()
        started = time.perf_counter()
        quietly(function)
        torch.cuda.synchronize()
        return time.perf_counter() - started, dict(spent), dict(counts)


def measure_gpu(store: Cases) -> None:
    import torch

    watch = Watch(torch)
    name = {"machine": torch.cuda.get_device_name(), "torch": torch.__version__}
    store.run(("gpu",), lambda: name | measure_ceilings(torch, watch))
    for part, measure in {
        "local": measure_local,
        "gradient": measure_gradient,
        "covtype": measure_covtype,
    }.items():
        store.run((part,), lambda m=measure: m(torch, watch))


def measure_ceilings(torch, watch):
    x = torch.rand(2**28, device="cuda")
    y = torch.empty_like(x)
    seconds, _ = watch(lambda: y.copy_(x))
    found = {"bandwidth": 8 * x.numel() / seconds}
    for name, dtype in (("float32", torch.float32), ("float64", torch.float64)):
        a = torch.rand((8192, 8192), device="cuda", dtype=dtype)
        seconds, _ = watch(lambda a=a: a @ a)
        found[name] = 2 * 8192**3 / seconds
    return found


def gap(scores, solver, k, X, y, Q):
    """Return the largest difference from the scores of doubles on the host."""
    expected = local(solver, k).fit(X.astype(np.float64), y).decision_function(Q.astype(np.float64))
    return float(np.abs(scores.cpu().numpy() - expected).max())


def measure_local(torch, watch):
    found = {}
    host, (*letters, Lt) = problem(), letter()
    X, y, Q = (torch.as_tensor(a, device="cuda") for a in host)
    L, Ly, LQ = (torch.as_tensor(a, device="cuda") for a in letters)
    for solver in SOLVERS:
        model = local(solver, K).fit(X, y)
        seconds, scores = watch(lambda m=model: m.decision_function(Q))
        torch.cuda.reset_peak_memory_stats()
        model.decision_function(Q)
        slow, spent, counts = watched(torch, LOCAL_PHASES, lambda m=model: m.decision_function(Q))
        row = {
            "seconds": seconds,
            "phases": spent,
            "counts": counts,
            "watched": slow,
            "gap": gap(scores[:N_COMPARED], solver, K, *host[:2], host[2][:N_COMPARED]),
            "gigabytes": torch.cuda.max_memory_allocated() / 2**30,
        }
        model = local(solver, 40).fit(L, Ly)
        seconds, scores = watch(lambda m=model: m.decision_function(LQ))
        row["letter_seconds"] = seconds
        row["letter_gap"] = gap(scores, solver, 40, *letters)
        row["letter_error"] = 100 * float(np.mean(model.predict(LQ).cpu().numpy() != Lt))
        found[solver] = row
    started = time.perf_counter()
    model = LocalClassifier(random_state=0).fit(L, Ly)
    torch.cuda.synchronize()
    found["letter_auto"] = described(model, time.perf_counter() - started, LQ, Lt, torch)
    return found


def described(model, fit_seconds, Q, truth, torch):
    torch.cuda.synchronize()
    started = time.perf_counter()
    labels = model.predict(Q)
    torch.cuda.synchronize()
    seconds = time.perf_counter() - started
    return {
        "fit": fit_seconds,
        "predict": seconds,
        "queries": len(truth),
        "error": 100 * float(np.mean(labels.cpu().numpy() != truth)),
        "metric": str(model.metric_),
        "n_neighbors": model.n_neighbors_,
        "alpha": model.alpha_,
    }


def measure_gradient(torch, watch):
    found = {}
    L, Ly, _, _ = letter()
    C, Cy, _, _ = covtype()
    sets = {
        "letter, 16,000 x 16": (L, Ly - Ly.min()),
        "covtype, 60,000 x 54": (C[:60_000], Cy[:60_000] - Cy.min()),
    }
    for name, (X, y) in sets.items():
        X = (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-6)
        anchors, references = metric_problem(X, y, lambda a: torch.as_tensor(a, device="cuda"))
        A = np.eye(X.shape[1])
        seconds, _ = watch(lambda A=A, a=anchors, r=references: expected_accuracy(A, a, r), 3)
        found[name] = {"seconds": seconds, "rows": len(y), "columns": X.shape[1]}
    return found


def measure_covtype(torch, watch):
    found = {}
    X, y, Q, truth = covtype()
    X, y, Q = (torch.as_tensor(a, device="cuda") for a in (X, y, Q))
    for solver in SOLVERS:
        model = local(solver, 40).fit(X, y)
        model.predict(Q[:256])
        found[solver] = described(model, 0.0, Q, truth, torch)
        print(solver, found[solver], flush=True)
    torch.cuda.synchronize()
    started = time.perf_counter()
    model = LocalClassifier(random_state=0).fit(X, y)
    torch.cuda.synchronize()
    found["auto"] = described(model, time.perf_counter() - started, Q, truth, torch)
    print(found["auto"], flush=True)
    seconds, model = watch(lambda: TruncatedRBFClassifier(2).fit(X, y), 3)
    found["trbf"] = described_fit(model, seconds, Q, truth, torch)
    found["trbf"]["monomials"] = int(model.primal_coef_.shape[0])
    found["trbf"]["phases"] = watched(
        torch, TRBF_PHASES, lambda: TruncatedRBFClassifier(2).fit(X, y)
    )[:2]
    seconds, _ = watch(lambda: FeatureSpaceDecomposition("cholesky", random_state=0).fit(X), 3)
    found["decomposition"] = {"seconds": seconds}
    seconds, model = watch(lambda: partition().fit(X, y), 3)
    found["partition"] = described_fit(model, seconds, Q, truth, torch)
    found["partition"]["sweeps"] = model.n_iter_
    found["partition"]["phases"] = watched(torch, PARTITION_PHASES, lambda: partition().fit(X, y))[
        :2
    ]
    return found


def described_fit(model, seconds, Q, truth, torch):
    labels = model.predict(Q)
    torch.cuda.synchronize()
    return {"seconds": seconds, "error": 100 * float(np.mean(labels.cpu().numpy() != truth))}


# --- the page ---


def write_page(store: Cases) -> None:
    parts = [store.find(part) for part in ("cpu", "gpu", "local", "covtype", "gradient")]
    if None in parts:
        raise MissingCaseError("cuda: run --part cpu and --part gpu first.")
    cpu, top, on_rows, on_covtype, gradient = parts
    page = ResultsPage(
        "cuda",
        "All families on a GPU",
        "Throughput with torch tensors on a GPU through the public interface, compared with NumPy "
        "arrays "
        "on two CPU cores; where the time goes; and whether the predictions agree. Inputs are "
        "float32 "
        "on the GPU, float64 on the CPU.",
    )
    page.text(
        f"GPU: {top['machine']}, torch {top['torch']} (`--part gpu`). CPU: {cpu['machine']} "
        f"(`--part cpu`; smaller sizes, stated below): processor time of one thread, halved for "
        f"two cores, which favours the CPU. Measured ceilings of the GPU: "
        f"{top['bandwidth'] / 1e12:.2f} TB/s for a copy, {top['float32'] / 1e12:.0f} Tflop/s for a "
        f"float32 product, {top['float64'] / 1e12:.0f} for float64."
    )
    write_local(page, cpu, on_rows, top)
    write_covtype(page, cpu, on_covtype, top)
    write_gradient(page, cpu, gradient, top)
    page.write()


def write_local(page, cpu, found, top):
    rows = []
    for solver in SOLVERS:
        row = found[solver]
        rate = N_QUERIES / row["seconds"]
        rows.append(
            [solver, f"{1e3 * row['seconds']:.0f}", f"{rate:,.0f}", f"{rate / cpu[solver]:.0f}",
             f"{row['gap']:.1e}", f"{row['letter_gap']:.1e}", f"{row['letter_error']:.2f}",
             f"{row['gigabytes']:.1f}"]
        )  # fmt: skip
    page.text(
        f"## Local models: n = {N_ROWS:,}, d = {N_FEATURES}, k = {K}, {N_QUERIES:,} queries, two "
        f"classes\n\nRatio to two CPU cores from {CPU_QUERIES:,} queries. Differences are the "
        f"largest difference of a score to the float64 CPU, over {N_COMPARED:,} queries here and "
        "over all "
        "26 scores of letter's 4,000 test rows (k = 40)."
    )
    page.table(
        ["solver", "ms", "queries/s", "x two cores", "difference", "difference on letter",
         "letter error %",
         "GB"],
        rows,
    )  # fmt: skip
    rows = []
    for solver in SOLVERS:
        row = found[solver]
        spent = row["phases"]
        rest = row["watched"] - sum(spent.values())
        shares = [100 * spent.get(name, 0.0) / row["watched"] for name in
                  ("search", "gather", "Gram", "solve")]  # fmt: skip
        # Bounds are written and read once; gathered rows likewise; a Gram matrix is a product.
        search = 8 * N_ROWS * N_QUERIES / spent["search"] / top["bandwidth"]
        gather = 8 * (K + 1) * N_FEATURES * N_QUERIES / spent["gather"] / top["bandwidth"]
        shares.append(100 * rest / row["watched"])
        rows.append(
            [solver, *(f"{share:.0f} %" for share in shares), row["counts"]["Gram"],
             f"{100 * search:.0f} %", f"{100 * gather:.0f} %"]
        )  # fmt: skip
    page.text(
        "Where the time goes, with a wait after every phase. The last two columns are the least "
        "traffic of search (every lower bound written and read once) and gather (every row read "
        "and written once) as a part of the copy bandwidth."
    )
    page.table(
        ["solver", "search", "gather", "Gram", "solve", "rest", "Gram batches",
         "search, of bandwidth", "gather, of bandwidth"],
        rows,
    )  # fmt: skip
    auto = found["letter_auto"]
    page.text(
        f"`LocalClassifier().fit` on letter (16,000 rows; sizes and penalties by leave-one-out, "
        f"temperature): {auto['fit']:.1f} s; "
        f"{auto['queries']:,} predictions in {auto['predict']:.2f} s, test error "
        f"{auto['error']:.2f} % with metric {auto['metric']!r}, k = {auto['n_neighbors']}, alpha = "
        f"{auto['alpha']:g}."
    )


def write_covtype(page, cpu, found, top):
    rows = []
    for solver in SOLVERS:
        row = found[solver]
        rate = row["queries"] / row["predict"]
        ratio = f"{rate / cpu['covtype']:.0f}" if solver == "ridge" else ""
        rows.append([f"local {solver}, k = 40", "", f"{row['predict']:.2f}", f"{rate:,.0f}", ratio,
                     f"{row['error']:.2f}"])  # fmt: skip
    auto = found["auto"]
    rate = auto["queries"] / auto["predict"]
    rows.append(
        [f"`LocalClassifier()`: {auto['metric']}, k = {auto['n_neighbors']}, alpha = "
         f"{auto['alpha']:g}", f"{auto['fit']:.1f}", f"{auto['predict']:.2f}", f"{rate:,.0f}", "",
         f"{auto['error']:.2f}"]
    )  # fmt: skip
    trbf, cascade = found["trbf"], found["partition"]
    rows.append(
        ["`TruncatedRBFClassifier(2)`", f"{trbf['seconds']:.2f}", "",
         f"{N_TRAIN / trbf['seconds']:,.0f} rows/s",
         f"{N_TRAIN / trbf['seconds'] / cpu['trbf']:.0f}", f"{trbf['error']:.2f}"]
    )  # fmt: skip
    decomposition = found["decomposition"]["seconds"]
    rows.append(
        ['`FeatureSpaceDecomposition("cholesky")`', f"{decomposition:.3f}", "",
         f"{N_TRAIN / decomposition:,.0f} rows/s",
         f"{N_TRAIN / decomposition / cpu['decomposition']:.0f}", ""]
    )  # fmt: skip
    swept = N_TRAIN * cascade["sweeps"] / cascade["seconds"]
    rows.append(
        [f"partition, LDA, 5 regions, {cascade['sweeps']} sweeps", f"{cascade['seconds']:.2f}", "",
         f"{swept:,.0f} rows/s a sweep", f"{swept / cpu['partition']:.0f}",
         f"{cascade['error']:.2f}"]
    )  # fmt: skip
    page.text(
        f"## covtype, {N_TRAIN:,} rows x 54\n\nStandardised columns, predictions of the other "
        "81,012 rows. "
        f"Two CPU cores measured on {CPU_COVTYPE:,} rows (local, its search scaled by the number "
        f"of rows, and decomposition), {CPU_TRBF:,} (TRBF) and {CPU_PARTITION:,} (partition)."
    )
    page.table(["model", "fit, s", "predict, s", "rate", "x two cores", "test error %"], rows)
    flops = 2.0 * N_TRAIN * trbf["monomials"] ** 2
    page.text(
        f"TRBF: {trbf['monomials']:,} monomials; the Gram matrix and the leverages of the "
        f"leave-one-out scores are {2 * flops / 1e12:.1f} Tflop in float64, "
        f"{100 * 2 * flops / trbf['seconds'] / top['float64']:.0f} % of the measured matrix rate "
        "over the whole fit, features included. " + shares_of("Its time", *trbf["phases"])
    )
    page.text(shares_of("The sweeps' time", *cascade["phases"]))


def shares_of(what, whole, spent):
    """Say where the time went, in per cent."""
    parts = ", ".join(f"{name} {100 * seconds / whole:.0f} %" for name, seconds in spent.items())
    rest = 100 * (1 - sum(spent.values()) / whole)
    return f"{what}, with a wait after every phase: {parts}, rest {rest:.0f} %."


def write_gradient(page, cpu, found, top):
    rows = []
    for name, row in found.items():
        pairs = row["rows"] ** 2
        flops = 2.0 * pairs * (2 * row["columns"] + 3)
        rows.append(
            [name, f"{1e3 * row['seconds']:.0f}", f"{pairs / row['seconds'] / 1e9:.1f}",
             f"{100 * flops / row['seconds'] / top['float32']:.0f} %",
             f"{100 * 8 * pairs / row['seconds'] / top['bandwidth']:.0f} %",
             f"{pairs / row['seconds'] / cpu['gradient']:.0f}"]
        )  # fmt: skip
    page.text(
        "## Uncertainty: expected accuracy of a metric and its gradient\n\nAll pairs of rows. "
        f"Ratio to two CPU cores by pairs, from {CPU_PAIRS:,} rows of letter. The traffic counted "
        "writes and reads each similarity once."
    )
    page.table(
        ["rows", "ms", "10^9 pairs/s", "of matrix rate", "of bandwidth", "x two cores"], rows
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=["cpu", "gpu", "page"], default="page")
    arguments = parser.parse_args()
    store = stored("cuda")
    if arguments.part == "cpu":
        store.run(("cpu",), measure_cpu)
    elif arguments.part == "gpu":
        measure_gpu(store)
    else:
        write_page(store)


if __name__ == "__main__":
    main()
