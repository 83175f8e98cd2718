"""`hakmem baseline`: what this host gives today, for hakmem and the C library, run by run."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from hakmem import stats, words
from hakmem.cluster import client as cluster
from hakmem.paired import protocol, readings, recording, session, work
from hakmem.paired import tables as paired_tables
from hakmem.paired.blocks import BASE, Outcome, Plan, Sampler, Track
from hakmem.paired.cells import distinct, parse
from hakmem.paired.recording import Facts
from hakmem.paired.session import Conducted
from hakmem.process.lock import host_lock
from hakmem.process.sample import Sample
from hakmem.suite import SUITE

BENCHES = tuple(c.name for c in SUITE.commands if c.executable == "bench_random_mixed")
FACTS = ("cpu", "virtualisation", "governor", "frequency", "turbo off", "load before")


@dataclass(frozen=True)
class Spread:
    """The runs of one allocator on one benchmark, in operations per second of the timed part."""

    bench: str
    allocator: str
    rates: tuple[float, ...]

    @property
    def median(self) -> float:
        return stats.median(self.rates)

    @property
    def variation(self) -> float:
        """Standard deviation ÷ mean."""
        return statistics.stdev(self.rates) / statistics.fmean(self.rates)


def run(
    runs: int,
    seconds: float,
    seed: int,
    record: bool,
    argv: Sequence[str],
    console: Console,
    sampler: Sampler | None = None,
) -> Outcome:
    """At least `runs` runs of each, two by two in blocks; prints one table and records it."""
    plan = plan_of(runs, seed)
    with host_lock():
        facts = Facts.of(plan.cells, argv)
        done = session.conduct(plan, seconds, console, sampler)
        finish(done, facts, record, console)
    return done.outcome


def run_on(
    address: str,
    runs: int,
    seconds: float,
    seed: int,
    record: bool,
    argv: Sequence[str],
    console: Console,
) -> list[Outcome]:
    """The same on every host of a cluster."""

    def ended(done: Conducted, facts: Facts | None, host: str) -> None:
        assert facts is not None
        finish(done, facts, record, console, host)

    job = cluster.job(plan_of(runs, seed), seconds, argv, facts=True)
    return cluster.run(address, cluster.Comparison(job, ended, mark), console)


def plan_of(runs: int, seed: int) -> Plan:
    cells = distinct([parse("system"), parse("hakmem")])
    tracks = []
    for name in BENCHES:
        found = work.benchmark(name)
        tracks.append(
            Track(name, "target", readings.choose("wall", name), dict.fromkeys(cells, found))
        )
    return Plan(cells, tracks, "neutral", protocol.LEAST_MARGIN, seed, math.ceil(runs / 2))


def finish(
    done: Conducted, facts: Facts, record: bool, console: Console, host: str | None = None
) -> None:
    """Records and prints it; where something failed, its samples without a baseline."""
    found = spreads(done)
    records = {}
    if record:
        made = {} if done.outcome.failures else {"B": body(found, done, facts)}
        records = recording.save(done, facts, made, "baseline", host)
    for name in FACTS:
        console.print(f"{name}: {facts.host[name]}", highlight=False)
    console.print(table(found))
    paired_tables.print_measured(console, done, records.values())


def mark(done: Conducted, letter: str) -> Text:
    """An allocator's medians in a few words."""
    name = done.plan.cells[letter].name
    mine = [spread for spread in spreads(done) if spread.allocator == name]
    said = ", ".join(f"{s.bench} {words.number(s.median / 1e6)}" for s in mine)
    return Text(f"{said} M ops/s")


def spreads(done: Conducted) -> list[Spread]:
    result = []
    for track in done.plan.tracks:
        for letter in reversed(list(done.plan.cells)):
            samples = done.outcome.samples(track.name, letter)
            name = done.plan.cells[letter].name
            if samples:
                result.append(Spread(track.name, name, tuple(rate(sample) for sample in samples)))
    return result


def rate(sample: Sample) -> float:
    """Operations per second; the reading of wall time has shown that both figures are there."""
    assert sample.result is not None
    return float(str(sample.result["ops"])) / float(str(sample.result["seconds"]))


def table(found: Sequence[Spread]) -> Table:
    made = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    made.add_column("", no_wrap=True)
    made.add_column("allocator", no_wrap=True)
    for title in ("runs", "M ops/s", "lowest", "highest", "variation"):
        made.add_column(title, justify="right", no_wrap=True)
    for spread in found:
        made.add_row(
            spread.bench,
            spread.allocator,
            str(len(spread.rates)),
            *(words.number(x / 1e6) for x in (spread.median, min(spread.rates), max(spread.rates))),
            f"{100 * spread.variation:.1f} %",
        )
    return made


def body(found: Sequence[Spread], done: Conducted, facts: Facts) -> Mapping[str, Any]:
    """The record: medians with the range of the runs, and the variation beside them."""
    metrics: dict[str, Any] = {}
    for spread in found:
        name = f"{spread.bench} {spread.allocator}"
        metrics[name] = {
            "value": spread.median,
            "low": min(spread.rates),
            "high": max(spread.rates),
            "unit": "ops/s",
            "kind": "range",
            "runs": len(spread.rates),
        }
        metrics[f"{name} variation"] = {"value": spread.variation, "unit": "share"}
    return {
        "metrics": metrics,
        "cells": [recording.cell_entry(at, cell) for at, cell in done.plan.cells.items()],
        "benchmarks": [recording.track_entry(track) for track in done.plan.tracks],
        "source": dict(facts.source),
        "binary": [dict(facts.binaries[at]) for at in (BASE, "B")],
        "host": dict(facts.host),
        "seed": done.plan.seed,
        "argv": list(facts.argv),
        "ok": True,
    }
