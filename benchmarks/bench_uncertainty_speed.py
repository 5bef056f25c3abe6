"""How long does learning take beside scikit-learn's NCA with nearest neighbours, at which error?

``python benchmarks/bench_uncertainty_speed.py --sets satimage letter`` on the CPU; add
``--device cuda`` where torch finds a GPU. The peer is stopped after ``--limit`` seconds: the page
then states its error and its iterations at that moment. Sets and devices measured earlier are kept
in ``benchmarks/.cache``, so that the page can be made in pieces and on two machines.
"""

import argparse
import json
import time
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis
from sklearn.preprocessing import StandardScaler

from _harness import ROOT, ResultsPage, machine
from vicinal.datasets import load_dataset
from vicinal.uncertainty import LocallyAdaptiveClassifier

CACHE = ROOT / "benchmarks" / ".cache" / "uncertainty_speed.json"


class OutOfTime(Exception):
    """Raised from the peer's callback when its time is over."""


def peer(X, y, X_test, y_test, limit):
    """NCA from the identity on standardised features, then the better of 1 and 5 neighbours."""
    scaler = StandardScaler().fit(X)
    rows, queries = scaler.transform(X), scaler.transform(X_test)
    started, last = time.perf_counter(), {"map": np.eye(X.shape[1]), "n_iter": 0, "seconds": 0.0}

    def watch(flat, n_iter):
        last.update(
            map=flat.reshape(-1, X.shape[1]).copy(),
            n_iter=n_iter,
            seconds=time.perf_counter() - started,
        )
        if last["seconds"] > limit:
            raise OutOfTime

    finished = True
    try:
        NeighborhoodComponentsAnalysis(init="identity", callback=watch).fit(rows, y)
    except OutOfTime:
        finished = False
    seconds = time.perf_counter() - started if finished else last["seconds"]
    errors = [
        100
        * (
            1
            - KNeighborsClassifier(k)
            .fit(rows @ last["map"].T, y)
            .score(queries @ last["map"].T, y_test)
        )
        for k in (1, 5)
    ]
    return {
        "error": min(errors),
        "seconds": seconds,
        "n_iter": last["n_iter"],
        "note": "finished" if finished else f"stopped after {limit:.0f} s",
    }


def ours(X, y, X_test, y_test, device, **options):
    model = LocallyAdaptiveClassifier(random_state=0, **options)
    if device != "cpu":
        import torch

        X, X_test = (torch.asarray(a, dtype=torch.float32, device=device) for a in (X, X_test))
        torch.cuda.synchronize()
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    seconds = time.perf_counter() - started
    started = time.perf_counter()
    error = 100 * float(np.mean(model.predict(X_test) != y_test))
    return {
        "error": error,
        "seconds": seconds,
        "n_iter": model.n_iter_,
        "note": f"{model.n_components_} metrics; {len(y_test)} queries in "
        f"{time.perf_counter() - started:.1f} s",
    }


def measure(name, device, limit, with_peer):
    data = load_dataset(name)
    X, X_test = (np.asarray(a, dtype=np.float64) for a in (data.X_train, data.X_test))
    y, y_test = data.y_train, data.y_test
    rows = {}
    for label, options in {"one metric": {"n_components": 1}, "default": {}}.items():
        rows[label] = ours(X, y, X_test, y_test, device, **options)
        print(name, device, label, rows[label], flush=True)
    if with_peer:
        rows["NCA + k-NN, scikit-learn"] = peer(X, y, X_test, y_test, limit)
        print(name, rows["NCA + k-NN, scikit-learn"], flush=True)
    return {"rows": rows, "machine": machine() if device == "cpu" else gpu_name()}


def gpu_name():
    import torch

    return torch.cuda.get_device_name()


def write(found):
    page = ResultsPage(
        "uncertainty_speed",
        "Learning metrics at full size",
        "How long does `LocallyAdaptiveClassifier` take on whole training sets, beside "
        "scikit-learn's neighbourhood components analysis followed by nearest neighbours (the "
        "better of 1 and 5, which favours it), in the same run? Both have seen the training rows "
        "only.",
        packages=("torch",),
    )
    for key, result in found.items():
        rows = result["rows"]
        nca = rows.get("NCA + k-NN, scikit-learn")
        page.table(
            ["model", "test error %", "fit, s", "times faster", "iterations", "note"],
            [
                (
                    label,
                    f"{row['error']:.2f}",
                    f"{row['seconds']:.1f}",
                    f"{nca['seconds'] / row['seconds']:.1f}" if nca and row is not nca else "",
                    row["n_iter"],
                    row["note"],
                )
                for label, row in rows.items()
            ],
            f"{key} ({result['machine']})",
        )
    page.text(
        "Bar: at least five times faster than the peer at no worse error, on the CPU. Where the "
        "peer was stopped, the factor is a lower bound."
    )
    page.write()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sets", nargs="+", default=["satimage", "letter"])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--limit", type=float, default=240.0)
    parser.add_argument("--no-peer", action="store_true")
    arguments = parser.parse_args()
    CACHE.parent.mkdir(exist_ok=True)
    found = json.loads(CACHE.read_text()) if CACHE.exists() else {}
    for name in arguments.sets:
        with_peer = arguments.device == "cpu" and not arguments.no_peer
        result = measure(name, arguments.device, arguments.limit, with_peer)
        found[f"{name}, {arguments.device}"] = result
        CACHE.write_text(json.dumps(found))
    write(found)


if __name__ == "__main__":
    main()
