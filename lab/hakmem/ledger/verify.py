"""Checks that the ledger is what was written, and only ever grew."""

from dataclasses import dataclass, field
from pathlib import Path

from hakmem import git
from hakmem.errors import LabError
from hakmem.ledger.store import Ledger, Record


@dataclass
class Verification:
    """What was read and what is wrong with it. `notes` say what could not be checked."""

    records: dict[str, Record] = field(default_factory=dict)
    files: int = 0
    raw: int = 0
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        state = f"{len(self.problems)} problems" if self.problems else "all as written"
        return f"{len(self.records)} records of {self.files} hosts, {self.raw} raw outputs: {state}"


def verify(ledger: Ledger) -> Verification:
    """Recomputes every hash, and compares with git; the result has the records that verify."""
    result = Verification()
    digests: set[str] = set()
    for path in ledger.files():
        result.files += 1
        try:
            for record in ledger.read(path):
                if record.id in result.records:
                    result.problems.append(f"{path}: the id {record.id} is taken")
                result.records[record.id] = record
                digests |= set(record.raw.values())
            if not _content(path).endswith(b"\n"):
                result.problems.append(f"{path}: torn last line: run `hakmem ledger recover`")
        except LabError as error:
            result.problems.append(str(error))
    result.raw = len(digests)
    for digest in sorted(digests):
        try:
            ledger.raw(digest)
        except LabError as error:
            result.problems.append(str(error))
    _against_git(ledger, result)
    return result


def _content(path: Path) -> bytes:
    """The file's bytes; none where it is gone or unreadable, which is less than was committed."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _against_git(ledger: Ledger, result: Verification) -> None:
    """Committed lines must stay: HEAD's files are prefixes, and no commit took a line away."""
    listed = git.ask(ledger.root, "ls-tree", "--name-only", "HEAD", "ledger/")
    if listed is None:
        result.notes.append(f"{ledger.root} is in no git history: growth alone was not checked")
        return
    for name in (line for line in listed.splitlines() if line.endswith(".jsonl")):
        committed = git.run(ledger.root, "show", f"HEAD:./{name}").stdout
        path = ledger.root / name
        if not committed or not _content(path).startswith(committed):
            result.problems.append(f"{path} is not what was committed with lines added to it")
    result.problems += _taken_away(ledger.root)


def _taken_away(root: Path) -> list[str]:
    """Problems: commits of the main line that removed or changed lines instead of adding some."""
    ways = ("--first-parent", "-m", "--no-renames", "--numstat", "--format=commit %h")
    log = git.ask(root, "log", *ways, "--", "ledger/*.jsonl") or ""
    problems, commit = [], ""
    for line in log.splitlines():
        if line.startswith("commit "):
            commit = line
        elif line and line.split("\t")[1] != "0":
            problems.append(f"{commit} took lines away from {line.split(chr(9))[2]}")
    return problems
