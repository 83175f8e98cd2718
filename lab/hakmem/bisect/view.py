"""A bisection in the terminal: what each commit's chance is, as bars, and what came out."""

import math
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from hakmem import terminal
from hakmem.bisect.commits import Commit
from hakmem.bisect.posterior import Posterior
from hakmem.bisect.search import Finding, Search
from hakmem.paired.tables import change

BAR = 24
MOST_ROWS = 30
STEPS = " ▁▂▃▄▅▆▇█"


def bars(commits: Sequence[Commit], search: Search, sign: int) -> Table:
    """The likeliest hypotheses in the order of commits, with what was measured at each.

    `sign` is the factor from a gain to a change of the metric.
    """
    now, measured = search.posterior(), search.measured()
    ranked = sorted(range(len(now.chances)), key=lambda at: -now.chances[at])
    table = terminal.table("", "", ">", ">", rest="", show_header=False)
    table.columns[3].style = "dim"
    for at in sorted(ranked[:MOST_ROWS]):
        seen = "skipped" if at in search.skipped else ""
        if at in measured:
            seen = change(math.exp(sign * measured[at].gain))
        bar = Text("█" * round(BAR * now.chances[at]), style="cyan")
        name, subject = "none", "no commit changed it"
        if at > 0:
            name, subject = commits[at].short, commits[at].subject
        table.add_row(name, bar, f"{100 * now.chances[at]:.1f} %", seen, Text(subject))
    return table


def strip(chances: Sequence[float], width: int) -> str:
    """The chances of all commits as a line of at most `width` bars, the highest one full."""
    share = -(-len(chances) // width)
    sums = [sum(chances[i : i + share]) for i in range(0, len(chances), share)]
    top = max(sums) or 1.0
    return "".join(STEPS[math.ceil((len(STEPS) - 1) * value / top - 0.05)] for value in sums)


def print_standing(console: Console, commits: Sequence[Commit], now: Posterior) -> None:
    """Prints one line: where the change may be, from the good end to the bad one."""
    best = max(range(1, len(now.chances)), key=lambda at: now.chances[at])
    line = Text("  good ", style="dim").append(strip(now.chances[1:], 40), style="cyan not dim")
    said = f" bad   up to {100 * now.chances[best]:.0f} % ({commits[best].short})"
    console.print(line.append(f"{said}, none {100 * now.chances[0]:.0f} %"))


def print_finding(
    console: Console, commits: Sequence[Commit], search: Search, finding: Finding, sign: int
) -> None:
    """Prints the chances of all commits, those that cannot be run by name, and the answer."""
    console.print()
    console.print(bars(commits, search, sign))
    hidden = len(commits) - MOST_ROWS
    if hidden > 0:
        console.print(f"and {hidden} commits that are less likely", style="dim")
    if search.skipped:
        names = ", ".join(str(commits[at]) for at in sorted(search.skipped))
        terminal.say(console, f"skipped, because they cannot be run: {names}", "yellow")
    line = terminal.state(finding.verdict, f"{finding.verdict}: ")
    console.print(line.append(finding.sentence, style="default"), soft_wrap=True)
    if finding.suspect and any(commits[at].merge for at in finding.suspect.commits):
        console.print(
            "it is a merge: to look inside, bisect from where its branch began to the branch's tip"
        )
