"""The report in a real browser: with and without scripts, light and dark, wide and narrow."""

import re
from pathlib import Path

import pytest
import report_world as world
from browser_world import Browser, expect_full, windows
from hakmem.ledger.store import Ledger
from hakmem.report import cli as report_cli, page as report, records
from report_world import drawn

pytestmark = pytest.mark.browser


def written(ledger: Ledger, folder: Path) -> Path:
    file = folder / "report.html"
    report.write(file, report_cli.find(ledger, records.newest(ledger.records())))
    return file


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A soak, a matrix and a verdict; the latter two have text that attacks a page."""
    folder = tmp_path_factory.mktemp("page")
    ledger = Ledger(folder / "evidence")
    world.add_soak(ledger)
    world.add_matrix(ledger, world.PLANTED)
    world.add_verdict(ledger, world.PLANTED, "NO-GO", 1.2)
    return written(ledger, folder)


@pytest.fixture(scope="module")
def dom(browser: Browser, page: Path) -> str:
    return browser.dom(page)


def test_every_chart_is_drawn_with_all_its_series_and_points(dom: str) -> None:
    assert drawn(dom) == {
        "throughput": [world.EPOCHS, 2],
        "ns": [world.EPOCHS],
        "memory": [world.EPOCHS] * 3 + [2],
    }
    live = re.findall(r'<div class="live"[^>]*>.*?</svg>', dom, flags=re.DOTALL)
    assert len(live) == 3
    for svg in live:
        assert 'role="img"' in svg
        assert "aria-label=" in svg
    assert dom.count('<div class="static" hidden=""') == 3


def test_planted_text_does_not_run(dom: str) -> None:
    assert "<title>What was measured with hakmem</title>" in dom


def test_without_scripts_the_figures_are_still_there(browser: Browser, page: Path) -> None:
    seen = ".static svg.wide polyline, .heat td, .live *"
    assert browser.seen(page, seen) == (1 + 1 + 3) + 4 * 3


@windows
def test_the_page_fills_the_window_in_its_colours(
    browser: Browser, page: Path, blank: int, width: int, dark: bool, scripts: bool
) -> None:
    expect_full(browser.picture(page, width, dark, scripts), dark, 8 * blank)


def test_the_page_of_a_suite_fills_the_window(browser: Browser, tmp_path: Path, blank: int) -> None:
    ledger = Ledger(tmp_path / "evidence")
    world.add_suite(ledger)
    assert len(browser.picture(written(ledger, tmp_path), 1360)) > 4 * blank


def test_on_a_telephone_nothing_of_a_card_is_outside_of_it(
    browser: Browser, page: Path, tmp_path: Path
) -> None:
    ledger = Ledger(tmp_path / "evidence")
    world.add_suite(ledger, slow="mimalloc2-debian")
    for file in (page, written(ledger, tmp_path)):
        assert browser.outside(file, 390, "tbody tr") == ""
