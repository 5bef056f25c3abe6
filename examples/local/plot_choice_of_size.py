"""
What the default selects
========================

``LocalClassifier()`` is one local model: columns are scaled, size and penalty are selected by
leave-one-out. Every part of a prediction can be inspected.
"""

# %%
# Fit, and look at the selection
# ------------------------------
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from vicinal.inspection import SelectionCurveDisplay
from vicinal.local import LocalClassifier

data = load_breast_cancer()
X, X_test, y, y_test = train_test_split(data.data, data.target, random_state=0)
model = LocalClassifier(random_state=0).fit(X, y)
print(f"{model.n_neighbors_} neighbours, alpha = {model.alpha_:g}")
print(f"leave-one-out error {model.loo_score_:.3f}")
print(f"error on new rows {1.0 - model.score(X_test, y_test):.3f}")
SelectionCurveDisplay.from_estimator(model)

# %%
# Explanation of one prediction
# -----------------------------
# The slopes of the model around a row, and the training rows with the most weight.
import matplotlib.pyplot as plt
import numpy as np

row = X_test[[4]]
slopes = model.local_coef(row)[0] * X.std(axis=0)
weights = model.neighbors(row).toarray()[0]
print(f"probability of {data.target_names[1]}: {model.predict_proba(row)[0, 1]:.2f}")
print(f"effective sample size: {model.effective_sample_size(row)[0]:.0f} rows")

fig, axes = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
largest = np.argsort(-np.abs(slopes))[:10][::-1]
axes[0].barh(data.feature_names[largest], slopes[largest], color="C0")
axes[0].set(title="slope of the score per standard deviation")
nearest = np.argsort(-weights)[:40]
colors = np.where(y[nearest] == 1, "C2", "C3")
axes[1].bar(np.arange(40), weights[nearest], color=colors)
axes[1].set(title="forty heaviest neighbours (green: benign)", xlabel="neighbour", ylabel="weight")
plt.show()
