"""The CSV of a soak: its columns, its comment lines, and what a torn file still tells.

A line `# key: value` is a fact about the soak; facts known only at its end follow the epochs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hakmem.errors import LabError
from hakmem.lazy import np

FORMAT = "# hakmem soak 1"

COLUMNS = {
    "epoch": "number, from 0",
    "t_s": "seconds since the start, at the end of the epoch",
    "ops": "operations in this epoch",
    "ops_per_s": "their rate; reading the columns about memory is not timed",
    "ns_per_op": "its inverse",
    "rss_kb": "KiB resident after the epoch (smaps_rollup: Rss)",
    "anon_kb": "KiB of it anonymous",
    "lazyfree_kb": "KiB of it given back lazily: the kernel may take it at any time",
    "anonhuge_kb": "KiB of it in huge pages",
    "live_kb": "KiB in blocks the program holds, as malloc_usable_size() counts them",
    "committed_kb": "KiB of private memory mapped writable (VmData), resident or not",
    "minflt": "page faults without input or output, in this epoch",
    "user_s": "seconds of user time, in this epoch",
    "sys_s": "seconds of system time, in this epoch",
}

# The beginnings of lines that the benchmark itself prints after its epochs.
RESULT_LINES = ("Throughput", "{", "[")


@dataclass(frozen=True)
class Soak:
    """A soak as recorded: equally long columns, facts, and remarks on how the file was read."""

    columns: Mapping[str, np.ndarray]
    facts: Mapping[str, str] = field(default_factory=dict)
    remarks: Sequence[str] = ()

    @property
    def epochs(self) -> int:
        return len(self.columns["t_s"])


def header(facts: Mapping[str, str], columns: Sequence[str]) -> str:
    """The comment lines in front of the epochs, and the line of names."""
    lines = [FORMAT, *(fact(key, value) for key, value in facts.items()), "#"]
    lines += [f"#   {name:<12}  {COLUMNS.get(name, 'not documented')}" for name in columns]
    return "\n".join([*lines, ",".join(columns)]) + "\n"


def fact(key: str, value: str) -> str:
    """One comment line; the lines of a value are joined, or later ones would be taken for data."""
    return f"# {key}: {' '.join(value.split())}"


def parse_names(line: str) -> list[str]:
    return [name.strip() for name in line.split(",")]


def parse_row(line: str) -> list[float]:
    """The numbers of a line; an empty field is NaN. Raises ValueError on anything else."""
    return [float(text) if text.strip() else float("nan") for text in line.split(",")]


def parse(text: str) -> Soak:
    """Reads any soak's CSV: one of this module, or the bare output of the benchmark.

    A torn last line is left out, with a remark; a damaged line elsewhere is a LabError.
    """
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    # Lines with two spaces after the # describe columns.
    said = (line[1:].partition(":") for _, line in lines if re.match(r"#(?!  )", line))
    facts = {key.strip(): value.strip() for key, colon, value in said if colon}
    table = [(number, line) for number, line in lines if not line.startswith(("#", *RESULT_LINES))]
    names = parse_names(table[0][1]) if table else []
    rows = {number: _row(line, len(names)) for number, line in table[1:]}
    remarks = []
    torn = next((number for number, row in rows.items() if row is None), None)
    if torn is not None:
        if torn != table[-1][0]:
            raise LabError(f"line {torn} is damaged: not {len(names)} numbers")
        remarks.append(f"line {torn} is torn and was left out")
        del rows[torn]
    if not rows:
        raise LabError("no epochs: a line of column names and lines of numbers are expected")
    if text.startswith(FORMAT) and "end" not in facts:
        remarks.append("the soak did not reach its end: its last epochs are missing")
    columns = _columns(names, np.asarray(list(rows.values())), remarks)
    _require_sense(columns, list(rows))
    return Soak(columns, facts, tuple(remarks))


def _row(line: str, width: int) -> list[float] | None:
    try:
        row = parse_row(line)
    except ValueError:
        return None
    return row if len(row) == width else None


def _columns(names: Sequence[str], table: np.ndarray, remarks: list[str]) -> dict[str, np.ndarray]:
    """The columns by name; unknown and repeated ones are left out, with a remark."""
    columns: dict[str, np.ndarray] = {}
    for index, name in enumerate(names):
        if name not in COLUMNS:
            remarks.append(f"column {name} is not known and was left out")
        elif name in columns:
            remarks.append(f"column {name} is there once more and was left out")
        else:
            columns[name] = table[:, index]
    if "t_s" not in columns:
        raise LabError(f"no column with the time: t_s is expected; there are {', '.join(names)}")
    return columns


def _require_sense(columns: Mapping[str, np.ndarray], at: Sequence[int]) -> None:
    """LabError for a number that is negative or infinite, a column without any number, or a time
    that does not rise.

    `at` has the line in the file of each row.
    """
    for name, column in columns.items():
        if np.all(np.isnan(column)):
            raise LabError(f"column {name} has no number in lines {at[0]} to {at[-1]}")
        wrong = np.flatnonzero((column < 0) | np.isinf(column))
        if len(wrong):
            value = f"{column[wrong[0]]:g} is no {name}: it must be a number from 0 on"
            raise LabError(f"line {at[wrong[0]]}, column {name}: {value}")
    late = np.flatnonzero(~(np.diff(columns["t_s"]) > 0))
    if len(late):
        raise LabError(
            f"line {at[late[0] + 1]}, column t_s: the time does not rise from line to line"
        )
