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


def table(results: Sequence[Result]) -> Table:
    """One row for each promise, one column for each allocator, and how many it keeps."""
    cases = list(dict.fromkeys(result.case for result in results))
    allocators = list(dict.fromkeys(result.allocator for result in results))
    found = {(result.case, result.allocator): result for result in results}
    made = Table("promise", show_footer=True)
    made.columns[0].footer = "kept, of those checked"
    for allocator in allocators:
        own = [result for result in results if result.allocator == allocator]
        kept = sum(result.state == "kept" for result in own)
        checked = sum(result.state != "not checked" for result in own)
        made.add_column(Text(allocator), footer=f"{kept}/{checked}", justify="center")
    for case in cases:
        made.add_row(case, *(cell(found.get((case, allocator))) for allocator in allocators))
    return made


def show(results: Sequence[Result], console: Console) -> None:
    console.print(table(results))
    for state in ("broken", "not checked"):
        for result in results:
            if result.state == state:
                mark, style = MARKS[state]
                line = Text(f"{mark} ", style=style)
                line.append(f"{result.allocator}, {result.case}: ", style="bold")
                console.print(line.append(result.reason, style="not bold"), soft_wrap=True)
    ours = "✓ kept   ✗ broken   – not checked here"
    console.print(Text(ours, style="dim"))
