"""The page that computes in the browser: its content, and its predictions in Chromium."""

import json
import shutil

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from vicinal import (
    AnchoredLocalClassifier,
    AnchoredLocalRegressor,
    SpacePartitioningClassifier,
    SpacePartitioningRegressor,
)
from vicinal._kernels.calibration._conformal import conformal_quantile
from vicinal.auto import AutoClassifier
from vicinal.report import ExplorerReport
from vicinal.report.explorer import ExplorerPage, copy_of
from vicinal.table import TableEncoder

pytest.importorskip("jinja2")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

EVIL = "</script><script>document.title='run'</script>"


@pytest.fixture(scope="module")
def people():
    """Numbers with missing values, integers, categories, codes, dates and numbers in strings."""
    rng = np.random.RandomState(0)
    n = 160
    table = pd.DataFrame(
        {
            "age": rng.randint(18, 80, n),
            "income": np.where(rng.rand(n) < 0.1, np.nan, rng.lognormal(10, 0.5, n)),
            "city": rng.choice(["Rome", "Oslo", EVIL], n),
            "since": rng.choice(["2020-01-31", "2021-06-05", "2022-11-11", "2023-02-03"], n),
            "code": rng.choice(["007", "011", "100"], n),
            "fee": [None if fee > 45 else f"€ {fee:,.2f}" for fee in rng.uniform(1, 50, n)],
        }
    )
    score = (table["age"] - 50) / 15 + (table["city"] == "Rome") + 0.3 * rng.normal(size=n)
    return table, np.where(score > 0.3, "yes", "no"), score.to_numpy()


def three(score):
    return np.digitize(score, np.quantile(score, [0.3, 0.6]))


def anchored(**settings):
    return AnchoredLocalClassifier(8, n_neighbors=40, alpha=1.0, random_state=0, **settings)


MODELS = {
    "logit": (lambda: make_pipeline(StandardScaler(), LogisticRegression()), "labels"),
    "softmax": (lambda: make_pipeline(StandardScaler(), LogisticRegression()), "three"),
    "line": (lambda: LinearRegression(), "numbers"),
    "regions": (
        lambda: SpacePartitioningClassifier(n_regions=3, n_init=2, random_state=0),
        "three",
    ),
    "soft regions": (
        lambda: SpacePartitioningClassifier(n_regions=2, gating="soft", n_init=2, random_state=0),
        "labels",
    ),
    "regions of numbers": (
        lambda: SpacePartitioningRegressor(n_regions=2, n_init=2, random_state=0),
        "numbers",
    ),
    "anchored": (anchored, "three"),
    "anchored margins": (lambda: anchored(calibration=None, loss="log_loss"), "labels"),
    "anchored, within classes": (lambda: anchored(metric="within_class"), "labels"),
    "anchored, ranks": (lambda: anchored(metric="ranked", calibration=None), "labels"),
    "anchored numbers": (
        lambda: AnchoredLocalRegressor(8, n_neighbors=40, alpha=1.0, random_state=0),
        "numbers",
    ),
}


@pytest.fixture(scope="module")
def fitted(people):
    table, labels, score = people
    targets = {"labels": labels, "three": three(score), "numbers": score}

    def fit(name):
        make, target = MODELS[name]
        return make_pipeline(TableEncoder(), make()).fit(table, targets[target]), targets[target]

    return fit


# --- what the page holds ---


def test_page_is_plain_data_and_runs_no_label(people, fitted):
    model, y = fitted("logit")
    report = ExplorerReport(model, people[0], y, title=EVIL)
    json.dumps(report.as_dict(), allow_nan=False)
    html = report.html()
    assert EVIL not in html
    for reference in ("http:", "https:", "src=", "@import", "url("):
        assert reference not in html


def test_intervals_are_conformal(people, fitted):
    model, y = fitted("line")
    off = np.abs(y - model.predict(people[0]))
    assert ExplorerReport(model, people[0], y).as_dict()["data"]["reach"] == pytest.approx(
        conformal_quantile(off, 0.9)
    )
    assert ExplorerReport(model, people[0]).as_dict()["data"]["reach"] is None


@pytest.mark.parametrize(
    "make",
    [
        lambda: RandomForestClassifier(5),
        lambda: make_pipeline(PolynomialFeatures(), LogisticRegression()),
        lambda: SpacePartitioningClassifier(DecisionTreeClassifier(), n_regions=2, n_init=1),
        lambda: anchored(metric="manhattan"),
    ],
)
def test_other_models_are_copied(make, rng, small_copy):
    X, y = rng.normal(size=(120, 3)), np.repeat([0, 1], 60)
    data = ExplorerReport(make().fit(X, y), X, y).as_dict()["data"]
    assert data["model"]["kind"] == "trees"
    assert 0 <= data["copied"]["changed"] < 0.5
    assert data["name"] != "TreeCopy"


@pytest.fixture
def small_copy(monkeypatch):
    """Few rows and trees."""
    from vicinal.report import explorer

    for name, value in {"_COPIED_ROWS": 300, "_CHECKED_ROWS": 200, "_N_TREES": 60}.items():
        monkeypatch.setattr(explorer, name, value)


def test_a_copy_predicts_nearly_as_the_model(people, monkeypatch):
    from vicinal.report import explorer

    monkeypatch.setattr(explorer, "_COPIED_ROWS", 1500)
    monkeypatch.setattr(explorer, "_N_TREES", 100)
    table, _, score = people
    model = make_pipeline(TableEncoder(), LinearRegression()).fit(table, score)
    copy, quality = copy_of(model, table, 0)
    off = np.abs(copy.predict(table) - model.predict(table))
    assert off.mean() < 0.2 * np.std(model.predict(table))
    assert quality["difference"] < 0.2 * np.std(model.predict(table))


def test_controls_of_numbers_categories_and_unknown_columns():
    table = pl.DataFrame({"a": [1, 5, 2], "b": ["x", "y", "x"], "c": [None, None, None]})
    number, level, nothing = ExplorerPage(None, table).as_dict()["data"]["controls"]
    assert (number["min"], number["value"], number["max"], number["step"]) == (1, 2, 5, 1)
    assert (level["kind"], level["categories"], level["value"]) == ("category", ["x", "y"], "x")
    assert nothing["kind"] == "unknown"


def test_numbers_in_strings_are_moved_as_numbers(people, fitted):
    model, y = fitted("logit")
    data = ExplorerReport(model, people[0], y).as_dict()["data"]
    fee = next(control for control in data["controls"] if control["name"] == "fee")
    assert fee["kind"] == "number"
    assert 1 <= fee["min"] < fee["value"] < fee["max"] <= 45
    assert any(row[-1] is None for row in data["rows"])


# --- in a browser ---


@pytest.fixture(scope="module")
def browser():
    webdriver = pytest.importorskip("selenium.webdriver")
    if not (shutil.which("chromedriver") and shutil.which("chromium")):
        pytest.skip("needs Chromium and its driver (Debian: chromium, chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(
        options=options, service=webdriver.ChromeService(shutil.which("chromedriver"))
    )
    yield driver
    driver.quit()


@pytest.mark.parametrize(
    ("name", "kind"),
    # Frames differ in the encoder alone, which is the same for all models.
    [*((name, pd.DataFrame) for name in MODELS), ("logit", pl.from_pandas)],
)
def test_browser_predicts_as_python_does(browser, people, fitted, tmp_path, name, kind):
    model, y = fitted(name)
    table = kind(people[0])
    browser.get(ExplorerReport(model, table, y).write_html(tmp_path / "page.html").as_uri())
    outputs = np.array(browser.execute_script("return vicinal.data.rows.map(vicinal.output)"))[:50]
    rows = people[0].iloc[: len(outputs)]
    expected = (
        model.predict_proba(rows) if hasattr(model, "classes_") else model.predict(rows)[:, None]
    )
    assert len(outputs) == 50
    np.testing.assert_allclose(outputs, expected, rtol=1e-9, atol=1e-9)


def test_browser_computes_the_default_ensemble_as_its_copy(browser, people, tmp_path, small_copy):
    table, y, _ = people
    model = AutoClassifier(["linear"], random_state=0).fit(table, y)
    report = ExplorerReport(model, table, y, target="paid")
    browser.get(report.write_html(tmp_path / "page.html").as_uri())
    assert text(browser, "prediction") in ("paid: yes", "paid: no")
    assert "AutoClassifier" in browser.find_element("css selector", ".lead").text
    outputs = np.array(browser.execute_script("return vicinal.data.rows.map(vicinal.output)"))
    np.testing.assert_allclose(outputs, report.model.predict_proba(table), rtol=1e-9, atol=1e-9)


def test_arrays_need_no_encoder(browser, rng, tmp_path):
    X = rng.normal(size=(90, 3))
    model = LinearRegression().fit(X, X @ [1.0, -2.0, 0.5])
    browser.get(ExplorerReport(model, X).write_html(tmp_path / "page.html").as_uri())
    outputs = browser.execute_script("return vicinal.output([1, 1, 1])")
    assert outputs == pytest.approx([-0.5])


@pytest.fixture
def page(browser, people, fitted, tmp_path):
    model, y = fitted("logit")
    path = ExplorerReport(model, people[0], y, title="People").write_html(tmp_path / "page.html")
    browser.get(path.as_uri())
    return browser


def text(browser, name):
    return browser.find_element("id", name).text


def move(browser, name, value):
    browser.execute_script(
        "const e = document.getElementById(arguments[0]); e.value = arguments[1];"
        "e.dispatchEvent(new Event('input'));",
        name,
        value,
    )


def wait_for(check):
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(None, 10).until(lambda _: check())


def test_a_slider_changes_the_prediction(page):
    move(page, "c0", 20)
    assert text(page, "prediction") == "no"
    move(page, "c0", 79)
    assert text(page, "prediction") == "yes"
    assert len(page.find_elements("css selector", ".chance")) == 2
    assert "90 % set of labels: yes" in text(page, "interval")
    assert page.title == "People - vicinal"
    assert page.get_log("browser") == []


def test_the_counterfactual_is_confirmed_and_on_seen_values(page, people, fitted):
    move(page, "c0", 20)
    wait_for(lambda: "New prediction: yes" in text(page, "change"))
    # In one call: the page may replace its elements between two.
    script = "return [...document.querySelectorAll('.changes li')].map((e) => e.innerText)"
    lines = wait_for(lambda: page.execute_script(script))
    changes = dict(line.split(": ", 1) for line in lines)
    assert changes
    assert set(changes) <= set(people[0].columns)
    if "age" in changes:
        assert float(changes["age"].split(" → ")[1]).is_integer()


def search(browser, **given):
    """Return counterfactuals of the first row of the table, as the page computes them."""
    given = {
        "fixed": [], "increase": [], "decrease": [], "ranges": {}, "categories": {},
        "costs": {}, "n_counterfactuals": 1, **given,
    }  # fmt: skip
    script = (
        "const [given, done] = arguments;"
        "const row = vicinal.data.rows.find((r) => r[0] < 40 && !r.includes(null));"
        "vicinal.explain(row, given, vicinal.output(row)).then(({ rows }) => done([row, rows]));"
    )  # fmt: skip
    row, rows = browser.execute_async_script(script, given)
    outputs = browser.execute_script("return arguments[0].map(vicinal.output)", rows)
    return row, rows, outputs


def test_the_page_obeys_the_options_of_counterfactuals(page):
    row, (free,), _ = search(page)
    assert free[0] > row[0]
    _, rows, _ = search(page, fixed=["age"])
    assert all(other[0] == row[0] for other in rows)
    _, (dear,), _ = search(page, costs={"age": 1000})
    assert row[0] < dear[0] < free[0]  # another column takes its part
    _, rows, _ = search(page, decrease=["age"])
    assert all(other[0] <= row[0] for other in rows)
    _, rows, _ = search(page, ranges={"age": [None, 45]})
    assert all(other[0] <= 45 for other in rows)
    _, rows, _ = search(page, categories={"city": [row[2]]}, fixed=["age"])
    assert all(other[2] == row[2] for other in rows)
    _, rows, outputs = search(page, n_counterfactuals=3)
    changed = [{j for j in range(len(row)) if other[j] != row[j]} for other in rows]
    assert all(not (a & b) for k, a in enumerate(changed) for b in changed[:k])
    assert all(no < 0.5 for no, _ in outputs)


def test_neighbours_of_a_row_of_the_table_start_with_itself(page, people):
    move(page, "start", "7")
    script = (
        "return [...document.querySelectorAll('#near tbody tr:first-child td')]"
        ".map((cell) => cell.textContent)"
    )
    wait_for(lambda: page.execute_script(script)[:1] == ["7"])
    cells = page.execute_script(script)
    assert cells[1] == "0"
    assert cells[4] == str(people[0]["age"][7])


@pytest.mark.parametrize("width", [360, 1200])
def test_page_fits_its_window(page, width):
    page.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600},
    )
    assert page.execute_script("return document.documentElement.scrollWidth") <= width
    page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
