"""`hakmem compare --suite`, `--bench`, `--programs`: hakmem against its rivals over many rows.

A row is a benchmark of ours or a real program; each ends in a record of its own.
"""

import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from rich.console import Console
from rich.text import Text

from hakmem import programs, terminal
from hakmem.errors import Interrupted, LabError
from hakmem.ledger.store import Ledger, Record, host_name, stored
from hakmem.paired import (
    cells as cell_module,
    compare,
    protocol,
    readings,
    recording,
    session,
    suite_record,
    suite_table,
    tables,
    work,
)
from hakmem.paired.blocks import BASE, FLOOR, Plan, Sampler, Track
from hakmem.paired.cells import Cell
from hakmem.paired.readings import Better
from hakmem.paired.recording import Facts
from hakmem.process import children, host, order, scratch
from hakmem.process.argv import with_seed
from hakmem.process.lock import host_lock
from hakmem.process.settings import settings_of
from hakmem.suite import EMPTY, SUITE, Figure

# By how much a block is longer than its timed part, over all cells: slower rivals, beginnings.
LONGER = 2.0

# Correlated blocks are merged: of fewer than these nothing is left that eight rivals can share.
FIRST = protocol.LOOKS[2]


@dataclass(frozen=True)
class Request:
    """What the user asked for: benchmarks by name, or `everything`, those named being added.

    With `programs` the rows are real programs, those named or all. `argv` is the command line
    without --seed, --resume and --page. A seed of None is chosen or, with `resume`, found in the
    ledger. With `budget_s` it shall take about so many seconds in all, with fewer and shorter
    samples.
    """

    names: Sequence[str]
    library: str
    rivals: Sequence[str]
    most: int
    seconds: float
    seed: int | None
    argv: Sequence[str]
    record: bool = True
    everything: bool = False
    programs: bool = False
    metric: str | None = None
    better: Better = "lower"
    resume: bool = False
    budget_s: float = math.inf


@dataclass
class Run:
    """A comparison under way; `found` has the verdicts of the benchmarks that are done.

    `failures` are benchmarks that hakmem, or the floor, failed; one of the former makes it
    `subject_failed`. `left_out` are those that all rivals failed, with each one's reason. `pace` is
    how many seconds each one measured took. `setting` is recorded with the first of them. It shall
    be over at `until`, by the monotonic clock.
    """

    request: Request
    facts: Facts
    console: Console
    figures: Sequence[Figure]
    cells: Mapping[str, Cell]
    seed: int
    setting: Record | None = None
    found: dict[str, Record] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, dict[str, str]] = field(default_factory=dict)
    subject_failed: bool = False
    pace: list[float] = field(default_factory=list)
    until: float = math.inf

    @property
    def rivals(self) -> list[str]:
        return [cell.name for letter, cell in self.cells.items() if letter != BASE]

    @property
    def waiting(self) -> list[Figure]:
        done = {*self.found, *self.failures, *self.left_out, *self.absent}
        return [f for f in self.figures if f.name not in done]

    def done(self) -> list[Record]:
        return [self.found[f.name] for f in self.figures if f.name in self.found]


@dataclass(frozen=True)
class Finished:
    """A comparison at its end: the record over all rows, which has a place in the ledger or in
    none, the same with its rows and ratios, and whether hakmem could do all of it."""

    record: Record
    whole: Mapping[str, Any]
    good: bool


def run(request: Request, console: Console, sampler: Sampler | None = None) -> Finished:
    """Measures what is not recorded yet, then records it all."""
    figures = rows_of(request)
    rivals = compare.rivals(request.rivals)
    cells = cell_module.distinct([cell_module.parse(request.library), *rivals])
    protocol.require_decidable(len(rivals), request.most)
    with host_lock():
        facts = Facts.of(cells, request.argv)
        under_way = Run(request, facts, console, figures, cells, *begin(request, figures, facts))
        under_way.facts = replace(facts, argv=with_seed(request.argv, under_way.seed))
        tracks = dict(tracks_of(under_way))
        announce(under_way)
        under_way.until = time.monotonic() + request.budget_s
        try:
            for figure in under_way.waiting:
                measure(figure, tracks[figure.name], under_way, sampler)
        except (KeyboardInterrupt, LabError) as stop:
            if isinstance(stop, LabError) and not isinstance(stop, Interrupted):
                raise
            raise Interrupted(interrupted(under_way)) from None
    return finish(under_way)


def rows_of(request: Request) -> list[Figure]:
    """The benchmarks asked for; of programs, each by its CPU time."""
    if not request.programs:
        return chosen(request.names, request.everything)
    return [Figure(p.name, p.name, "cpu", p.what) for p in programs.find(request.names)]


def tracks_of(run: Run) -> Iterator[tuple[str, Track]]:
    """What is run and read in each row; a program that is not here is left out aloud."""
    request, console = run.request, run.console
    for figure in run.waiting:
        if not request.programs:
            yield figure.name, track_of(figure, run.cells, request)
            continue
        with console.status(f"{figure.name}: what it needs"):
            try:
                real = work.real(programs.find([figure.name])[0])
            except LabError as error:
                run.absent[figure.name] = str(error)
                terminal.say(console, f"left out: {error}", "bold yellow")
                continue
        reading = readings.choose(request.metric, None, request.better)
        yield figure.name, Track(figure.name, "target", reading, dict.fromkeys(run.cells, real))


def chosen(names: Sequence[str], everything: bool = False) -> list[Figure]:
    """One figure per benchmark, its first; another one where it is named."""
    own = SUITE.select(names).figures if names else ()
    rest = SUITE.select([]).figures if everything or not names else ()
    found = {*own, *rest}
    return [f for f in SUITE.figures if f in found and (f.name == f.command or f.name in names)]


def begin(
    request: Request, figures: Sequence[Figure], facts: Facts
) -> tuple[int, Record | None, dict[str, Record]]:
    """Seed, setting and what is found: of a new run, or of the one that the ledger has begun."""
    if not request.resume:
        return order.fresh(request.seed), None, {}
    recorded = list(_recorded(request, facts))
    if not recorded:
        raise LabError(
            "nothing to resume: the ledger has no benchmarks of this command line with these "
            "libraries and settings, from this host and at this commit "
            f"({str(facts.source['commit'])[:10]})"
        )
    setting, last = recorded[-1]
    other = host.other_machine(setting.body["host"], facts.host)
    if other:
        raise LabError(f"nothing to resume: what is recorded is of another machine: {other}")
    found = {r.body["suite"]: r for of, r in recorded if of.id == setting.id}
    names = {f.name for f in figures}
    kept = {name: record for name, record in found.items() if name in names}
    return int(last.body["seed"]), setting, kept


def _recorded(request: Request, facts: Facts) -> Iterator[tuple[Record, Record]]:
    """Benchmarks of this command line with these libraries and settings from this source on this
    host, each after its setting."""
    settings = {}
    for record in Ledger.default().records():
        body = record.body
        if record.kind == "setting":
            settings[record.id] = record
        elif record.kind == "comparison":
            setting = settings[body["setting"]]
            if (
                request.seed in (None, body["seed"])
                and setting.body["argv"] == stored(with_seed(request.argv, body["seed"]))
                and setting.body["source"] == facts.source
                and _files(setting.body["binaries"]) == _files(facts.binaries)
                and setting.body["settings_of_user"] == stored(settings_of(os.environ))
                and record.host == host_name()
            ):
                yield setting, record


def _files(binaries: Mapping[str, Mapping[str, object]]) -> dict[str, object]:
    """Which file each cell's library is."""
    return {at: found.get("sha256") for at, found in binaries.items()}


def track_of(figure: Figure, cells: Mapping[str, Cell], request: Request) -> Track:
    """What is run and read. The start of a process is read whole: of what is above an empty
    library's so little is left that a ratio of it would be noise."""
    found = work.benchmark(figure.command)
    reading = readings.of_figure(figure)
    if request.metric:
        reading = readings.choose(request.metric, figure.command, request.better)
    named = figure.floor if not request.metric and figure.floor != EMPTY else None
    works = dict.fromkeys(cells, found)
    return Track(figure.name, "target", reading, works, found.floor(named))


def announce(run: Run) -> None:
    request, console = run.request, run.console
    names = f"{run.cells[BASE].name} against {', '.join(run.rivals)}"
    terminal.say(console, names, "bold")
    tables.print_settings(console)
    done, waiting = len(run.found), len(run.waiting)
    count = len(run.figures) - len(run.absent)
    parts = [f"{count} {'program' if request.programs else 'benchmark'}{'s' * (count != 1)}"]
    parts += [f"{done} of them recorded before"] if done else []
    parts += [f"{request.most} blocks at most, seed {run.seed}"]
    takes = guess(run) if waiting else ""
    parts += [f"roughly {takes}"] if takes else []
    console.print("; ".join(parts))
    if len(run.rivals) > 1:
        console.print("in each benchmark one error rate: Holm's rule over its verdicts")
    if thin := protocol.thin(len(run.rivals), request.most):
        terminal.say(console, thin)


def guess(run: Run) -> str:
    """How long it takes before anything was run; from the first look that can decide to the last.
    "" where nothing is known of it.

    The pace of what was measured takes its place after the first benchmark.
    """
    request = run.request
    if math.isfinite(request.budget_s):
        return session.duration(request.budget_s)
    least = max(protocol.least_blocks(len(run.rivals)), min(FIRST, request.most))
    looks = [blocks for blocks in protocol.looks(request.most) if blocks >= least]
    long = {command.name: command.seconds for command in SUITE.commands}
    takes = sum(max(request.seconds * LONGER, long.get(f.command, 0)) for f in run.waiting)
    if not takes:
        return ""
    first, last = (session.duration(n * len(run.cells) * takes) for n in (looks[0], looks[-1]))
    return first if first == last else f"{first} to {last}"


def measure(figure: Figure, track: Track, run: Run, sampler: Sampler | None) -> None:
    """One benchmark, recorded at once. One that hakmem or all rivals fail is no end."""
    request, console = run.request, run.console
    number, started = len(run.figures) - len(run.waiting) + 1, time.monotonic()
    head = f"{number} of {len(run.figures)}: {figure.name}, {figure.what}: {track.reading.words}"
    terminal.say(console, head, "bold")
    plan = Plan(run.cells, [track], run.seed, request.most, FIRST)
    within_s = (run.until - started) / len(run.waiting)
    try:
        done = session.conduct(
            plan, request.seconds, console, sampler, drop=True, within_s=within_s
        )
    except session.CellsFailed as error:
        note_failed(figure, error.failures, run)
        terminal.say(console, f"✗ {error}", "red")
        return
    run.facts.require_unchanged(run.cells)
    kept = []
    if not done.outcome.decisions:
        note_failed(figure, done.outcome.failures, run)
    else:
        record = run.found[figure.name] = keep(done, figure, run)
        shown = suite_record.joined({"failures": {}}, [record.body])
        console.print(tables.rows_table(shown, console.width))
        kept = [record] if request.record else []
    tables.print_warnings(console, done)
    tables.print_measured(console, done, kept)
    run.pace.append(time.monotonic() - started)
    if run.waiting:
        left = len(run.waiting) * sum(run.pace) / len(run.pace)
        console.print(f"about {session.duration(left)} left at this pace", style="dim")


def note_failed(figure: Figure, failures: Mapping[str, str], run: Run) -> None:
    """That a row has no verdict: by hakmem's failure or the floor's, else by that of all rivals."""
    run.subject_failed |= BASE in failures
    own = [why for at, why in failures.items() if at in (BASE, FLOOR)]
    if own:
        run.failures[figure.name] = "; ".join(dict.fromkeys(own))
    else:
        run.left_out[figure.name] = {run.cells[at].name: why for at, why in failures.items()}


def keep(done: session.Conducted, figure: Figure, run: Run) -> Record:
    """The record of one benchmark; before the first, its setting."""
    with children.held_back(), ledger_of(run.request) as ledger, ledger.together() as batch:
        if run.setting is None:
            run.setting = batch.append("setting", recording.setting_body(run.facts))
        body = suite_record.comparison(done, figure, run.setting.id, run.facts)
        return batch.append("comparison", body, recording.raw(done))


@contextmanager
def ledger_of(request: Request) -> Iterator[Ledger]:
    """Where its records belong. What is not recorded is a record all the same, in a ledger that is
    gone afterwards."""
    if request.record:
        yield Ledger.default()
        return
    with scratch.folder("nowhere") as nowhere:
        yield Ledger(nowhere)


def interrupted(run: Run) -> str:
    done = len(run.found)
    if not done or not run.request.record:
        return "interrupted: nothing was recorded"
    return (
        f"interrupted: {done} of {len(run.figures)} benchmarks are recorded; the same command "
        f"with --seed {run.seed} --resume goes on"
    )


def finish(run: Run) -> Finished:
    """The record of the whole, derived from the verdicts, and its table."""
    request, console = run.request, run.console
    done = run.done()
    if not done and not run.subject_failed:
        by_rivals = chain.from_iterable(whys.values() for whys in run.left_out.values())
        said = "; ".join(dict.fromkeys((*run.failures.values(), *by_rivals)))
        raise LabError(f"nothing was measured: {said}", status=1)
    run.facts.require_unchanged(run.cells)
    with ledger_of(request) as ledger:
        run.setting = run.setting or ledger.append("setting", recording.setting_body(run.facts))
        body = suite_record.body(
            done,
            run.failures,
            run.left_out,
            run.absent,
            run.setting,
            subject=run.cells[BASE].name,
            programs=request.programs,
            seed=run.seed,
        )
        before = [r for r in ledger.records() if r.kind == "suite"]
        same = [r for r in before if r.body["inputs"] == body["inputs"]]
        record = same[-1] if same else ledger.append("suite", body)
    shown = suite_record.whole(record, {part.id: part for part in (*done, run.setting)})
    assert shown is not None
    console.print(tables.rows_table(shown, console.width))
    for note in suite_table.notes(shown, record.time):
        console.print(Text(note))
    if request.record:
        console.print(
            f"recorded{' before' * bool(same)}: {record.id}; as a table in a document: "
            f"<!--claims:begin verdict={record.id}-->, <!--claims:end-->, "
            "then `hakmem audit --write`",
            soft_wrap=True,
        )
    return Finished(record, shown, not run.absent and not run.failures)
