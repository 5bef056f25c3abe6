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

from vicinal.inspection import PartitionHistogramDisplay

PartitionHistogramDisplay.from_estimator(one, X_test, y_test)
plt.show()
