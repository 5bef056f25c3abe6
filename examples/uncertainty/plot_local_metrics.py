"""
Two borders, two metrics
========================

On the left the classes differ in one feature, on the right in another. One metric must stretch both
features everywhere, and one of them is noise there.
:class:`~vicinal.uncertainty.LocallyAdaptiveClassifier` learns a metric for each side.
"""

import matplotlib.pyplot as plt
import numpy as np

from vicinal.uncertainty import LocallyAdaptiveClassifier

# %%
# Twelve features: the first is the side, the second and third decide the class, the others are
# noise.

rng = np.random.RandomState(1)
X = rng.normal(size=(2600, 12))
right = rng.uniform(size=2600) < 0.5
X[:, 0] += np.where(right, 6.0, -6.0)
y = np.where(right, X[:, 1] > 0, X[:, 2] > 0).astype(int)
X_train, y_train, X_test, y_test = X[:600], y[:600], X[600:], y[600:]

one = LocallyAdaptiveClassifier(1, random_state=0).fit(X_train, y_train)
two = LocallyAdaptiveClassifier(2, random_state=0).fit(X_train, y_train)
errors = {model.n_regions_: 1 - model.score(X_test, y_test) for model in (one, two)}
print({k: f"{100 * error:.1f} % errors" for k, error in errors.items()})

# %%
# Length of one unit of each feature in the single metric and in each of the two. The component on
# the left uses the third feature, the one on the right the second.

figure, axes = plt.subplots(1, 3, figsize=(10, 3), sharey=True)
sides = X_train[:, 0] > 0
owner = two.mixture_.predict((X_train - two.mean_) @ two.whitening_.T)
panels = [(f"one metric: {100 * errors[1]:.1f} % errors", one.metrics_[0])]
for k in np.argsort([sides[owner == k].mean() for k in range(2)]):
    side = "right" if sides[owner == k].mean() > 0.5 else "left"
    panels.append((f"two metrics: {100 * errors[2]:.1f} %; on the {side}", two.metrics_[k]))
for axis, (title, metric) in zip(axes, panels, strict=True):
    axis.bar(np.arange(1, 13), np.linalg.norm(metric, axis=0))
    axis.set(title=title, xlabel="feature")
axes[0].set_ylabel("stretch")
figure.tight_layout()
plt.show()
