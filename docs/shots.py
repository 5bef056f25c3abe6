"""Screenshots of the pages for the documents: report, explanation and explorer, desk and phone.

Run `python docs/shots.py` in a clone with the extra `test`, Chromium and its driver, and the
folder of data sets in VICINAL_DATA; pictures go to docs/_static. Look at them before committing.
"""

import base64
import io
import shutil
import tempfile
from pathlib import Path

import polars as pl
from PIL import Image
from selenium import webdriver
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from vicinal import AnchoredLocalClassifier
from vicinal.datasets import load_dataset
from vicinal.inspection import candidate_models, compare, explain
from vicinal.report import ComparisonReport, ExplanationReport, ExplorerReport, ModelReport
from vicinal.table import TableEncoder

STATIC = Path(__file__).parent / "_static"
N_ROWS = 1500
MODELS = (
    "most frequent class",
    "logistic regression",
    "k nearest neighbours",
    "random forest",
    "histogram boosting",
    "AutoClassifier",
    "LocalClassifier",
    "SpacePartitioningClassifier",
)
DROPPED = ("fnlwgt", "education_num")  # a weight, and a column that repeats another
DESK, PHONE = 1100, 390
COLOURS = 160


def adult():
    """Return the first rows of adult as a frame of words and numbers, and the classes."""
    data = load_dataset("adult")
    columns = {}
    for j, name in enumerate(data.feature_names):
        values = data.X_train[:N_ROWS, j]
        levels = data.categories.get(name)
        columns[name] = values if levels is None else [levels[int(k)] for k in values]
    y = [data.target_names[int(label)] for label in data.y_train[:N_ROWS]]
    return pl.DataFrame(columns).drop(DROPPED), pl.Series(y).to_numpy().astype(str)


def pages():
    """Write the pages; return them by name."""
    X, y = adult()
    candidates = candidate_models("classification", random_state=0)
    board = compare({name: candidates[name] for name in MODELS}, X, y, encoder=TableEncoder())
    best = board.entries[0]
    train, unseen = board.fold_of(best)
    winner = make_pipeline(TableEncoder(), clone(candidates[best.name])).fit(X[train], y[train])
    detail = ModelReport(winner, X, y, target="income", out_of_fold=best.out_of_fold, unseen=unseen)
    anchored = make_pipeline(
        TableEncoder(), AnchoredLocalClassifier(64, n_neighbors=160, alpha=1.0, random_state=0)
    ).fit(X[train], y[train])
    X_test, y_test = X[unseen], y[unseen]
    found = explain(winner, X_test[4], background=X[train][:60])
    return {
        "report": ComparisonReport(board, "Adult: who earns more than 50K?", detail=detail),
        "explain": ExplanationReport(found, "Why this answer?"),
        "explorer": ExplorerReport(anchored, X_test, y_test, title="Adult, to play with"),
    }


def browser():
    """Return Chromium without a window."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(flag)
    service = webdriver.ChromeService(shutil.which("chromedriver"))
    return webdriver.Chrome(options=options, service=service)


def shoot(driver, page, name, width, height, top="header"):
    """Save a picture of so many pixels, from an element on."""
    driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width == PHONE},
    )
    driver.get(page.as_uri())
    driver.implicitly_wait(2)
    driver.find_element("css selector", "body").is_displayed()
    driver.execute_async_script("setTimeout(arguments[0], 600)")
    start = driver.execute_script(
        "return document.querySelector(arguments[0]).getBoundingClientRect().top + scrollY", top
    )
    clip = {"x": 0, "y": max(0, start - 12), "width": width, "height": height, "scale": 1}
    shot = driver.execute_cdp_cmd(
        "Page.captureScreenshot", {"clip": clip, "captureBeyondViewport": True}
    )
    picture = Image.open(io.BytesIO(base64.b64decode(shot["data"]))).convert("RGB")
    path = STATIC / f"{name}.png"
    picture.quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"{path.name}: {path.stat().st_size // 1024} kB", flush=True)


def main():
    with tempfile.TemporaryDirectory() as folder:
        written = {
            name: page.write_html(Path(folder) / f"{name}.html") for name, page in pages().items()
        }
        driver = browser()
        try:
            shoot(driver, written["report"], "report", DESK, 1420)
            shoot(driver, written["report"], "report_columns", DESK, 1500, "#importance")
            shoot(driver, written["report"], "report_phone", PHONE, 1400)
            shoot(driver, written["explain"], "explain", DESK, 1050)
            shoot(driver, written["explain"], "explain_phone", PHONE, 1100)
            shoot(driver, written["explorer"], "explorer", DESK, 1000)
            shoot(driver, written["explorer"], "explorer_phone", PHONE, 1100)
        finally:
            driver.quit()


if __name__ == "__main__":
    main()
