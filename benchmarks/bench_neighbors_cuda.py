"""How fast is exact search on torch tensors on a GPU, compared with the matrix product alone?"""

from _harness import ResultsPage, timed
from bench_neighbors import DIMENSIONS, make_rows
from vicinal.neighbors import NeighborSearch

SIZES = ((20_000, 65_536, 200), (100_000, 65_536, 40), (1_000_000, 16_384, 40))
DEVICE = "cuda"


def case(n, queries, k, d, dtype):
    """Return microseconds a query of search and product, the recall and gigabytes."""
    import torch

    X, Q = make_rows(n, d, queries)
    exact = NeighborSearch(k).fit(X.astype(dtype)).kneighbors(Q[:256].astype(dtype))
    X = torch.asarray(X, dtype=getattr(torch, dtype), device=DEVICE)
    Q = torch.asarray(Q, dtype=X.dtype, device=DEVICE)
    search = NeighborSearch(k).fit(X)
    search.kneighbors(Q[:1_000])
    torch.cuda.reset_peak_memory_stats(DEVICE)

    def ask():
        found = search.kneighbors(Q)
        torch.cuda.synchronize(DEVICE)
        return found

    def multiply():
        for start in range(0, len(Q), 2_048):
            Q[start : start + 2_048] @ X.T
        torch.cuda.synchronize(DEVICE)

    seconds, (distances, _) = timed(ask, repeat=3)
    memory = torch.cuda.max_memory_allocated(DEVICE) / 2**30
    multiply()
    product, _ = timed(multiply, repeat=3)
    last = torch.asarray(exact[0][:, -1:], device=DEVICE)
    recall = float((distances[:256] <= last * (1 + 1e-6)).float().mean())
    return [1e6 * seconds / queries, 1e6 * product / queries, recall, memory]


def device_name():
    import torch

    return torch.cuda.get_device_name(DEVICE)


def main():
    page = ResultsPage(
        "neighbors_cuda",
        "Neighbour search on a GPU",
        "Time of exact search on torch tensors on a GPU, float32 and float64, against the matrix "
        "product alone; recall against the compiled search on the CPU for 256 of the queries.",
        packages=("torch",),
    )
    page.text(f"On {page.case(('device',), device_name)}.")
    rows = []
    for n, queries, k in SIZES:
        for d in DIMENSIONS:
            for dtype in ("float32", "float64"):
                key = n, queries, k, d, dtype
                found = page.case(key, lambda key=key: case(*key))
                rows.append((dtype, d, f"{n:,}", f"{queries:,}", k, *found))
    page.table(
        ("dtype", "d", "rows", "queries", "k", "µs per query", "product alone", "recall", "GB"),
        rows,
    )
    page.write()


if __name__ == "__main__":
    main()
