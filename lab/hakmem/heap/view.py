"""A heap in the terminal: the functions that weigh most."""

from collections.abc import Iterable, Sequence
from itertools import repeat

from rich.console import Console
from rich.table import Table
from rich.text import Text

from hakmem import terminal, words
from hakmem.heap import page as heap_page
from hakmem.heap.page import Page, View

ROWS = 12


def show(page: Page, console: Console) -> None:
    """The view with which the page opens; of two profiles the changes."""
    title = Text(page.title, style="bold")
    console.print(title.append(f": {page.lede}", style="not bold"), soft_wrap=True)
    if page.changes:
        console.print(_changes(page))
    else:
        opened = next(view for view in page.views if view.id == page.first)
        console.print(_functions(opened))
    for problem in page.problems:
        terminal.say(console, problem, "yellow")


def _table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], styles: Iterable[str]
) -> Table:
    titles = ("function", *(f">{column}" for column in columns))
    made = terminal.table(*titles, title=title, title_justify="left", title_style="dim")
    for (name, *cells), style in zip(rows, styles, strict=False):
        made.add_row(Text(words.short(name)), *cells, style=style)
    return made


def _functions(view: View) -> Table:
    rows = [
        (
            row.frame.name,
            words.size(row.own.bytes),
            heap_page.share(row.own, view.weighed.total),
            heap_page.exact(row.own),
            words.count(row.own.objects),
            words.size(row.total.bytes),
        )
        for row in view.by_own[:ROWS]
    ]
    columns = ("self", "", "±, 95 %", "objects", "with callees")
    return _table(view.name.lower(), columns, rows, repeat(""))


def _changes(page: Page) -> Table:
    rows = [
        (
            row.frame.name,
            "+" * (row.change.bytes > 0) + words.size(row.change.bytes),
            words.size(row.change.margin) if row.change.variance else "exact",
            words.size(row.before.bytes),
            words.size(row.after.bytes),
        )
        for row in page.changes[:ROWS]
    ]
    title = "in use; dim: no more than chance can make"
    styles = ("" if row.is_clear else "dim" for row in page.changes)
    return _table(title, ("change", "±, 95 %", "before", "after"), rows, styles)
