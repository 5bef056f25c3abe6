"""How long does learning take beside scikit-learn's NCA with nearest neighbours, at which error?

``python benchmarks/bench_uncertainty_speed.py --sets satimage letter`` on the CPU; add
``--device cuda`` where torch finds a GPU. The peer is stopped after ``--limit`` seconds of
processor time: the page then states its error and its iterations at that moment. Sets measured
earlier are kept, so that the page can be made in pieces. ``--folds`` compares the errors by
cross-validation of all rows of a set, and keeps times that were measured before.
"""

import argparse
import time
import warnings

import numpy as np
from scipy.stats import binomtest
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis
from sklearn.preprocessing import StandardScaler

from _harness import ResultsPage, machine, stored
from vicinal.datasets import load_dataset
from vicinal.uncertainty import LocallyAdaptiveClassifier


class OutOfTime(Exception):
    """Raised from the peer's callback when its time is over."""


def peer(X, y, X_test, y_test, limit):
    """NCA from the identity on standardised features, then the better of 1 and 5 neighbours."""
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
        if last["processor"] > limit:
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
        "wrong_by_neighbors": wrong,
        "seconds": last["seconds"],
        "processor": last["processor"],
        "n_iter": last["n_iter"],
        "note": "finished" if finished else f"stopped after {limit:.0f} s of processor time",
    }


def ours(X, y, X_test, y_test, device, n_seeds, **options):
    """Mean error and least time of some seeds."""
    if device != "cpu":
        import torch

        X, X_test = (torch.asarray(a, dtype=torch.float32, device=device) for a in (X, X_test))
        torch.cuda.synchronize()
    models, seconds, processor, wrong = [], [], [], []
    for seed in range(n_seeds):
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


def measure(name, device, limit, n_seeds, with_peer):
    data = load_dataset(name)
    X, X_test = (np.asarray(a, dtype=np.float64) for a in (data.X_train, data.X_test))
    y, y_test = data.y_train, data.y_test
    rows = {}
    for label, options in {"one metric": {"n_regions": 1}, "default": {}}.items():
        rows[label] = ours(X, y, X_test, y_test, device, n_seeds, **options)
        print(name, device, label, rows[label]["error"], rows[label]["seconds"], flush=True)
    if with_peer:
        rows["NCA + k-NN, scikit-learn"] = peer(X, y, X_test, y_test, limit)
        print(name, "peer", rows["NCA + k-NN, scikit-learn"]["seconds"], flush=True)
    return {"rows": rows, "machine": machine() if device == "cpu" else gpu_name()}


def cross_validate(name, n_folds, n_repeats):
    """Compare the wrong rows of both over folds of all rows; the peer with 1 and 5 neighbours."""
    data = load_dataset(name)
    X = np.vstack([data.X_train, data.X_test]).astype(np.float64)
    y = np.r_[data.y_train, data.y_test]
    wrong = {who: np.zeros(len(y), dtype=int) for who in ("ours", 1, 5)}
    for repeat in range(n_repeats):
        folds = StratifiedKFold(n_folds, shuffle=True, random_state=repeat).split(X, y)
        for fold, (train, test) in enumerate(folds):
            model = LocallyAdaptiveClassifier(random_state=repeat * n_folds + fold)
            model.fit(X[train], y[train])
            wrong["ours"][test] += model.predict(X[test]) != y[test]
            other = peer(X[train], y[train], X[test], y[test], np.inf)["wrong_by_neighbors"]
            for k in (1, 5):
                wrong[k][test[other[k]]] += 1
            print(name, repeat, fold, {who: int(n.sum()) for who, n in wrong.items()}, flush=True)
    n = len(y) * n_repeats
    rates = {who: 100 * times.sum() / n for who, times in wrong.items()}
    best = min((1, 5), key=rates.__getitem__)
    worse, better = (int(np.sum(sign * (wrong["ours"] - wrong[best]) > 0)) for sign in (1, -1))
    p = binomtest(worse, worse + better).pvalue
    return (
        f"{name}, all {len(y)} rows by {n_folds} folds, {n_repeats} times, defaults: wrong "
        f"{rates['ours']:.2f} % of the times, the peer {rates[1]:.2f} % with one neighbour and "
        f"{rates[5]:.2f} % with five; rows more often wrong with ours than with the better peer, "
        f"and less often: {worse} to {better} (sign test, p = {p:.1g}). Not blind: defaults were "
        "chosen by folds of the training rows of some sets, satimage among them."
    )


def gpu_name():
    import torch

    return torch.cuda.get_device_name()


def write(found, device):
    page = ResultsPage(
        "uncertainty_speed" if device == "cpu" else f"uncertainty_speed_{device}",
        "Learning metrics at full size" + ("" if device == "cpu" else f", on {device}"),
        "How long does `LocallyAdaptiveClassifier` take on whole training sets, beside "
        "scikit-learn's neighbourhood components analysis followed by nearest neighbours (the "
        "better of 1 and 5, which favours it), in the same run? Both have seen the training rows "
        "only. Ours: mean error of the seeds and least time of their fits. Sign tests, seed by "
        "seed: queries that only ours and only the peer gets wrong. Processor time is of all "
        "threads.",
        packages=("torch",),
        sources=("uncertainty_speed",),
    )
    for key, result in found.items():
        rows = result["rows"]
        nca = rows.get("NCA + k-NN, scikit-learn")
        page.table(
            [
                "model",
                "test error %",
                "fit, s",
                "times faster",
                "processor, s",
                "times less",
                "iterations",
                "note",
                "sign tests",
            ],
            [
                (
                    label,
                    f"{row['error']:.2f}",
                    f"{row['seconds']:.1f}",
                    f"{nca['seconds'] / row['seconds']:.1f}" if nca and row is not nca else "",
                    f"{row['processor']:.1f}",
                    f"{nca['processor'] / row['processor']:.1f}" if nca and row is not nca else "",
                    row["n_iter"],
                    row["note"],
                    sign_tests(row["wrong"], nca["wrong"][0]) if nca and row is not nca else "",
                )
                for label, row in rows.items()
            ],
            f"{key} ({result['machine']})",
        )
    page.text(
        "Bar: at least five times faster than the peer at no worse error, on the CPU. Where the "
        "peer was stopped, the factor is a lower bound."
    )
    for key, result in found.items():
        nca = result["rows"].get("NCA + k-NN, scikit-learn")
        if nca:
            default = result["rows"]["default"]
            ratio = min(nca[clock] / default[clock] for clock in ("seconds", "processor"))
            good = default["error"] <= nca["error"]
            page.text(
                f"{key}, defaults: five times faster: {'yes' if ratio >= 5 else 'NO'} "
                f"({ratio:.1f}, the lesser of clock and processor time); no worse error: "
                f"{'yes' if good else 'NO'} ({default['error']:.2f} beside {nca['error']:.2f})."
            )
        if "folds" in result:
            page.text(result["folds"])
    page.write()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sets", nargs="+", default=["satimage", "letter"])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--limit", type=float, default=240.0)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--folds", type=int, default=0, help="folds of a cross-validation")
    parser.add_argument("--repeats", type=int, default=3, help="how often the rows are folded")
    arguments = parser.parse_args()
    kept = stored("uncertainty_speed")
    for name in arguments.sets:
        key = f"{name}, {arguments.device}"
        with_peer = arguments.device == "cpu" and not arguments.no_peer
        found = kept.find(key)
        if not arguments.folds or found is None:
            found = measure(name, arguments.device, arguments.limit, arguments.seeds, with_peer)
        if arguments.folds:
            found["folds"] = cross_validate(name, arguments.folds, arguments.repeats)
        kept.keep((key,), found)
    known = kept.by_name().items()
    write({key: of for key, of in known if key.endswith(arguments.device)}, arguments.device)


if __name__ == "__main__":
    main()
