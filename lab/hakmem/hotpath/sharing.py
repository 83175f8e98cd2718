"""What threads do to each other inside the allocator, in qemu's emulation with a plugin of ours.

Counts, no times: they are those of one processor per thread with endless caches, whatever machine
this is. The plugin (`sharing.c`) says how it keeps the threads in step; a library (`processor.c`)
tells each thread that it is on a processor of its own.
"""

import json
import shutil
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from hakmem import pages, project, words
from hakmem.errors import LabError
from hakmem.hotpath.work import metric
from hakmem.paired.cells import Cell
from hakmem.process import scratch
from hakmem.process.children import last_line, tool

WHAT = "counted in an emulated processor for each thread; only the allocator's own instructions"
EMULATOR = "qemu-x86_64"

# Our names for what the plugin writes.
FIGURES: Mapping[str, str] = {
    "instructions": "instructions",
    "locked instructions": "locked",
    "lines taken over": "lines",
    "futex calls": "futex",
}


def refusal() -> str | None:
    """Why nothing can be emulated here; None if it can."""
    missing = [name for name in (EMULATOR, "gcc") if shutil.which(name) is None]
    if missing:
        return f"{' and '.join(missing)} not found: apt-get install qemu-user gcc"
    return None


@cache
def compiled(source: str) -> Path:
    """The shared object of that source in the build's folder; compiled unless it is newer than its
    source. LabError where that fails."""
    path = Path(__file__).with_name(source)
    made = project.build_dir() / path.with_suffix(".so").name
    if made.exists() and made.stat().st_mtime > path.stat().st_mtime:
        return made
    made.parent.mkdir(parents=True, exist_ok=True)
    with scratch.folder("compiled") as folder:
        new = folder / made.name
        done = tool(["gcc", "-O2", "-Wall", "-shared", "-fPIC", "-o", str(new), str(path)])
        if done.returncode != 0:
            raise LabError(f"{source} cannot be compiled: {last_line(done.stderr)}", status=1)
        project.replace(made, new.read_bytes(), made.parent, f".{made.name}.")
    return made


def emulated(library: str, out: Path, *preloaded: Path) -> list[str]:
    """The words that start a program in the emulator, which itself runs without the allocator."""
    files = ":".join(map(str, [compiled("processor.c"), *preloaded]))
    plugged = f"{compiled('sharing.c')},library={library},out={out}"
    return [EMULATOR, "-E", f"LD_PRELOAD={files}", "-plugin", plugged]


def argv(cell: Cell, out: Path) -> list[str]:
    """The words that start a program under a cell in the emulator."""
    library = cell.library.path
    name = library.resolve().name if library else "libc.so.6"
    return ["env", "-u", "LD_PRELOAD", *emulated(name, out, *cell.library.files)]


def parse(text: str, cell: Cell) -> dict[str, float]:
    """The counts of a process by our names. LabError where the allocator did not run in it."""
    try:
        found = json.loads(text)
    except ValueError:
        raise LabError("the emulator left no counts", status=1) from None
    if not found["found"] or found["instructions"] <= 0:
        raise LabError(f"no instruction of {cell.library.name} ran in the emulator", status=1)
    return {name: float(found[key]) for name, key in FIGURES.items()}


def markdown(body: Mapping[str, Any]) -> str:
    """A record's counts as a document's table: per 1000 operations, a column for each allocator."""
    cells = [cell["name"] for cell in body["cells"]]
    rows = [("benchmark, 1000 operations", "count", *cells), ("---", "---", *["--:"] * len(cells))]
    for work in (benchmark["name"] for benchmark in body["benchmarks"]):
        for figure in FIGURES:
            named = [metric(work, f"{figure} per operation", cell) for cell in cells]
            values = [1000 * body["metrics"][name]["value"] for name in named]
            rows.append((work, figure, *map(words.number, values)))
    return "".join(map(pages.row, rows))
