"""`hakmem ab`: two or more cells through the sequential paired protocol, to a recorded verdict."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from rich.console import Console
from rich.text import Text

from hakmem import stats, terminal, words
from hakmem.cluster import client as cluster
from hakmem.errors import LabError
from hakmem.ledger.store import Ledger, Record, host_name
from hakmem.paired import cells as cell_module, protocol, readings, recording, session, tables, work
from hakmem.paired.blocks import BASE, Outcome, Plan, Track
from hakmem.paired.cells import Cell
from hakmem.paired.protocol import Aim, Decision
from hakmem.paired.readings import MEMORY
from hakmem.process import host, scratch
from hakmem.suite import FAST


@dataclass(frozen=True, kw_only=True)
class Request(session.Asked):
    """What the user asked for. Without a `command` the cells run the benchmark `bench`.

    A `margin` (δ, a share) of None is looked up (`known_margin`). `twins` asks for an A/A; `plant`
    is the share of work by which its copy b does more.
    """

    cells: Sequence[Cell]
    bench: str | None = None
    command: Sequence[str] | None = None
    guards: Sequence[str] = ()
    aim: Aim = "improvement"
    floor: str | None = None
    first: int = protocol.LOOKS[0]
    margin: float | None = None
    twins: bool = False
    plant: float = 0.0


def run(request: Request, console: Console, on: str | None) -> list[Outcome]:
    """Measures, prints and records, here or on all hosts of a cluster, each with its own margin."""
    with scratch.folder("aa") as folder:
        twins = cell_module.twins(request.cells[0], folder) if request.twins else request.cells
        plan, margin = plan_of(request, cell_module.distinct(twins)), None
        if request.margin is None:
            margin = partial(known_margin, console, plan.tracks[0])
            plan = replace(plan, margin=margin(host_name(), host.facts()))
        announce(plan, console)

        comparison = cluster.Comparison(
            job=cluster.job(plan, request, twins=request.cells[0] if request.twins else None),
            finish=lambda done, facts, host: tell(done, keep(request, done, facts, host), console),
            mark=mark,
            margin=margin,
            say=standing,
        )
        return cluster.run(on, comparison, console)


def keep(
    request: Request,
    done: session.Conducted,
    facts: recording.Facts | None,
    host: str | None,
) -> Mapping[str, Record]:
    """Records the comparison, with a verdict on each decided contender; nothing without `facts`."""
    if facts is None:
        return {}
    bodies = {}
    for letter, decision in done.outcome.decisions.items():
        asked = question(done.plan, letter, request.twins, request.plant)
        bodies[letter] = recording.verdict_body(done.plan, (BASE, letter), decision, asked, facts)
    # A planted A/A does not measure the host's noise.
    kind = "A/A" if request.twins and not request.plant else "verdict"
    return recording.save(done, facts, bodies, kind, host)


def mark(done: session.Conducted, letter: str) -> Text:
    """A contender's verdict with its change, in a few words."""
    decision = done.outcome.decisions[letter]
    ratio = recording.ratio(done.plan.tracks[0], decision.target)
    said = f"{decision.verdict} {tables.change(ratio.estimate)} {words.ends(ratio, 3)}"
    return terminal.state(decision.verdict, said)


def plan_of(request: Request, cells: Mapping[str, Cell]) -> Plan:
    """The plan as asked, with benchmarks found and metrics chosen; nothing is run."""
    if len(cells) < 2:
        raise LabError("one cell is nothing to compare: add --b, or --aa for the noise floor")
    protocol.require_decidable(len(cells) - 1, request.most)
    tracks = [target_track(request, cells)]
    for name in request.guards:
        found = work.benchmark(name)
        metric = request.metric
        if request.command or name == "idle_rss" or (metric or "").startswith("regex:"):
            metric = None
        works = dict.fromkeys(cells, found)
        reading = readings.choose(metric, found.name)
        floor = _floor(request.floor, found, required=False)
        tracks.append(Track(found.name, "guard", reading, works, floor))
    if len({track.name for track in tracks}) < len(tracks):
        raise LabError("a guard is the target, or is named twice")
    margin = protocol.LEAST_MARGIN if request.margin is None else request.margin
    return Plan(cells, tracks, request.seed, request.most, request.first, request.aim, margin)


def target_track(request: Request, cells: Mapping[str, Cell]) -> Track:
    if request.command:
        if request.bench or any(cell.bench for cell in cells.values()):
            raise LabError("a command and a benchmark: choose one")
        own = work.own(request.command, request.passed)
        reading = readings.choose(request.metric, None, request.better)
        if request.floor:
            raise LabError("a command has no floor: --floor is for benchmarks")
        return Track(own.name, "target", reading, dict.fromkeys(cells, own))
    names = {letter: cell.bench or request.bench for letter, cell in cells.items()}
    if None in names.values():
        raise LabError("what shall they run? --bench NAME, or -- command …")
    works = {letter: work.benchmark(str(name)) for letter, name in names.items()}
    first = works[BASE]
    if request.plant:
        if not first.scales:
            raise LabError(f"{first.name} has no amount of work to plant more of")
        works["B"] = replace(first, planted=request.plant)
    reading = readings.choose(request.metric, first.name, request.better)
    floor = _floor(request.floor, first, required=True)
    if floor and reading.name in MEMORY:
        raise LabError(f"{reading.words} has no floor: leave --floor out")
    title = " against ".join(dict.fromkeys(found.name for found in works.values()))
    return Track(title, "target", reading, works, floor)


def _floor(name: str | None, found: work.Work, required: bool) -> work.Reference | None:
    if name is None:
        return None
    if name not in work.FLOORS:
        raise LabError(f"unknown floor: {name}; known: {', '.join(work.FLOORS)}")
    reference = found.floor(work.FLOORS[name])
    if reference is None and required:
        raise LabError(f"{found.name} has no {work.FLOORS[name]}")
    return reference


def known_margin(console: Console, target: Track, name: str, facts: Mapping[str, str]) -> float:
    """δ as a share, by `protocol.margin` from all A/As of this benchmark, metric and floor on host
    `name`.

    An A/A with too few blocks for an interval is skipped. One of another machine of the same name
    does not count; if it is the last one the difference is printed.
    """
    found: list[stats.Interval] = []
    other = ""
    records = Ledger.default().records() if target.works[BASE].command else ()
    for record in records:
        if record.kind == "A/A" and record.host == name and _same_figure(record, target):
            noise = noise_of(record, target)
            if noise.kind == protocol.KIND:
                other = host.other_machine(record.body["host"], facts)
                found += [] if other else [noise]
    if other:
        said = f"the last A/A of {name} says nothing here: it is of another machine ({other})"
        terminal.say(console, said, "yellow")
    return protocol.margin(found)


def _same_figure(record: Record, target: Track) -> bool:
    bench = record.body["benchmarks"][0]
    floor = target.floor.name if target.floor else None
    said = tuple(bench.get(key) for key in ("name", "metric", "floor"))
    return said == (target.name, target.reading.name, floor)


def noise_of(record: Record, target: Track) -> stats.Interval:
    """The A/A's interval on the scale on which it was judged: natural logarithms."""
    metric = record.body["metrics"][target.name]
    low, high = (math.log(metric[end]) for end in ("low", "high"))
    return stats.Interval((low + high) / 2, low, high, metric["kind"])


def announce(plan: Plan, console: Console) -> None:
    target, *guards = plan.tracks
    net = f", net of the {target.floor.name}" if target.floor else ""
    reading = target.reading
    said = f"{target.name}: {reading.words}, {reading.unit}{net}"
    console.print(Text(said, style="bold"))
    for letter, cell in plan.cells.items():
        path = cell.library.path or "the C library's own"
        terminal.say(console, f"  {letter}  {cell.name}  ({path})")
    if guards:
        console.print(f"guards: {', '.join(track.name for track in guards)}")
    if len(plan.contenders) > 1:
        console.print(f"each against A; Holm's rule over the {len(plan.contenders)} verdicts")
    console.print(
        f"aim: {plan.aim}, margin {100 * plan.margin:.1f} %, {plan.most} blocks at most, "
        f"seed {plan.seed}",
    )
    if thin := protocol.thin(len(plan.contenders), plan.most):
        terminal.say(console, thin)


def question(plan: Plan, letter: str, twins: bool = False, plant: float = 0.0) -> str:
    """The question that the verdict answers, in words."""
    target, *guards = plan.tracks
    net = f" net of the {target.floor.name}" if target.floor else ""
    what = f"{target.reading.words}{net} on {target.name}"
    a, b = plan.cells[BASE].name, plan.cells[letter].name
    if plant:
        return f"planted: is {100 * plant:g} % more work of {b} found in {what}?"
    if twins:
        return f"A/A: how far do two copies of {a} differ in {what}?"
    guarded = f", guarded by {', '.join(t.name for t in guards)}" if guards else ""
    if plan.aim == "neutral":
        return f"is {b} no worse than {a} in {what}{guarded}?"
    return f"is {b} better than {a} in {what}{guarded}?"


def tell(done: session.Conducted, records: Mapping[str, Record], console: Console) -> None:
    """Prints the table, one sentence for each contender, and where the result is recorded."""
    plan, outcome = done.plan, done.outcome
    tables.print_warnings(console, done)
    console.print(tables.result_table(plan, outcome))
    for letter in plan.contenders:
        decision = outcome.decisions.get(letter)
        if decision is not None:
            line = terminal.state(decision.verdict, f"{decision.verdict}: ")
            console.print(line.append(sentence(plan, letter, decision), style="default"))
            if plan.tracks[0].floor and plan.tracks[0].floor.name == FAST:
                console.print(Text(way_to_floor(plan, letter, decision)))
    tables.print_measured(console, done, records.values())


def standing(plan: Plan, blocks: int, decisions: Mapping[str, Decision]) -> list[str]:
    """One line per contender after a look."""
    lines = []
    for letter, decision in decisions.items():
        ratio = recording.ratio(plan.tracks[0], decision.target)
        name = plan.cells[letter].name
        lines.append(
            f"after {blocks} blocks: {name} {tables.change(ratio.estimate)} "
            f"{words.ends(ratio, 3)}, {decision.verdict}"
        )
    return lines


def sentence(plan: Plan, letter: str, decision: Decision) -> str:
    """The verdict in plain words."""
    target, *guards = plan.tracks
    a, b = plan.cells[BASE].name, plan.cells[letter].name
    shown = recording.ratio(target, decision.target)
    percent, more = abs(100 * (shown.estimate - 1)), shown.estimate > 1
    what = f"{percent:.1f} % {'more' if more else 'less'} {target.reading.words} than {a}"
    margin = f"{100 * plan.margin:.1f} %"
    broken = [
        track.name
        for track, gain in zip(guards, decision.guards, strict=True)
        if gain.high < -plan.margin
    ]
    if broken:
        return f"{b} loses more than {margin} on {', '.join(broken)}, which it must not"
    if protocol.same(decision) and plan.aim == "improvement":
        return f"{b} and {a} differ by less than {100 * protocol.NARROW:.0f} % on {target.name}"
    if decision.verdict == "UNDECIDED":
        return (
            f"still open after {decision.blocks} blocks: {', '.join(still_open(plan, decision))} "
            f"({target.name} is {protocol.known(decision.target)}); nothing may be claimed, and "
            "repeating it until it says yes is no answer"
        )
    if plan.aim == "neutral":
        if decision.verdict == "GO":
            tail = " and no guard does" if guards else ""
            return f"{b} loses no more than {margin} against {a}{tail}"
        return f"{b} loses more than {margin}: it takes {what}"
    tail = f", and no guard loses more than {margin}" if guards and decision.verdict == "GO" else ""
    return f"{b} takes {what} on {target.name}{tail}"


def way_to_floor(plan: Plan, letter: str, decision: Decision) -> str:
    """How much of what A takes above the benchfast floor B saves, with the interval."""
    ratio = recording.ratio(plan.tracks[0], decision.target)
    share, *ends = (100 * (1 - x) for x in (ratio.estimate, ratio.high, ratio.low))
    return (
        f"{plan.cells[letter].name} is {share:.0f} % [{ends[0]:.0f}–{ends[1]:.0f}] of the way from "
        f"{plan.cells[BASE].name} to {FAST}"
    )


def still_open(plan: Plan, decision: Decision) -> list[str]:
    """The tracks that kept the verdict open: their low ends are not above what GO needs."""
    names = []
    for track, gain in zip(plan.tracks, (decision.target, *decision.guards), strict=True):
        limit = 0.0 if track.role == "target" and plan.aim == "improvement" else -plan.margin
        if gain.kind == "range" or gain.low <= limit:
            names.append(track.name)
    return names
