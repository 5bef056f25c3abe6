"""
AutoRegressor on a table with strings, dates and missing values
===============================================================

:class:`~vicinal.auto.AutoRegressor` takes a data frame without preparation. It returns predictions,
an estimate of their R2 on new rows, and the contribution of each base model to each prediction.
"""

# %%
# A table of flats
# ----------------
import numpy as np
import pandas as pd

rng = np.random.RandomState(0)
n = 500
town = rng.choice(["Aix", "Bonn", "Cork", "Delft"], n, p=[0.4, 0.3, 0.2, 0.1])
area = rng.uniform(20, 150, n)
built = pd.Timestamp("1950-01-01") + pd.to_timedelta(rng.randint(0, 26000, n), "D")
floor = rng.randint(0, 6, n).astype(float)
rent = 200 + 9 * area + 150 * (town == "Bonn") + 2 * area * (town == "Cork")
rent += 80 * np.sin(area / 12) + rng.normal(scale=60, size=n)
floor[rng.uniform(size=n) < 0.1] = np.nan
flats = pd.DataFrame({"town": town, "area": area, "built": built, "floor": floor})
print(flats.head())

# %%
# Fit, and compare the estimated score with the score on new rows
# ---------------------------------------------------------------
# ``score_`` is estimated from held-out predictions of the training rows. The leaderboard lists the
# base models, and the models that were skipped with the reason.
from vicinal import AutoRegressor

model = AutoRegressor(random_state=0).fit(flats[:400], rent[:400])
print(f"estimated R2 {model.score_:.3f} +- {model.score_error_:.3f}")
print(f"R2 on new rows {model.score(flats[400:], rent[400:]):.3f}")
print(model.leaderboard()[["name", "weight", "loss", "reason"]].to_string(index=False))

# %%
# Contributions of the base models
# --------------------------------
# The contributions of the base models add up to the predicted rent. The dotted line is the true
# rent.
import matplotlib.pyplot as plt

names = [base.name for base in model.estimators_]
parts = model.contributions(flats[400:401])[0, :, 0]
fig, ax = plt.subplots(figsize=(8, 2.8), layout="constrained")
left = np.r_[0.0, np.cumsum(parts)[:-1]]
bars = ax.barh(names, parts, left=left)
ax.bar_label(bars, [f"{part:.0f}" for part in parts], label_type="center", color="w")
ax.axvline(rent[400], color="black", linestyle=":", label=f"true rent: {rent[400]:.0f}")
ax.set(xlabel="rent", title=f"predicted rent {parts.sum():.0f}")
ax.invert_yaxis()
ax.legend(loc="lower left")
plt.show()
