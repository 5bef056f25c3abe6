"""The explorer in a real browser: a slider moves, the answer follows, labels run nothing."""

import shutil
import threading
import time

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from vicinal.table import TableEncoder

pytest.importorskip("uvicorn")
selenium = pytest.importorskip("selenium.webdriver")

pytestmark = pytest.mark.skipif(
    not (shutil.which("chromedriver") and (shutil.which("chromium") or shutil.which("chrome"))),
    reason="needs Chromium and its driver (Debian: chromium, chromium-driver)",
)


@pytest.fixture(scope="module")
def address():
    import uvicorn

    from vicinal.serve import create_app

    pd = pytest.importorskip("pandas")
    rng = np.random.RandomState(0)
    table = pd.DataFrame(
        {
            "age": rng.randint(18, 80, 120).astype(float),
            "city": rng.choice(["Rome", "<script>document.title='run'</script>"], 120),
        }
    )
    y = np.where(table["age"] > 50, "old <b>", "young")
    model = make_pipeline(TableEncoder(), LogisticRegression()).fit(table, y)
    config = uvicorn.Config(create_app(model, table=table), port=0, log_level="error")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}/"
    server.should_exit = True
    thread.join(10)


@pytest.fixture(scope="module")
def browser():
    options = selenium.ChromeOptions()
    for flag in ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"):
        options.add_argument(flag)
    driver = selenium.Chrome(options=options)
    yield driver
    driver.quit()


def wait_for(check, seconds=15.0):
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


def test_a_slider_moves_the_answer(browser, address):
    browser.get(address)
    said = browser.find_element("id", "said")
    move(browser, 20)
    wait_for(lambda: said.text == "young")
    move(browser, 79)
    wait_for(lambda: said.text == "old <b>")
    assert len(browser.find_elements("css selector", ".bar")) == 2


def test_reasons_come_on_demand(browser, address):
    browser.get(address)
    wait_for(lambda: browser.find_element("id", "said").text not in ("", "…"))
    browser.find_element("id", "explain").click()
    wait_for(lambda: "age" in browser.find_element("id", "why").text)


def test_labels_run_nothing(browser, address):
    browser.get(address)
    wait_for(lambda: browser.find_element("id", "said").text not in ("", "…"))
    assert browser.title == "LogisticRegression explorer"
