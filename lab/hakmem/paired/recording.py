"""Writes a finished comparison into the ledger: its setting, samples, blocks and verdicts.

Everything is appended after the last sample, so an interrupted comparison leaves nothing.
"""

import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from hakmem import __version__, project
from hakmem.ledger.store import Ledger, Record
from hakmem.paired import protocol, readings
from hakmem.paired.blocks import BASE, FLOOR, Block, Outcome, Plan, Track, Trial
from hakmem.paired.cells import Cell
from hakmem.paired.protocol import Decision
from hakmem.paired.readings import OF_BENCH, OF_COMMAND
from hakmem.paired.session import Conducted, process_for
from hakmem.process import provenance
from hakmem.process.metrics import METRICS
from hakmem.process.sample import PASSED_ON, Sample, clean_environment
from hakmem.stats import Interval

MOST_RAW = 1 << 20


@dataclass(frozen=True)
class Facts:
    """What is the same for all samples of a comparison. Taken before the first of them."""

    host: Mapping[str, str]
    source: Mapping[str, object]
    binaries: Mapping[str, Mapping[str, object]]
    argv: Sequence[str]

    @classmethod
    def of(cls, cells: Mapping[str, Cell], argv: Sequence[str]) -> "Facts":
        """LabError where the project's own library is older than its source, which is recorded.

        Other libraries, older builds of hakmem included, are known by their checksums alone.
        """
        binaries = {}
        for letter, cell in cells.items():
            lib = cell.library
            if lib.path == project.default_library():
                provenance.require_current(lib.path, project.source_dir())
            said = {"name": lib.name, "version": lib.version, "origin": lib.origin}
            binaries[letter] = {**said, **provenance.binary(lib.path).to_dict()}
        source = provenance.source(project.source_dir()).to_dict()
        return cls(provenance.host_facts(), source, binaries, argv)


def verdict_body(
    plan: Plan, pair: tuple[str, str], decision: Decision, question: str, facts: Facts
) -> dict[str, Any]:
    """The record of a verdict on the second of the pair, but for the ids of its inputs."""
    target, *guards = plan.tracks
    metrics = {target.name: ratio_entry(target, decision.target)}
    for track, interval in zip(guards, decision.guards, strict=True):
        metrics[f"guard {track.name}"] = ratio_entry(track, interval)
    return {
        "question": question,
        "aim": plan.aim,
        "cells": [cell_entry(at, plan.cells[at]) for at in pair],
        "metrics": metrics,
        "verdict": decision.verdict,
        "margin": plan.margin,
        "blocks": decision.blocks,
        "alpha": decision.alpha,
        "family": len(plan.contenders),
        "most_blocks": plan.most,
        "seed": plan.seed,
        "protocol": protocol.METHOD,
        "benchmarks": [track_entry(track) for track in plan.tracks],
        "source": dict(facts.source),
        "binary": [dict(facts.binaries[at]) for at in pair],
        "host": dict(facts.host),
        "argv": list(facts.argv),
        "ok": True,
    }


def ratio(track: Track, gain: Interval) -> Interval:
    """A gain as the ratio B ÷ A of the metric."""
    ends = (track.reading.sign * gain.low, track.reading.sign * gain.high)
    return Interval(track.reading.sign * gain.estimate, min(ends), max(ends), gain.kind).exp()


def ratio_entry(track: Track, gain: Interval) -> dict[str, object]:
    return {**vars(ratio(track, gain)), "unit": "ratio", "of": track.reading.words}


def cell_entry(letter: str, cell: Cell) -> dict[str, object]:
    entry: dict[str, object] = {"letter": letter, "name": cell.name, "library": cell.library.name}
    if cell.library.path is not None:
        entry["path"] = provenance.binary(cell.library.path).path
    return {**entry, "environment": dict(cell.environment), "bench": cell.bench}


def track_entry(track: Track) -> dict[str, object]:
    """What was run and read; a benchmark with its amount and the hash of its definition.

    `amounts` are those of each cell, where slow ones were given less.
    """
    works: dict[str, dict[str, object]] = {}
    for work in track.works.values():
        command = work.command
        amounts = {at: w.amount for at, w in track.works.items() if w.name == work.name}
        works[work.name] = {
            "arguments": list(work.arguments),
            "amount": max(amounts.values()),
            "definition": provenance.definition(command, project.source_dir()) if command else None,
            **({"amounts": amounts} if len(set(amounts.values())) > 1 else {}),
        }
    return {
        "name": track.name,
        "role": track.role,
        "metric": track.reading.name,
        "better": track.reading.better,
        "unit": track.reading.unit,
        "floor": track.floor.name if track.floor else None,
        "works": works,
    }


def save(
    done: Conducted,
    facts: Facts,
    bodies: Mapping[str, Mapping[str, Any]],
    kind: str = "verdict",
    host: str | None = None,
) -> dict[str, Record]:
    """Appends everything, or nothing; last the derived records, by letter, whose bodies are given.

    `host` is where it was measured, if not here.
    """
    plan, outcome = done.plan, done.outcome
    ledger = Ledger.default(host)
    tracks = {track.name: track for track in plan.tracks}
    with uninterrupted(), ledger.together() as batch:
        setting = batch.append(
            "setting",
            {
                "lab": __version__,
                "argv": list(facts.argv),
                "host": dict(facts.host),
                "source": dict(facts.source),
                "binaries": {at: dict(found) for at, found in facts.binaries.items()},
                "noise": dict(done.noise),
                "failures": dict(outcome.failures),
                "ok": not outcome.failures,
            },
            {"output.txt": _outputs(outcome)},
        )
        blocks: list[tuple[Block, Record]] = []
        for block in outcome.blocks:
            ids = [
                batch.append("sample", sample_body(plan, tracks[block.track], s, facts, setting))
                for s in block.samples
            ]
            body = {
                "setting": setting.id,
                "track": block.track,
                "round": block.round,
                "order": block.order,
                "gains": dict(block.gains),
                "inputs": [record.id for record in ids],
                "ok": all(sample.error is None for sample in block.samples),
            }
            blocks.append((block, batch.append("block", body)))
        return {
            letter: batch.append(
                kind,
                {
                    **body,
                    "inputs": [setting.id, *(r.id for b, r in blocks if letter in b.gains)],
                },
            )
            for letter, body in bodies.items()
        }


def sample_body(
    plan: Plan, track: Track, sample: Sample, facts: Facts, setting: Record
) -> dict[str, Any]:
    """One sample, with every figure it carries."""
    letter = sample.letter or BASE
    trial = Trial(track, letter, sample.round, sample.position, sample.padding)
    environment = clean_environment(process_for(plan, trial))
    unknown = (*PASSED_ON, "LAB_PADDING", "LD_PRELOAD")
    binary = facts.binaries.get(letter)
    return {
        "setting": setting.id,
        "cell": letter,
        "track": track.name,
        "metrics": figures(track, sample),
        "argv": list(sample.argv),
        "environment": {k: v for k, v in environment.items() if k not in unknown},
        "padding": sample.padding,
        "seed": plan.seed,
        "order": [sample.round, sample.position],
        "proof": sample.proof,
        "status": sample.status,
        "involuntary_switches": sample.involuntary_switches,
        "source": facts.source["commit"],
        "binary": binary["sha256"] if binary else FLOOR,
        "error": sample.error,
        "ok": sample.error is None,
    }


def figures(track: Track, sample: Sample) -> dict[str, dict[str, object]]:
    """All figures of a sample by name, the deciding one among them."""
    if sample.error is not None:
        return {}
    found: dict[str, dict[str, object]] = {}
    if sample.result is not None:
        for key in OF_BENCH.values():
            value = METRICS[key].of(sample.to_dict())
            found[key] = {"value": value, "unit": METRICS[key].unit}
    else:
        for name, (unit, of) in OF_COMMAND.items():
            found[name] = {"value": of(sample), "unit": unit}
    reading = track.reading
    found[readings.OF_BENCH.get(reading.name, reading.name) if sample.result else reading.name] = {
        "value": reading.value(sample),
        "unit": reading.unit,
    }
    return {name: entry for name, entry in found.items() if entry["value"] is not None}


def _outputs(outcome: Outcome) -> bytes:
    """What all samples printed, each under a line that says which it was."""
    parts = []
    for block in outcome.blocks:
        for letter, sample in zip(block.order, block.samples, strict=True):
            text = sample.output if len(sample.output) <= MOST_RAW else sample.output[-MOST_RAW:]
            head = f"== {block.track}, round {block.round}, position {sample.position}, {letter}\n"
            parts.append(head + text.rstrip("\n") + "\n")
    return "".join(parts).encode(errors="replace")


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C waits until the last record is written: it takes a second, and leaves no half."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
