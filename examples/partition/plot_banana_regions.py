"""
A bent border from straight pieces
==================================

Two banana-shaped classes cannot be told apart by one line. A cascade cuts the plane with a few
lines of its own (its gates) and draws one line in each piece. The result stays readable: a handful
of coefficients says all of it.
"""

# %%
# One, two and five regions
# -------------------------
# ``combine="best"`` keeps one cascade, which can be drawn and read. Of five regions to begin with
# four remain: one held no row in the end.
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
# Colours are predictions, black lines are the gates. A gate is drawn only where samples reach it.
import matplotlib.pyplot as plt

from vicinal.inspection import PartitionRegionsDisplay

fig, axes = plt.subplots(1, 3, figsize=(12, 4), layout="constrained")
for ax, model in zip(axes, models.values(), strict=True):
    PartitionRegionsDisplay.from_estimator(model, X, y, ax=ax)
    ax.set_title(f"{model.n_regions_} region(s), test error {1 - model.score(X_test, y_test):.1%}")
plt.show()

# %%
# What a cascade says
# -------------------
# The report describes each region on any labelled data.
print(models[2].region_report(X_test, y_test).round(3))
