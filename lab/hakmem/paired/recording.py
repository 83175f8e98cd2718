"""Writes a finished comparison into the ledger: its setting with all samples, and its verdicts.

Everything is appended after the last sample, so an interrupted comparison leaves nothing. There are
hundreds of samples, which are read only to check a result: they lie compressed beside the ledger,
one line of figures each, in the order taken; the blocks follow from them (`samples.tsv.xz`).
"""

import json
import lzma
import os
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hakmem import __version__, project
from hakmem.errors import LabError
from hakmem.ledger.claims import GUARD
from hakmem.ledger.store import Ledger, Record
from hakmem.paired import protocol
from hakmem.paired.blocks import Outcome, Plan, Track, sound
from hakmem.paired.cells import Cell
from hakmem.paired.protocol import Decision
from hakmem.paired.session import Conducted
from hakmem.process import children, host, provenance
from hakmem.process.sample import Sample
from hakmem.process.settings import settings_of
from hakmem.stats import Interval
from hakmem.suite import LATENCIES


@dataclass(frozen=True)
class Facts:
    """What is the same for all samples of a comparison, read before the first of them."""

    host: Mapping[str, str]
    source: Mapping[str, object]
    binaries: Mapping[str, Mapping[str, object]]
    argv: Sequence[str]

    @classmethod
    def of(cls, cells: Mapping[str, Cell], argv: Sequence[str]) -> "Facts":
        """Reads the facts. LabError where the project's own library is older than its source,
        because the source is recorded.

        Other libraries, older builds of hakmem included, are known by their checksums alone.
        """
        binaries = {}
        for letter, cell in cells.items():
            lib = cell.library
            if lib.path == project.default_library():
                provenance.require_current(lib.path, project.source_dir())
            if lib.beside:
                provenance.require_current(lib.beside, project.source_dir(), ("check",))
            binaries[letter] = provenance.binary_of(lib)
        source = provenance.source(project.source_dir())
        return cls(host.facts(), source, binaries, argv)

    def require_unchanged(self, cells: Mapping[str, Cell]) -> None:
        """LabError where a library was rebuilt meanwhile: it is unknown what was measured."""
        for letter, cell in cells.items():
            now = provenance.binary_of(cell.library)
            if now != self.binaries[letter]:
                file = " or ".join(map(str, cell.library.files)) or now["path"]
                why = "was changed during the measurement: nothing of it was recorded"
                raise LabError(f"{file} {why}", status=1)

    def stated(self) -> dict[str, Any]:
        """What every record states of the facts."""
        return {
            "source": dict(self.source),
            "host": dict(self.host),
            "argv": list(self.argv),
            "settings_of_user": settings_of(os.environ),
            "ok": True,
        }

    def entry(self, letters: Iterable[str]) -> dict[str, Any]:
        """The same, with the libraries of these cells."""
        return {**self.stated(), "binary": [dict(self.binaries[at]) for at in letters]}


def verdict_body(
    plan: Plan, pair: tuple[str, str], decision: Decision, question: str, facts: Facts
) -> dict[str, Any]:
    """The record of a verdict on the second cell of `pair`, without the ids of its inputs."""
    return {
        "question": question,
        "cells": [cell_entry(at, plan.cells[at]) for at in pair],
        **decided(plan, decision),
        **rules(plan),
        "benchmarks": [track_entry(track) for track in plan.tracks],
        **facts.entry(pair),
    }


def rules(plan: Plan) -> dict[str, Any]:
    """What was laid down before the first sample, and with the samples gives the result."""
    return {
        "aim": plan.aim,
        "margin": plan.margin,
        "family": len(plan.contenders),
        "first_blocks": plan.first,
        "most_blocks": plan.most,
        "seed": plan.seed,
        "protocol": protocol.METHOD,
    }


def decided(plan: Plan, decision: Decision) -> dict[str, Any]:
    """What a decision says, all of which follows from the samples."""
    target, *guards = plan.tracks
    metrics = {target.name: ratio_entry(target, decision.target)}
    for track, interval in zip(guards, decision.guards, strict=True):
        metrics[f"{GUARD}{track.name}"] = ratio_entry(track, interval)
    return {
        "metrics": metrics,
        "verdict": decision.verdict,
        "blocks": decision.blocks,
        "alpha": decision.alpha,
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
    """What was run and read; a benchmark with its amount of work, the hash of its definition and
    that of its program. LabError where the program was changed meanwhile.

    `samples` is the number of samples of each cell in a block.
    """
    works: dict[str, dict[str, object]] = {}
    for work in track.works.values():
        work.require_unchanged()
        definition = work.program.made if work.program else None
        if work.command:
            definition = provenance.definition(work.command, project.source_dir())
        works[work.name] = {
            "arguments": list(work.arguments),
            "amount": work.amount,
            "definition": definition,
            "sha256": work.sha256 or None,
            **work.stated,
        }
    return {
        "name": track.name,
        "role": track.role,
        "metric": track.reading.name,
        "better": track.reading.better,
        "unit": track.reading.unit,
        "floor": track.floor.name if track.floor else None,
        "samples": 2 * track.turns,
        "works": works,
    }


def save(
    done: Conducted,
    facts: Facts,
    bodies: Mapping[str, Mapping[str, Any]],
    kind: str = "verdict",
    host: str | None = None,
) -> dict[str, Record]:
    """Appends the setting with its samples and the derived records of `bodies`, all or nothing;
    returns the derived records by letter.

    `host` is the host of a cluster where it was measured, None for this one: the slices have
    checked there that no library changed.
    """
    if host is None:
        facts.require_unchanged(done.plan.cells)
    with children.held_back(), Ledger.default(host).together() as batch:
        setting = batch.append("setting", {**setting_body(facts), **course(done)}, raw(done))
        return {
            letter: batch.append(kind, {**body, "inputs": [setting.id]})
            for letter, body in bodies.items()
        }


def setting_body(facts: Facts) -> dict[str, Any]:
    """The record of what is the same for all that one run measures."""
    binaries = {at: dict(found) for at, found in facts.binaries.items()}
    return {**facts.stated(), "lab": __version__, "binaries": binaries}


def course(done: Conducted) -> dict[str, Any]:
    """How the measuring went. `ok` is False only where the base or the floor failed: a rival that
    failed has no verdict, and spoils no other's."""
    return {
        "noise": dict(done.noise),
        "failures": dict(done.outcome.failures),
        "ok": sound(done.outcome.failures),
    }


# ---- the samples ----

# Columns of the table of samples: the field of a sample, or the number of its own line, and what it
# is multiplied by. Integers, because their digits are all that is stored.
TABLE = "samples.tsv.xz"
_FIELDS: Mapping[str, tuple[str, float]] = {
    "wall_us": ("wall_s", 1e6),
    "user_us": ("user_s", 1e6),
    "sys_us": ("sys_s", 1e6),
    "minflt": ("minflt", 1),
    "majflt": ("majflt", 1),
    "switches": ("involuntary_switches", 1),
    "peak_kb": ("max_rss_kb", 1),
    "kb_s": ("memory_mb_s", 1e6 / 1024),
    "sum_peak_kb": ("sum_peak_kb", 1),
    "quiet_kb": ("quiet_kb", 1),
    "cycles": ("cycles", 1),
    "instructions": ("instructions", 1),
}
_STATED: Mapping[str, tuple[str, float]] = {
    "timed_ns": ("seconds", 1e9),
    "timed_user_us": ("user_s", 1e6),
    "timed_sys_us": ("sys_s", 1e6),
    "ops": ("ops", 1),
    "held_ppm": ("held", 1e6),
    **{f"{name}_ps": (f"{name}_ns", 1e3) for name in LATENCIES},
}


def raw(done: Conducted) -> dict[str, bytes]:
    """The files beside the setting: all samples as a compressed table, and the output of the first
    sample of each cell and of every failed one."""
    return {TABLE: lzma.compress(table(done)), "output.txt": _outputs(done.outcome)}


def table(done: Conducted) -> bytes:
    """One line per sample in the order taken: place, error, deciding figure, the other columns."""
    tracks = {track.name: track for track in done.plan.tracks}
    place = ("track", "block", "cell", "padding", "error", "figure")
    lines = ["\t".join((*place, *_FIELDS, *_STATED))]
    for block in done.outcome.blocks:
        for letter, sample in zip(block.order, block.samples, strict=True):
            error = " ".join((sample.error or "").split())
            figure = "" if sample.error else f"{tracks[block.track].reading.value(sample):.7g}"
            place = (block.track, str(block.round), letter, str(sample.padding), error, figure)
            found = [(getattr(sample, name), factor) for name, factor in _FIELDS.values()]
            found += [(sample.stated(name), factor) for name, factor in _STATED.values()]
            numbers = ("" if value is None else str(round(f * value)) for value, f in found)
            lines.append("\t".join((*place, *numbers)))
    return ("\n".join(lines) + "\n").encode()


def samples(data: bytes) -> list[Sample]:
    """The samples of a compressed `table`, with the deciding figure as `matched`."""
    head, *lines = lzma.decompress(data).decode().splitlines()
    titles = head.split("\t")
    return [_sample(dict(zip(titles, line.split("\t"), strict=True))) for line in lines]


def _sample(row: Mapping[str, str]) -> Sample:
    def read(columns: Mapping[str, tuple[str, float]]) -> dict[str, Any]:
        known = ((name, row.get(column), f) for column, (name, f) in columns.items())
        return {name: float(text) / factor for name, text, factor in known if text}

    return Sample(
        *(row["track"], int(row["block"])),
        letter=row["cell"],
        padding=int(row["padding"]),
        error=row["error"] or None,
        matched=float(row["figure"]) if row["figure"] else None,
        result=read(_STATED) or None,
        **read(_FIELDS),
    )


def _outputs(outcome: Outcome) -> bytes:
    """The outputs, each under lines that name the sample, its command and its proof."""
    parts = []
    seen = set()
    for block in outcome.blocks:
        for letter, sample in zip(block.order, block.samples, strict=True):
            if sample.error is None and (block.track, letter) in seen:
                continue
            seen.add((block.track, letter))
            head = f"== {block.track}, round {block.round}, position {sample.position}, {letter}"
            proof = json.dumps(sample.proof and sample.proof.to_dict())
            said = (head, shlex.join(sample.argv), proof, sample.output.rstrip("\n"), "")
            parts.append("\n".join(said))
    # The path of the laboratory's own interpreter is no part of what was measured.
    own = f"{Path(sys.executable).resolve().parent}/"
    return "".join(parts).replace(own, "").encode(errors="replace")
