"""
A few stored models instead of all rows
=======================================

A local model stores every training row and fits a model at every query. ``AnchoredLocalClassifier``
fits a few local models once and averages them, so that the time of a prediction does not depend on
the number of training rows. The position of the anchors matters: inside a class one model serves a
wide region, near a border many are needed. An uncertainty map shows where that is, and a mixture
model weighted by it gives the centres.
"""

# %%
# Rows, and how uncertain each of them is
# ---------------------------------------
import numpy as np
from sklearn.cluster import KMeans

from vicinal.local import AnchoredLocalClassifier, LocalClassifier
from vicinal.uncertainty import ResponsibilityMixture, uncertainty_map

N_ANCHORS = 24


def sample(n, seed):
    """Two classes whose border winds through one half of the plane only."""
    rng = np.random.RandomState(seed)
    X = rng.uniform([-6, -2], [6, 2], size=(n, 2))
    border = np.sin(2.5 * X[:, 0])
    return X, (X[:, 1] + 0.15 * rng.normal(size=n) > np.where(X[:, 0] > 0, border, -3)).astype(int)


X, y = sample(4000, 0)
test = sample(20_000, 1)
uncertainty = uncertainty_map(X, y, n_neighbors=20)

# %%
# Centres by density, and by uncertainty
# --------------------------------------
everywhere = KMeans(N_ANCHORS, n_init=3, random_state=0).fit(X).cluster_centers_
mixture = ResponsibilityMixture(N_ANCHORS, covariance_type="spherical", random_state=0)
uncertain = mixture.fit(X, sample_weight=uncertainty + 0.01).means_

settings = {"n_neighbors": 40, "alpha": 0.1, "metric": "euclidean", "random_state": 0}
models = {
    "around every query": LocalClassifier(**settings),
    f"{N_ANCHORS} anchors by density": AnchoredLocalClassifier(everywhere, **settings),
    f"{N_ANCHORS} anchors by uncertainty": AnchoredLocalClassifier(uncertain, **settings),
}
for name, model in models.items():
    model.fit(X, y)
    print(f"{name:26s} test error {1 - model.score(*test):6.2%}")

# %%
# What they have learned
# ----------------------
import matplotlib.pyplot as plt

axis = [np.linspace(-6, 6, 200), np.linspace(-2, 2, 80)]
plane = np.stack(np.meshgrid(*axis), axis=-1).reshape(-1, 2)
fig, axes = plt.subplots(3, 1, figsize=(8, 8), layout="constrained", sharex=True)
for ax, (name, model) in zip(axes, models.items(), strict=True):
    proba = model.predict_proba(plane)[:, 1].reshape(80, 200)
    ax.contourf(*axis, proba, levels=np.linspace(0, 1, 11), cmap="RdBu_r", alpha=0.8)
    ax.contour(*axis, proba, levels=[0.5], colors="k")
    if hasattr(model, "anchors_"):
        ax.plot(*model.anchors_.centers.T, "o", color="gold", mec="k", ms=8)
    ax.set(title=f"{name}: {1 - model.score(*test):.1%} error", yticks=[])
plt.show()

# %%
# The stored models are plain arrays, a few hundred numbers instead of four thousand rows. The
# neighbours of a query are now the anchors that are averaged.
stored = models[f"{N_ANCHORS} anchors by uncertainty"]
print("values", stored.anchors_.values.shape, "slopes", stored.anchors_.slopes.shape)
print("blended at (2, 0):", stored.neighbors([[2.0, 0.0]]).indices)
