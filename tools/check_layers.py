#!/usr/bin/env python3
"""Checks that the boxes in src/ include only boxes of a lower rank, or themselves.

Usage: tools/check_layers.py [ROOT]     check ROOT/src (default: this project)
       tools/check_layers.py --self-test  prove on planted violations that the check can fail
"""

import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

# The order of the boxes, lowest first; boxes on one line never include each other.
RANKS: tuple[tuple[str, ...], ...] = (
    ("base",),
    ("os",),
    ("config", "stats"),
    ("backend",),
    ("policy",),
    ("observe", "guard", "profile", "record"),
    ("front",),
    ("api",),
)
RANK_OF: dict[str, int] = {box: rank for rank, boxes in enumerate(RANKS) for box in boxes}
ORDER = " < ".join(", ".join(boxes) for boxes in RANKS)
PUBLIC_HEADERS = "hakmem"  # include/hakmem/: open to every box
SUFFIXES = {".c", ".h", ".cc", ".def"}

INCLUDE = re.compile(r"^\s*#\s*include\b\s*(.*)")
QUOTED = re.compile(r'"([^"]+)"')


@dataclass(frozen=True)
class Violation:
    path: Path
    line: int
    what: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}; {self.remedy}"


def judge(box: str, target: str) -> tuple[str, str] | None:
    """What is wrong with a file of `box` including `target` ("box/file.h"), and what to do."""
    if "/" not in target:
        return f'"{target}" names no box', f'write "{box}/{target}"'
    other = target.split("/", 1)[0]
    if other in (box, PUBLIC_HEADERS):
        return None
    if other not in RANK_OF:
        return (
            f'"{target}" is in the unknown box {other}',
            f"use one of: {ORDER}; a new box gets its rank in tools/check_layers.py",
        )
    if RANK_OF[other] == RANK_OF[box]:
        return (
            f'box {box} includes "{target}" sideways (equal rank)',
            f"move what both need below {box}, or let a higher box call the two",
        )
    if RANK_OF[other] > RANK_OF[box]:
        return (
            f'box {box} includes "{target}" upwards',
            f"move it down, or let {other} pass in what {box} needs",
        )
    return None


def check_file(source: Path, path: Path) -> list[Violation]:
    """Violations of one file; `path` is how it is called in messages."""
    box = path.parts[1]
    found: list[Violation] = []
    for number, line in enumerate(source.read_text().splitlines(), start=1):
        include = INCLUDE.match(line)
        if include is None or include[1].startswith("<"):
            continue
        quoted = QUOTED.match(include[1])
        computed = ("a computed #include hides the box", "name the header itself")
        verdict = judge(box, quoted[1]) if quoted else computed
        if verdict is not None:
            found.append(Violation(path, number, *verdict))
    return found


def check_tree(root: Path) -> tuple[int, list[Violation]]:
    """The number of files under root/src, and all their violations."""
    sources = sorted(p for p in (root / "src").rglob("*") if p.suffix in SUFFIXES)
    found: list[Violation] = []
    for source in sources:
        path = source.relative_to(root)
        if len(path.parts) != 3 or path.parts[1] not in RANK_OF:
            found.append(
                Violation(path, 1, "not in a known box", f"move to src/BOX/; boxes: {ORDER}")
            )
        else:
            found.extend(check_file(source, path))
    return len(sources), found


CLEAN: dict[str, str] = {
    "src/base/base.h": "#include <stdint.h>\n",
    "src/os/os.c": '#include "os/os.h"\n#  include "base/base.h"\n',
    "src/config/config.c": '#include "config/options.def"\n#include "os/os.h"\n',
    "src/api/api.cc": '#include "front/cache.h"\n#include "hakmem/hakmem.h"\n',
}
# Each file alone must be reported once, at line 2, with this text in the message.
PLANTED: tuple[tuple[str, str, str], ...] = (
    ("src/backend/slab.c", '\n#include "front/cache.h"\n', "upwards"),
    ("src/base/base.c", '\n# include "os/os.h"\n', "upwards"),
    ("src/config/options.def", '\n#include "stats/stats.h"\n', "sideways"),
    ("src/guard/guard.h", '\n#include "observe/trace.h"\n', "sideways"),
    ("src/front/cache.c", '\n#include "helpers/x.h"\n', "unknown box helpers"),
    ("src/front/front.h", '\n#include "cache.h"\n', "names no box"),
    ("src/api/api.c", "\n#include HEADER\n", "computed"),
)
MISPLACED: tuple[str, ...] = ("src/loose.c", "src/misc/x.c", "src/os/linux/x.c")


def reports_of(files: dict[str, str]) -> list[str]:
    """The messages for a temporary tree that holds these files."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        for path, text in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        return [str(violation) for violation in check_tree(root)[1]]


def self_test() -> list[str]:
    """Everything the check gets wrong on trees whose violations are known."""
    wrong = [f"clean tree: {report}" for report in reports_of(CLEAN)]
    expected = [(path, text, f"{path}:2: ", what) for path, text, what in PLANTED]
    expected += [(path, "", f"{path}:1: ", "not in a known box") for path in MISPLACED]
    for path, text, place, what in expected:
        reports = reports_of(CLEAN | {path: text})
        if len(reports) != 1 or not reports[0].startswith(place) or what not in reports[0]:
            wrong.append(f"planted in {path}: wanted one '{place}… {what}', got {reports}")
    return wrong


def main(arguments: list[str]) -> int:
    if arguments == ["--self-test"]:
        wrong = self_test()
        print("\n".join(wrong) or f"{len(PLANTED) + len(MISPLACED)} planted violations found")
        return 1 if wrong else 0
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent
    count, found = check_tree(root)
    if count == 0:
        print(f"{root / 'src'}: no sources to check; give the project's root")
        return 1
    print("\n".join(map(str, found)) or f"{count} files keep the order {ORDER}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
