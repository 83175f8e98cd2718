"""`hakmem report`: what is to be shown, and where it is written."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from hakmem import project
from hakmem.errors import LabError
from hakmem.ledger.store import Ledger, Record
from hakmem.report import findings as report_findings
from hakmem.report import page as report
from hakmem.report import records as report_records
from hakmem.report.page import Findings


def command(
    what: Annotated[
        list[str] | None,
        typer.Argument(
            help="Ids of records, CSV files of soaks; default: of each question the newest answer."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Where (default: out/report.html, or beside a file).")
    ] = None,
) -> None:
    """Make one HTML file of what was measured: verdicts, soaks, matrices, how to repeat each.

    Without an argument: of each question the ledger's newest answer. The file needs no network,
    and no script to be read.
    """
    found, beside = gather(what or [])
    target = project.place(out, beside)
    report.write(target, found)
    print(f"written: {target}")
    for problem in found.problems:
        print(f"hakmem: not shown: {problem}", file=sys.stderr)
    if found.problems:
        raise typer.Exit(1)


def write_run(path: Path, suite: Record, whole: Mapping[str, Any], kept: bool) -> None:
    """The page of a comparison over many rows that has just ended."""
    report.write(path, report_findings.of_run(suite, whole, kept))


def gather(what: list[str]) -> tuple[Findings, Path]:
    """What is to be shown, and where the page belongs."""
    ledger = Ledger.default()
    if not what:
        found = report_findings.find(ledger, report_records.newest(ledger.records()))
        return found, Path("out/report.html")
    files = [Path(text) for text in what if is_file(text)]
    ids = [text for text in what if not is_file(text)]
    found = report_findings.find(ledger, report_records.chosen(ledger, ids) if ids else [])
    for file in files:
        if file.suffix != ".csv":
            raise LabError(f"{file} is neither a record's id nor the CSV file of a soak")
        report_findings.add_file(found, str(file), _bytes(file))
    return found, files[0].with_suffix(".html") if files else Path("out/report.html")


def is_file(text: str) -> bool:
    """A name with an ending or a folder is a file's; a record's id has neither."""
    return "/" in text or "." in text


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise LabError(f"cannot read {path}: {error.strerror}") from error
