"""
Intervals from the bootstrap
============================

The standard deviation over bootstrap samples shows how uncertain the *model* is. A prediction
interval shows where the next *target* will be.
:class:`~vicinal.ensemble.BootstrapEnsembleRegressor` gives both.
"""

# %%
# A curve with noise
# ------------------

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer

from vicinal.ensemble import BootstrapEnsembleRegressor


def simulate(rng, n):
    x = rng.uniform(-3, 3, size=n)
    return x[:, None], np.sin(2 * x) + 0.4 * rng.normal(size=n)


X, y = simulate(np.random.RandomState(0), 200)
X_new, y_new = simulate(np.random.RandomState(1), 2000)

learner = make_pipeline(SplineTransformer(n_knots=8, extrapolation="linear"), Ridge(0.1))
model = BootstrapEnsembleRegressor(learner, random_state=0).fit(X, y)

# %%
# Two bands
# ---------
# The inner band is 1.645 standard deviations over the base models; it is narrow because there are
# many rows. The outer band adds the quantiles of out-of-bag residuals.

grid = np.linspace(-3, 3, 300)[:, None]
mean, spread = model.predict(grid, return_std=True)
low, high = model.predict_interval(grid, coverage=0.9).T

figure, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
ax.scatter(X, y, s=10, color="0.5", label="rows")
ax.fill_between(grid[:, 0], low, high, alpha=0.25, linewidth=0, label="90 % interval")
ax.fill_between(
    grid[:, 0],
    mean - 1.645 * spread,
    mean + 1.645 * spread,
    alpha=0.5,
    linewidth=0,
    label="standard deviation of the model",
)
ax.plot(grid, mean, color="C0")
ax.set(xlabel="x", ylabel="y")
ax.legend()
plt.show()

# %%
# How many of 2,000 new targets does each band hold?

mean, spread = model.predict(X_new, return_std=True)
low, high = model.predict_interval(X_new, coverage=0.9).T
print(f"interval: {np.mean((low <= y_new) & (y_new <= high)):.3f}")
print(f"spread:   {np.mean(np.abs(y_new - mean) <= 1.645 * spread):.3f}")
