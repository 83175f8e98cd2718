"""The verdict table as Markdown, for a README: generated from a record, never typed."""

from collections.abc import Mapping
from typing import Any

from hakmem import summary, words
from hakmem.report import peak_memory

TITLES = ("benchmark", "unit", "hakmem", "best rival", "÷ best rival", "÷ system")
MEMORY = ("peak MiB", "leanest rival", "÷ leanest")


def table(document: Mapping[str, Any]) -> str:
    """One line per figure, sorted by name; ratios are hakmem ÷ other, with their intervals."""
    memory = {strip.label: strip.values for strip in peak_memory(document)}
    commands = {figure["name"]: figure["command"] for figure in document["figures"]}
    lines = [_line((*TITLES, *MEMORY)), "|---|---|--:|--:|--:|--:|--:|--:|--:|"]
    for row in summary.rows(document):
        lines.append(_line((*_time(row), *_memory(memory.get(commands[row.name], {})))))
    return "\n".join(lines) + "\n"


def _line(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"


def _time(row: summary.Row) -> tuple[str, ...]:
    best = row.best
    rival = "–"
    if best:
        rival = f"{words.number(row.cells[best.rival].median)} {best.rival}"
    own = row.cells[summary.SUBJECT]
    return (
        row.name,
        row.unit,
        "error" if own.error else words.number(own.median),
        rival,
        _ratio(best, f"{words.MARKS[row.verdict].split()[0]} "),
        _ratio(row.system, ""),
    )


def _ratio(comparison: summary.Comparison | None, mark: str) -> str:
    if comparison is None or comparison.ratio is None:
        return "?"
    return f"{mark}{words.ratio(comparison.ratio)} {words.ends(comparison.ratio)}"


def _memory(peaks: Mapping[str, float]) -> tuple[str, ...]:
    rivals = {name: mib for name, mib in peaks.items() if name != summary.SUBJECT}
    own = peaks.get(summary.SUBJECT)
    if own is None or not rivals:
        return ("–", "–", "–")
    leanest = min(rivals, key=lambda name: rivals[name])
    return (
        words.number(own),
        f"{words.number(rivals[leanest])} {leanest}",
        f"{own / rivals[leanest]:.2f}",
    )
