"""
Local and global linear classifiers
===================================

A linear classifier has one straight boundary. Fitted around every query, it has a boundary that
follows the data. The size of the neighbourhood leads from one to the other.
"""

# %%
# Two curved classes
# ------------------
import numpy as np

from vicinal.datasets import make_banana
from vicinal.local import LocalClassifier

X, y = make_banana(400, random_state=0)
test = make_banana(4000, random_state=1)

models = {
    "one model for all": LocalClassifier(
        loss="log_loss", bandwidth=np.inf, alpha=0.1, metric="euclidean"
    ),
    "200 neighbours": LocalClassifier(
        loss="log_loss", n_neighbors=200, alpha=0.1, metric="euclidean"
    ),
    "60 neighbours": LocalClassifier(
        loss="log_loss", n_neighbors=60, alpha=0.1, metric="euclidean"
    ),
}
for name, model in models.items():
    model.fit(X, y)
    print(f"{name:18s} test error {1 - model.score(*test):6.1%}")

# %%
# Regions, and the slopes behind them
# -----------------------------------
import matplotlib.pyplot as plt

low, high = X.min(axis=0) - 0.5, X.max(axis=0) + 0.5
axis = [np.linspace(a, b, 80) for a, b in zip(low, high, strict=True)]
plane = np.stack(np.meshgrid(*axis), axis=-1).reshape(-1, 2)

fig, axes = plt.subplots(1, 3, figsize=(12, 4), layout="constrained", sharey=True)
for ax, (name, model) in zip(axes, models.items(), strict=True):
    proba = model.predict_proba(plane)[:, 1].reshape(80, 80)
    ax.contourf(*axis, proba, levels=np.linspace(0, 1, 11), cmap="RdBu_r", alpha=0.8)
    ax.contour(*axis, proba, levels=[0.5], colors="k", linewidths=1.5)
    for label, marker, colour in ((0, "o", "navy"), (1, "^", "darkred")):
        ax.scatter(*X[y == label].T, c=colour, marker=marker, s=20, edgecolors="w", linewidths=0.5)
    ax.set(title=f"{name}: {1 - model.score(*test):.1%} error", xticks=[], yticks=[])
plt.show()

# %%
# Every prediction of the local models is that of a linear model, fitted around its query:
query = X[:1]
print("slopes at one row:", models["60 neighbours"].local_coef(query).round(2)[0])
print("effective sample size:", models["60 neighbours"].effective_sample_size(query).round()[0])
