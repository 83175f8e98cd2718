"""Whether records follow from their samples: each comparison is run again on its table of samples,
by the functions that made the record, and what comes out is held against what the record states.
The means of a suite are made again from its comparisons.

A table has figures of seven digits, microseconds and KiB, so that numbers may differ by ROUNDING.
Records that lack `first_blocks` are older: of their ratios only those are compared for which the
table has figures, and the first look may have come at any number of blocks. Before ORACLE_SINCE the
oracle had other formulas: such ratios, and the means of them, are counted and not compared.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

from rich.console import Console

from hakmem import terminal
from hakmem.errors import LabError
from hakmem.ledger.store import Ledger, Record
from hakmem.paired import blocks, protocol, recording, suite_record
from hakmem.paired.blocks import BASE, Outcome, Plan, Sampler, Track, Trial
from hakmem.paired.cells import Cell
from hakmem.paired.oracle import ORACLE
from hakmem.paired.readings import Reading
from hakmem.paired.session import Conducted
from hakmem.paired.work import Work
from hakmem.process.library import system
from hakmem.process.sample import Sample
from hakmem.suite import SUITE, Figure, Reference

ROUNDING = 1e-3
VERDICTS = ("verdict", "A/A", "probe")
ORACLE_SINCE = "2026-11-28T03:18"


class Unknown(Exception):
    """The record cannot be made again; the reason is one of a few."""


def recheck(
    ledger: Ledger, records: Mapping[str, Record], console: Console
) -> tuple[list[str], list[str]]:
    """The problems of all records of comparisons, and notes on how many were made again."""
    problems: list[str] = []
    seen: Counter[str] = Counter()
    chosen = [r for r in records.values() if r.kind in (*VERDICTS, "comparison", "suite")]
    with terminal.progress_bar(console) as progress:
        for record in progress.track(chosen, description="made again from samples"):
            try:
                wrong = problem(ledger, records, record)
            except Unknown as why:
                seen[f"not made again: {why}"] += 1
                continue
            except (LookupError, TypeError, ValueError) as error:
                wrong = f"it is malformed ({error!r})"
            old = record.kind == "comparison" and record.time < ORACLE_SINCE
            seen["made again from their samples" + ", but for the oracle's ratios" * old] += 1
            if wrong:
                said = f"{record.kind} {record.id} does not follow from its samples"
                problems.append(f"{said}: {wrong}")
    return problems, [f"{count} records {what}" for what, count in seen.items()]


def problem(ledger: Ledger, records: Mapping[str, Record], record: Record) -> str:
    """What the record states and its samples do not give; "" where it follows from them."""
    body = record.body
    if body.get("protocol") != protocol.METHOD:
        raise Unknown(f"measured by {body.get('protocol')}")
    if record.kind == "suite":
        if record.time < ORACLE_SINCE:
            raise Unknown("means of earlier oracles")
        return _suite(body, records)
    one = record.kind == "comparison"
    setting = records.get(str(body["setting"] if one else [*body["inputs"], None][0]))
    holder = record if one else setting
    if setting is None or holder is None or recording.TABLE not in holder.raw:
        return "they are not in the ledger"
    samples = recording.samples(ledger.raw(holder.raw[recording.TABLE]))
    wrong = ""
    for first in _firsts(body):
        plan = plan_of(body, setting, first)
        try:
            outcome = replay(plan, samples)
        except LabError as error:
            wrong = wrong or str(error)
            continue
        found = _comparison(record, plan, outcome) if one else _verdict(body, plan, outcome)
        wrong = difference(body, found)
        if not wrong:
            break
    return wrong


def _firsts(body: Mapping[str, Any]) -> list[int]:
    """The numbers of blocks that the first look may have had."""
    if "first_blocks" in body:
        return [body["first_blocks"]]
    blocks = body["blocks"]
    least = blocks[0] if isinstance(blocks, list) else blocks
    return [n for n in reversed(protocol.looks(body["most_blocks"])) if n <= least]


def plan_of(body: Mapping[str, Any], setting: Record, first: int) -> Plan:
    """The plan, with what decides: no library and no program is needed to run it again."""
    names = _names(body, setting)
    cells = {at: Cell(names[at], system()) for at in sorted(names)}
    tracks = [_track(entry, cells) for entry in body["benchmarks"]]
    rules = (body["seed"], body["most_blocks"], first, body.get("aim", "improvement"))
    return Plan(cells, tracks, *rules, body["margin"])


def _names(body: Mapping[str, Any], setting: Record) -> dict[str, str]:
    """The cells' names by letter; an older comparison states only those of their libraries."""
    known = {at: str(found["name"]) for at, found in setting.body["binaries"].items()}
    if "subject" in body:
        known[BASE] = body["subject"]
    return {**known, **body["cells"]} if isinstance(body.get("cells"), Mapping) else known


def _track(entry: Mapping[str, Any], cells: Mapping[str, Cell]) -> Track:
    """The track, whose reading is the deciding figure of the table."""
    of = attrgetter("matched")
    reading = Reading(entry["metric"], entry["unit"], entry["better"], entry["metric"], of)
    command = next((c for c in SUITE.commands if c.name in entry["works"]), None)
    works = dict.fromkeys(cells, Work(entry["name"], command=command))
    floor = Reference(entry["floor"]) if entry["floor"] else None
    return Track(entry["name"], entry["role"], reading, works, floor, entry["samples"] // 2)


def replay(plan: Plan, samples: Sequence[Sample]) -> Outcome:
    """The outcome of the plan on these samples; LabError where its seed takes others."""
    left = iter(samples)

    def take(trial: Trial) -> Sample:
        asked = (trial.track.name, trial.round, trial.letter, trial.padding)
        sample = next(left, None)
        if sample is None or asked != (sample.command, sample.round, sample.letter, sample.padding):
            raise LabError(f"its seed takes one of {asked} where the table has another")
        return sample

    sampler: Sampler = take
    there = {sample.letter for sample in samples}
    failures = {at: "failed its trial" for at in plan.cells if at not in there}
    outcome = blocks.run(plan, sampler, failures=failures)
    if next(left, None) is not None:
        raise LabError("the table has more of them than were taken")
    return outcome


def _comparison(record: Record, plan: Plan, outcome: Outcome) -> Mapping[str, Any]:
    body, name = record.body, record.body["suite"]
    figure = next((f for f in SUITE.figures if f.name == name), Figure(name, name, "cpu", ""))
    if plan.tracks[0].works[BASE].command is None and not body.get("program"):
        raise Unknown("of a benchmark that is no more")
    if not outcome.decisions:
        return {"ratios": None}
    found = suite_record.measured(Conducted(plan, outcome, {}, 0.0), figure)
    if "first_blocks" not in body:
        found = {name: found[name] for name in found if name in body}
        found["ratios"] = {
            kind: _as_told(by_rival, found["ratios"].get(kind), record.time >= ORACLE_SINCE)
            for kind, by_rival in body["ratios"].items()
        }
    return found


def _as_told(
    told: Mapping[str, Any], found: Mapping[str, Any] | None, oracle: bool
) -> Mapping[str, Any]:
    """The ratios found, without what an older record does not state (the errors of variations); as
    they are told where the table has no figures for them, and of an earlier oracle."""
    if not found:
        return told
    cut = {rival: entry[: len(told.get(rival, entry))] for rival, entry in found.items()}
    return cut if oracle else {**cut, ORACLE: told.get(ORACLE)}


def _suite(body: Mapping[str, Any], records: Mapping[str, Record]) -> str:
    inputs = [records[id] for id in body["inputs"] if id in records]
    parts = [record.body for record in inputs if record.kind == "comparison"]
    found = suite_record.overall(parts)
    if not all("first_blocks" in part for part in parts):  # other widths, and fewer means
        found = {n: {"value": found[n]["value"]} for n in found if n in body["metrics"]}
    return difference(body["metrics"], found)


def _verdict(body: Mapping[str, Any], plan: Plan, outcome: Outcome) -> Mapping[str, Any]:
    pair = [cell["letter"] for cell in body["cells"]]
    letter = next(at for at in pair if at != BASE)
    decision = outcome.decisions.get(letter)
    if decision is None:
        return {"verdict": None}
    turned = pair[0] == letter  # the record is on A, as compare has it
    found = recording.decided(plan, protocol.swapped(decision) if turned else decision)
    for metric in found["metrics"].values():
        del metric["of"]  # words, which the table does not have
    return found


def difference(told: Any, found: Any, where: str = "") -> str:
    """The first difference between what is told and what was found, in words; "": none. A record
    tells more than is found, but no other ratios."""
    if isinstance(found, Mapping) and isinstance(told, Mapping):
        keys = [*found, *(told.keys() - found.keys() if where.startswith(" ratios") else ())]
        pairs = [(key, told.get(key), found.get(key)) for key in keys]
    elif isinstance(found, list) and isinstance(told, list) and len(told) == len(found):
        pairs = [(str(n), told[n], found[n]) for n in range(len(found))]
    elif isinstance(found, float) and isinstance(told, int | float):
        close = math.isclose(told, found, rel_tol=ROUNDING)
        return "" if close else f"{where.strip()} is {told:.6g}, they give {found:.6g}"
    else:
        return "" if told == found else f"{where.strip()} is {told}, they give {found}"
    return next(filter(None, (difference(t, f, f"{where} {key}") for key, t, f in pairs)), "")
