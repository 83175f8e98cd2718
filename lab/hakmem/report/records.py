"""Which records of the ledger go into a report, and their raw output, checked against its hash."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hakmem.errors import LabError
from hakmem.ledger.store import PARTS, Ledger, Record
from hakmem.paired.protocol import METHOD

WHOLES = ("suite", "bisect")  # kinds that are made of other results


@dataclass(frozen=True)
class Asked:
    """A record, and how many older ones answer the same question on the same host.

    If it is not `kept` it is in no ledger, and cannot be looked up or repeated by its id.
    """

    record: Record
    older: int = 0
    kept: bool = True

    @property
    def body(self) -> Mapping[str, Any]:
        return self.record.body


def newest(records: Iterable[Record]) -> list[Asked]:
    """The newest answer to each question, with the number of older ones; the latest first.

    The parts of a suite or a bisection are shown with it, not for themselves. A suite of an earlier
    method is left out.
    """
    current = (r for r in records if r.kind != "suite" or r.body.get("protocol", METHOD) == METHOD)
    cited = [r for r in current if r.kind not in PARTS]
    inside = {id for r in cited if r.kind in WHOLES for id in r.body.get("inputs") or ()}
    answers: dict[tuple[str, ...], list[Record]] = {}
    for record in sorted(cited, key=lambda record: record.when):
        if record.id not in inside:
            answers.setdefault(question(record), []).append(record)
    found = [Asked(same[-1], len(same) - 1) for same in answers.values()]
    return sorted(found, key=lambda asked: asked.record.when, reverse=True)


def question(record: Record) -> tuple[str, ...]:
    """What a record answers: records with equal questions are answers to the same one."""
    body = record.body
    said = body.get("question") or body.get("title") or body.get("command") or body.get("argv")
    more = (body.get(key) for key in ("environment", "scale", "definition", "good", "bad"))
    return record.host, record.kind, str(said), *map(str, more)


def chosen(ledger: Ledger, ids: Sequence[str]) -> list[Asked]:
    """The records of these ids, in their order; LabError that names those that are not there."""
    wanted = dict.fromkeys(ids)
    found = {record.id: record for record in ledger.records() if record.id in wanted}
    missing = [id for id in wanted if id not in found]
    if missing:
        raise LabError(
            f"no record {', '.join(missing)} in {ledger.root}: `hakmem ledger list` shows all"
        )
    parts = [id for id in wanted if found[id].kind in PARTS]
    if parts:
        raise LabError(
            f"{', '.join(parts)}: a {found[parts[0]].kind} is part of a result; name the result"
        )
    return [Asked(found[id]) for id in wanted]


def raw(ledger: Ledger, record: Record, name: str) -> bytes:
    """A record's raw output; LabError where it is gone, or not what was recorded."""
    digest = record.raw.get(name)
    if digest is None:
        raise LabError(f"{record.kind} {record.id} has no raw output {name}")
    try:
        return ledger.raw(digest)
    except LabError as error:
        raise LabError(f"{record.kind} {record.id}: its {error}") from None
