"""What looks the same in every command's terminal: lines, tables, and the bar of all that takes
long."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

WORD = 30  # a longer one may be broken


def new_console(stderr: bool = False) -> Console:
    """In which numbers and names have no colours of their own."""
    return Console(stderr=stderr, highlight=False)


def say(console: Console, line: str, style: str = "") -> None:
    """A line in which nothing is markup; it is the terminal that breaks it, if anybody does."""
    console.print(Text(line, style=style), soft_wrap=True)


class Cells(Table):
    """Where it is too wide it breaks into words, and where there is no room for these side by side
    each row is a paragraph of its cells, behind their titles."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        cells = [[column.header, *column.cells] for column in self.columns]
        words = (max(console.measure(cell).minimum for cell in column) for column in cells)
        least = (WORD if c.flexible else w for c, w in zip(self.columns, words, strict=True))
        if sum(2 + min(WORD, width) for width in least) - 2 <= options.max_width:
            yield from super().__rich_console__(console, options)
            return
        titles, *rows = zip(*cells, strict=True)
        if head := self.title or titles[0]:
            yield Text(str(head), style="bold")
        for row in rows:
            name, *others = (console.render_str(c) if isinstance(c, str) else c for c in row)
            told = (
                Text.assemble((f"{title} ".replace("\n", " ").lstrip(), "dim"), cell)
                for title, cell in zip(titles[1:], others, strict=True)
                if cell
            )
            yield Text("  ").join([name, *told])


def table(*titles: str, rest: str | None = None, **more: Any) -> Table:
    """A title behind > is of numbers, which are aligned; `rest` that of a last column, which has
    what room is left and is cut off at its end."""
    plain = {"box": None, "pad_edge": False, "header_style": "bold", "padding": (0, 2, 0, 0)}
    made = Cells(**{**plain, "expand": rest is not None, **more})
    for title in titles:
        shown = Text(title.removeprefix(">"))  # of which nothing is markup
        side: Any = "right" if title.startswith(">") else "left"
        made.add_column(shown, justify=side, overflow="fold")
    if rest is not None:
        made.add_column(rest, no_wrap=True, ratio=1)
    return made


@dataclass(frozen=True)
class Fitting:
    """The first of several tables that has room, else the last; each with a line below it."""

    forms: Callable[[], Iterator[tuple[Table, Text | None]]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        unbounded = options.update(width=10_000)
        for shown in self.forms():
            if console.measure(shown[0], options=unbounded).maximum <= options.max_width:
                break
        yield from filter(None, shown)


def progress_bar(console: Console, counted: bool = True) -> Progress:
    """`counted`: it says how many of how many, and not the share."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn() if counted else TextColumn("{task.percentage:.0f} %"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )
