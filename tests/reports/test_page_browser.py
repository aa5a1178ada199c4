"""Pages on a phone, in Debian's chromium, driven by Playwright."""

import shutil
from pathlib import Path

import pytest

from forecache.models.advice.node_answers import Simulated
from forecache.reports.page import render_html
from forecache.reports.text.repeat import question
from tests.made_points import PROVENANCE, about, made_head, made_point

CHROMIUM = shutil.which("chromium")
if CHROMIUM is None:
    pytest.skip("no chromium (apt-get install chromium)", allow_module_level=True)
pytestmark = pytest.mark.browser
sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright")

PHONE_PX = 390


def wide() -> str:
    """A sweep over six fields, one with names that have no place to break."""
    fields = ("host", "engine_version", "clients", "pipeline", "value_bytes", "keys")
    points = [
        made_point(
            given=dict.fromkeys(fields, 1000 + n) | {"host": f"profiles/{'x' * 70}-{n}.yaml"},
            throughput_rps=about(1e5 * (1 + n)),
        )
        for n in range(3)
    ]
    head = made_head()
    answer = Simulated(**head, points=points, provenance=PROVENANCE)
    return render_html(answer, question("simulate", head["scenario"], options={}))


def test_a_wide_table_scrolls_inside_its_box(tmp_path: Path) -> None:
    file = tmp_path / "wide.html"
    file.write_text(wide(), encoding="utf-8")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": PHONE_PX, "height": 800})
        page.goto(file.as_uri())
        page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE_PX
        over = "[...document.querySelectorAll('.scroll')].map(b => b.scrollWidth - b.clientWidth)"
        assert max(page.evaluate(over)) > 0
        browser.close()
