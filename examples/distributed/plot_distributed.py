"""
Fits to blocks of rows equal the fit in memory
==============================================

Three models are fitted to a Dask table in blocks of several sizes. Their predictions equal those of
a fit in memory up to rounding, because these fits only need sums over the rows, and sums can be
computed block by block.
"""

# %%
# The same rows in 1, 4, 8 and 16 blocks
# --------------------------------------
# ``dask.array.from_array`` replaces the files on disk of a real table.
import dask.array as da
import numpy as np
from dask import config

from vicinal import distributed
from vicinal.datasets import make_banana
from vicinal.partition import SpacePartitioningClassifier
from vicinal.subspace import TruncatedRBFClassifier

X, y = make_banana(4000, random_state=0)
X_test, y_test = make_banana(4000, random_state=1)
few = {"n_regions": 4, "n_init": 2, "max_iter": 4, "random_state": 0}
models = {
    "cascade, discriminant": SpacePartitioningClassifier("lda", **few),
    "cascade, logistic": SpacePartitioningClassifier("logistic", **few),
    "truncated RBF ridge": TruncatedRBFClassifier(order=4),
}
sizes = [4000, 1000, 500, 250]

differences = {name: [] for name in models}
errors = {name: [] for name in models}
fitted = {}
with config.set(scheduler="synchronous"):
    for name, model in models.items():
        memory = model.fit(X, y).predict_proba(X_test)
        for size in sizes:
            rows, labels = da.from_array(X).rechunk((size, 2)), da.from_array(y).rechunk(size)
            fitted[name] = distributed.fit(model, rows, labels)
            differences[name].append(np.abs(fitted[name].predict_proba(X_test) - memory).max())
            errors[name].append(1 - fitted[name].score(X_test, y_test))

# %%
# Largest difference from the fit in memory, and test error
# ---------------------------------------------------------
# All differences are far below the dotted line at 1e-9, for every block size.
import matplotlib.pyplot as plt

figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained")
for name, marker in zip(models, "osd", strict=True):
    left.loglog(sizes, np.maximum(differences[name], 1e-17), marker=marker, label=name)
    right.semilogx(sizes, 100 * np.array(errors[name]), marker=marker)
left.axhline(1e-9, color="0.6", linestyle=":")
left.set(
    xlabel="rows of a block",
    ylabel="largest difference of a probability",
    title="Difference from the fit in memory",
)
right.set(xlabel="rows of a block", ylabel="test error, %", title="Error on new rows")
for axes in (left, right):
    axes.invert_xaxis()
    axes.set_xticks(sizes, [str(size) for size in sizes])
    axes.minorticks_off()
right.set_ylim(0, 1.1 * 100 * max(map(max, errors.values())))
figure.legend(loc="outside lower center", ncols=3)
plt.show()

# %%
# The result is an ordinary fitted model, which can be used without Dask.
for model in fitted.values():
    print(type(model).__module__, type(model).__name__)
