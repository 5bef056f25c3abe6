"""
Votes or probabilities?
=======================

Discrete AdaBoost counts the votes of its base models, Real AdaBoost adds the logarithms of their
probabilities. For stumps, the weakest trees, a probability has more information than a vote.
"""

# %%
# Stumps and five-leaf trees
# --------------------------

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_hastie_10_2
from sklearn.ensemble import AdaBoostClassifier
from sklearn.tree import DecisionTreeClassifier

from vicinal.ensemble import RealAdaBoostClassifier

X, y = make_hastie_10_2(n_samples=3000, random_state=0)
X_train, y_train, X_test, y_test = X[:1000], y[:1000], X[1000:], y[1000:]
stump = DecisionTreeClassifier(max_depth=1)
models = {
    "discrete, stumps": AdaBoostClassifier(stump, n_estimators=150, random_state=0),
    "real, stumps": RealAdaBoostClassifier(
        stump, n_estimators=150, learning_rate=1.0, random_state=0
    ),
    "real, 5-leaf trees, rate 0.3": RealAdaBoostClassifier(n_estimators=150, random_state=0),
}

# %%
# Error on new rows
# -----------------

figure, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
for name, model in models.items():
    stages = model.fit(X_train, y_train).staged_predict(X_test)
    error = [100 * np.mean(predicted != y_test) for predicted in stages]
    ax.plot(np.arange(1, len(error) + 1), error, label=name)
ax.set(xlabel="rounds", ylabel="test error in %", title="Sums of squares above a threshold")
ax.legend()
plt.show()
