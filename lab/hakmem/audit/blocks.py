"""The generated tables and pictures of documents: finds them, and makes them again.

`<!--claims:begin verdict=ID[,ID…]-->` … `<!--claims:end-->` is made from verdict records or, with
the ID of one `suite`, from its comparisons, or from one `hotpath` of the method emulated;
`<!--corruption:begin-->` … `<!--corruption:end-->` from the `conformance` record whose ID is in it;
`<!--scorecard:begin FILE-->` … `<!--scorecard:end-->` from the targets in evidence/ and the ledger;
`<!--picture:begin FILE verdict=ID[,ID…]-->` … `<!--picture:end-->` shows FILE, which is drawn from
suites (`drawing`).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hakmem import pages
from hakmem.audit import scanner
from hakmem.audit.citing import OF_RATIOS
from hakmem.conformance import cases
from hakmem.errors import LabError
from hakmem.hotpath import sharing
from hakmem.ledger import claims
from hakmem.ledger.store import Record
from hakmem.paired import suite_record, suite_table
from hakmem.process.settings import tuning
from hakmem.scorecard import page as scorecard

_BLOCK = re.compile(
    r"<!--(claims|scorecard|picture|corruption):begin ?([^>]*?)-->\n(.*?)<!--\1:end-->", re.DOTALL
)
_STRAY = re.compile(r"<!--(?:claims|scorecard|picture|corruption):(?:begin|end)[^>]*-->")
_RECORD = re.compile(r"\| \[([0-9a-f]{12})\]\([^|]*\) \|$", re.MULTILINE)
# A scorecard's rows that must hold now: none shown as stale, none that hakmem itself failed.
_HOLDS = re.compile(rf"^\|(?!.*(?:~ stale|hakmem failed)).*{_RECORD.pattern}", re.MULTILINE)
_HEAD = (
    "| question | metric | estimate | interval | verdict | measured |\n|---|---|--:|--:|---|---|\n"
)


@dataclass(frozen=True)
class Block:
    """A generated table or picture: the offsets `start` and `end` are those of its text."""

    kind: str
    source: str
    text: str
    start: int
    end: int
    line: int

    @property
    def ids(self) -> list[str]:
        """The ids of the records whose figures it states as holding."""
        if self.kind == "scorecard":
            return _HOLDS.findall(self.text)
        if self.kind == "corruption":
            return re.findall(r"^\| `hakmem ledger show (\w+)`", self.text)
        return self.source.rpartition("verdict=")[2].split(",")

    @property
    def file(self) -> str:
        """The path of a picture, relative to the document."""
        return self.source.partition(" ")[0]

    @property
    def rows(self) -> int:
        """The number of lines with figures; of a scorecard, those with a record."""
        if self.kind == "scorecard":
            return len(_RECORD.findall(self.text))
        if self.kind == "picture":
            return len(self.ids)
        return max(0, sum(line.startswith("|") for line in self.text.splitlines()) - 2)


def find(text: str) -> list[Block]:
    """The blocks of a document, those in fenced code left out."""
    masked = scanner.without_code(text)
    return [
        Block(
            kind=match[1],
            source=match[2].strip(),
            text=text[match.start(3) : match.end(3)],
            start=match.start(3),
            end=match.end(3),
            line=text.count("\n", 0, match.start()) + 1,
        )
        for match in _BLOCK.finditer(masked)
    ]


def without(text: str) -> tuple[str, list[int]]:
    """The text with blocks and fenced code blanked, and the lines of marks that form no block."""
    masked = _BLOCK.sub(scanner.spaces, scanner.without_code(text))
    return masked, [masked.count("\n", 0, m.start()) + 1 for m in _STRAY.finditer(masked)]


def render(block: Block, root: Path, records: Mapping[str, Record]) -> str:
    """The text that belongs between the marks; LabError where it cannot be made."""
    if block.kind == "scorecard":
        return scorecard.block(scorecard.rows(root, records))
    if block.kind == "picture":
        return f"![hakmem ÷ each rival, in time and in peak memory]({block.file})\n"
    if block.kind == "corruption":
        return cases.corruption(next(records[id] for id in block.ids))
    chosen = _chosen(block, records)
    if [record.kind for record in chosen] == ["suite"]:
        return suite_table.markdown(_suite(chosen[0], records), chosen[0].time)
    if [record.body.get("method") for record in chosen] == ["emulated"]:
        return sharing.markdown(chosen[0].body)
    # One line per metric of each verdict, wins and losses alike.
    return _HEAD + "".join(line for record in chosen for line in _lines(record))


def drawing(block: Block, records: Mapping[str, Record]) -> str:
    """The content of a picture's file; LabError where it cannot be drawn."""
    chosen = _chosen(block, records)
    if {record.kind for record in chosen} != {"suite"}:
        raise LabError(f"a picture is drawn from suites: {block.source}")
    bodies = [_suite(record, records) for record in chosen]
    return suite_table.svg(bodies, [record.time for record in chosen])


def _chosen(block: Block, records: Mapping[str, Record]) -> list[Record]:
    missing = [id for id in block.ids if id not in records]
    if missing or "verdict=" not in block.source:
        raise LabError(f"no verdict record: {', '.join(missing) or block.source}")
    return [records[id] for id in block.ids]


def _suite(record: Record, records: Mapping[str, Record]) -> Mapping[str, Any]:
    body = suite_record.whole(record, records)
    if body is None:
        raise LabError(f"suite {record.id} was measured by another method: measure it anew")
    return body


def _lines(record: Record) -> Iterator[str]:
    body = record.body
    if record.kind not in OF_RATIOS or record.kind == "suite" or not body.get("metrics"):
        raise LabError(f"record {record.id} is no verdict with metrics")
    told = tuning(body.get("settings_of_user") or {})
    asked = ", with ".join([str(body.get("question", "")), *(f"{n}={v}" for n, v in told.items())])
    where = f"{str(body['source']['commit'])[:10]}, {record.time[:10]}"
    for name, metric in body["metrics"].items():
        decimals = 3 if metric["unit"] == "ratio" else 2
        shown, _, interval = claims.figure(metric, None, decimals).partition(" [")
        ends = f"[{interval}" if interval else "–"
        cells = (asked, name, shown, ends, body["verdict"], where)
        yield pages.row(str(cell).replace("\n", " ") for cell in cells)


def rewrite(text: str, root: Path, records: Mapping[str, Record]) -> str:
    """The document with all its blocks made again."""
    for block in reversed(find(text)):
        text = text[: block.start] + render(block, root, records) + text[block.end :]
    return text
