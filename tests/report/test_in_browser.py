"""The page in a real browser: no errors, clicks show explanations, hostile names are text."""

import shutil
from itertools import pairwise

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

pytest.importorskip("jinja2")
pytest.importorskip("pandas")
pytest.importorskip("selenium", reason="the browser test needs selenium: pip install selenium")

import pandas as pd
from selenium import webdriver
from selenium.common.exceptions import NoAlertPresentException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from vicinal import SpacePartitioningClassifier
from vicinal.inspection import compare
from vicinal.report import ModelReport, write_html

BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    not (BROWSER and DRIVER),
    reason="the browser test needs chromium and chromedriver (Debian: chromium chromium-driver)",
)
EVIL = "<script>alert(1)</script>"
EVIL_IMAGE = '"><img src=x onerror=alert(2)>'


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A report on a table whose column, class and title all try to run something."""
    rng = np.random.RandomState(0)
    X = pd.DataFrame({EVIL: rng.normal(size=120), EVIL_IMAGE: rng.normal(size=120)})
    y = np.where(X[EVIL] + 0.5 * rng.normal(size=120) > 0, EVIL, "fine")
    models = {EVIL_IMAGE: GaussianNB(), "line": LogisticRegression()}
    board = compare(models, X, y, cv=3)
    partition = SpacePartitioningClassifier(n_regions=2, n_init=2, random_state=0)
    model = make_pipeline(StandardScaler(), partition).fit(X, y)
    detail = ModelReport(
        model,
        X,
        y,
        target=EVIL,
        out_of_fold=board.entries[0].out_of_fold,
        n_explained=6,
        notes=[EVIL],
    )
    path = tmp_path_factory.mktemp("page") / "report.html"
    return write_html(board, path, title=EVIL, detail=detail)


@pytest.fixture(scope="module")
def browser():
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-dev-shm-usage",
        "--force-prefers-reduced-motion",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture
def opened(browser, page):
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.set_window_size(1200, 900)
    browser.get(page.as_uri())
    return browser


def shown(browser):
    return [part for part in browser.find_elements(By.CSS_SELECTOR, ".why") if part.is_displayed()]


def test_page_loads_without_errors_and_requests_nothing(opened, page):
    assert opened.get_log("browser") == []
    loaded = opened.execute_script(
        "return performance.getEntriesByType('resource').map((part) => part.name)"
    )
    assert [name for name in loaded if not name.startswith("data:")] == []
    for part in ("leaderboard", "predictions", "thresholds", "importance", "effects", "map"):
        assert opened.find_element(By.ID, part).is_displayed()
    for part in ("regions", "uncertain", "explanations", "profile"):
        assert opened.find_element(By.ID, part).is_displayed()


def test_hostile_names_are_shown_as_text_and_run_nothing(opened):
    with pytest.raises(NoAlertPresentException):
        opened.switch_to.alert  # noqa: B018
    assert opened.find_element(By.TAG_NAME, "h1").text == EVIL
    assert len(opened.find_elements(By.TAG_NAME, "script")) == 1
    assert opened.find_elements(By.TAG_NAME, "img") == []
    cells = opened.find_elements(By.CSS_SELECTOR, ".why:not([hidden]) td")
    assert {EVIL, EVIL_IMAGE} <= {cell.text for cell in cells}


def test_clicking_a_row_shows_its_explanation_and_no_others(opened):
    picks = opened.find_elements(By.CSS_SELECTOR, ".pick")
    assert len(picks) == 6
    assert len(shown(opened)) == 1
    for pick in (picks[3], picks[1]):
        pick.click()
        (visible,) = shown(opened)
        assert visible.get_attribute("id") == f"why-{pick.get_attribute('data-row')}"
        assert pick.get_attribute("aria-pressed") == "true"
        assert "SpacePartitioningClassifier predicts" in visible.text


def test_rows_of_the_tables_and_points_of_the_map_lead_to_explanations(opened):
    button = opened.find_elements(By.CSS_SELECTOR, "#uncertain button.row")[1]
    row = button.get_attribute("data-row")
    opened.execute_script("arguments[0].click()", button)
    assert shown(opened)[0].get_attribute("id") == f"why-{row}"
    point = opened.find_elements(By.CSS_SELECTOR, ".pt.ringed")[0]
    point.send_keys(Keys.ENTER)
    assert shown(opened)[0].get_attribute("id") == f"why-{point.get_attribute('data-row')}"


def test_the_directions_of_the_map_are_named(opened):
    text = opened.find_element(By.ID, "map").text
    assert "→ direction of the classes: mostly " in text or "→ first discriminant" in text
    assert "↑ " in text


def test_costs_choose_the_threshold(opened):
    """Counted from the page's own points: the cheapest threshold is the one that is taken."""
    points = opened.execute_script(
        "return JSON.parse(document.querySelector('.chooser').dataset.points)"
    )
    field = opened.find_element(By.ID, "cost-negative")
    field.clear()
    field.send_keys("25")
    button = opened.find_element(By.ID, "threshold-take")
    opened.execute_script("arguments[0].click()", button)
    best = min(points, key=lambda p: p["false_positive"] + 25 * p["false_negative"])
    assert opened.find_element(By.ID, "threshold-value").text == f"{best['threshold']:.3f}"
    assert (
        f"{best['false_negative']} false negatives"
        in opened.find_element(By.ID, "threshold-scores").text
    )
    slider = opened.find_element(By.ID, "threshold")
    slider.send_keys(Keys.END)
    last = opened.find_element(By.ID, "threshold-value").text
    assert last == f"{points[-1]['threshold']:.3f}"


def test_the_slider_moves_the_threshold_and_its_scores(opened):
    """The slider starts at the threshold in use; every position shows the counts of its point."""
    chooser = opened.find_element(By.CSS_SELECTOR, ".chooser")
    points, start = opened.execute_script(
        "return [JSON.parse(arguments[0].dataset.points), Number(arguments[0].dataset.start)]",
        chooser,
    )
    slider, value = (opened.find_element(By.ID, name) for name in ("threshold", "threshold-value"))
    opened.execute_script(
        "arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('input'))",
        slider,
        start,
    )
    assert float(slider.get_attribute("value")) == pytest.approx(start, abs=5e-4)
    seen = set()
    for key in (None, Keys.ARROW_RIGHT, Keys.HOME, Keys.PAGE_UP, Keys.END):
        if key is not None:
            slider.send_keys(key)
        at = float(slider.get_attribute("value"))
        point = min(points, key=lambda point, at=at: abs(point["threshold"] - at))
        assert value.text == f"{point['threshold']:.3f}"
        scores = opened.find_element(By.ID, "threshold-scores").text
        for name in ("true_positive", "false_negative", "false_positive"):
            assert f"{point[name]} {name.replace('_', ' ')}s" in scores
        seen.add(scores)
    assert len(seen) > 2


@pytest.mark.parametrize("width", [360, 768, 1200])
def test_page_fits_its_window(opened, width):
    opened.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600},
    )
    assert opened.execute_script("return document.documentElement.scrollWidth") <= width


def test_a_screen_reader_finds_its_way(opened):
    """Pictures have texts, headings skip no level, parts and controls have names."""
    unnamed = opened.execute_script(
        """
        const named = (e) => e.getAttribute("aria-label") || e.getAttribute("aria-labelledby")
          || e.labels?.length || e.textContent.trim();
        return [...document.querySelectorAll("svg:not([aria-hidden]), section, nav, button, input")]
          .filter((e) => !named(e)).map((e) => e.outerHTML.slice(0, 80));
        """
    )
    assert unnamed == []
    missing = opened.execute_script(
        "return [...document.querySelectorAll('[aria-labelledby], [aria-controls]')].filter((e) =>"
        "!document.getElementById(e.getAttribute('aria-labelledby') ?? "
        "e.getAttribute('aria-controls'))).length"
    )
    assert missing == 0
    levels = opened.execute_script(
        "return [...document.querySelectorAll('h1, h2, h3, h4')].map((e) => Number(e.tagName[1]))"
    )
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_all_explanations_are_printed_in_light_colours(opened):
    opened.find_element(By.ID, "theme").click()
    try:
        opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        assert len(shown(opened)) == 6
        assert not opened.find_element(By.TAG_NAME, "nav").is_displayed()
        ink = opened.execute_script("return getComputedStyle(document.body).color")
        assert max(map(int, ink.strip("rgb()").split(", "))) < 90
    finally:
        opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_dark_and_light_have_readable_contrast(opened):
    luminance = """
        const rgb = getComputedStyle(arguments[0])[arguments[1]].match(/[0-9.]+/g).map(Number);
        return (0.2126 * rgb[0] + 0.7152 * rgb[1] + 0.0722 * rgb[2]) / 255;
    """
    body = opened.find_element(By.TAG_NAME, "body")
    seen = []
    for _ in range(2):
        ink = opened.execute_script(luminance, body, "color")
        paper = opened.execute_script(luminance, body, "backgroundColor")
        assert abs(ink - paper) > 0.6
        seen.append(paper > 0.5)
        opened.find_element(By.ID, "theme").click()
    assert sorted(seen) == [False, True]
