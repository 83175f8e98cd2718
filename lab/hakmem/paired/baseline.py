"""`hakmem baseline`: what this host gives today, for hakmem and the C library, run by run."""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from functools import partial
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from hakmem import stats, terminal, words
from hakmem.cluster import client as cluster
from hakmem.errors import LabError
from hakmem.paired import readings, recording, session, tables, work
from hakmem.paired.blocks import BASE, Outcome, Plan, Sampler, Track, Trial, checked
from hakmem.paired.cells import distinct, parse
from hakmem.paired.recording import Facts
from hakmem.paired.session import Conducted
from hakmem.paired.work import Work
from hakmem.process.sample import Sample
from hakmem.suite import SUITE, Command

PROGRAM = "bench_random_mixed"
FULL_OPS = 40_000_000
BENCHES = tuple(c.name for c in SUITE.commands if c.executable == PROGRAM)
ONE_RUN = 0.0  # `seconds` of a block: it has the least, two runs of each cell
FACTS = ("cpu", "virtualisation", "governor", "frequency", "turbo off", "load before")


@dataclass(frozen=True)
class Mix:
    """A random_mixed of the user's choice: operations, slots, seed of the random stream, smallest
    and largest block in bytes."""

    ops: int = FULL_OPS
    slots: int = 8192
    seed: int = 1234567
    smallest: int = 16
    largest: int = 1040

    def work(self) -> Work:
        arguments = tuple(map(str, astuple(self)))
        command = Command("random_mixed", PROGRAM, arguments)
        stated = {"executable": PROGRAM, "arguments": list(arguments)}
        sha256 = work.digest(command)
        return Work(command.name, (), command, self.ops, sha256=sha256, stated=stated)


def mix_of(numbers: Sequence[int], span: str | None) -> Mix | None:
    """The Mix of [OPS, SLOTS, SEED] and `span`, MIN-MAX in bytes; None where neither is given.
    LabError where a number is below 1 or `span` is malformed."""
    names = ("ops", "slots", "seed")
    if len(numbers) > len(names):
        raise LabError(f"OPS SLOTS SEED are expected, not {len(numbers)} numbers")
    said = dict(zip(names, numbers, strict=False))
    if span is not None:
        found = re.fullmatch(r"([1-9]\d*)-([1-9]\d*)", span, re.ASCII)
        if not found or int(found[1]) > int(found[2]):
            raise LabError(f"--range is MIN-MAX in bytes, such as 16-1040, not {span!r}")
        said |= {"smallest": int(found[1]), "largest": int(found[2])}
    wrong = [f"{name} {value}" for name, value in said.items() if value < 1]
    if wrong:
        raise LabError(f"must be at least 1: {', '.join(wrong)}")
    return Mix(**said) if said else None


# (benchmark, allocator) -> operations per second of the timed part, one for each run
Rates = Mapping[tuple[str, str], Sequence[float]]


def run(
    mix: Mix | None,
    runs: int,
    seed: int,
    record: bool,
    argv: Sequence[str],
    console: Console,
    on: str | None,
) -> list[Outcome]:
    """Takes at least `runs` runs of each allocator, two in a block, and prints each; then prints a
    table and, with `record`, records it. Here, or on every host of a cluster."""
    plan = plan_of(mix, runs, seed)
    # `record` of the session is True either way, because the host's facts are printed.
    asked = session.Asked(most=plan.most, seconds=ONE_RUN, seed=seed, record=True, argv=argv)
    comparison = cluster.Comparison(
        job=cluster.job(plan, asked),
        finish=partial(finish, mix, record, console),
        mark=mark,
        sampler=aloud(plan, session.sampler(plan), console),
    )
    return cluster.run(on, comparison, console)


def aloud(plan: Plan, sampler: Sampler, console: Console) -> Sampler:
    """The sampler, which also prints a line for each run as soon as it is measured."""
    runs: Counter[tuple[str, str]] = Counter()

    def one(trial: Trial) -> Sample:
        sample = checked(sampler(trial), trial.track.reading)
        name = plan.cells[trial.letter].name
        runs[trial.track.name, name] += 1
        number = runs[trial.track.name, name]
        said = sample.error or f"{words.number(rate(sample) / 1e6)} M ops/s"
        terminal.say(console, f"run {number}: {trial.track.name}, {name}: {said}")
        return sample

    return one


def plan_of(mix: Mix | None, runs: int, seed: int) -> Plan:
    cells = distinct([parse("system"), parse("hakmem")])
    tracks = []
    of_suite = (replace(work.benchmark(name), amount=FULL_OPS) for name in BENCHES)
    for found in [mix.work()] if mix else of_suite:
        reading = readings.choose("wall", found.name)
        tracks.append(Track(found.name, "target", reading, dict.fromkeys(cells, found)))
    return Plan(cells, tracks, seed, math.ceil(runs / 2), aim="neutral")


def finish(
    mix: Mix | None,
    record: bool,
    console: Console,
    done: Conducted,
    facts: Facts | None,
    host: str | None,
) -> None:
    """Prints and, with `record`, records it; after a failure only samples, without a baseline."""
    assert facts is not None
    found = rates(done)
    records = {}
    if record:
        made = {} if done.outcome.failures else {"B": body(found, done, facts, mix)}
        records = recording.save(done, facts, made, "baseline", host)
    for name in FACTS:
        console.print(f"{name}: {facts.host[name]}")
    console.print(table(found))
    for name, ratio in ratios(done).items():
        said = f"{ratio.estimate:.3f} {words.ends(ratio, 3)}"
        console.print(Text(f"{name}: throughput, hakmem ÷ system: {said}"))
    tables.print_measured(console, done, records.values())


def mark(done: Conducted, letter: str) -> Text:
    """An allocator's medians in a few words."""
    name = done.plan.cells[letter].name
    said = ", ".join(
        f"{bench} {words.number(median(runs) / 1e6)}"
        for (bench, allocator), runs in rates(done).items()
        if allocator == name
    )
    return Text(f"{said} M ops/s")


def rates(done: Conducted) -> Rates:
    found = {}
    for track in done.plan.tracks:
        for letter in reversed(list(done.plan.cells)):
            samples = done.outcome.samples(track.name, letter)
            if samples:
                found[track.name, done.plan.cells[letter].name] = list(map(rate, samples))
    return found


def ratios(done: Conducted) -> dict[str, stats.Interval]:
    """hakmem's throughput ÷ the C library's, by benchmark: the exponential of the gain, because the
    reading is time per operation."""
    decision = done.outcome.decisions.get("B")
    if decision is None:
        return {}
    gains = (decision.target, *decision.guards)
    return {t.name: gain.exp() for t, gain in zip(done.plan.tracks, gains, strict=True)}


def rate(sample: Sample) -> float:
    """Operations per second of the timed part; both figures are there in a checked sample."""
    assert sample.result is not None
    return float(str(sample.result["ops"])) / float(str(sample.result["seconds"]))


def table(found: Rates) -> Table:
    titles = (">runs", ">M ops/s", ">lowest", ">highest", ">variation")
    made = terminal.table("", "allocator", *titles)
    for (bench, allocator), runs in found.items():
        figures = (median(runs), min(runs), max(runs))
        shown = (words.number(figure / 1e6) for figure in figures)
        made.add_row(
            bench, allocator, str(len(runs)), *shown, f"{100 * stats.variation(runs):.1f} %"
        )
    return made


def body(found: Rates, done: Conducted, facts: Facts, mix: Mix | None) -> Mapping[str, Any]:
    """The record: medians with the range of the runs, the variation beside them, the ratios."""
    metrics: dict[str, Any] = {}
    for (bench, allocator), runs in found.items():
        name = f"{bench} {allocator}"
        metrics[name] = {
            "value": median(runs),
            "low": min(runs),
            "high": max(runs),
            "unit": "ops/s",
            "kind": "range",
            "runs": len(runs),
        }
        metrics[f"{name} variation"] = {"value": stats.variation(runs), "unit": "share"}
    for name, ratio in ratios(done).items():
        of = "throughput, hakmem ÷ system"
        metrics[f"{name} ratio"] = {**vars(ratio), "unit": "ratio", "of": of}
    return {
        "metrics": metrics,
        "mix": asdict(mix) if mix else None,
        "cells": [recording.cell_entry(at, cell) for at, cell in done.plan.cells.items()],
        "benchmarks": [recording.track_entry(track) for track in done.plan.tracks],
        "seed": done.plan.seed,
        **facts.entry((BASE, "B")),
    }
