"""Screenshots for the documents: report, explanation and served page, desk and phone.

Run `python docs/shots.py [comparison] [explain] [serve]` in a clone with the extra
`test`, Chromium and its driver, and the folder of data sets in VICINAL_DATA; pictures go to
docs/_static. Look at them before committing. docs/_static/vicinal.png is the figure of
examples/plot_vicinal.py at 90 dots per inch.
"""

import argparse
import base64
import io
import shutil
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import polars as pl
import uvicorn
from PIL import Image
from selenium import webdriver
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from vicinal import AutoClassifier
from vicinal.inspection import compare, explain
from vicinal.inspection.candidates import candidate_models
from vicinal.report import ModelReport, write_html
from vicinal.serve import create_app
from vicinal.table import TableEncoder

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
from _datasets import load_dataset

STATIC = Path(__file__).parent / "_static"
N_ROWS, N_TRAIN = 1500, 1200
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
    """Return the first rows of adult as a frame, and the classes."""
    data = load_dataset("adult")
    columns = {}
    for j, name in enumerate(data.feature_names):
        values = data.X_train[:N_ROWS, j]
        levels = data.categories.get(name)
        columns[name] = values if levels is None else [levels[int(k)] for k in values]
    y = [data.target_names[int(label)] for label in data.y_train[:N_ROWS]]
    return pl.DataFrame(columns).drop(DROPPED), pl.Series(y).to_numpy().astype(str)


def comparison_page(X, y, path):
    """Write the report of a comparison."""
    candidates = candidate_models("classification", random_state=0)
    board = compare({name: candidates[name] for name in MODELS}, X, y, encoder=TableEncoder())
    best = board.entries[0]
    train, unseen = board.fold_of(best)
    winner = make_pipeline(TableEncoder(), clone(candidates[best.name])).fit(X[train], y[train])
    detail = ModelReport(
        winner,
        X,
        y,
        target="income",
        out_of_fold=best.out_of_fold,
        unseen=unseen,
        seen=train,
    )
    return write_html(board, path, title="Adult: who earns more than 50K?", detail=detail)


def explanation_page(X, y, path):
    """Write the explanation of one row by AutoClassifier."""
    model = AutoClassifier(random_state=0).fit(X[:N_TRAIN], y[:N_TRAIN])
    found = explain(model, X[N_TRAIN], background=X[:60])
    return write_html(found, path, title="Why this prediction?")


def served_app(X, y):
    """Return the application of a served AutoClassifier."""
    model = AutoClassifier(max_fit_time=30, random_state=0)
    model.fit(X[:N_TRAIN].to_pandas(), y[:N_TRAIN])
    table = X[N_TRAIN:].to_pandas()
    return create_app(model, name="adult", target="income", table=table, y=y[N_TRAIN:])


@contextmanager
def serving(app):
    """Serve an application from a thread; yield its address."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
    server.should_exit = True
    thread.join(10)


def browser():
    """Return Chromium without a window."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(flag)
    service = webdriver.ChromeService(shutil.which("chromedriver"))
    return webdriver.Chrome(options=options, service=service)


def shoot(driver, address, name, width, height, top="header"):
    """Save a picture of so many pixels, from an element on."""
    driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width == PHONE},
    )
    driver.get(address)
    driver.implicitly_wait(60)  # seconds, until the nearest rows of a served page are there
    if name.startswith("serve"):
        driver.find_element("css selector", "#near tbody td")
        driver.find_element("css selector", "#change p")
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
    parser = argparse.ArgumentParser()
    parser.add_argument("groups", nargs="*", default=["comparison", "explain", "serve"])
    groups = parser.parse_args().groups
    X, y = adult()
    driver = browser()
    with tempfile.TemporaryDirectory() as folder:

        def written(name, write):
            return write(X, y, Path(folder) / f"{name}.html").as_uri()

        try:
            if "comparison" in groups:
                report = written("report", comparison_page)
                shoot(driver, report, "report", DESK, 1420)
                shoot(driver, report, "report_columns", DESK, 1500, "#importance")
                shoot(driver, report, "report_phone", PHONE, 1400)
            if "explain" in groups:
                why = written("explain", explanation_page)
                shoot(driver, why, "explain", DESK, 1050)
                shoot(driver, why, "explain_phone", PHONE, 1100)
            if "serve" in groups:
                with serving(served_app(X, y)) as address:
                    shoot(driver, address, "serve", DESK, 1150)
        finally:
            driver.quit()


if __name__ == "__main__":
    main()
