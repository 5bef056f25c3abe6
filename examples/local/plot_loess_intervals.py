"""
A smooth curve with intervals
=============================

LOESS fits a parabola around every point of a curve. The fit is linear in the targets, which gives
its noise level. The example shows the curve, confidence intervals of its true value, prediction
intervals of new observations, and the effect of robust iterations on outliers.
"""

# %%
# A curve with noise and outliers
# -------------------------------
import numpy as np

from vicinal.local import LoessRegressor

rng = np.random.RandomState(3)
x = np.sort(rng.uniform(0, 6, 220))
truth = np.sin(x) + 0.3 * x
y = truth + 0.25 * rng.normal(size=220)
y[::18] += 2.5

grid = np.linspace(0, 6, 300)[:, None]
plain = LoessRegressor(span=0.35).fit(x[:, None], y)
robust = LoessRegressor(span=0.35, robust_iterations=4).fit(x[:, None], y)

# %%
# Intervals
# ---------
# Outliers pull the plain fit towards them and enlarge its noise level. Robust iterations identify
# them; fitted to the other rows, the intervals are those of the ordinary rows.
kept = np.abs(y - robust.predict(x[:, None])) < 1.2
clean = LoessRegressor(span=0.35).fit(x[kept, None], y[kept])
for name, model in (("all rows", plain), ("outliers left out", clean)):
    found = model.statistics()
    print(
        f"{name:18s} sigma {found.sigma[0]:.2f}, {found.equivalent_parameters:.1f} equivalent "
        f"parameters, {found.dof:.0f} degrees of freedom"
    )

# %%
import matplotlib.pyplot as plt

fig, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True, layout="constrained")
for ax, model, title in zip(axes, (plain, clean), ("all rows", "outliers left out"), strict=True):
    for kind, shade in (("prediction", 0.15), ("confidence", 0.4)):
        low, high = model.predict_interval(grid, 0.95, method="normal", kind=kind).T
        ax.fill_between(grid[:, 0], low, high, color="C0", alpha=shade, lw=0, label=f"95 % {kind}")
    ax.plot(x, y, ".", color="0.4", ms=4)
    ax.plot(grid, model.predict(grid), color="C0", label="LOESS")
    ax.plot(x, truth, "k--", lw=1, label="truth")
    ax.set(title=title, xlabel="x")
axes[0].plot(grid, robust.predict(grid), color="C3", label="four robust iterations")
axes[0].set_ylabel("y")
fig.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
plt.show()

# %%
# The robust curve (red) follows the ordinary rows, although it was fitted to all of them.
