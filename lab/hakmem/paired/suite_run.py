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

# A guess at a cell's time in a block ÷ the timed part of the fastest: rivals are slower, and start.
LONGER = 2.0

# The first look. Correlated blocks are merged in pairs, and the pairs of fewer blocks could not
# decide over eight rivals.
FIRST = protocol.LOOKS[2]


@dataclass(frozen=True)
class Request:
    """What the user asked for: the benchmarks `names`, or `everything` and those named.

    With `programs` the rows are real programs, those named or all. `argv` is the command line
    without --seed, --resume and --page. A `seed` of None is chosen at random or, with `resume`,
    found in the ledger. With `budget_s` the run shall take about so many seconds in all, by fewer
    and shorter samples.
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
    """A comparison under way; `found` has the records of the rows that are done.

    `failures` are rows that hakmem or the floor failed; `subject_failed` is set if hakmem failed
    any. `left_out` are rows that all rivals failed, with each one's reason. `pace` has the seconds
    that each measured row took. `setting` is recorded with the first row. The run shall end at
    `until`, by the monotonic clock.
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
    """A finished run: the record over all rows, in the ledger or (not recorded) in none; the same
    with its rows and ratios; and whether no row failed or was absent."""

    record: Record
    whole: Mapping[str, Any]
    good: bool


def run(request: Request, console: Console, sampler: Sampler | None = None) -> Finished:
    """Measures the rows that are not recorded yet, then records it all; under the host's lock.
    Interrupted: the rows recorded so far stay, and the message says how to resume."""
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
    """The rows asked for: benchmarks, or programs by their CPU time."""
    if not request.programs:
        return chosen(request.names, request.everything)
    return [Figure(p.name, p.name, "cpu", p.what) for p in programs.find(request.names)]


def tracks_of(run: Run) -> Iterator[tuple[str, Track]]:
    """What is run and read in each waiting row; a program that is not here goes to `absent`."""
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
    """One figure per benchmark, its first; another one only where it is named."""
    own = SUITE.select(names).figures if names else ()
    rest = SUITE.select([]).figures if everything or not names else ()
    found = {*own, *rest}
    return [f for f in SUITE.figures if f in found and (f.name == f.command or f.name in names)]


def begin(
    request: Request, figures: Sequence[Figure], facts: Facts
) -> tuple[int, Record | None, dict[str, Record]]:
    """Seed, setting and finished rows: of a new run, or of the last one in the ledger that `resume`
    can go on with. LabError where there is none."""
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
    """The rows that this command line can go on with, each with its setting: of the same libraries,
    settings, source and host."""
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
    """The checksum of each cell's library, by letter."""
    return {at: found.get("sha256") for at, found in binaries.items()}


def track_of(figure: Figure, cells: Mapping[str, Cell], request: Request) -> Track:
    """What is run and read for a benchmark. The start of a process is not read net of the EMPTY
    floor: so little is left above an empty library that its ratio would be noise."""
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
    """How long the run takes, guessed before anything was run: from the first look that can decide
    to the last; "" where nothing is known of it.

    After the first row `measure` shows the pace of the measured rows instead.
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
    """Measures one row and records it at once. A row that fails does not end the run."""
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
    """Notes a row without a verdict: hakmem or the floor failed, or else all rivals did."""
    run.subject_failed |= BASE in failures
    own = [why for at, why in failures.items() if at in (BASE, FLOOR)]
    if own:
        run.failures[figure.name] = "; ".join(dict.fromkeys(own))
    else:
        run.left_out[figure.name] = {run.cells[at].name: why for at, why in failures.items()}


def keep(done: session.Conducted, figure: Figure, run: Run) -> Record:
    """Appends the record of one row and, before the first, that of the setting."""
    with children.held_back(), ledger_of(run.request) as ledger, ledger.together() as batch:
        if run.setting is None:
            run.setting = batch.append("setting", recording.setting_body(run.facts))
        body = suite_record.comparison(done, figure, run.setting.id, run.facts)
        return batch.append("comparison", body, recording.raw(done))


@contextmanager
def ledger_of(request: Request) -> Iterator[Ledger]:
    """The ledger of this run; a temporary one if it is not to be recorded."""
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
    """Records the whole, derived from its rows, and prints its table. LabError where no row was
    measured, unless hakmem itself failed one."""
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
