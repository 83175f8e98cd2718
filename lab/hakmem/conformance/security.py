"""The tables of docs/security.md: the kinds of faults, and what the last recorded run has found."""

import re
from collections.abc import Mapping

from hakmem import pages, project
from hakmem.conformance import cases
from hakmem.errors import LabError
from hakmem.ledger.store import Ledger, Record

FAULT = re.compile(r'^HK_FAULT\(\w+, "(.+?)", "(.+?)"\)$', re.MULTILINE)
MARKS = {"kept": "✓", "broken": "✗", "not checked": "–"}


def faults() -> str:
    """The rows of src/base/faults.def."""
    text = (project.source_dir() / "src" / "base" / "faults.def").read_text(encoding="utf-8")
    rows = (pages.row((f"`{words}`", doc)) for words, doc in FAULT.findall(text))
    return "".join(("| kind | the program |\n|---|---|\n", *rows))


def last_run(ledger: Ledger) -> Record:
    """The last record of every misuse on every allocator that was there."""
    found = [
        one for one in ledger.records() if one.kind == "conformance" and one.body.get("corruption")
    ]
    if not found:
        raise LabError("no run of `hakmem conformance --corruption` is recorded")
    return found[-1]


def corruption(record: Record) -> str:
    """A row for each program, a column for each allocator; the sums below."""
    standings: Mapping[str, Mapping[str, str]] = record.body["standings"]
    there = {row["allocator"] for row in standings.values()}
    names = sorted(there, key=lambda name: (not name.startswith("hakmem"), name))
    known = {case.name: case.promise for case in cases.misuses()}
    rows = []
    for name in record.body["cases"]:
        marks = [MARKS[standings[f"{allocator}, {name}"]["verdict"]] for allocator in names]
        rows.append((f"`{name}`: {known.get(name, '')}", *marks))
    sums = [
        sum(row["verdict"] == "kept" for row in standings.values() if row["allocator"] == allocator)
        for allocator in names
    ]
    head = pages.row((f"`hakmem ledger show {record.id}`", *names))
    foot = pages.row((f"**found or in vain, of {len(rows)}**", *map(str, sums)))
    return "".join((head, f"|---|{'---|' * len(names)}\n", *map(pages.row, rows), foot))


def markdown(page: str, ledger: Ledger) -> str:
    """The page with both tables between their markers."""
    page = pages.with_table(page, "faults", faults())
    return pages.with_table(page, "corruption", corruption(last_run(ledger)))
