"""
Intervals that are wide where the noise is
==========================================

Intervals of constant width are too narrow where the noise is strong and too wide where it is weak,
even if they cover nine rows in ten on average. Here the noise grows eightfold from left to right.
Two intervals of the same forest are compared: one with local width, one with constant width.
"""

# %%
# Noise that grows
# ----------------
# A forest is fitted to 800 rows; five further fits give held-out predictions.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import RandomForestRegressor

from vicinal.uncertainty import ConformalRegressor


def table(n, seed):
    rng = np.random.RandomState(seed)
    X = rng.uniform(0, 1, size=(n, 2))
    noise = 0.26 + 1.8 * X[:, 0]
    return X, np.sin(6 * X[:, 0]) * 2 + X[:, 1] + noise * rng.normal(size=n), noise


X, y, _ = table(800, seed=0)
X_new, y_new, noise = table(5000, seed=1)
forest = RandomForestRegressor(100, min_samples_leaf=10, random_state=0)
model = ConformalRegressor(forest, random_state=0).fit(X, y)
low, high = model.predict_interval(X_new, coverage=0.9).T

# Constant width: the quantile of held-out errors.
reach = np.quantile(np.abs(y - model.held_out_), 0.9)
center = model.predict(X_new)

# %%
# Width and coverage against the true noise
# -----------------------------------------
# Both cover nine rows in ten. Only the local intervals do so everywhere.

covered = {
    "local scale": (low <= y_new) & (y_new <= high),
    "one width": np.abs(y_new - center) <= reach,
}
widths = {"local scale": high - low, "one width": np.full(len(center), 2 * reach)}
parts = np.array_split(np.argsort(noise), 10)
middle = [noise[part].mean() for part in parts]

figure, axes = plt.subplots(1, 3, figsize=(12, 3.8), layout="constrained")
order = np.argsort(X_new[:, 0])
axes[0].scatter(X[:, 0], y, s=6, color="0.6", label="rows")
for name, color in (("local scale", "tab:blue"), ("one width", "tab:orange")):
    half = widths[name] / 2
    ends = (low, high) if name == "local scale" else (center - half, center + half)
    for end in ends:
        # A running median hides the second column, which the picture does not show.
        smooth = [np.median(end[order][k : k + 200]) for k in range(0, 5000, 100)]
        where = [np.median(X_new[order, 0][k : k + 200]) for k in range(0, 5000, 100)]
        axes[0].plot(where, smooth, color=color, label=name if end is ends[0] else None)
    axes[1].plot(middle, [widths[name][part].mean() for part in parts], "o-", color=color)
    axes[2].plot(middle, [covered[name][part].mean() for part in parts], "o-", color=color)
    print(f"{name}: covers {covered[name].mean():.3f}, mean width {widths[name].mean():.2f}")
axes[0].set(xlabel="first column", ylabel="target", title="the rows and the ends of 90 %")
axes[0].legend(fontsize=8)
axes[1].plot(middle, 2 * 1.645 * np.array(middle), "k--", lw=1, label="right width")
axes[1].set(xlabel="true noise", ylabel="mean width", title="width")
axes[1].legend(fontsize=8)
axes[2].axhline(0.9, color="k", ls="--", lw=1)
axes[2].set(xlabel="true noise", ylabel="share covered", title="coverage", ylim=(0.6, 1.01))
plt.show()

# %%
# ``typicality`` is near 0 for rows that are unlike all training rows.

for row in ([0.5, 0.5], [0.5, 3.0]):
    print(row, f"typicality {model.typicality([row])[0]:.3f}")
