"""
A curved border from straight pieces
====================================

No line separates two banana-shaped classes. A cascade divides the plane by a few lines (its gates)
and fits a linear classifier in each region. The result is easy to interpret: it has only a few
coefficients.
"""

# %%
# One, two and five regions
# -------------------------
# ``combine="best"`` selects one cascade, which can be plotted and interpreted. Of five regions four
# remain, since one has no rows in the end.
from vicinal.datasets import make_banana
from vicinal.partition import SpacePartitioningClassifier

X, y = make_banana(400, random_state=0)
X_test, y_test = make_banana(5000, random_state=1)

models = {
    n_regions: SpacePartitioningClassifier(
        "logistic", n_regions=n_regions, combine="best", keep="best", random_state=0
    ).fit(X, y)
    for n_regions in (1, 2, 5)
}
for n_regions, model in models.items():
    print(f"{n_regions} regions: test error {1 - model.score(X_test, y_test):.1%}")

# %%
# What a cascade looks like
# -------------------------
# Colours are predictions, black lines are the gates. A gate is shown only where samples reach it.
import matplotlib.pyplot as plt

from vicinal.inspection import PartitionRegionsDisplay

fig, axes = plt.subplots(1, 3, figsize=(12, 4), layout="constrained")
for ax, model in zip(axes, models.values(), strict=True):
    PartitionRegionsDisplay.from_estimator(model, X, y, ax=ax)
    ax.set_title(f"{model.n_regions_} region(s), test error {1 - model.score(X_test, y_test):.1%}")
plt.show()

# %%
# The content of each region
# --------------------------
# The report describes each region on any labelled data.
print(models[2].region_report(X_test, y_test).round(3))
