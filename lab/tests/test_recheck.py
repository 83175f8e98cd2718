"""A record that does not follow from its samples is named, and fails `hakmem ledger verify`."""

import json
import lzma
from collections.abc import Callable
from typing import Any

from hakmem.ledger.store import Record
from standing import Stand, flat, ran
from suite_world import World

Body = dict[str, Any]


def again(of: Stand, record: Record, change: Callable[[Body], object], **raw: bytes) -> Record:
    """Appends the record once more, changed: its hash fits, what it states does not."""
    body = json.loads(json.dumps(record.body))
    change(body)
    kept = {name: of.ledger.raw(digest) for name, digest in record.raw.items()}
    return of.ledger.append(record.kind, body, {**kept, **raw})


def refused(of: Stand, record: Record, said: str) -> None:
    done = ran(of.call("ledger", "verify"), 1)
    assert f"{record.kind} {record.id} does not follow from its samples: {said}" in done.stdout


def follows(of: Stand, count: int) -> None:
    done = ran(of.call("ledger", "verify"))
    assert f"{count} records made again from their samples" in flat(done.stdout)


def older(body: Body) -> None:
    """Makes it a record of before this check, with fewer kinds of ratio."""
    for name in ("first_blocks", "cells", "tick_ns"):
        del body[name]
    del body["ratios"]["cpu"]


PLANTED: list[tuple[Callable[[Body], object], str]] = [
    (lambda b: b["ratios"]["time"]["system"].__setitem__(0, 0.4), "ratios time system 0 is 0.4"),
    (lambda b: b["ratios"]["time"]["system"].__setitem__(2, 0.4), "ratios time system 2 is 0.4"),
    (lambda b: b["ratios"]["memory"]["system"].__setitem__(5, "win"), "ratios memory system 5 is"),
    (lambda b: b["ratios"].pop("memory"), "ratios memory is None"),
    (lambda b: b["ratios"]["time"].pop("rival.so"), "ratios time rival.so is None"),
    (lambda b: b["figures"]["hakmem"].update(value=0.9), "figures hakmem value is 0.9"),
    (lambda b: b["figures"]["system"].update(memory_kb=9), "figures system memory_kb is 9"),
    (lambda b: b.update(seed=6), "its seed takes one of"),
]


def test_a_comparison_follows_from_its_samples(world: World) -> None:
    world.run(world.request("prodcons", "random_mixed_256", "latency_1"))
    follows(world.own, 4)  # three comparisons, and the suite
    part = world.own.records("comparison")[0]
    again(world.own, part, older)
    follows(world.own, 5)
    for change, said in PLANTED:
        refused(world.own, again(world.own, part, change), said)
    changed = again(world.own, part, lambda b: (older(b), PLANTED[0][0](b)))
    refused(world.own, changed, PLANTED[0][1])


def test_a_dropped_or_changed_sample_is_missed(world: World) -> None:
    world.run(world.request("prodcons"))
    (part,) = world.own.records("comparison")
    table = "samples.tsv.xz"
    lines = lzma.decompress(world.ledger.raw(part.raw[table])).decode().splitlines(keepends=True)
    fewer = lzma.compress("".join([*lines[:5], *lines[6:]]).encode())
    refused(world.own, again(world.own, part, len, **{table: fewer}), "its seed takes one of")
    more = lzma.compress("".join([*lines, lines[-1]]).encode())
    refused(world.own, again(world.own, part, len, **{table: more}), "the table has more")
    other = lzma.compress("".join(lines).replace("\t2000\t", "\t1000\t").encode())
    refused(world.own, again(world.own, part, len, **{table: other}), "figures hakmem memory_kb")


def test_a_suites_means_follow_from_its_comparisons(world: World) -> None:
    world.run(world.request("prodcons", "larson_1"))
    (suite,) = world.own.records("suite")
    mean = "time against the oracle"
    changed = again(world.own, suite, lambda b: b["metrics"][mean].update(low=0.5))
    done = ran(world.own.call("ledger", "verify"), 1)
    assert f"suite {changed.id} does not follow from its samples: {mean} low is 0.5" in done.stdout


def test_a_verdict_follows_from_its_samples(own: Stand) -> None:
    cost = ("--metric", "regex:cost=([0-9.]+)", "--", "sh", "-c", "echo cost=${COST:-100}")
    ab = ("ab", "--seed", 5, "--min-seconds", 0, "--b", "COST=105", "--b", "COST=90", *cost)
    ran(own.call(*ab), 3)
    follows(own, 2)
    dearer, cheaper = own.records("verdict")
    for record, change, said in (
        (dearer, {"verdict": "GO"}, "verdict is GO, they give NO-GO"),
        (cheaper, {"alpha": 0.05}, "alpha is 0.05"),
        (cheaper, {"blocks": 12}, "blocks is 12, they give 8"),
        (dearer, {"metrics": {"sh": {"estimate": 0.95}}}, "metrics sh estimate is 0.95"),
    ):
        refused(own, again(own, record, lambda body, change=change: body.update(change)), said)


def test_what_an_earlier_protocol_made_is_counted_and_not_passed_over(own: Stand) -> None:
    own.ledger.append("verdict", {"protocol": "paired-1", "inputs": [], "verdict": "GO"})
    done = ran(own.call("ledger", "verify"))
    assert "1 records not made again: measured by paired-1" in done.stdout
