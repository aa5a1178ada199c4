"""The calculator in a real browser, from a file, with its answers beside the command's.

Pictures are left in build/calculator/. `make browser` runs these tests.
"""

import json
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from evidence.calculator.page import write_page
from forecache.models.advice.cases import load_cases
from forecache.models.prediction.predict import predict_cases

CHROMIUM = shutil.which("chromium")
if CHROMIUM is None or find_spec("ziglang") is None:
    pytest.skip("no chromium (apt-get install chromium) or no ziglang", allow_module_level=True)
pytestmark = pytest.mark.browser
sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright")

PICTURES = Path("build/calculator")
LONG_MS = 60_000
START = "host=c7g.xlarge&engine=valkey+9.1&io_threads=2&clients=60&value_bytes=256&get_percent=80"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("calculator")
    engines = ("valkey 9.1", "redis 8.6")
    return write_page(folder, hosts=("c7g.xlarge", "m7i.2xlarge"), engines=engines).as_uri()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Any]:
    """An open page; no script of it may fail, and nothing may be asked for."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, accept_downloads=True)
    found = context.new_page()
    problems: list[str] = []
    found.on("pageerror", lambda error: problems.append(str(error)))
    found.on("console", lambda m: problems.append(m.text) if m.type == "error" else None)
    local = (address, "data:", "blob:")
    found.on("request", lambda r: None if r.url.startswith(local) else problems.append(r.url))
    found.goto(f"{address}#{START}")
    yield found
    context.close()
    assert problems == []


def wait_until_simulated(page: Any) -> None:
    page.wait_for_function(
        "() => byId('status').textContent === 'All simulated' && !byId('tiles').ariaBusy",
        timeout=LONG_MS,
    )


def test_it_answers_as_the_command_does(page: Any) -> None:
    wait_until_simulated(page)
    scenario = yaml.safe_load(page.inner_text("#yaml"))
    [prediction] = predict_cases(load_cases(scenario))
    answer = page.evaluate("() => state.answer")
    for name, within in (("throughput_rps", 0.03), ("p50_ms", 0.03), ("p99_ms", 0.06)):
        expected = prediction.estimate(name)
        assert expected is not None
        found = answer[name]
        assert found["value"] == pytest.approx(expected.value, rel=within)
        assert found["low"] == pytest.approx(expected.low, rel=0.15)
        assert found["high"] == pytest.approx(expected.high, rel=0.15)


def test_an_open_loop_serves_its_rate_and_too_much_is_said(page: Any) -> None:
    page.fill("#rate_rps", "50000")
    page.wait_for_function("() => state.chosen.rate === 50000")
    wait_until_simulated(page)
    served = page.evaluate("() => state.answer.throughput_rps.value")
    assert served == pytest.approx(50_000, rel=0.01)
    page.fill("#rate_rps", "5000000")
    page.wait_for_function("() => state.chosen.rate === 5000000")
    page.wait_for_function("() => byId('tiles').textContent.includes('grows')", timeout=LONG_MS)


def test_the_scenario_can_be_downloaded_and_the_link_opens_the_same(
    page: Any, browser: Any
) -> None:
    page.select_option("#engine", "redis 8.6")
    page.fill("#clients", "33")
    page.wait_for_function("() => state.chosen.clients === 33")
    with page.expect_download() as download:
        page.click("#save-yaml")
    scenario = yaml.safe_load(Path(download.value.path()).read_text())
    assert (scenario["engine"], scenario["workload"]["clients"]) == ("redis", 33)
    assert load_cases(scenario)
    again = browser.new_page()
    again.goto(page.url)
    again.wait_for_function("() => state.chosen")
    assert yaml.safe_load(again.inner_text("#yaml")) == scenario
    again.close()


def test_a_wrong_number_is_said_in_words(page: Any) -> None:
    wait_until_simulated(page)
    page.fill("#clients", "0")
    page.wait_for_selector("#failure:not([hidden])")
    assert page.inner_text("#failure").startswith("Clients: ")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_it_fits_every_width(browser: Any, address: str, width: int, scheme: str) -> None:
    context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)
    page = context.new_page()
    page.goto(f"{address}#{START}")
    wait_until_simulated(page)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=PICTURES / f"{width}-{scheme}.png", full_page=True)
    first = page.evaluate("() => performance.getEntriesByName('first answer')[0].duration")
    (PICTURES / f"times-{width}-{scheme}.json").write_text(json.dumps({"first_answer_ms": first}))
    context.close()
