"""
The first call on a mixed table
===============================

Words, numbers, gaps and a date go in as they are; out come predictions, an honest estimate of how
good they are, and who made them.
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
# One call
# --------
from vicinal import AutoRegressor

model = AutoRegressor(random_state=0).fit(flats[:400], rent[:400])
print(f"expected R2 {model.score_:.3f} +- {model.score_error_:.3f}")
print(f"R2 on fresh rows {model.score(flats[400:], rent[400:]):.3f}")
print(model.leaderboard()[["name", "weight", "loss", "reason"]].to_string(index=False))

# %%
# Who said what of one flat
# -------------------------
# The contributions of the members add up to the answer.
import matplotlib.pyplot as plt

names = [base.name for base in model.estimators_]
parts = model.contributions(flats[400:401])[0, :, 0]
fig, ax = plt.subplots(figsize=(8, 2.8), layout="constrained")
left = np.r_[0.0, np.cumsum(parts)[:-1]]
ax.barh(names, parts, left=left)
ax.bar_label(ax.containers[0], [f"{part:.0f}" for part in parts], label_type="center", color="w")
ax.axvline(rent[400], color="black", linestyle=":", label=f"truth: {rent[400]:.0f}")
ax.set(xlabel="rent", title=f"predicted rent {parts.sum():.0f}")
ax.invert_yaxis()
ax.legend(loc="lower left")
plt.show()
