"""The table allocator × promise, and the reasons below it."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from hakmem.conformance.trial import Result

MARKS = {"kept": ("✓", "green"), "broken": ("✗", "bold red"), "not checked": ("–", "dim")}


def cell(result: Result | None) -> Text:
    mark, style = MARKS[result.state] if result else ("", "")
    return Text(mark, style=style)


def sums(results: Sequence[Result]) -> dict[str, str]:
    """How many promises each allocator keeps, of those that were checked."""
    of: dict[str, str] = {}
    for allocator in dict.fromkeys(result.allocator for result in results):
        own = [result for result in results if result.allocator == allocator]
        kept = sum(result.state == "kept" for result in own)
        of[allocator] = f"{kept}/{sum(result.state != 'not checked' for result in own)}"
    return of


def table(results: Sequence[Result], numbered: bool = False) -> Table:
    """One row for each promise, one column for each allocator: its name and sum, or a number."""
    cases = list(dict.fromkeys(result.case for result in results))
    found = {(result.case, result.allocator): result for result in results}
    made = Table(show_footer=not numbered, pad_edge=not numbered, padding=(0, 0 if numbered else 1))
    made.add_column("promise", footer="kept, of those checked", no_wrap=True)
    for number, (allocator, kept) in enumerate(sums(results).items(), 1):
        heading = str(number) if numbered else allocator
        made.add_column(Text(heading), footer=kept, justify="center", no_wrap=True)
    for case in cases:
        made.add_row(case, *(cell(found.get((case, allocator))) for allocator in sums(results)))
    return made


def show(results: Sequence[Result], console: Console) -> None:
    """The table, with numbers for names where the console is too narrow for them."""
    wide = table(results)
    unbounded = console.options.update(width=10_000)
    numbered = console.measure(wide, options=unbounded).maximum > console.width
    console.print(table(results, numbered=True) if numbered else wide)
    for number, (allocator, kept) in enumerate(sums(results).items(), 1):
        if numbered:
            console.print(Text(f"{number:>3} {allocator}: {kept}"))
    for state in ("broken", "not checked"):
        for result in results:
            if result.state == state:
                mark, style = MARKS[state]
                line = Text(f"{mark} ", style=style)
                line.append(f"{result.allocator}, {result.case}: ", style="bold")
                console.print(line.append(result.reason, style="not bold"), soft_wrap=True)
    ours = "✓ kept   ✗ broken   – not checked here"
    console.print(Text(ours, style="dim"))
