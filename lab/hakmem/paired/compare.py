"""`hakmem compare -- command`: the user's own program under hakmem and every other allocator."""

import sys
from collections.abc import Mapping, Sequence
from statistics import median

from rich.console import Console
from rich.table import Table
from rich.text import Text

from hakmem import peers, terminal, words
from hakmem.cluster import client as cluster
from hakmem.ledger.store import Record
from hakmem.paired import ab, cells as cell_module, protocol, readings, recording, tables
from hakmem.paired.blocks import BASE, Outcome, Plan, Track
from hakmem.paired.cells import Cell
from hakmem.paired.protocol import Decision
from hakmem.paired.readings import Reading
from hakmem.paired.session import Conducted

# Endings of builds that are made for security rather than speed: compared only if named.
HARDENED = ("-secure", "-check")
SAME = (
    f"= same: no difference was found, and the whole interval is within "
    f"{100 * protocol.NARROW:.0f} % of 1"
)
# Notes on the table's second ratio, that of memory.
OF_PEAKS = "memory is the peak of the largest process; it was not decided on"
NO_PEAKS = "memory is not visible: the command is smaller than the launcher that measures it"
# The ending of Debian's builds: compared only if named, where another build of the same allocator
# is found.
OF_DEBIAN = "-debian"


def run(request: ab.Request, console: Console, on: str | None) -> list[Outcome]:
    """Measures, prints and records: here, or on all hosts of a cluster.

    A rival that cannot run the program is left out, and named.
    """
    plan = ab.plan_of(request, cell_module.distinct(request.cells))
    announce(request, plan, console)
    comparison = cluster.Comparison(
        job=cluster.job(plan, request, drop=True),
        finish=lambda done, facts, host: tell(done, keep(done, facts, host), console),
        mark=lambda done, letter: mark(done.outcome.decisions[letter], done.plan.tracks[0]),
        say=standing,
    )
    return cluster.run(on, comparison, console)


def announce(request: ab.Request, plan: Plan, console: Console) -> None:
    others = ", ".join(plan.cells[letter].name for letter in plan.contenders)
    terminal.say(console, " ".join(request.command or ()), "bold")
    words = plan.tracks[0].reading.words
    console.print(Text(f"{words}: {plan.cells[BASE].name} against {others}"))
    if len(plan.contenders) > 1:
        console.print("one table, one error rate: Holm's rule over all its verdicts")
    if thin := protocol.thin(len(plan.contenders), plan.most):
        terminal.say(console, thin)


def keep(
    done: Conducted, facts: recording.Facts | None, host: str | None = None
) -> Mapping[str, Record]:
    """Records the comparison, with a verdict against each decided rival; not without `facts`."""
    if facts is None:
        return {}
    cells, track = done.plan.cells, done.plan.tracks[0]
    bodies = {}
    for letter, decision in done.outcome.decisions.items():
        asked = (
            f"is {cells[BASE].name} better than {cells[letter].name} in {track.reading.words} "
            f"of {track.name}?"
        )
        bodies[letter] = recording.verdict_body(
            done.plan, (letter, BASE), protocol.swapped(decision), asked, facts
        )
    return recording.save(done, facts, bodies, host=host)


def rivals(names: Sequence[str]) -> list[Cell]:
    """The named cells; without names the system's allocator and all peers found, except hardened
    builds and Debian's older copies.

    Prints a note where no peer is found.
    """
    if names:
        return [cell_module.parse(name) for name in names]
    found = [lib for lib in peers.found() if not lib.name.endswith(HARDENED)]
    if len(found) == 1:
        said = (
            "no rival is here but the system's allocator: `hakmem peers list` says how to get some"
        )
        print(f"hakmem: note: {said}", file=sys.stderr)
    newest = {lib.name for lib in found if not lib.name.endswith(OF_DEBIAN)}
    return [
        Cell(lib.name, lib)
        for lib in found
        if lib.name.removesuffix(OF_DEBIAN) not in newest - {lib.name}
    ]


def standing(plan: Plan, blocks: int, decisions: Mapping[str, Decision]) -> list[str]:
    """One line after a look, on the contenders that were still open before it."""
    decided = sum(decision.verdict != "UNDECIDED" for decision in decisions.values())
    return [f"after {blocks} blocks: {decided} of {len(decisions)} decided now"]


def tell(done: Conducted, records: Mapping[str, Record], console: Console) -> None:
    track = done.plan.tracks[0]
    shown = readings.choose("rss", None)
    second = None if track.reading.name == "rss" else shown
    tables.print_warnings(console, done)
    console.print(table(done, second))
    console.print(summary(done))
    console.print(SAME)
    if second:
        visible = BASE in medians(done, second)
        console.print(OF_PEAKS if visible else NO_PEAKS)
    tables.print_measured(console, done, records.values())


def table(done: Conducted, second: Reading | None) -> Table:
    """One row per allocator; ratios are hakmem ÷ rival, with the interval of the deciding one."""
    plan, outcome = done.plan, done.outcome
    peaks = medians(done, second) if second else {}
    track = plan.tracks[0]
    of_memory = (f">{second.unit}", ">ratio") if second else ()
    titles = (f">{track.reading.unit}", ">ratio", "interval", plan.cells[BASE].name)
    made = terminal.table("", *titles, *of_memory)
    made.add_row(
        Text(plan.cells[BASE].name),
        tables.typical(track, outcome, BASE),
        *("", "", ""),
        *([words.number(peaks.get(BASE)), ""] if second else []),
    )
    for letter in plan.contenders:
        decision = outcome.decisions.get(letter)
        name = Text(plan.cells[letter].name)
        row: list[str | Text] = [name, tables.typical(track, outcome, letter)]
        if decision is None:
            row += ["–", "", tables.no_verdict(outcome, letter)]
        else:
            ratio = recording.ratio(track, protocol.swapped(decision).target)
            row += [f"{ratio.estimate:.3f}", words.ends(ratio, 3), mark(decision, track)]
        if second:
            both = BASE in peaks and letter in peaks
            against = f"{peaks[BASE] / peaks[letter]:.3f}" if both else "–"
            row += [words.number(peaks.get(letter)), against]
        made.add_row(*row)
    return made


def mark(decision: Decision, track: Track) -> Text:
    """The result from the side of hakmem (A); `decision` is on the rival: its GO is a loss."""
    if protocol.same(decision):
        return Text("= same")
    return {
        "GO": Text(f"▼ {_word(track, False)}", style="bold red"),
        "NO-GO": Text(f"▲ {_word(track, True)}", style="green"),
        "UNDECIDED": Text("? open", style="dim"),
    }[decision.verdict]


def _word(track: Track, good: bool) -> str:
    return "less" if (track.reading.better == "lower") is good else "more"


def summary(done: Conducted) -> Text:
    """One sentence on all rivals together."""
    track, name = done.plan.tracks[0], done.plan.cells[BASE].name
    groups: dict[str, list[str]] = {"NO-GO": [], "GO": [], "same": [], "UNDECIDED": []}
    for letter, decision in done.outcome.decisions.items():
        group = "same" if protocol.same(decision) else decision.verdict
        groups[group].append(done.plan.cells[letter].name)
    parts = [
        f"{word} than {', '.join(groups[verdict])}"
        for verdict, word in (("NO-GO", _word(track, True)), ("GO", _word(track, False)))
        if groups[verdict]
    ]
    if groups["same"]:
        parts.append(f"the same (=) as {', '.join(groups['same'])}")
    if groups["UNDECIDED"]:
        blocks = max(d.blocks for d in done.outcome.decisions.values())
        parts.append(f"undecided after {blocks} blocks against {', '.join(groups['UNDECIDED'])}")
    return Text(f"{track.reading.words} of {name}: {'; '.join(parts) or 'no verdict'}")


def medians(done: Conducted, reading: Reading) -> dict[str, float]:
    """The median of another figure by cell, for the cells all of whose samples show it."""
    found = {}
    for at in done.plan.cells:
        samples = done.outcome.samples(done.plan.tracks[0].name, at)
        values = [value for s in samples if (value := reading.of(s)) is not None]
        if values and len(values) == len(samples):  # a median of the others would be too high
            found[at] = median(values)
    return found
