"""`hakmem ledger list`: which records are results, and each of them in one line."""

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.text import Text

from hakmem import words
from hakmem.ledger import claims
from hakmem.ledger.store import Record

# What results rest on: there are hundreds of them for each result.
GROUNDS = ("setting", "sample", "block")
ROOMY = 110
SIZES = (("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10))
TELLING = ("throughput", "resident")
PREFIXES = (("G", 1e9), ("M", 1e6), ("k", 1e3))


def choose(records: Sequence[Record], kind: str | None, whole: bool = False) -> list[Record]:
    """The results, in the order of time; all records, or all of one kind, where asked for."""
    found = [
        record
        for record in records
        if (record.kind == kind if kind else whole or record.kind not in GROUNDS)
    ]
    return sorted(found, key=lambda record: record.time)


def lines(records: Sequence[Record], width: int) -> Iterator[Text]:
    """A title, then one line for each record; what does not fit in `width` ends in dots."""
    hosts = [record.host for record in records] if width >= ROOMY else []
    wide = [12, max(8, *(len(record.kind) for record in records)), 16]
    wide += [max(map(len, hosts))] if hosts else []

    def line(cells: Sequence[str], what: Text, style: str = "") -> Text:
        fixed = "".join(f"{cell:{size}}  " for cell, size in zip(cells, wide, strict=False))
        made = Text(fixed, style=style).append(what)
        made.truncate(width, overflow="ellipsis")
        return made

    yield line(["id", "kind", "time (UTC)", *(["host"] * bool(hosts))], Text("what"), "bold")
    for record in records:
        refused = record.body.get("ok") is False
        what = Text("NOT ok ", style="bold red") if refused else Text()
        time = record.time[:16].replace("T", " ")
        cells = [record.id, record.kind, time, *([record.host] if hosts else [])]
        yield line(cells, what.append(" ".join(summary(record).split())))


def summary(record: Record) -> str:
    """The answer first, because the end may be cut off; then what was asked; then figures."""
    body = record.body
    parts = [answer(body), subject(body)]
    if "verdict" not in body:
        parts.append(figures(body.get("metrics") or {}))
    return ": ".join(part for part in parts if part)


def answer(body: Mapping[str, Any]) -> str:
    """The verdict with the ratio it is about; of many verdicts, how many of each."""
    metrics = body.get("metrics") or {}
    if "verdict" in body:
        first = next(iter(metrics.values()), None)
        if isinstance(first, Mapping) and "estimate" in first and "question" in body:
            return f"{body['verdict']} {first['estimate']:.3f}"
        return str(body["verdict"])
    each = Counter(
        m["verdict"] for m in metrics.values() if isinstance(m, Mapping) if m.get("verdict")
    )
    return ", ".join(f"{count} {word}" for word, count in each.most_common())


def subject(body: Mapping[str, Any]) -> str:
    """What was asked or run."""
    for name in ("question", "title", "what"):
        if body.get(name):
            why = body.get("why") if name == "title" else None
            return f"{body[name]} ({why})" if why else str(body[name])
    if "cell" in body:
        return f"{body['cell']} on {body.get('track')}"
    if "order" in body:
        return f"{body.get('track')}, round {body.get('round')}, {body['order']}"
    return shlex.join(str(word) for word in (body.get("argv") or ())[1:])


def figures(metrics: Mapping[str, Any]) -> str:
    """The first figures of a record that decides nothing."""
    names = sorted(metrics, key=lambda name: name not in TELLING)
    return ", ".join(f"{name} {short(metrics[name])}" for name in names[:3])


def short(metric: Any) -> str:
    """A few digits with a prefix that suits them; never an error."""
    try:
        value, unit = claims.value(metric), str(metric["unit"])
        scales = SIZES if unit == "B" else PREFIXES if unit.endswith("/s") else ()
        prefix, by = next(((p, s) for p, s in scales if abs(value) >= s), ("", 1))
        digits = words.number(value / by) if abs(value) >= 0.01 or not value else f"{value:.2g}"
        return f"{digits} {prefix}{unit}"
    except (KeyError, TypeError, ValueError):
        return "?"
