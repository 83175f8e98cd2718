#!/usr/bin/env python3
"""Records bench/traces again: real programs on the first part of the laboratory's seeded inputs.

Usage: .venv/bin/python tools/record_traces.py [NAME...]   needs a build; a minute each at most

A new recording differs from the old one if another version of the program is installed.
"""

import json
import os
import random
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from hakmem import project
from hakmem.programs import inputs
from hakmem.replay import record

FOLDER = project.root() / "bench" / "traces"
MEGABYTES = 256


@dataclass(frozen=True)
class Example:
    """A program, and how to make its input in the folder where it runs."""

    argv: tuple[str, ...]
    make: Callable[[Path], None] = lambda folder: None
    script: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)


def text(lines: int) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        inputs.text(folder, random.Random(inputs.SEED))
        kept = (folder / "text").read_text().splitlines(keepends=True)[:lines]
        (folder / "text").write_text("".join(kept))

    return make


def records(folder: Path) -> None:
    inputs.records(folder, random.Random(inputs.SEED))
    whole = json.loads((folder / "records.json").read_text())
    (folder / "records.json").write_text(json.dumps(whole[:2000]))


def document(folder: Path) -> None:
    inputs.document(folder, random.Random(inputs.SEED))
    whole = (folder / "document.xml").read_text()
    kept = whole.split("</record>")[:4000]
    (folder / "document.xml").write_text("</record>".join(kept) + "</record></records>\n")


EXAMPLES = {
    "jq": Example(
        ("jq", "-c", "group_by(.group) | map(map(.score) | add)", "records.json"), records
    ),
    "sqlite": Example(
        ("python3", "-I", "-S", "database.py", "2500"),
        script="database.py",
        environment={"PYTHONHASHSEED": "0"},
    ),
    "lua": Example(("lua5.4", "text.lua", "text"), text(1200), "text.lua"),
    "perl": Example(("perl", "text.pl", "text"), text(1200), "text.pl", {"PERL_HASH_SEED": "0"}),
    "xmllint": Example(("xmllint", "--format", "--output", "out.xml", "document.xml"), document),
}


def main(names: list[str]) -> int:
    library = project.require_file(project.default_library(), "hakmem's library")
    FOLDER.mkdir(exist_ok=True)
    os.environ["PATH"] = "/usr/bin:/bin"
    for name in names or EXAMPLES:
        example = EXAMPLES[name]
        with TemporaryDirectory() as folder:
            example.make(Path(folder))
            if example.script:
                shutil.copy(inputs.SCRIPTS / example.script, folder)
            os.environ.update(example.environment)
            os.chdir(folder)
            out = FOLDER / f"{name}.hktrace"
            found = record.record(example.argv, library, out, MEGABYTES, False)
            os.chdir(FOLDER)
        facts = found.traces[0].facts
        print(name, facts["operations"], facts["peak_bytes"], out.stat().st_size)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
