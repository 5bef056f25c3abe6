"""The served page in a real browser: controls, locks, curves, explanations; labels run no code."""

import shutil
import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline

from vicinal._base._wrappers import with_threshold
from vicinal.inspection.colors import class_color
from vicinal.table import TableEncoder

pytest.importorskip("uvicorn")
selenium = pytest.importorskip("selenium.webdriver")

pytestmark = pytest.mark.skipif(
    not (shutil.which("chromedriver") and (shutil.which("chromium") or shutil.which("chrome"))),
    reason="needs Chromium and its driver (Debian: chromium, chromium-driver)",
)
EVIL = "<script>document.title='run'</script>"


@pytest.fixture(scope="module")
def people():
    pd = pytest.importorskip("pandas")
    rng = np.random.RandomState(0)
    table = pd.DataFrame(
        {
            "age": rng.randint(18, 80, 120),
            "city": rng.choice(["Rome", EVIL], 120),
            "account": 4_441_582 + np.arange(120) // 2,
        }
    )
    return table, table["age"] + 3.0 * rng.normal(size=120)


@contextmanager
def serving(model, **options):
    """Serve a model from a thread; yield the address."""
    import uvicorn

    from vicinal.serve import create_app

    server = uvicorn.Server(uvicorn.Config(create_app(model, **options), port=0, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    yield f"127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
    server.should_exit = True
    thread.join(300)


@pytest.fixture(scope="module")
def address(people):
    """A classifier of ``grown`` that predicts "old <b>" from probability 0.2 on."""
    table, number = people
    y = np.where(number > 50, "old <b>", "young")
    model = make_pipeline(TableEncoder(), LogisticRegression(C=0.001)).fit(table, y)
    model = with_threshold(model, "old <b>", 0.2)
    with serving(model, table=table, y=y, token="s3cret", target="grown") as found:
        yield f"http://:s3cret@{found}"


@pytest.fixture(scope="module")
def number_address(people):
    table, number = people
    model = LinearRegression().fit(table[["age"]], number)
    with serving(model, table=table[["age"]], y=number, target="weight") as found:
        yield "http://" + found


@pytest.fixture(scope="module")
def browser():
    options = selenium.ChromeOptions()
    for flag in ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"):
        options.add_argument(flag)
    driver = selenium.Chrome(options=options)
    yield driver
    driver.quit()


def wait_for(check, seconds=120.0):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = check()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError("the page did not change in time")


def put(browser, name, value, event="input"):
    """Set a control, as a reader does who moves or types; ``event`` is what the page is sent."""
    browser.execute_script(
        "const e = document.getElementById(arguments[0]);"
        "if (e.type === 'checkbox') e.checked = arguments[1]; else e.value = arguments[1];"
        "e.dispatchEvent(new Event(arguments[2]));",
        name,
        value,
        event,
    )


def read(browser, selector, what):
    """Return an expression of each element ``e``, in one call: a page may replace its elements."""
    script = f"return [...document.querySelectorAll(arguments[0])].map((e) => {what})"
    return browser.execute_script(script, selector)


def text(browser, name):
    return browser.find_element("id", name).text


def test_a_slider_changes_the_prediction(browser, address):
    browser.get(address)
    put(browser, "c0", 18)
    wait_for(lambda: text(browser, "prediction") == "grown: young")
    put(browser, "c0", 70, "change")  # what some browsers and tools send instead
    wait_for(lambda: text(browser, "prediction") == "grown: old <b>")
    assert browser.find_element("id", "n0").get_attribute("value") == "70"
    bars = read(browser, "#bars .chance", "e.innerText")
    assert [bar.split("\n")[0] for bar in bars] == ["grown: old <b>", "grown: young"]
    assert "90 % set of labels: " in text(browser, "interval")
    assert "the row is typical" in text(browser, "novelty")
    assert "grown: old <b> from probability 0.2 on" in text(browser, "rule")


def test_a_number_can_be_typed_also_beyond_the_slider(browser, number_address):
    browser.get(number_address)
    put(browser, "n0", "150")
    wait_for(lambda: text(browser, "prediction").startswith("weight: 15"))
    put(browser, "n0", "30")
    wait_for(lambda: browser.find_element("id", "c0").get_attribute("value") == "30")


def test_a_threshold_decides_also_the_counterfactual(browser, address):
    browser.get(address)
    put(browser, "c0", 18)
    start = "New prediction: grown: old <b>, "
    wait_for(lambda: start in text(browser, "change"))
    chance = float(text(browser, "change").split(start)[1].split(" %")[0])
    assert 20 <= chance < 50


def lock(browser, name, is_locked):
    browser.execute_script(
        "const e = document.querySelector(`[aria-label='lock ${arguments[0]}']`);"
        "e.checked = arguments[1]; e.dispatchEvent(new Event('change'));",
        name,
        is_locked,
    )


def test_locked_columns_and_limits_hold(browser, address):
    browser.get(address)
    put(browser, "c0", 18)
    wait_for(lambda: "age: 18 → " in text(browser, "change"))
    lock(browser, "age", True)
    wait_for(lambda: text(browser, "change") and "age:" not in text(browser, "change"))
    browser.execute_script(
        "const e = document.querySelector('[aria-label=\"direction of age\"]');"
        "e.selectedIndex = 1; e.dispatchEvent(new Event('change'));"
    )
    lock(browser, "age", False)
    wait_for(lambda: "age: 18 → " in text(browser, "change"))


def test_neighbours_are_shown_with_their_values(browser, address, people):
    browser.get(address)
    put(browser, "start", "7")
    script = "return [...document.querySelectorAll(arguments[0])].map((cell) => cell.textContent)"
    first = "#near tbody tr:first-child td"
    wait_for(lambda: browser.execute_script(script, first)[:1] == ["7"])
    assert browser.execute_script(script, "#near th")[2:4] == ["grown", "prediction"]
    cells = browser.execute_script(script, first)
    assert cells[1] == "0"
    assert cells[4] == str(people[0]["age"][7])
    assert cells[-1] == f"{people[0]['account'][7]:,}"  # in full


def test_numbers_have_an_interval_and_a_goal(browser, number_address, people):
    browser.get(number_address)
    put(browser, "c0", 30)

    def holds_30():
        kind, _, limits = text(browser, "interval").partition(": ")
        low, _, high = limits.partition(" to ")
        return kind == "90 % interval" and float(low) < 30 < float(high)

    wait_for(holds_30)
    wait_for(lambda: text(browser, "change").startswith("age: 30 → "))
    reached = float(text(browser, "change").split("New prediction: weight: ")[1].rstrip("."))
    assert reached >= np.quantile(people[1], 0.7)
    put(browser, "reach", "20")
    put(browser, "side", "1")
    start = "New prediction: weight: "
    wait_for(
        lambda: (
            start in text(browser, "change")
            and float(text(browser, "change").split(start)[1].rstrip(".")) <= 20
        )
    )


def test_the_curve_follows_the_column(browser, number_address):
    browser.get(number_address)
    what = "[e.getAttribute('points'), e.parentElement.getAttribute('aria-label')]"
    points, label = wait_for(lambda: read(browser, "#response polyline", what))[0]
    heights = [float(point.split(",")[1]) for point in points.split()]
    assert heights == sorted(heights, reverse=True)  # weight grows with age
    assert "weight for age from 18" in label


def test_without_a_table_columns_are_typed(browser, people):
    table, number = people
    model = LinearRegression().fit(table[["age"]], number)
    with serving(model) as found:
        browser.get("http://" + found)
        put(browser, "c0", "40")
        wait_for(lambda: text(browser, "prediction").startswith("40"))
        assert not browser.find_element("id", "near").is_displayed()


def test_the_explanation_follows_the_prediction(browser, address):
    browser.get(address)
    steps = wait_for(lambda: browser.find_elements("css selector", "#why .waterfall [data-value]"))
    assert steps
    assert not browser.find_element("css selector", "#why [data-key=counterfactual]").is_displayed()


def test_a_class_has_one_colour(browser, address):
    browser.get(address)
    wait_for(lambda: browser.find_elements("css selector", "#response .curve"))

    def colors(selector, style):
        return read(browser, selector, f"getComputedStyle(e)['{style}']")

    wanted = [class_color(k)[1:] for k in range(2)]
    wanted = [tuple(int(code[i : i + 2], 16) for i in (0, 2, 4)) for code in wanted]
    for found in (colors("#bars .fill", "background-color"), colors("#response .curve", "stroke")):
        numbers = [tuple(map(int, color.strip("rgb()").split(", ")[:3])) for color in found]
        assert numbers == wanted


# Elements whose text has a contrast below 4.5 with what is behind it.
CONTRAST = """
const linear = (c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
const light = ([r, g, b]) =>
  0.2126 * linear(r / 255) + 0.7152 * linear(g / 255) + 0.0722 * linear(b / 255);
const rgb = (text) => text.match(/[0-9.]+/g).map(Number);
const paper = (e) => {
  for (; e; e = e.parentElement) {
    const color = rgb(getComputedStyle(e).backgroundColor);
    if (color.length < 4 || color[3] > 0) return color;
  }
  return [255, 255, 255];
};
const hasText = (e) => e.checkVisibility() && !["SCRIPT", "OPTION"].includes(e.tagName)
  && [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
const ratio = (e) => {
  const a = light(rgb(getComputedStyle(e)[e.closest("svg") ? "fill" : "color"]));
  const b = light(paper(e));
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
};
return [...document.querySelectorAll("body *")].filter((e) => hasText(e) && ratio(e) < 4.5)
  .map((e) => e.outerHTML.slice(0, 80));
"""


def test_text_has_contrast_and_controls_have_names(browser, address):
    browser.get(address)
    wait_for(lambda: browser.find_elements("css selector", "#why .waterfall"))
    for _ in range(2):
        assert browser.execute_script(CONTRAST) == []
        browser.find_element("id", "theme").click()
    unnamed = browser.execute_script(
        "return [...document.querySelectorAll('input, select, textarea, button, svg')]"
        ".filter((e) => !(e.ariaLabel || e.labels?.length || e.textContent.trim()))"
        ".map((e) => e.outerHTML.slice(0, 80))"
    )
    assert unnamed == []


def test_the_keyboard_reaches_and_moves_everything(browser, address):
    from selenium.webdriver.common.keys import Keys

    browser.get(address)
    put(browser, "c0", 40)
    wait_for(lambda: text(browser, "prediction").startswith("grown"))
    browser.find_element("id", "c0").send_keys(Keys.END)
    age = browser.find_element("id", "n0").get_attribute("value")
    assert age == browser.find_element("id", "c0").get_attribute("max")
    browser.find_element("css selector", "[aria-label='lock age']").send_keys(Keys.SPACE)
    assert browser.execute_script(
        "return document.querySelector('[aria-label=\"lock age\"]').checked"
    )


def test_labels_run_nothing(browser, address):
    browser.get(address)
    wait_for(lambda: browser.find_element("id", "prediction").text not in ("", "…"))
    assert browser.title == "model - vicinal"
