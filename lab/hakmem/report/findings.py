"""From records to the parts of a report: each kind by its own module."""

from collections.abc import Iterable, Mapping
from typing import Any

from hakmem.errors import LabError
from hakmem.ledger.store import Ledger, Record
from hakmem.paired import suite_record
from hakmem.report import matrices as report_matrices
from hakmem.report import records as report_records
from hakmem.report import soaks as report_soaks
from hakmem.report import suites as report_suites
from hakmem.report import verdicts as report_verdicts
from hakmem.report.page import Findings
from hakmem.report.records import Asked


def find(ledger: Ledger, records: Iterable[Asked]) -> Findings:
    """Sorts the records by what they are; one that cannot be shown becomes a problem."""
    found = Findings()
    for asked in records:
        found.asked.append(asked)
        try:
            _add(found, ledger, asked)
        except LabError as error:
            found.problems.append(str(error))
        except (KeyError, TypeError, ValueError, AttributeError):
            found.problems.append(
                f"{asked.record.kind} {asked.record.id} was recorded in another form than this "
                "report reads"
            )
    return found


def add_file(found: Findings, name: str, csv: bytes) -> None:
    """A soak that was read from a file; LabError where it is none."""
    _add_soak(found, report_soaks.of_file(name, csv, f"file-{len(found.soaks)}"))


def of_run(suite: Record, whole: Mapping[str, Any], kept: bool) -> Findings:
    """A comparison over many rows that has just ended, whether or not the ledger keeps it."""
    asked = Asked(suite, kept=kept)
    return Findings(asked=[asked], suites=[report_suites.suite(asked, whole)])


def _add(found: Findings, ledger: Ledger, asked: Asked) -> None:
    kind = asked.record.kind
    if kind in ("verdict", "A/A"):
        found.verdicts.append(report_verdicts.verdict(asked))
    elif kind == "suite":
        found.suites.append(report_suites.suite(asked, _whole(ledger, asked.record)))
    elif kind == "soak":
        csv = report_records.raw(ledger, asked.record, "epochs.csv")
        _add_soak(found, report_soaks.of_record(asked, csv))
    elif kind == "matrix":
        matrix = report_matrices.of_record(asked)
        found.matrices.append(matrix)
        found.charts[matrix.id] = report_matrices.data(matrix)
    else:
        found.figures.append(report_verdicts.figures(asked))


def _whole(ledger: Ledger, suite: Record) -> Mapping[str, Any]:
    parts = {*suite.body["inputs"]}
    whole = suite_record.whole(suite, {r.id: r for r in ledger.records() if r.id in parts})
    if whole is None:
        raise LabError(f"suite {suite.id} was measured by an earlier method: it has no table")
    return whole


def _add_soak(found: Findings, soak: report_soaks.Shown) -> None:
    found.soaks.append(soak)
    found.charts |= report_soaks.data(soak)
