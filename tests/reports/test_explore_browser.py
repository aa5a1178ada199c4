"""The page of `explore` in a real browser: Debian's chromium, driven by Playwright.

Pictures at three widths, dark and light, are left in build/explore/. `make browser` runs these
tests; `make test` leaves them out, since they take minutes and wait for a browser.
"""

import csv
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
import yaml

CHROMIUM = shutil.which("chromium")

if CHROMIUM is None:
    pytest.skip("no chromium (apt-get install chromium)", allow_module_level=True)
pytestmark = pytest.mark.browser
sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright")

SCENARIO = {
    "host": "c7g.large",
    "engine": "valkey",
    "engine_version": "9.1",
    "io_threads": 2,
    "workload": {"clients": 20, "keys": 100_000, "mix": {"get": 0.8, "set": 0.2}},
    "slo": {"p99_ms": 1.0},
}
WIDTHS = (390, 820, 1280)
LONG_MS = 120_000


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of a running page; afterwards Ctrl-C must end it."""
    file = tmp_path_factory.mktemp("explore") / "scenario.yaml"
    file.write_text(yaml.safe_dump(SCENARIO))
    command = [sys.executable, "-m", "forecache", "explore", str(file), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            text = "".join(process.stdout.readline() for _ in range(3))
            yield json.loads(text)["address"]
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=20) == 0
            # Its processes end with it.
            assert children_of(process.pid) == []
        finally:
            process.kill()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Any]:
    """A page that is open; no script of it may fail, and nothing may come from elsewhere."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, accept_downloads=True)
    found = context.new_page()
    problems: list[str] = []
    found.on("pageerror", lambda error: problems.append(str(error)))
    found.on("console", lambda m: problems.append(m.text) if m.type == "error" else None)
    found.on("request", lambda r: _note_foreign(r.url, address, problems))
    found.goto(address)
    yield found
    context.close()
    assert problems == []


def _note_foreign(url: str, address: str, problems: list[str]) -> None:
    if not url.startswith((address, "data:", "blob:")):
        problems.append(f"asked for {url}")


def children_of(pid: int, depth: int = 9) -> list[int]:
    """Processes below one."""
    parents: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] != "Z":
            parents.setdefault(int(fields[1]), []).append(int(folder.name))
    found, level = [], [pid]
    for _ in range(depth):
        level = [below for each in level for below in parents.get(each, [])]
        found += level
    return found


def wait_until_simulated(page: Any) -> None:
    page.wait_for_function(
        "() => document.getElementById('status').textContent === 'All simulated'", timeout=LONG_MS
    )


def wait_until_estimated(page: Any) -> None:
    page.wait_for_selector("figure[data-name=latency]:not([aria-busy]) svg", timeout=LONG_MS)


def fragment(page: Any) -> dict[str, Any]:
    found = parse_qs(page.url.partition("#")[2])
    return {name: yaml.safe_load(texts[0]) for name, texts in found.items()}


def test_a_control_moves_the_figures_and_the_address(page: Any) -> None:
    wait_until_estimated(page)
    before = page.get_attribute("figure[data-name=throughput] svg", "aria-label")
    page.fill("#clients-a", "200")
    page.wait_for_function(
        "old => document.querySelector('figure[data-name=throughput] svg').ariaLabel !== old",
        arg=before,
    )
    assert fragment(page)["a"]["workload"]["clients"] == 200
    assert "quick estimate" in page.inner_text("#rows")
    assert "±" in page.inner_text("#rows")


def test_everything_by_keyboard(page: Any) -> None:
    wait_until_estimated(page)
    seen = []
    for _ in range(16):
        page.keyboard.press("Tab")
        seen.append(page.evaluate("document.activeElement.id"))
    for name in ("host-a", "engine-a", "io_threads-a", "tls-a", "compare", "copy-link"):
        assert name in seen
    page.focus("#tls-a")
    page.keyboard.press("Space")
    page.wait_for_function("() => decodeURIComponent(location.hash).includes('tls')")
    assert fragment(page)["a"]["tls"] is True


def test_a_link_opens_the_same_scenario_again(page: Any) -> None:
    wait_until_estimated(page)
    page.fill("#value_bytes-a", "2048")
    page.wait_for_function("() => decodeURIComponent(location.hash).includes('2048')")
    url = page.url
    page.goto("about:blank")
    page.goto(url)
    wait_until_estimated(page)
    assert page.input_value("#value_bytes-a") == "2048"


def test_an_input_error_is_one_sentence_and_goes_away(page: Any) -> None:
    wait_until_estimated(page)
    page.fill("#host-a", "c7g.huge")
    page.wait_for_selector("#failure:visible")
    assert "c7g.huge" in page.inner_text("#failure")
    assert "Traceback" not in page.inner_text("body")
    page.fill("#host-a", "c7g.2xlarge")
    page.wait_for_selector("#failure", state="hidden")
    assert fragment(page)["a"]["host"] == "c7g.2xlarge"


def test_two_scenarios_with_their_difference_downloads_and_times(page: Any) -> None:
    wait_until_simulated(page)
    rows = page.inner_text("#rows")
    assert "simulated, 95% intervals" in rows
    assert "quick estimate" not in page.inner_text("figure[data-name=throughput]")
    page.click("#compare")
    page.select_option("#engine-b", "valkey 8.0")
    page.wait_for_function(
        "() => document.getElementById('rows').textContent.match(/better|worse|no clear/)",
        timeout=LONG_MS,
    )
    wait_until_simulated(page)
    assert fragment(page)["b"]["engine_version"] == "8.0"
    with page.expect_download() as waiting:
        page.click("#save-data")
    rows = list(csv.DictReader(io.StringIO(Path(waiting.value.path()).read_text())))
    assert {row["scenario"] for row in rows} == {"A", "B"}
    assert {row["made_by"] for row in rows} == {"simulation"}
    with page.expect_download() as waiting:
        page.click("figure[data-name=throughput] button")
    svg = Path(waiting.value.path()).read_text()
    assert svg.startswith("<svg")
    assert "var(" not in svg
    keep_times(page)


def keep_times(page: Any) -> None:
    """How long the first plot and the simulated ones took, for whoever asks."""
    found = page.evaluate(
        "performance.getEntriesByType('measure').map(each => [each.name, each.duration])"
    )
    names = {name for name, _ in found}
    # The chosen point has no time of its own where it comes together with the last ones.
    assert {"first plot", "refined"} <= names
    lines = [f"{name}: {duration:.0f} ms\n" for name, duration in found]
    (pictures() / "times.txt").write_text("".join(lines))


def test_a_closed_tab_ends_the_work(browser: Any, address: str) -> None:
    context = browser.new_context()
    tab = context.new_page()
    big = {**SCENARIO, "workload": {**SCENARIO["workload"], "clients": 3000}}  # type: ignore[dict-item]
    tab.goto(f"{address}#a={yaml.safe_dump(big, default_flow_style=True)}")
    [server] = [int(found.name) for found in Path("/proc").glob("[0-9]*") if _is_server(found)]
    assert _turns(lambda: simulating(server), within_s=60)
    context.close()
    assert _turns(lambda: not simulating(server), within_s=30)


def simulating(server: int) -> bool:
    """Whether a process that answers has processes of its own."""
    grandchildren = [below for child in children_of(server, 1) for below in children_of(child, 1)]
    return any(children_of(each, 1) for each in grandchildren)


def _turns(is_so: Callable[[], bool], *, within_s: float) -> bool:
    """Whether something becomes so in time."""
    until = time.monotonic() + within_s
    while not (found := is_so()) and time.monotonic() < until:
        time.sleep(0.1)
    return found


def _is_server(folder: Path) -> bool:
    try:
        words = (folder / "cmdline").read_bytes().split(b"\0")
        parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return False
    return b"explore" in words and b"--json" in words and parent == os.getpid()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pictures_at_three_widths(browser: Any, address: str, scheme: str) -> None:
    context = browser.new_context(color_scheme=scheme, viewport={"width": 390, "height": 844})
    shown = context.new_page()
    other = {**SCENARIO, "engine_version": "8.0"}
    for compared in (False, True):
        query = f"a={yaml.safe_dump(SCENARIO, default_flow_style=True)}"
        query += f"&b={yaml.safe_dump(other, default_flow_style=True)}" if compared else ""
        for width in WIDTHS:
            shown.goto("about:blank")
            shown.set_viewport_size({"width": width, "height": 900})
            shown.goto(f"{address}#{query}")
            wait_until_simulated(shown)
            # Nothing is wider than the page, at any width.
            assert shown.evaluate("document.documentElement.scrollWidth") <= width
            name = f"{'two' if compared else 'one'}-{width}-{scheme}.png"
            shown.screenshot(path=pictures() / name, full_page=True)
    context.close()


def pictures() -> Path:
    folder = Path(__file__).resolve().parents[2] / "build" / "explore"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
