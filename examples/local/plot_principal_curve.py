"""
The principal curve of a noisy spiral
=====================================

A curve that is no function of any column cannot be found by regression. It can be found as the
ridge of a density: every row moves to higher density, but only across the curve, where the cloud
is thin. :class:`~vicinal.local.PrincipalSurface` does that for curves and surfaces
and, in all directions, for the modes.
"""

# %%
# A spiral with noise
# -------------------
import numpy as np

from vicinal.local import PrincipalSurface

rng = np.random.RandomState(0)
turn = 2 * np.pi * np.sqrt(rng.uniform(0.1, 6, size=1200))
truth = 0.25 * turn[:, None] * np.column_stack([np.cos(turn), np.sin(turn)])
X = truth + 0.22 * rng.normal(size=truth.shape)

# %%
# Rows move to the ridge
# ----------------------
curve = PrincipalSurface(n_components=1).fit(X)
modes = PrincipalSurface(n_components=0, bandwidth=curve.bandwidth_).fit(X)


def distance_to_truth(points):
    line = 2 * np.pi * np.sqrt(np.linspace(0.05, 6.2, 4000))
    dense = 0.25 * line[:, None] * np.column_stack([np.cos(line), np.sin(line)])
    return np.sqrt(((points[:, None] - dense[None]) ** 2).sum(axis=2)).min(axis=1)


print(f"bandwidth: {curve.bandwidth_:.2f}")
print(f"median distance to the true spiral: {np.median(distance_to_truth(X)):.3f} before, ", end="")
print(f"{np.median(distance_to_truth(curve.surface_)):.3f} after")
print(f"{curve.converged_.mean():.0%} of the rows converged, in at most {curve.n_iter_} steps")

# %%
import matplotlib.pyplot as plt

fig, axes = plt.subplots(1, 2, figsize=(11, 5.2), layout="constrained", sharex=True, sharey=True)
axes[0].plot(*X.T, ".", color="0.7", ms=4)
axes[0].set_title("rows")
axes[1].plot(*X.T, ".", color="0.88", ms=4)
axes[1].plot(*curve.surface_.T, ".", color="tab:red", ms=3, label="principal curve")
axes[1].plot(*modes.surface_.T, "o", mfc="none", color="tab:blue", ms=6, label="modes")
axes[1].set_title("ridge of their density")
axes[1].legend(loc="upper left")
for ax in axes:
    ax.set(aspect="equal", xticks=[], yticks=[])
plt.show()

# %%
# The red points are the same rows, moved to the curve. A larger bandwidth gives a smoother curve,
# which lies farther on the inner side of the spiral.
