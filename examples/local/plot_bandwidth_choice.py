"""
How large a neighbourhood?
==========================

Too few neighbours follow the noise, too many blur the curve. Leaving each row out of its own
neighbourhood measures both errors at once, and one search serves every size.
"""

# %%
# A curve that is calm on the left and busy on the right
# ------------------------------------------------------
import numpy as np

from vicinal.local import LocalRegressor

rng = np.random.RandomState(0)
x = np.sort(rng.uniform(0, 4, 400))[:, None]
truth = np.sin(x.ravel() ** 2)
y = truth + 0.3 * rng.normal(size=400)

model = LocalRegressor(degree=1, alpha=0.0, metric="euclidean").fit(x, y)
table = model.selection_
print("neighbours  left-out error")
for size, loss in zip(table["size"], table["loss"], strict=True):
    print(f"{size:10.0f}  {loss:.3f}" + ("  <- chosen" if size == model.n_neighbors_ else ""))

# %%
# Three sizes
# -----------
import matplotlib.pyplot as plt

fig, axes = plt.subplots(1, 4, figsize=(13, 3.4), layout="constrained")
axes[0].plot(table["size"], table["loss"] * np.var(y), "o-", label="left out")
axes[0].axhline(0.09, color="k", ls=":", label="noise")
axes[0].set(xscale="log", ylim=(0.08, None), xlabel="neighbours", title="squared error")
axes[0].legend()
for ax, size in zip(axes[1:], (10, model.n_neighbors_, 160), strict=True):
    fit = LocalRegressor(n_neighbors=size, degree=1, alpha=0.0, metric="euclidean").fit(x, y)
    ax.plot(x, y, ".", color="0.75", ms=3)
    ax.plot(x, truth, "k--", lw=1)
    ax.plot(x, fit.predict(x), color="C0")
    ax.set(title=f"{size} neighbours", xlabel="x")
plt.show()

# %%
# Ten neighbours follow the noise, 160 cannot follow the last waves. The size selected by
# leave-one-out has an error little above the variance of the noise.
