"""
Encoding a table with prices, dates, text and missing values
============================================================

The orders of a shop have prices with a currency sign, German dates, missing values, remarks, an
order number and many customers. :class:`~vicinal.table.TableEncoder` turns them into numbers and
reports its decision for each column. Customers are encoded by the mean of their targets; the last
plot shows why this must be done in folds.
"""

# %%
# The table
# ---------
import numpy as np
import pandas as pd

rng = np.random.RandomState(0)
n = 900
price = rng.lognormal(3.5, 0.8, n)
customer = rng.choice([f"customer {k}" for k in range(120)], n)
kind = rng.choice(["book", "lamp", "chair"], n, p=[0.6, 0.3, 0.1])
day = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.randint(0, 365, n), "D")
picky = np.array([int(name.split()[1]) % 4 == 0 for name in customer])
sent_back = rng.rand(n) < 0.1 + 0.5 * picky + 0.25 * ((kind == "lamp") & (price > 40))
orders = pd.DataFrame(
    {
        "order": [f"A-{k:05x}" for k in rng.choice(10**6, n, replace=False)],
        "price": [f"€{value:,.2f}" for value in price],
        "discount": rng.choice(np.array(["5%", "10%", "20%", None]), n, p=[0.26, 0.27, 0.27, 0.2]),
        "kind": kind,
        "day": day.strftime("%d.%m.%Y"),
        "customer": customer,
        "remark": [
            f"{kind[k]} for {customer[k]}, at {8 + k % 12}:{k % 60:02d} sharp" for k in range(n)
        ],
    }
)
y = np.where(sent_back, "returned", "kept")
print(orders.head())

# %%
# Decisions of the encoder
# ------------------------
# The order number is left out. The last table counts the encoded columns of each column.
from vicinal.table import TableEncoder

encoder = TableEncoder()
Z = encoder.fit_transform(orders, y)
print("\n".join(encoder.decisions_))
print(pd.Series(encoder.sources_).value_counts(sort=False))

# %%
# New rows may have other values than the training rows: a price that is no number and an unseen
# category are encoded as missing values. ``inverse_transform`` turns the numbers back into values.
strange = orders[:2].assign(price=["on request", "1200"], kind=["book", "rocket"], customer="new")
print(encoder.inverse_transform(encoder.transform(strange)))

# %%
# The encoder in a pipeline
# -------------------------
# The default encoding is for models that use distances or linear functions, ``"tree"`` for trees.
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from vicinal import SpacePartitioningClassifier

models = {
    "logistic regression": make_pipeline(
        TableEncoder(), StandardScaler(), LogisticRegression(C=0.1)
    ),
    "three regions": make_pipeline(
        TableEncoder(),
        StandardScaler(),
        SpacePartitioningClassifier(n_regions=3, n_init=2, random_state=0),
    ),
    "boosted trees": make_pipeline(
        TableEncoder("tree"), HistGradientBoostingClassifier(max_iter=50, random_state=0)
    ),
}
for name, model in models.items():
    scores = cross_val_score(model, orders, y, cv=3, scoring="roc_auc")
    print(f"{name}: ROC AUC {scores.mean():.3f}")

# %%
# Target means can leak
# ---------------------
# Here the labels are random, so customers cannot predict them. With ``fit`` and ``transform`` the
# mean of a customer includes the row's own label, and the two classes seem to differ.
# ``fit_transform``, which pipelines call, uses the labels of other folds and shows no difference.
import matplotlib.pyplot as plt

coin = rng.choice(["heads", "tails"], n)
names = orders[["customer"]].assign(customer=[f"customer {k}" for k in rng.randint(0, 300, n)])
plain = TableEncoder()
crossed = plain.fit_transform(names, coin)[:, 0]
leaking = plain.transform(names)[:, 0]
fig, axes = plt.subplots(1, 2, figsize=(8, 3), sharey=True, layout="constrained")
for ax, values, title in zip(
    axes,
    (leaking, crossed),
    ("fit, then transform: leaks", "fit_transform: does not"),
    strict=True,
):
    for side in ("heads", "tails"):
        ax.hist(values[coin == side], bins=np.linspace(0, 1, 25), alpha=0.6, label=side)
    ax.set(title=title, xlabel="share of tails among the customer's rows")
axes[0].set_ylabel("rows")
axes[0].legend(loc="upper center")
plt.show()
