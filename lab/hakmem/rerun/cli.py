"""The command line `hakmem rerun`, and its tables."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hakmem import project, terminal, words
from hakmem.audit import blocks, check as audit, scanner
from hakmem.errors import LabError
from hakmem.ledger import claims, cli as ledger_list
from hakmem.ledger.store import Ledger, Record
from hakmem.paired import session
from hakmem.rerun import run as rerun, source as rerun_source
from hakmem.rerun.run import Repetition
from hakmem.rerun.source import Past

STATES = ("agrees", "contradicts", "not judged", "failed")


def command(
    id: Annotated[str | None, typer.Argument(help="A record's id: hakmem ledger list.")] = None,
    all_claims: Annotated[
        bool, typer.Option("--all-claims", help="Every record that the documents cite.")
    ] = False,
    only_list: Annotated[
        bool, typer.Option("--list", help="Only say what would be measured, and how long.")
    ] = False,
    lib: Annotated[
        list[str] | None,
        typer.Option("--lib", help="NAME=PATH: the file of a library that is gone from its place."),
    ] = None,
) -> None:
    """Measure a record again, from the record alone, and show both side by side.

    Its commit is checked out and built where the present source is another. Exit status 1 if what
    is measured contradicts the record, or could not be measured.
    """
    if (id is None) is not all_claims:
        raise LabError("rerun what? an id of `hakmem ledger list`, or --all-claims")
    console = terminal.new_console()
    records = {record.id: record for record in Ledger.default().records()}
    given = files(lib or [])
    wanted = chosen(id, records)
    for record in wanted:
        rerun.require_whole(record, records)
    pasts = [Past(record, records, given) for record in wanted]
    announce(pasts, console)
    if only_list:
        console.print(listing(pasts))
        return
    done: list[Repetition] = []
    for past in pasts:
        try:
            done.append(one(past, len(done) + 1, len(pasts), console))
        except LabError as error:  # an interrupt: a failure by itself is in the repetition
            before = f"; {len(done)} of {len(pasts)} were repeated before" if done else ""
            raise LabError(f"{error}{before}", error.status) from None
    if len(done) > 1:
        console.print(overview(done))
    conclude(done, console)


def chosen(id: str | None, records: Mapping[str, Record]) -> list[Record]:
    """The named record, or all that documents cite. LabError where one is not in the ledger."""
    if id is not None:
        return [Ledger.default().get(id)]
    found = cited(audit.documents(project.root()))
    missing = [name for name in found if name not in records]
    if missing:
        raise LabError(f"cited, but not in the ledger: {', '.join(missing)}; see `hakmem audit`")
    if not found:
        raise LabError("no document cites a record")
    return [records[name] for name in found]


def files(texts: Sequence[str]) -> dict[str, Path]:
    """`NAME=PATH` texts as a mapping; LabError where a file is not there."""
    found = {}
    for text in texts:
        name, equals, path = text.partition("=")
        if not equals:
            raise LabError(f"--lib takes NAME=PATH, not {text!r}")
        found[name] = project.require_file(Path(path), f"library {name}")
    return found


def announce(pasts: Sequence[Past], console: Console) -> None:
    known = [seconds for past in pasts if (seconds := rerun.expected_s(past)) is not None]
    parts = [f"{len(pasts)} to measure"]
    parts += [f"about {session.duration(sum(known))} as they took"] if known else []
    parts += [f"{len(pasts) - len(known)} do not tell how long"] if len(known) < len(pasts) else []
    console.print(", ".join(parts))


def listing(pasts: Sequence[Past]) -> Table:
    """What would be measured: each record with its time, and whether its commit must be built."""
    made = terminal.table("id", "kind", "took", "source", rest="what")
    for past in pasts:
        seconds = rerun.expected_s(past)
        try:
            here = rerun_source.is_present(past)
            where = "present" if here else f"build {rerun_source.commit_of(past)[:8]}"
        except LabError:
            where = "gone"
        took = "?" if seconds is None else session.duration(seconds)
        what = Text(ledger_list.summary(past.record))
        made.add_row(past.record.id, past.record.kind, took, where, what)
    return made


def one(past: Past, number: int, count: int, console: Console) -> Repetition:
    if count > 1:
        console.rule(f"{number} of {count}", style="dim")
    repetition = rerun.repeat(past, console)
    for note in past.notes:
        terminal.say(console, f"note: {note}", "yellow")
    if repetition.failure is not None:
        terminal.say(console, f"✗ {repetition.failure}", "bold red")
    else:
        show(repetition, console)
    return repetition


def show(repetition: Repetition, console: Console) -> None:
    """Prints the recorded figures and those measured again, side by side."""
    judgement, again = repetition.judgement, repetition.again
    assert judgement is not None
    assert again is not None
    before = repetition.past.record
    recorded = f"recorded {before.time[:10]}"
    made = terminal.table("", recorded, "measured now", "")
    for figure in judgement.figures:
        both = (shown(metric) for metric in (figure.recorded, figure.repeated))
        state = terminal.state(figure.state, words.marked(figure.state))
        made.add_row(Text(figure.name), *both, state)
    for name, (said, says, word) in judgement.words.items():
        made.add_row(Text(name), said, says, terminal.state(word, words.marked(word)))
    console.print(made)
    verdict = terminal.state(judgement.state)
    console.print(verdict.append(f": {before.id} against {again.id}", style="default"))


def shown(metric: Mapping[str, Any] | None) -> str:
    if metric is None:
        return "–"
    if metric.get("unit") == "ratio":
        return claims.figure(metric, decimals=3)
    value, ends = claims.for_people(metric)
    return f"{value} [{ends}]" if ends else value


def overview(done: Sequence[Repetition]) -> Table:
    """One line for each record."""
    made = terminal.table("record", "again", "result", rest="what")
    for repetition in done:
        again = repetition.again.id if repetition.again else "–"
        state = terminal.state(repetition.state)
        what = Text(repetition.failure or ledger_list.summary(repetition.past.record))
        made.add_row(repetition.past.record.id, again, state, what)
    return made


def conclude(done: Sequence[Repetition], console: Console) -> None:
    console.print(Text(rerun.MEANING, style="dim"))
    states = [repetition.state for repetition in done]
    said = ", ".join(f"{states.count(state)} {state}" for state in STATES if state in states)
    console.print(f"{len(done)} repeated: {said}")
    if "contradicts" in states or "failed" in states:
        raise typer.Exit(1)


def cited(files: Sequence[Path]) -> list[str]:
    """The ids that the files cite, in the order in which they appear."""
    found = []
    for path in files:
        text = path.read_text(encoding="utf-8")
        rest, _ = blocks.without(text)
        found += [id for block in blocks.find(text) for id in block.ids]
        found += [claim.id for claim in scanner.scan(rest).claims]
    return list(dict.fromkeys(found))
