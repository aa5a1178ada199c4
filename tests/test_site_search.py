"""Search on the site, opened as files in a browser: Debian's chromium, driven by Playwright."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from evidence.documents.site import build

CHROMIUM = shutil.which("chromium")

if CHROMIUM is None:
    pytest.skip("no chromium (apt-get install chromium)", allow_module_level=True)
pytestmark = pytest.mark.browser
pytest.importorskip("zensical", reason="needs the extra docs")
sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright")


def test_search_and_points_in_files(tmp_path: Path) -> None:
    build(tmp_path / "site", tmp_path / "source")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        problems: list[str] = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("requestfailed", lambda request: problems.append(request.url))
        page.on("request", lambda request: _only_files(request.url, problems))
        page.goto((tmp_path / "site/docs/models.html").as_uri())
        _search(page, "held-out point")
        # Where a result stands, as a list: Start, Glossary.
        page.locator("li:text-is('Glossary')").first.wait_for()
        page.goto((tmp_path / "site/docs/accuracy.html").as_uri())
        _filter_points(page)
        browser.close()
    assert problems == []


def _filter_points(page: Any) -> None:
    """A cell of the table by engine and host leads to its points."""
    points = page.locator("#accuracy-points")
    everything = points.locator("p").first.text_content()
    page.locator(".accuracy-matrix a:has-text('(')").first.click()
    shown = points.locator("p").first.text_content()
    assert shown != everything
    assert shown.endswith(".")
    number = int(shown.split(" ")[0].replace(",", ""))
    assert points.locator("tbody tr").count() == min(number, 50)
    points.locator("input").first.fill("no load is called this")
    assert points.locator("p").first.text_content() == "No point is like this."


def _search(page: Any, words: str) -> None:
    page.wait_for_timeout(2_000)  # until the index is there
    page.keyboard.press("Control+k")
    page.wait_for_timeout(500)
    page.keyboard.type(words, delay=50)


def _only_files(url: str, problems: list[str]) -> None:
    if not url.startswith(("file:", "data:", "blob:", "about:")):
        problems.append(url)
