"""The promises: one program each in tests/conformance, the first line of which is the promise.

The programs of tests/world/corrupt misuse memory: there the promise is that it is found.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hakmem import pages, project
from hakmem.errors import LabError
from hakmem.process import host

SUFFIXES = (".c", ".cc")


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
    """Of this checkout, whichever build of the library they are run on."""
    folder = project.root() / "tests" / "conformance"
    programs = project.root() / "build" / "tests" / "conformance"
    sources = sorted(path for path in folder.iterdir() if path.suffix in SUFFIXES)
    return [Case(path.stem, promise(path), path, programs / path.stem) for path in sources]


def misuses() -> list[Case]:
    """The programs that corrupt the heap; what begins like `// secure:` is for the tests."""
    folder = project.root() / "tests" / "world" / "corrupt"
    programs = project.root() / "build" / "tests" / "world" / "corrupt"
    return [
        Case(path.stem, misuse(path), path, programs / path.stem, is_misuse=True)
        for path in sorted(folder.glob("*.c"))
    ]


def misuse(source: Path) -> str:
    """The first sentence of the comment, behind what is for the tests."""
    comment = source.read_text(encoding="utf-8").split("\n#", 1)[0].splitlines()
    lines = [line.removeprefix("// ") for line in comment if not re.match(r"// [a-z]+: ", line)]
    return " ".join(lines).strip().partition(". ")[0].removesuffix(".") + "."


def promise(source: Path) -> str:
    first = source.read_text(encoding="utf-8").split("\n", 1)[0]
    text = first.removeprefix("// ")
    if text == first or not text.endswith("."):
        raise LabError(f"{source}: the first line must be `// ` and the promise in one sentence")
    return text


def chosen(names: Sequence[str], corruption: bool = False) -> list[Case]:
    """The named cases, or all; those whose programs are not built are an error."""
    known = {case.name: case for case in (misuses() if corruption else all_cases())}
    if unknown := [name for name in names if name not in known]:
        raise LabError(f"unknown case: {', '.join(unknown)}; known: {', '.join(known)}")
    cases = [known[name] for name in dict.fromkeys(names)] or list(known.values())
    for case in cases:
        project.require_file(case.program, "a conformance program")
    return cases


# ---- the page ----


def table() -> str:
    rows = (pages.row((f"`{case.name}`", case.promise)) for case in all_cases())
    return "".join(("| case | promise |\n|---|---|\n", *rows))


def markdown(page: str) -> str:
    """The page with the table between its markers as the programs say it."""
    return pages.with_table(page, "promises", table())


def check(page: Path) -> str:
    """One line if the page is what `markdown` makes; LabError otherwise."""
    if not page.is_file():
        raise LabError(f"{page} does not exist")
    text = page.read_text(encoding="utf-8")
    if markdown(text) != text:
        raise LabError(f"{page} is stale: `hakmem conformance --markdown` makes it again", 1)
    return f"{len(all_cases())} promises"
