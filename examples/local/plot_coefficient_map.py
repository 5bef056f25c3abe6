"""
Coefficients that change over a map
===================================

One regression for a whole country hides effects that differ between regions. With
``location_columns`` a local model computes distances on the map and fits the other columns:
geographically weighted regression. The slopes are then a map themselves.
"""

# %%
# Flats whose price per square metre depends on where they are
# ------------------------------------------------------------
import numpy as np
from sklearn.linear_model import LinearRegression

from vicinal.local import LocalRegressor

rng = np.random.RandomState(0)
location = rng.uniform(0, 10, size=(1500, 2))
area = rng.uniform(30, 120, size=1500)
age = rng.uniform(0, 80, size=1500)


def area_effect(location):
    return 2 + 4 * np.exp(-((location - [3, 6]) ** 2).sum(axis=1) / 6)


price = area_effect(location) * area - 0.8 * age + 15 * rng.normal(size=1500)
X = np.column_stack([location, area, age])

# %%
# One linear model for all flats, and local ones
# ----------------------------------------------
everywhere = LinearRegression().fit(X[:1000], price[:1000])
local = LocalRegressor(location_columns=[0, 1], n_neighbors=100, degree=1, alpha=0.0)
local.fit(X[:1000], price[:1000])
print(f"R2 of one line for all: {everywhere.score(X[1000:], price[1000:]):.3f}")
print(f"R2 of local lines:      {local.score(X[1000:], price[1000:]):.3f}")

# %%
import matplotlib.pyplot as plt

side = np.linspace(0, 10, 60)
nodes = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
queries = np.column_stack([nodes, np.full(len(nodes), 75.0), np.full(len(nodes), 40.0)])
slopes = local.local_coef(queries)[:, 2]

fig, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained", sharey=True)
for ax, values, title in zip(
    axes, (area_effect(nodes), slopes), ("true price of a square metre", "found"), strict=True
):
    ax.pcolormesh(side, side, values.reshape(60, 60), vmin=1.5, vmax=6.5, cmap="viridis")
    ax.set(title=title, xlabel="east", aspect="equal")
axes[0].set_ylabel("north")
axes[1].plot(*location[:1000].T, ".", color="w", ms=1, alpha=0.6)
fig.colorbar(axes[0].collections[0], ax=axes, label="thousands a square metre")
plt.show()

# %%
# The expensive quarter in the west is found, with its shape, from the sales.
