"""What looks the same in every command's terminal: lines, tables, and the bar of all that takes
long."""

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement, measure_renderables
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

from hakmem import words

WORD = 30  # a longer one may be broken


def new_console(stderr: bool = False) -> Console:
    """In which numbers and names have no colours of their own."""
    return Console(stderr=stderr, highlight=False)


def say(console: Console, line: str, style: str = "") -> None:
    """A line in which nothing is markup; it is the terminal that breaks it, if anybody does."""
    console.print(Text(line, style=style), soft_wrap=True)


def state(word: str, said: str | None = None) -> Text:
    """It, or what is `said` of it, as a state of that word looks."""
    return Text(word if said is None else said, style=words.style(word))


def level_widths(sizes: list[Measurement], room: int) -> list[int] | None:
    """All as wide as they can be, the widest alike, and no word that need not be is broken; None:
    there is no room."""
    if sum(min(WORD, least) for least, _ in sizes) > room:
        return None
    for level in range(room, -1, -1):
        widths = [max(least * (least <= WORD), min(most, level)) for least, most in sizes]
        if sum(widths) <= room:
            break
    return widths


class Cells(Table):
    """Where it is too wide it breaks into words, and where there is no room for these side by side
    each row is a paragraph of its cells, behind their titles."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        cells = [[column.header, *column.cells] for column in self.columns]
        sizes = [
            Measurement(WORD, WORD) if c.flexible else measure_renderables(console, options, column)
            for c, column in zip(self.columns, cells, strict=True)
        ]
        room = options.max_width - 2 * (len(cells) - 1)
        if (widths := level_widths(sizes, room)) is not None:
            fitted = copy(self)  # for rich makes the widest narrower, whatever their words
            fitted.columns = [
                column if column.flexible else replace(column, width=width)
                for column, width in zip(self.columns, widths, strict=True)
            ]
            yield from Table.__rich_console__(fitted, console, options)
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
