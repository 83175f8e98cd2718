"""The report: one self-contained HTML file, offline, that reads without a script.

Made of records of the ledger, of a comparison that has just ended, and of CSV files of soaks.
Charts that a script draws are static drawings and tables first; the script and ECharts are on the
page only where there are such charts. The page names the only scripts that may run on it by their
hashes, so nothing that came with a record can.
"""

from __future__ import annotations

import base64
import hashlib
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hakmem import pages, project, words
from hakmem.errors import LabError
from hakmem.report import lines, verdicts as report_verdicts
from hakmem.report.records import Asked

VENDOR = Path(__file__).parent / "vendor"


@dataclass
class Findings:
    """What the page shows, each kind in the form in which its own module makes it for the
    templates. A soak has the `data` that the script draws, by the id of the place where it stands.
    `problems`: what cannot be shown, and why."""

    asked: list[Asked] = field(default_factory=list)
    verdicts: list[dict[str, Any]] = field(default_factory=list)
    suites: list[dict[str, Any]] = field(default_factory=list)
    soaks: list[dict[str, Any]] = field(default_factory=list)
    matrices: list[dict[str, Any]] = field(default_factory=list)
    figures: list[dict[str, Any]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def write(path: Path, found: Findings) -> None:
    """Writes the whole page, atomically; LabError where there is nothing to show."""
    project.write_atomically(path, render(found))


def render(found: Findings) -> str:
    if not (found.asked or found.soaks):
        raise LabError("nothing to report: record something first: hakmem compare -- PROGRAM")
    data = {id: chart for soak in found.soaks for id, chart in soak["data"].items()}
    scripts = []
    if data:
        echarts = (VENDOR / "echarts.common.min.js").read_text(encoding="utf-8")
        scripts = [echarts, pages.text("report.js")]
    return pages.render(
        "report.html.j2",
        found=found,
        verdict_forest=report_verdicts.forest(found.verdicts),
        css=pages.text("report.css"),
        data=data,
        scripts=scripts,
        policy=policy(scripts),
        words=words,
        drawing=lines.drawing,
        again=shlex.join,
    )


def policy(scripts: Sequence[str]) -> str:
    """The content security policy: nothing is loaded, and no script runs but these."""
    hashes = (base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in hashes) or "'none'"
    return f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src {allowed}"
