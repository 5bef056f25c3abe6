"""The page in a real browser: a slider changes the prediction, labels run no code."""

import shutil
import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline

from vicinal._base._wrappers import with_threshold
from vicinal.table import TableEncoder

pytest.importorskip("uvicorn")
selenium = pytest.importorskip("selenium.webdriver")

pytestmark = pytest.mark.skipif(
    not (shutil.which("chromedriver") and (shutil.which("chromium") or shutil.which("chrome"))),
    reason="needs Chromium and its driver (Debian: chromium, chromium-driver)",
)


@pytest.fixture(scope="module")
def people():
    pd = pytest.importorskip("pandas")
    rng = np.random.RandomState(0)
    table = pd.DataFrame(
        {
            "age": rng.randint(18, 80, 120),
            "city": rng.choice(["Rome", "<script>document.title='run'</script>"], 120),
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
    """A classifier that predicts "old <b>" from probability 0.2 on."""
    table, number = people
    y = np.where(number > 50, "old <b>", "young")
    model = make_pipeline(TableEncoder(), LogisticRegression(C=0.001)).fit(table, y)
    model = with_threshold(model, "old <b>", 0.2)
    with serving(model, table=table, y=y, token="s3cret") as found:
        yield f"http://:s3cret@{found}"


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


def move(browser, value):
    browser.execute_script(
        "const e = document.getElementById('c0'); e.value = arguments[0];"
        "e.dispatchEvent(new Event('input'));",
        value,
    )


def text(browser, name):
    return browser.find_element("id", name).text


def test_a_slider_changes_the_prediction(browser, address):
    browser.get(address)
    move(browser, 18)
    wait_for(lambda: text(browser, "prediction") == "young")
    move(browser, 79)
    wait_for(lambda: text(browser, "prediction") == "old <b>")
    assert len(browser.find_elements("css selector", ".chance")) == 2
    assert "90 % set of labels: " in text(browser, "interval")
    assert "the row is typical" in text(browser, "novelty")
    assert "old <b> from probability 0.2 on" in text(browser, "rule")


def test_a_threshold_decides_also_the_least_change(browser, address):
    browser.get(address)
    move(browser, 18)
    wait_for(lambda: "New prediction: old <b>, " in text(browser, "change"))
    chance = float(text(browser, "change").split("New prediction: old <b>, ")[1].split(" %")[0])
    assert 20 <= chance < 50


def test_neighbours_are_shown_with_their_values(browser, address, people):
    browser.get(address)
    browser.execute_script(
        "const e = document.getElementById('start'); e.value = '7';"
        "e.dispatchEvent(new Event('input'));"
    )
    wait_for(lambda: browser.find_elements("css selector", "#near tbody tr"))
    wait_for(lambda: browser.find_element("css selector", "#near tbody td").text == "7")
    cells = [
        cell.text for cell in browser.find_elements("css selector", "#near tbody tr:first-child td")
    ]
    assert cells[1] == "0"
    assert cells[4] == str(people[0]["age"][7])
    assert cells[-1] == f"{people[0]['account'][7]:,}"  # in full


def test_numbers_have_an_interval_and_a_goal(browser, people):
    table, number = people
    model = LinearRegression().fit(table[["age"]], number)
    with serving(model, table=table[["age"]], y=number) as found:
        browser.get("http://" + found)
        move(browser, 30)
        wait_for(lambda: text(browser, "interval").startswith("90 % interval: "))
        low, high = map(float, text(browser, "interval").split(": ")[1].split(" to "))
        assert low < 30 < high
        wait_for(lambda: text(browser, "change").startswith("age: 30 → "))
        reached = float(text(browser, "change").split("New prediction: ")[1].rstrip("."))
        assert reached >= np.quantile(number, 0.7)


def test_without_a_table_columns_are_typed(browser, people):
    table, number = people
    model = LinearRegression().fit(table[["age"]], number)
    with serving(model) as found:
        browser.get("http://" + found)
        move(browser, "40")
        wait_for(lambda: text(browser, "prediction").startswith("40"))
        assert not browser.find_element("id", "near").is_displayed()


def test_explanations_come_on_demand(browser, address):
    browser.get(address)
    wait_for(lambda: browser.find_element("id", "prediction").text not in ("", "…"))
    browser.execute_script("document.getElementById('explain').click()")
    wait_for(lambda: "age" in browser.find_element("id", "why").text)


def test_labels_run_nothing(browser, address):
    browser.get(address)
    wait_for(lambda: browser.find_element("id", "prediction").text not in ("", "…"))
    assert browser.title == "model - vicinal"
