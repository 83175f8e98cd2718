"""`hakmem report`: what is to be shown, and where it is written."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from hakmem import project
from hakmem.errors import LabError
from hakmem.ledger.store import Ledger
from hakmem.overview import document
from hakmem.report import findings as report_findings
from hakmem.report import page as report
from hakmem.report import records as report_records
from hakmem.report.page import Findings

BENCH = Path("out/bench.json")


def command(
    what: Annotated[
        list[str] | None,
        typer.Argument(
            help="Ids of records, a bench.json, CSV files of soaks; default: the newest of all."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Where (default: out/report.html, or beside a file).")
    ] = None,
) -> None:
    """Make one HTML file of what was measured: verdicts, soaks, matrices, how to repeat each.

    Without an argument: out/bench.json, if it is there, and of each question the ledger's newest
    answer. The file needs no network, and no script to be read.
    """
    recorded, found, beside = gather(what or [])
    target = project.place(out, beside)
    project.write_atomically(target, report.render(recorded, found))
    print(f"written: {target}")
    for problem in found.problems:
        print(f"hakmem: not shown: {problem}", file=sys.stderr)
    if found.problems:
        raise typer.Exit(1)


def gather(what: list[str]) -> tuple[dict[str, Any] | None, Findings, Path]:
    """The run of the benchmarks, what is from the ledger, and where the page belongs."""
    ledger = Ledger.default()
    files = [text for text in what if is_file(text)]
    ids = [text for text in what if text not in files]
    beside = Path(files[0]).with_suffix(".html") if files else Path("out/report.html")
    if not what:
        recorded = document.load(BENCH) if BENCH.is_file() else None
        found = report_findings.find(ledger, report_records.newest(ledger.records()))
        return recorded, found, beside
    found = report_findings.find(ledger, report_records.chosen(ledger, ids) if ids else [])
    for name in (name for name in files if name.endswith(".csv")):
        report_findings.add_file(found, name, _bytes(Path(name)))
    jsons = [name for name in files if not name.endswith(".csv")]
    if not jsons:
        return None, found, beside
    path = _only_json(jsons)
    return document.load(path), found, path.parent / "report.html"


def is_file(text: str) -> bool:
    """A name with an ending or a folder is a file's; a record's id has neither."""
    return "/" in text or "." in text


def _only_json(names: list[str]) -> Path:
    if len(names) != 1 or not is_file(names[0]):
        raise LabError(f"one bench.json is expected, not {', '.join(names)}")
    return Path(names[0])


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise LabError(f"cannot read {path}: {error.strerror}") from error
