"""
A metric that ignores irrelevant columns
========================================

The target depends on three of twelve columns. The slopes of local models show which, and a metric
learned from them shrinks the other nine in a few rounds.
"""

# %%
# A wave along one diagonal, among noise
# --------------------------------------
# The target changes along the sum of the first two columns and, slowly, along the third.
import numpy as np

from vicinal.local import GradientMetric, LocalRegressor

rng = np.random.RandomState(0)
X = rng.normal(size=(1500, 12))
y = np.sin(1.5 * (X[:, 0] + X[:, 1])) + 0.3 * X[:, 2] + 0.1 * rng.normal(size=1500)
train, test = slice(0, 1000), slice(1000, None)

rounds = range(1, 7)
metrics = [GradientMetric(r, random_state=0).fit(X[train], y[train]) for r in rounds]
settings = {"n_neighbors": 40, "alpha": 0.1, "degree": 1}
plain = LocalRegressor(metric="standardized", **settings).fit(X[train], y[train])
unexplained = [1.0 - plain.score(X[test], y[test])]
for metric in metrics:
    model = LocalRegressor(metric="euclidean", **settings)
    model.fit(metric.transform(X[train]), y[train])
    unexplained.append(1.0 - model.score(metric.transform(X[test]), y[test]))
print("unexplained variance by round:", np.round(unexplained, 3))

# %%
# What the map has learned
# ------------------------
# Left: the length of each column under the map. Middle: the metric itself after six rounds, in
# which the first two columns have become one direction. Right: the error on new rows.
import matplotlib.pyplot as plt

fig, axes = plt.subplots(1, 3, figsize=(13, 3.8), layout="constrained")
importance = np.array([metric.feature_importances_ for metric in metrics])
for j in range(12):
    style = {"color": f"C{j}", "lw": 2, "label": f"column {j}"} if j < 3 else {"color": "0.75"}
    axes[0].plot(rounds, importance[:, j], "o-", ms=4, **style)
axes[0].set(xlabel="rounds", title="length of each column under the map", ylim=(0, None))
axes[0].legend()
P = metrics[-1].components_
picture = axes[1].imshow(P.T @ P, cmap="RdBu_r", vmin=-abs(P.T @ P).max(), vmax=abs(P.T @ P).max())
axes[1].set(title="the metric after six rounds", xlabel="column", ylabel="column")
fig.colorbar(picture, ax=axes[1], shrink=0.85)
axes[2].plot([0, *rounds], unexplained, "o-", color="C3")
axes[2].axhline(0.01 / np.var(y), color="k", ls=":", label="noise")
axes[2].set(xlabel="rounds", yscale="log", title="unexplained variance, new rows")
axes[2].legend()
plt.show()
