"""
How far is near: bias, variance and the bandwidth
=================================================

A local linear model with few neighbours follows the noise. With many neighbours it cannot follow
the curve. Leave-one-out predictions on the training rows find the number in between.
"""

# %%
# A curve that is flat on the left and curved on the right, with noise.
import matplotlib.pyplot as plt
import numpy as np

from vicinal.local import LocalRegressor

rng = np.random.RandomState(0)


def curve(x):
    return np.sin(3 * x**2)


x = np.sort(rng.uniform(0, 2, 400))
y = curve(x) + rng.normal(scale=0.4, size=len(x))
grid = np.linspace(0, 2, 300)

# %%
# Three fits, and the error of many by the number of neighbours: on the training rows, and against
# the true curve.
sizes = [8, 40, 400]
figure, axes = plt.subplots(1, 4, figsize=(13, 3.2), layout="constrained")
for axis, size in zip(axes[:3], sizes, strict=True):
    model = LocalRegressor(n_neighbors=size, alpha=0.0, metric="euclidean").fit(x[:, None], y)
    axis.scatter(x, y, s=5, color="0.75", linewidths=0)
    axis.plot(grid, curve(grid), color="0.35", linestyle="--", label="true curve")
    axis.plot(grid, model.predict(grid[:, None]), color="#d9822b", linewidth=2, label="local fit")
    axis.set(title=f"{size} neighbours", ylim=(-2, 2), xlabel="x")
axes[0].legend(loc="lower left", fontsize=8)

many = np.unique(np.geomspace(5, 400, 16).astype(int))
training, truth = [], []
for size in many:
    model = LocalRegressor(n_neighbors=int(size), alpha=0.0, metric="euclidean")
    model.fit(x[:, None], y)
    training.append(np.mean((model.predict(x[:, None]) - y) ** 2))
    truth.append(np.mean((model.predict(grid[:, None]) - curve(grid)) ** 2))
chosen = LocalRegressor(alpha=0.0, metric="euclidean", random_state=0).fit(x[:, None], y)
axes[3].loglog(many, training, color="0.6", label="error on training rows")
axes[3].loglog(many, truth, color="#1f6f8b", label="error against the curve")
axes[3].axvline(chosen.n_neighbors_, color="#d9822b", linestyle=":", label='n_neighbors="auto"')
axes[3].set(title="bias and variance", xlabel="neighbours")
axes[3].legend(fontsize=8)
plt.show()

# %%
# The error on training rows falls with fewer neighbours and is no guide. Leave-one-out predictions
# do not use the row itself, and select a number near the best.
print(f"chosen: {chosen.n_neighbors_} neighbours")
