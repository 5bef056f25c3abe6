"""How long does learning take, and at which error, compared with scikit-learn's NCA?

The peer is stopped after a limit of processor time: the page then states its error and its
iterations at that moment.
"""

import time
import warnings

import numpy as np
from scipy.stats import binomtest
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis
from sklearn.preprocessing import StandardScaler

from _datasets import load_dataset
from _harness import ResultsPage, machine
from vicinal.uncertainty import LocallyAdaptiveClassifier

SETS = ("satimage", "letter")
N_SEEDS = 2
LIMIT = 320.0  # processor seconds of the peer
PEER = "NCA + k-NN, scikit-learn"
OURS = {"one metric": {"n_regions": 1}, "default": {}}


class OutOfTime(Exception):
    """Raised from the peer's callback when its time is over."""


def rows_of(name):
    data = load_dataset(name)
    X, X_test = (np.asarray(a, dtype=np.float64) for a in (data.X_train, data.X_test))
    return X, data.y_train, X_test, data.y_test


def peer(name):
    """NCA from the identity on standardised features, then the better of 1 and 5 neighbours."""
    X, y, X_test, y_test = rows_of(name)
    scaler = StandardScaler().fit(X)
    rows, queries = scaler.transform(X), scaler.transform(X_test)
    started, began = time.perf_counter(), time.process_time()
    last = {"map": np.eye(X.shape[1]), "n_iter": 0, "seconds": 0.0, "processor": 0.0}

    def watch(flat, n_iter):
        last.update(
            map=flat.reshape(-1, X.shape[1]).copy(),
            n_iter=n_iter,
            seconds=time.perf_counter() - started,
            processor=time.process_time() - began,
        )
        if last["processor"] > LIMIT:
            raise OutOfTime

    finished = True
    try:
        NeighborhoodComponentsAnalysis(init="identity", callback=watch).fit(rows, y)
    except OutOfTime:
        finished = False
    if finished:
        last.update(seconds=time.perf_counter() - started, processor=time.process_time() - began)
    wrong = {}
    for k in (1, 5):
        nearest = KNeighborsClassifier(k).fit(rows @ last["map"].T, y)
        wrong[k] = np.flatnonzero(nearest.predict(queries @ last["map"].T) != y_test).tolist()
    least = min(wrong.values(), key=len)
    return {
        "error": 100 * len(least) / len(y_test),
        "wrong": [least],
        "seconds": last["seconds"],
        "processor": last["processor"],
        "n_iter": last["n_iter"],
        "note": "finished" if finished else f"stopped after {LIMIT:.0f} s of processor time",
    }


def ours(name, device, options):
    """Mean error and least time of some seeds."""
    X, y, X_test, y_test = rows_of(name)
    if device != "cpu":
        import torch

        X, X_test = (torch.asarray(a, dtype=torch.float32, device=device) for a in (X, X_test))
        torch.cuda.synchronize()
    models, seconds, processor, wrong = [], [], [], []
    for seed in range(N_SEEDS):
        model = LocallyAdaptiveClassifier(random_state=seed, **options)
        started, began = time.perf_counter(), time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X, y)
        seconds.append(time.perf_counter() - started)
        processor.append(time.process_time() - began)
        started = time.perf_counter()
        wrong.append(np.flatnonzero(model.predict(X_test) != y_test).tolist())
        models.append(model)
    return {
        "error": 100 * float(np.mean([len(rows) for rows in wrong])) / len(y_test),
        "wrong": wrong,
        "seconds": min(seconds),
        "processor": min(processor),
        "n_iter": ", ".join(str(model.n_iter_) for model in models),
        "note": f"{', '.join(str(model.n_regions_) for model in models)} metrics; "
        f"{len(y_test)} queries in {time.perf_counter() - started:.1f} s",
    }


def sign_tests(wrong, peer_wrong):
    """Errors of each seed, and the paired sign test against the peer."""
    found = []
    for rows in wrong:
        worse, better = len(set(rows) - set(peer_wrong)), len(set(peer_wrong) - set(rows))
        p = binomtest(worse, worse + better).pvalue if worse + better else 1.0
        found.append(f"{worse} to {better} (p = {p:.2f})")
    return "; ".join(found)


def gpu_name():
    import torch

    return torch.cuda.get_device_name()


def write_page(device):
    is_cpu = device == "cpu"
    page = ResultsPage(
        "uncertainty_speed" if is_cpu else f"uncertainty_speed_{device}",
        "Learning metrics at full size" + ("" if is_cpu else f", on {device}"),
        "How long does `LocallyAdaptiveClassifier` take on whole training sets"
        + (
            ", compared with scikit-learn's neighbourhood components analysis followed by nearest "
            "neighbours (the better of 1 and 5, which favours it)? Sign tests, "
            "seed by seed: queries that only ours and only the peer gets wrong."
            if is_cpu
            else "?"
        )
        + " Only training rows are seen. Ours: mean error of the seeds and least time of their "
        "fits. Processor time is of all threads.",
        packages=("torch",),
    )
    where = page.case(("machine",), machine if is_cpu else gpu_name)
    for name in SETS:
        rows = {
            label: page.case((name, label), lambda n=name, o=options: ours(n, device, o))
            for label, options in OURS.items()
        }
        if not is_cpu:
            page.table(
                ["model", "test error %", "fit, s", "iterations", "note"],
                [
                    (label, f"{row['error']:.2f}", f"{row['seconds']:.1f}", row["n_iter"],
                     row["note"])
                    for label, row in rows.items()
                ],
                f"{name} ({where})",
            )  # fmt: skip
            continue
        nca = page.case((name, PEER), lambda n=name: peer(n))
        page.table(
            ["model", "test error %", "fit, s", "processor, s", "times less", "iterations", "note",
             "sign tests"],
            [
                (label, f"{row['error']:.2f}", f"{row['seconds']:.1f}", f"{row['processor']:.1f}",
                 f"{nca['processor'] / row['processor']:.1f}", row["n_iter"], row["note"],
                 sign_tests(row["wrong"], nca["wrong"][0]))
                for label, row in rows.items()
            ]
            + [(PEER, f"{nca['error']:.2f}", f"{nca['seconds']:.1f}", f"{nca['processor']:.1f}",
                "", nca["n_iter"], nca["note"], "")],
            f"{name}, cpu ({where})",
        )  # fmt: skip
        default = rows["default"]
        ratio = nca["processor"] / default["processor"]
        page.text(
            f"The default takes {1 / ratio:.2f} of the processor time of {PEER}"
            + ("" if nca["note"] == "finished" else " at most")
            + f" and errs on {default['error']:.2f} %, {PEER} on {nca['error']:.2f} %."
        )
    page.write()


if __name__ == "__main__":
    write_page("cpu")
