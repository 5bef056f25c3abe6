"""
Which digits share a region
===========================

With many classes a partition simplifies the problem: in each region a simple classifier has fewer
digits to separate. The average of several starts is more accurate, but not as easy to interpret.
"""

# %%
# One cascade and an average
# --------------------------
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from vicinal.partition import SpacePartitioningClassifier

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0)

one = SpacePartitioningClassifier(n_regions=5, combine="best", random_state=0)
average = SpacePartitioningClassifier(n_regions=5, random_state=0)
single = SpacePartitioningClassifier(n_regions=1, random_state=0)
for label, model in {"one region": single, "best start": one, "average of 10": average}.items():
    print(f"{label:14s} {1 - model.fit(X_train, y_train).score(X_test, y_test):.1%}")

# %%
# Classes in each region
# ----------------------
import matplotlib.pyplot as plt

counts = one.region_histogram(X_test, y_test)
figure, axes = plt.subplots(1, len(counts), figsize=(12, 2.6), sharey=True, layout="constrained")
for region, (ax, row) in enumerate(zip(axes, counts, strict=True)):
    ax.bar(one.classes_, row, color=f"C{region}")
    ax.set(title=f"region {region} ({row.sum()})", xlabel="digit")
plt.show()
