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


def new_console(stderr: bool = False) -> Console:
    """In which numbers and names have no colours of their own."""
    return Console(stderr=stderr, highlight=False)


def say(console: Console, line: str, style: str = "") -> None:
    """A line in which nothing is markup; it is the terminal that breaks it, if anybody does."""
    console.print(Text(line, style=style), soft_wrap=True)


def table(*titles: str | tuple[str, int], least: int | None = None, **more: Any) -> Table:
    """Columns that do not wrap, `least` wide or as a title says that is a pair; a title behind > is
    of numbers, which are aligned."""
    plain = {"box": None, "pad_edge": False, "header_style": "bold", "padding": (0, 2, 0, 0)}
    made = Table(**{**plain, **more})
    for given in titles:
        title, width = (given, least) if isinstance(given, str) else given
        side: Any = "right" if title.startswith(">") else "left"
        shown = Text(title.removeprefix(">"))  # of which nothing is markup
        made.add_column(shown, justify=side, no_wrap=True, min_width=width)
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
