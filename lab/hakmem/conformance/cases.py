"""The promises: one program each in tests/conformance, the first line of which is the promise.

The programs of tests/world/corrupt misuse memory: there the promise is that it is found.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hakmem import pages, project, words
from hakmem.errors import LabError
from hakmem.ledger.store import Ledger, Record
from hakmem.process import host

SUFFIXES = (".c", ".cc")
CASES, MISUSES = Path("tests/conformance"), Path("tests/world/corrupt")


@dataclass(frozen=True)
class Case:
    """One promise, and the program that checks it; `program` is where the build puts it."""

    name: str
    promise: str
    source: Path
    program: Path
    is_misuse: bool = False

    @property
    def definition(self) -> str:
        """The hash of what is checked: the program's source."""
        return host.sha256(self.source)


def all_cases() -> list[Case]:
    """The promises of this checkout, whichever build of the library they are checked on."""
    return _cases(CASES, promise)


def misuses() -> list[Case]:
    """The programs that corrupt the heap."""
    return _cases(MISUSES, misuse)


def _cases(place: Path, said: Callable[[Path], str]) -> list[Case]:
    """The cases in a folder; `said` reads the promise off a source."""
    sources = sorted(p for p in (project.root() / place).iterdir() if p.suffix in SUFFIXES)
    built = project.root() / "build" / place
    return [Case(p.stem, said(p), p, built / p.stem, place == MISUSES) for p in sources]


def misuse(source: Path) -> str:
    """The first sentence of the comment at the top, without the lines that are for the tests."""
    comment = source.read_text(encoding="utf-8").split("\n#", 1)[0].splitlines()
    lines = [line.removeprefix("// ") for line in comment if not re.match(r"// [a-z]+: ", line)]
    return " ".join(lines).strip().partition(". ")[0].removesuffix(".") + "."


def promise(source: Path) -> str:
    first = source.read_text(encoding="utf-8").split("\n", 1)[0]
    text = first.removeprefix("// ")
    if text == first or not text.endswith("."):
        raise LabError(f"{source}: the first line must be `// ` and the promise in one sentence")
    return text


def chosen(names: Sequence[str], corruption: bool) -> list[Case]:
    """The named cases, or all. LabError where one is not known, or its program is not built."""
    known = {case.name: case for case in (misuses() if corruption else all_cases())}
    if unknown := [name for name in names if name not in known]:
        raise LabError(f"unknown case: {', '.join(unknown)}; known: {', '.join(known)}")
    cases = [known[name] for name in dict.fromkeys(names)] or list(known.values())
    for case in cases:
        project.require_file(case.program, "a conformance program")
    return cases


# ---- the tables of docs/conformance.md and docs/security.md ----

FAULT = re.compile(r'^HK_FAULT\(\w+, "(.+?)", "(.+?)"\)$', re.MULTILINE)


def promises() -> str:
    rows = (pages.row((f"`{case.name}`", case.promise)) for case in all_cases())
    return "".join(("| case | promise |\n|---|---|\n", *rows))


def faults() -> str:
    """The rows of src/base/faults.def."""
    text = (project.source_dir() / "src" / "base" / "faults.def").read_text(encoding="utf-8")
    rows = (pages.row((f"`{words}`", doc)) for words, doc in FAULT.findall(text))
    return "".join(("| kind | the program |\n|---|---|\n", *rows))


def last_run(ledger: Ledger) -> Record:
    """The last record of a run of every misuse on every allocator. LabError where there is none."""
    found = [
        one
        for one in ledger.records()
        if one.kind == "conformance" and one.body.get("corruption") and not _is_part(one.body)
    ]
    if not found:
        raise LabError("no run of `hakmem conformance --corruption` is recorded")
    return max(found, key=lambda one: one.time)  # by time: each machine has a file of its own


def _is_part(body: Mapping[str, Any]) -> bool:
    """Whether the command line chose some of the cases, allocators or profiles."""
    options = {str(word).partition("=")[0] for word in body.get("argv", ())}
    return not options.isdisjoint({"--case", "--allocator", "--profile"})


def corruption(record: Record) -> str:
    """A row for each program, a column for each allocator; the sums below."""
    standings: Mapping[str, Mapping[str, str]] = record.body["standings"]
    there = {row["allocator"] for row in standings.values()}
    names = sorted(there, key=lambda name: (not name.startswith("hakmem"), name))
    known = {case.name: case.promise for case in misuses()}
    rows = []
    for name in record.body["cases"]:
        marks = [words.mark(standings[f"{allocator}, {name}"]["verdict"]) for allocator in names]
        rows.append((f"`{name}`: {known.get(name, '')}", *marks))
    sums = [
        sum(row["verdict"] == "kept" for row in standings.values() if row["allocator"] == allocator)
        for allocator in names
    ]
    head = pages.row((f"`hakmem ledger show {record.id}`", *names))
    foot = pages.row((f"**found or in vain, of {len(rows)}**", *map(str, sums)))
    return "".join((head, f"|---|{'---|' * len(names)}\n", *map(pages.row, rows), foot))


def markdown(page: str, ledger: Ledger) -> str:
    """The page with its tables as the programs, the sources and the ledger give them."""
    if "<!--promises:" in page:
        return pages.with_table(page, "promises", promises())
    page = pages.with_table(page, "faults", faults())
    return pages.with_table(page, "corruption", corruption(last_run(ledger)))


def check(page: Path, ledger: Ledger) -> str:
    """One line if the page is what `markdown` makes; LabError otherwise."""
    text = project.require_file(page, "page").read_text(encoding="utf-8")
    promised = "<!--promises:" in text
    corruption = "" if promised else "--corruption "
    remedy = f"`hakmem conformance {corruption}--markdown` makes it again"
    pages.require_same(page, markdown(text, ledger), "its sources say", remedy)
    return f"{len(all_cases())} promises" if promised else f"{len(misuses())} misuses"
