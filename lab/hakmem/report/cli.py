"""`hakmem report`: what is to be shown, each kind of record by its own module, and where."""

import functools
import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from hakmem import project
from hakmem.errors import LabError
from hakmem.ledger.store import METHOD, Ledger, Record, host_name
from hakmem.paired import suite_record
from hakmem.report import matrices, page, records, soaks, suites, verdicts
from hakmem.report.page import Findings
from hakmem.report.records import Asked


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
    files = [Path(text) for text in what or () if is_file(text)]
    # Beside the first file that is to be shown, else where `make run` puts its page.
    usual = files[0].with_suffix(".html") if files else Path("out/report.html")
    target = project.place(out, usual)
    found = gather(files, [text for text in what or () if not is_file(text)])
    page.write(target, found)
    print(f"written: {target}")
    for problem in found.problems:
        print(f"hakmem: not shown: {problem}", file=sys.stderr)
    if found.problems:
        raise typer.Exit(1)


def write_run(path: Path, suite: Record, whole: Mapping[str, Any], kept: bool) -> None:
    """Writes the page of a comparison of many rows that has just ended. `kept`: it is recorded."""
    asked = Asked(suite, kept=kept)
    page.write(path, Findings(asked=[asked], suites=[suites.suite(asked, whole)]))


def write_matrix(path: Path, body: Mapping[str, Any], id: str | None) -> None:
    """Writes the page of a matrix that has just ended; `id` is its record's, if it has one."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    record = Record(id or "matrix", 0, "matrix", now, body, "", "", METHOD, host_name())
    page.write(path, find(Ledger.default(), [Asked(record, kept=id is not None)]))


def gather(files: list[Path], ids: list[str]) -> Findings:
    """What is to be shown: the named records and files, else the newest answer to each question."""
    ledger = Ledger.default()
    if not (files or ids):
        return find(ledger, records.newest(ledger.records()))
    found = find(ledger, records.chosen(ledger, ids) if ids else [])
    for file in files:
        if file.suffix != ".csv":
            raise LabError(f"{file} is neither a record's id nor the CSV file of a soak")
        id = f"file-{len(found.soaks)}"
        found.soaks.append(soaks.of_file(str(file), project.read(file), id))
    return found


def is_file(text: str) -> bool:
    """A name with an ending or a folder is a file's; a record's id has neither."""
    return "/" in text or "." in text


def find(ledger: Ledger, chosen: Iterable[Asked]) -> Findings:
    """Sorts the records by what they are; one that cannot be shown becomes a problem."""
    found = Findings()
    # The ledger is read only if a suite needs it, and only once: where it is long that is most of
    # the work.
    recorded = functools.cache(lambda: {record.id: record for record in ledger.records()})
    for asked in chosen:
        found.asked.append(asked)
        try:
            _add(found, ledger, asked, recorded)
        except LabError as error:
            found.problems.append(str(error))
        except (KeyError, TypeError, ValueError, AttributeError):
            found.problems.append(
                f"{asked.record.kind} {asked.record.id} was recorded in another form than this "
                "report reads"
            )
    return found


def _add(
    found: Findings, ledger: Ledger, asked: Asked, recorded: Callable[[], Mapping[str, Record]]
) -> None:
    kind = asked.record.kind
    if kind in ("verdict", "A/A"):
        found.verdicts.append(verdicts.verdict(asked))
    elif kind == "suite":
        whole = suite_record.whole(asked.record, recorded())
        if whole is None:
            said = f"suite {asked.record.id} was measured by an earlier method: it has no table"
            raise LabError(said)
        found.suites.append(suites.suite(asked, whole))
    elif kind == "soak" and "analysis" in asked.body:
        csv = records.raw(ledger, asked.record, "epochs.csv")
        found.soaks.append(soaks.of_record(asked, csv))
    elif kind == "matrix":
        found.matrices.append(matrices.of_record(asked))
    else:
        found.figures.append(verdicts.figures(asked))
