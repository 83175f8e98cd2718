#!/usr/bin/env python3
"""Checks that the boxes in src/ include only boxes of a lower rank, or themselves.

Usage: tools/check_layers.py [ROOT]     check ROOT/src (default: this project)
       tools/check_layers.py --self-test  prove on planted violations that the check can fail
"""

import re
import sys
from pathlib import Path

from planting import main, sources

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

INCLUDE = re.compile(r"^\s*#\s*include\b\s*(.*)")
QUOTED = re.compile(r'"([^"]+)"')


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


def check_file(source: Path, path: Path) -> list[str]:
    """Violations of one file; messages name it `path`."""
    box = path.parts[1]
    found: list[str] = []
    for number, line in enumerate(source.read_text().splitlines(), start=1):
        include = INCLUDE.match(line)
        if include is None or include[1].startswith("<"):
            continue
        quoted = QUOTED.match(include[1])
        computed = ("a computed #include hides the box", "name the header itself")
        verdict = judge(box, quoted[1]) if quoted else computed
        if verdict is not None:
            found.append(f"{path}:{number}: {'; '.join(verdict)}")
    return found


def check_tree(root: Path) -> tuple[str, list[str]]:
    """A summary of the files under root/src, and all their violations."""
    there = sources(root, "src")
    found = [] if there else [f"{root / 'src'}: no sources to check; give the project's root"]
    for source in there:
        path = source.relative_to(root)
        if len(path.parts) != 3 or path.parts[1] not in RANK_OF:
            found.append(f"{path}:1: not in a known box; move to src/BOX/; boxes: {ORDER}")
        else:
            found.extend(check_file(source, path))
    return f"{len(there)} files keep the order {ORDER}", found


CLEAN: dict[str, str] = {
    "src/base/base.h": "#include <stdint.h>\n",
    "src/os/os.c": '#include "os/os.h"\n#  include "base/base.h"\n',
    "src/config/config.c": '#include "config/options.def"\n#include "os/os.h"\n',
    "src/api/api.cc": '#include "front/cache.h"\n#include "hakmem/hakmem.h"\n',
}
PLANTED: tuple[tuple[str, str, int, str], ...] = (
    ("src/backend/slab.c", '\n#include "front/cache.h"\n', 2, "upwards"),
    ("src/base/base.c", '\n# include "os/os.h"\n', 2, "upwards"),
    ("src/config/options.def", '\n#include "stats/stats.h"\n', 2, "sideways"),
    ("src/guard/guard.h", '\n#include "observe/trace.h"\n', 2, "sideways"),
    ("src/front/cache.c", '\n#include "helpers/x.h"\n', 2, "unknown box helpers"),
    ("src/front/front.h", '\n#include "cache.h"\n', 2, "names no box"),
    ("src/api/api.c", "\n#include HEADER\n", 2, "computed"),
    ("src/loose.c", "", 1, "not in a known box"),
    ("src/misc/x.c", "", 1, "not in a known box"),
    ("src/os/linux/x.c", "", 1, "not in a known box"),
)

if __name__ == "__main__":
    sys.exit(main(check_tree, CLEAN, PLANTED))
