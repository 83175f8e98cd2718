"""A heap in the terminal: the functions that weigh most."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from hakmem import words
from hakmem.heap import page as heap_page
from hakmem.heap.page import Page, View

ROWS = 12


def show(page: Page, console: Console) -> None:
    """The view that the page opens with; of two profiles the changes."""
    console.print(f"[bold]{page.title}[/]: {page.lede}", highlight=False, soft_wrap=True)
    if page.changes:
        console.print(_changes(page))
    else:
        console.print(_functions(next(view for view in page.views if view.id == page.first)))
    for problem in page.problems:
        console.print(Text(f"not named: {problem}", style="yellow"), soft_wrap=True)


def _table(title: str, columns: Sequence[str]) -> Table:
    made = Table(title=title, title_justify="left", title_style="dim")
    made.add_column("function", overflow="ellipsis", no_wrap=True, ratio=1)
    for column in columns:
        made.add_column(column, justify="right", no_wrap=True)
    return made


def _functions(view: View) -> Table:
    columns = ("self", "", "±, 95 %", "objects", "with callees")
    made = _table(view.name.lower(), columns)
    for row in view.by_own[:ROWS]:
        made.add_row(
            Text(row.frame.name),
            words.size(row.own.bytes),
            heap_page.share(row.own, view.weighed.total),
            heap_page.exact(row.own),
            words.count(row.own.objects),
            words.size(row.total.bytes),
        )
    return made


def _changes(page: Page) -> Table:
    made = _table(
        "in use; dim: no more than chance can make", ("change", "±, 95 %", "before", "after")
    )
    for row in page.changes[:ROWS]:
        change = row.change
        made.add_row(
            Text(row.frame.name),
            "+" * (change.bytes > 0) + words.size(change.bytes),
            words.size(change.margin) if change.variance else "exact",
            words.size(row.before.bytes),
            words.size(row.after.bytes),
            style="" if row.is_clear else "dim",
        )
    return made
