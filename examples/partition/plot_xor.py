"""
How a cascade learns
====================

Exclusive or is the smallest problem that one line cannot solve and two regions can. Hard cascades
find the solution within a few sweeps from nearly every random start. The surrogate model takes more
steps, but has an objective that falls at each of them.
"""

# %%
# Twelve random starts of each
# ----------------------------
import numpy as np

from vicinal.datasets import make_xor
from vicinal.partition import SpacePartitioningClassifier, SurrogatePartitionClassifier

X, y = make_xor(400, noise=0.25, random_state=0)
hard = SpacePartitioningClassifier(
    "lda", n_regions=2, n_init=12, init="random", max_iter=12, random_state=0
).fit(X, y)
surrogate = SurrogatePartitionClassifier(alpha=0.1, n_init=12, random_state=0).fit(X, y)
print(f"hard starts: errors from {hard.start_errors_[0]:.1%} to {hard.start_errors_[-1]:.1%}")
steps = np.concatenate([np.diff(objective) for objective in surrogate.objectives_])
print(f"surrogate: {np.sum(steps > 0)} of {len(steps)} block steps raise the objective")

# %%
# Their curves and the partition they find
# ----------------------------------------
import matplotlib.pyplot as plt

from vicinal.inspection import PartitionRegionsDisplay, TrainingCurveDisplay

fig, axes = plt.subplots(1, 3, figsize=(12, 3.8), layout="constrained")
TrainingCurveDisplay.from_estimator(hard, ax=axes[0])
axes[0].set_title("hard cascade, 12 starts")
TrainingCurveDisplay.from_estimator(surrogate, ax=axes[1])
axes[1].set(title="global surrogate, 12 starts", xscale="log")
PartitionRegionsDisplay.from_estimator(surrogate, X, y, ax=axes[2])
axes[2].set_title("gate and regions of the surrogate")
plt.show()
