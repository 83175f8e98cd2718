"""The page of a heap in a real browser: zoom, search, without scripts, light and dark."""

from collections.abc import Callable
from pathlib import Path

import heap_world as world
import pytest
from browser_world import Browser, expect_full, windows
from standing import Stand, ran

pytestmark = pytest.mark.browser

PLANTED = "</script><script>document.title='owned'</script><img src=x onerror=alert(1)>"
KIB = 1024
ROWS = [
    (["malloc", "load", "main"], [10, 700 * KIB, 10, 900 * KIB]),
    (["malloc", "parse", "main"], [5, 200 * KIB, 5, 900 * KIB]),
    (["malloc", PLANTED, "parse", "main"], [1, 100 * KIB, 1, 100 * KIB]),
]
# Boxes of the view: the heap, main, load, malloc, parse, malloc, the planted name, malloc.
BOXES = 8


@pytest.fixture(scope="module")
def page(stand: Stand, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("heap")
    made = world.Made(rows=ROWS, time_ns=10**18, duration_ns=10**9)
    later = world.Made(rows=ROWS[:2], time_ns=2 * 10**18, duration_ns=10**18)
    files = [made.write(folder / "1"), later.write(folder / "2")]
    ran(stand.call("heap", "show", *files, "--out", folder / "heap.html"))
    return folder / "heap.html"


def test_each_function_is_drawn_and_planted_text_does_not_run(browser: Browser, page: Path) -> None:
    dom = browser.dom(page)
    assert "<title>The heap of process 4711</title>" in dom
    shown = dom.partition('data-view="peak"')[2].partition(">")[0]
    assert f'data-boxes="{BOXES}"' in shown


@pytest.fixture
def asked(browser: Browser, page: Path) -> Callable[[str], str]:
    """Runs a script with `page`, the document, and `graph`, the graph shown; what it says."""
    begin = "const page = this.contentDocument, say = (text) => document.body.append(text),"
    graph = "graph = [...page.querySelectorAll('.sheet')].find((e) => e.clientWidth);"
    boxes = "const box = (name) => [...graph.children].find((e) => e.textContent === name);"
    return lambda script: browser.says(page, begin + graph + boxes + script)


def test_a_click_zooms_and_escape_goes_back(asked: Callable[[str], str]) -> None:
    said = asked(
        "box('parse').click();"
        "say(`zoomed ${graph.children.length} ${box('load')} ${box('parse').clientWidth};`);"
        "page.dispatchEvent(new page.defaultView.KeyboardEvent('keydown', {key: 'Escape'}));"
        "say(`back ${graph.children.length} ${box('parse').clientWidth}`);"
        "say(` of ${graph.clientWidth}.`);"
    )
    # The heap, main and parse; two below parse, and one below the planted name.
    assert "zoomed 6 undefined " in said
    whole = int(said.rpartition(" of ")[2].partition(".")[0])
    zoomed = int(said.partition("undefined ")[2].partition(";")[0])
    back = int(said.partition(f"back {BOXES} ")[2].partition(" ")[0])
    assert zoomed == pytest.approx(whole, abs=2)
    assert back == pytest.approx(0.3 * whole, abs=2)


def test_a_search_marks_and_adds_up_each_byte_once(asked: Callable[[str], str]) -> None:
    said = asked(
        "const field = page.getElementById('search'); field.value = 'PARSE';"
        "field.dispatchEvent(new page.defaultView.Event('input'));"
        "const hit = () => [...graph.querySelectorAll('.hit')].map((e) => e.textContent).join();"
        "say(`${hit()}: ${page.getElementById('found').textContent};`);"
        "page.querySelector('#peak [data-find=load]').click();"
        "say(`${field.value} ${hit()}: ${page.getElementById('found').textContent}.`);"
    )
    assert "parse: 300 KiB, 30.0 %;load load: 700 KiB, 70.0 %." in said


def test_what_lies_under_the_pointer_is_told(asked: Callable[[str], str]) -> None:
    said = asked(
        "const over = new page.defaultView.MouseEvent('mouseover', {bubbles: true});"
        "box('load').dispatchEvent(over);"
        "say(graph.closest('figure').querySelector('.told').textContent);"
    )
    assert "load · ? — 700 KiB, 70.0 %, 10 objects" in said


def test_another_view_is_drawn_when_it_is_chosen(asked: Callable[[str], str]) -> None:
    said = asked(
        "page.getElementById('v-alloc').click();"
        "say(`${page.querySelectorAll('#alloc .box').length} ${graph.clientWidth}.`);"
    )
    assert said.startswith("6 0.")  # the planted name is not in this view


def test_without_scripts_there_are_drawings_tables_and_buttons(
    browser: Browser, page: Path
) -> None:
    assert browser.seen(page, ".static svg.wide .frame") == BOXES
    assert browser.seen(page, ".tabs label") == 3
    assert browser.seen(page, ".view > .scroll tbody tr") == 3
    assert browser.seen(page, "#growth svg.wide polygon") == 4
    assert browser.seen(page, ".seek") == 0


@windows
def test_the_page_fills_the_window_in_its_colours(
    browser: Browser, page: Path, blank: int, width: int, dark: bool, scripts: bool
) -> None:
    expect_full(browser.picture(page, width, dark, scripts), dark, 5 * blank)
