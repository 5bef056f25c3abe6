"""LOESS: equality with the reference code, and time compared with it and statsmodels."""

import numpy as np
import statsmodels.api as sm
from skmisc.loess import loess

from _harness import ResultsPage
from _harness import processor_timed as timed
from vicinal.local import LocalRegressor, LoessRegressor


def curve(n, seed=0):
    rng = np.random.RandomState(seed)
    x = np.sort(rng.uniform(0, 6, n))
    return x, np.sin(x) + 0.2 * rng.standard_t(5, size=n)


def surface(n, seed=0):
    rng = np.random.RandomState(seed)
    X = rng.uniform(0, 1, size=(n, 2))
    return X, np.sin(5 * X[:, 0]) * X[:, 1] + 0.1 * rng.normal(size=n)


def reference(X, y, **settings):
    """Fit the reference code; two columns go in with their memory order exchanged."""
    X = X if X.ndim == 1 else X.T.copy().reshape(X.shape)
    model = loess(X, y, normalize=False, **settings)
    model.fit()
    return model


def equality(page):
    rows = []
    for d in (1, 2):
        for degree in (1, 2):
            for family in ("gaussian", "symmetric"):
                X, y = curve(150) if d == 1 else surface(150)
                iterations = 4 if family == "symmetric" else 1
                theirs = reference(
                    X, y, span=0.5, degree=degree, family=family, iterations=iterations,
                    surface="direct", statistics="exact",
                )  # fmt: skip
                Z = X.reshape(150, d)
                robust = 4 if family == "symmetric" else 0
                ours = LoessRegressor(0.5, degree=degree, robust_iterations=robust).fit(Z, y)
                gap = np.abs(ours.predict(Z) - theirs.outputs.fitted_values).max()
                error = "-"
                if d == 1 and family == "gaussian":
                    q = np.linspace(0.1, 5.9, 40)
                    expected = theirs.predict(q, stderror=True).stderr
                    found = ours.predict(q[:, None], return_std=True)[1]
                    error = f"{np.abs(found - expected).max():.1e}"
                rows.append([d, degree, family, f"{gap:.1e}", error])
    page.text('## Equality with the reference code (`surface="direct"`)')
    page.table(
        ["columns", "degree", "family", "largest difference of values", "of standard errors"], rows
    )


def one_column(page):
    rows = []
    for n in (10_000, 100_000):
        x, y = curve(n)
        X = x[:, None]
        exact_time, exact = timed(
            lambda X=X, y=y: LoessRegressor(0.1, degree=1).fit(X, y).predict(X), repeat=3
        )
        blend_time, blended = timed(
            lambda X=X, y=y: (
                LoessRegressor(0.1, degree=1, surface="interpolate").fit(X, y).predict(X)
            ),
            repeat=5,
        )
        skm_time, skm = timed(
            lambda x=x, y=y: reference(x, y, span=0.1, degree=1, surface="interpolate"), repeat=3
        )
        sm_time, lowess = timed(
            lambda x=x, y=y: sm.nonparametric.lowess(y, x, frac=0.1, it=0, is_sorted=True)
        )
        delta = 0.01 * np.ptp(x)
        delta_time, fast = timed(
            lambda x=x, y=y, delta=delta: sm.nonparametric.lowess(
                y, x, frac=0.1, it=0, delta=delta, is_sorted=True
            ),
            repeat=3,
        )
        direct = "-"
        if n <= 10_000:
            direct_time, _ = timed(
                lambda x=x, y=y: reference(x, y, span=0.1, degree=1, surface="direct")
            )
            direct = f"{direct_time:.2f}"
        gap = {
            "ours, interpolated": blended,
            "skmisc, interpolated": skm.outputs.fitted_values,
            "statsmodels, exact": lowess[:, 1],
            "statsmodels, delta": fast[:, 1],
        }
        errors = {name: np.abs(value - exact).max() for name, value in gap.items()}
        rows += [
            [n, "ours, exact", f"{exact_time:.3f}", "-"],
            [n, "ours, interpolated", f"{blend_time:.3f}", f"{errors['ours, interpolated']:.1e}"],
            [n, "skmisc, direct", direct, "-"],
            [n, "skmisc, interpolated", f"{skm_time:.3f}", f"{errors['skmisc, interpolated']:.1e}"],
            [n, "statsmodels, exact", f"{sm_time:.3f}", f"{errors['statsmodels, exact']:.1e}"],
            [n, "statsmodels, delta", f"{delta_time:.3f}", f"{errors['statsmodels, delta']:.1e}"],
        ]
    page.text("## One column, span 0.1, degree 1 (fit and predict at every row)")
    page.table(["rows", "method", "processor s", "largest distance from our exact values"], rows)
    page.text("## Targets")
    page.table(
        ["question", "target", "ours", "reached"],
        [
            [
                "exact, 100,000 rows",
                f"a tenth of statsmodels' exact time ({sm_time / 10:.2f} s)",
                f"{exact_time:.2f} s",
                "yes" if exact_time <= sm_time / 10 else "no",
            ],
            [
                "interpolated, 100,000 rows",
                f"3 x skmisc ({3 * skm_time:.3f} s)",
                f"{blend_time:.3f} s",
                "yes" if blend_time <= 3 * skm_time else "no",
            ],
        ],
    )
    pairs = 1e5 * 1e4
    page.text(
        f"The exact values take {pairs:.0e} kernel evaluations in {exact_time:.2f} s, "
        f"{pairs / exact_time / 1e9:.2f} per nanosecond, at about 18 flops each: "
        f"{18 * pairs / exact_time / 1e9:.0f} Gflop/s. The points stream from cache in order, so "
        "arithmetic bounds it; nothing but fewer evaluations (interpolation) would help much."
    )


def geographic(page):
    rng = np.random.RandomState(0)
    place, Z = rng.uniform(0, 1, size=(400, 2)), rng.normal(size=(400, 2))
    truth = np.column_stack([1 + place[:, 0], np.sin(3 * place[:, 1])])
    y = 1 + (truth * Z).sum(axis=1) + 0.1 * rng.normal(size=400)
    X = np.column_stack([place, Z])
    model = LocalRegressor(
        location_columns=[0, 1],
        metric="euclidean",
        bandwidth=0.2,
        kernel="gaussian",
        alpha=0.0,
        degree=1,
    ).fit(X, y)
    slopes = model.local_coef(X)[:, 2:]
    D = np.column_stack([np.ones(400), Z])
    dense = []
    for i in range(400):
        w = np.exp(-0.5 * ((place - place[i]) ** 2).sum(axis=1) / 0.04)
        dense.append(np.linalg.solve(D.T @ (w[:, None] * D), D.T @ (w * y))[1:])
    page.text("## Geographically weighted regression on a synthetic surface, 400 rows")
    page.text(
        f"Largest difference of the local coefficients from a dense reference: "
        f"{np.abs(slopes - dense).max():.1e} (weights below 1e-8 of the largest are left out); "
        f"correlation with the true coefficient surfaces "
        f"{np.corrcoef(slopes[:, 0], truth[:, 0])[0, 1]:.3f} and "
        f"{np.corrcoef(slopes[:, 1], truth[:, 1])[0, 1]:.3f}."
    )


def fill(page):
    equality(page)
    one_column(page)
    geographic(page)


def main():
    page = ResultsPage(
        "loess",
        "LOESS compared with its reference implementations",
        "Does `LoessRegressor` give the values of the reference code, and how long does it take? "
        "Seconds are processor time, of all threads together: ours use every core, the others one.",
        packages=("scikit-misc", "statsmodels"),
    )
    page.section("page", fill)
    page.write()


if __name__ == "__main__":
    main()
