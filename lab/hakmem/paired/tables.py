"""Paired comparisons in the terminal: the tables, and what is printed after every result."""

import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from hakmem import stats, terminal, words
from hakmem.ledger.store import Record
from hakmem.paired import recording, suite_table
from hakmem.paired.blocks import BASE, Outcome, Plan, Track
from hakmem.paired.session import Conducted, duration, name_of
from hakmem.process.settings import tuning

OF_SIGN = {look.sign: look.style for look in words.LOOKS.values()}

# On a console narrower than ROOMY a table of many rows has only the columns NARROW: time against
# the best rival, and the ratio of memory.
ROOMY = 132
NARROW = (0, 1, 2, 3, 8)


def result_table(plan: Plan, outcome: Outcome) -> Table:
    """Per contender and track: both figures, the ratio with its interval, and the verdict."""
    figures = (">A", ">B" if len(plan.contenders) == 1 else ">other", ">÷ A")
    table = terminal.table("", "unit", *figures, "interval", ">change", "")
    for letter in plan.contenders:
        decision = outcome.decisions.get(letter)
        for number, track in enumerate(plan.tracks):
            name = "guard " * (track.role == "guard") + track.name
            name = name if len(plan.contenders) == 1 else f"{letter} {name}"
            row = [Text(name), Text(track.reading.unit, style="dim")]
            row += [Text(typical(track, outcome, at)) for at in (BASE, letter)]
            if decision is None:
                table.add_row(*row, "–", "", "", no_verdict(outcome, letter))
                continue
            gain = (decision.target, *decision.guards)[number]
            shown = recording.ratio(track, gain)
            table.add_row(
                *row,
                f"{shown.estimate:.3f}",
                words.ends(shown, 3),
                change(shown.estimate),
                terminal.state(decision.verdict) if number == 0 else held(gain, plan.margin),
            )
    return table


def no_verdict(outcome: Outcome, letter: str) -> Text:
    """The mark of a contender without a verdict: it failed, or else the base or the floor did."""
    return terminal.state("failed") if letter in outcome.failures else Text("–")


def typical(track: Track, outcome: Outcome, letter: str) -> str:
    """The cell's figure over all its samples, net of the floor's."""
    return words.precise(outcome.net(track, letter)) if outcome.values(track, letter) else "–"


def held(gain: stats.Interval, margin: float) -> Text:
    """Whether a guard holds, is broken or is still open, by its interval."""
    if gain.kind == "range" or gain.low <= -margin <= gain.high:
        return Text("open", style="dim")
    return Text("holds", style="green") if gain.low > -margin else Text("broken", style="bold red")


def change(ratio: float) -> str:
    """A ratio as a signed change in per cent."""
    return f"{100 * (ratio - 1):+.1f} %".replace("-", "−")


def print_warnings(console: Console, done: Conducted) -> None:
    """Prints each warning that the library gave in any process, once."""
    said = dict.fromkeys(
        line
        for block in done.outcome.blocks
        for sample in block.samples
        for line in sample.warnings
    )
    for line in said:
        terminal.say(console, line, "yellow")


def print_settings(console: Console) -> None:
    """Prints the settings that every cell has from the user's shell: they are measured too."""
    told = tuning(os.environ)
    if told:
        said = f"from your shell in every cell: {shlex.join(f'{n}={v}' for n, v in told.items())}"
        terminal.say(console, said, "yellow")


def print_measured(console: Console, done: Conducted, records: Iterable[Record]) -> None:
    """Prints what follows every paired result: failures, number of samples, duration, records."""
    for letter, reason in done.outcome.failures.items():
        terminal.say(console, f"✗ {name_of(done.plan, letter)}: {reason}", "red")
    count = sum(len(block.samples) for block in done.outcome.blocks)
    ids = [record.id for record in records]
    many = f"{len(ids)} records, the last {ids[-1]}" if len(ids) > 3 else ", ".join(ids)
    kept = f"recorded: {many}" if ids else "not recorded"
    console.print(f"{count} samples in {duration(done.seconds)}; {kept}")


def rows_table(body: Mapping[str, Any], width: int) -> Table:
    """The table of suite_record.joined, with a document's columns. A narrow one has fewer: its last
    title says that it is of memory, as the columns that would say so are left out."""
    titles = list(suite_table.titles(body))
    shown: Sequence[int] = range(len(titles))
    if width < ROOMY:
        shown = NARROW
        titles[shown[-1]] = f"memory {titles[shown[-1]]}"
    table = terminal.table(*(titles[number] for number in shown))
    for line in suite_table.lines(body):
        cells = (line.cells[n] for n in shown)
        table.add_row(*(Text(cell, style=OF_SIGN.get(cell[:1], "")) for cell in cells))
    return table
