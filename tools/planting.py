"""Shared by the checks of the sources: which files to read, and the proof that a check can fail."""

import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

SUFFIXES = {".c", ".h", ".cc", ".def"}
# A check of a tree returns a summary to print if all is well, and a message for each violation.
Check = Callable[[Path], tuple[str, list[str]]]


def sources(root: Path, *tops: str) -> list[Path]:
    return sorted(p for top in tops for p in (root / top).rglob("*") if p.suffix in SUFFIXES)


def reports_of(check: Check, files: Mapping[str, str]) -> list[str]:
    """The messages for a temporary tree that holds these files."""
    with tempfile.TemporaryDirectory() as name:
        for path, text in files.items():
            file = Path(name) / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return check(Path(name))[1]


def main(
    check: Check, clean: Mapping[str, str], planted: Iterable[tuple[str, str, int, str]]
) -> int:
    """Checks the tree named on the command line, or this project; returns the exit code.

    With --self-test the clean tree must have no violation; an empty tree, and the clean tree with
    each planted one, must have exactly one. `planted`: file, text, the line to be reported, words
    of the message."""
    if sys.argv[1:] != ["--self-test"]:
        root = Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).resolve().parents[1]
        said, wrong = check(root)
    else:
        wrong = [f"clean tree: {report}" for report in reports_of(check, clean)]
        wanted = [({}, "", ""), *(({**clean, p: t}, f"{p}:{n}: ", w) for p, t, n, w in planted)]
        for tree, place, what in wanted:
            found = reports_of(check, tree)
            if len(found) != 1 or not found[0].startswith(place) or what not in found[0]:
                wrong.append(f"planted: wanted one '{place}… {what}', got {found}")
        said = f"{len(wanted)} planted violations found"
    print("\n".join(wrong) or said)
    return 1 if wrong else 0
