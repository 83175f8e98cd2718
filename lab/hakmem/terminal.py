"""What looks the same in the terminal for every command: lines, tables, progress bars."""

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

WORD = 30  # characters; a longer word may be broken


def new_console(stderr: bool = False) -> Console:
    """A console that gives numbers and names no colours of its own."""
    return Console(stderr=stderr, highlight=False)


def say(console: Console, line: str, style: str = "") -> None:
    """Prints a line without markup; the terminal wraps it, not this program."""
    console.print(Text(line, style=style), soft_wrap=True)


def state(word: str, said: str | None = None) -> Text:
    """The word, or the text `said`, in the style of that state."""
    return Text(word if said is None else said, style=words.style(word))


def level_widths(sizes: list[Measurement], room: int) -> list[int] | None:
    """Widths of columns, the widest ones equal, so that no word is broken that need not be; None
    where there is no room."""
    if sum(min(WORD, least) for least, _ in sizes) > room:
        return None
    for level in range(room, -1, -1):
        widths = [max(least * (least <= WORD), min(most, level)) for least, most in sizes]
        if sum(widths) <= room:
            break
    return widths


class Cells(Table):
    """A table that wraps its cells at words if it is too wide. If even that has no room, each row
    is a paragraph of its cells with their titles."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        cells = [[column.header, *column.cells] for column in self.columns]
        sizes = [
            Measurement(WORD, WORD) if c.flexible else measure_renderables(console, options, column)
            for c, column in zip(self.columns, cells, strict=True)
        ]
        room = options.max_width - 2 * (len(cells) - 1)
        if (widths := level_widths(sizes, room)) is not None:
            fitted = copy(self)  # because rich narrows the widest, whatever their words
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
    """A table without borders. A title that begins with > is of numbers, aligned right; `rest` is
    the title of a last column that gets the room left over and is cut off at its end."""
    plain = {"box": None, "pad_edge": False, "header_style": "bold", "padding": (0, 2, 0, 0)}
    made = Cells(**{**plain, "expand": rest is not None, **more})
    for title in titles:
        shown = Text(title.removeprefix(">"))  # as text: no markup
        side: Any = "right" if title.startswith(">") else "left"
        made.add_column(shown, justify=side, overflow="fold")
    if rest is not None:
        made.add_column(rest, no_wrap=True, ratio=1)
    return made


@dataclass(frozen=True)
class Fitting:
    """Shows the first of several tables that has room, else the last; each with a line below."""

    forms: Callable[[], Iterator[tuple[Table, Text | None]]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        unbounded = options.update(width=10_000)
        for shown in self.forms():
            if console.measure(shown[0], options=unbounded).maximum <= options.max_width:
                break
        yield from filter(None, shown)


def progress_bar(console: Console, counted: bool = True) -> Progress:
    """A bar that shows how many of how many or, without `counted`, the share."""
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
