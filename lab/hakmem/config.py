"""The allocator's options, asked of a process of its own: which values hold, and why."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.table import Table
from rich.text import Text

from hakmem import pages, project, terminal
from hakmem.cli import Library
from hakmem.errors import LabError
from hakmem.process.children import last_line
from hakmem.process.library import bare_python
from hakmem.process.settings import without_settings

# Loads the library as a program of the user's would, and leaves before anything is written at exit.
_CHILD = """
import ctypes, os, sys
library = ctypes.CDLL(sys.argv[1])
problem = library.hak_options_print(1, b"json") if hasattr(library, "hak_options_print") else -1
os._exit(0 if problem == 0 else 3)
"""


@dataclass(frozen=True)
class Option:
    """One row of the table with its effective value; values are written as in the environment."""

    name: str
    group: str
    allowed: str
    unit: str
    default: str | None
    value: str | None
    origin: str
    level: str
    when: str
    built: bool
    doc: str


@dataclass(frozen=True)
class Profile:
    """A word of HAKMEM_PROFILE, older names for it, and the options that it sets."""

    name: str
    aliases: Sequence[str]
    sets: Mapping[str, str]
    doc: str


@dataclass(frozen=True)
class Listing:
    """The answer of one process; `said` is its stderr: warnings, notes."""

    options: Sequence[Option]
    profiles: Sequence[Profile]
    document: Mapping[str, Any]
    said: str


def environment(assignments: Sequence[str], base: Mapping[str, str]) -> dict[str, str]:
    """`base` with each K=V of the command line set. LabError for a text that is no K=V."""
    result = dict(base)
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not (name and equals):
            raise LabError(f"--env takes NAME=VALUE, not {assignment!r}")
        result[name] = value
    return result


def ask(library: Path, base: Mapping[str, str] | None = None) -> Listing:
    """Reads the options of a process with the library in this environment. LabError: not hakmem."""
    done = bare_python(_CHILD, [str(library)], os.environ if base is None else base, str(library))
    if done.returncode == 3:
        raise LabError(f"{library} cannot list its options: it is not hakmem, or an older one")
    try:
        document: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        last = last_line(done.stderr)
        raise LabError(f"{library}: no list of options came out of it ({last})") from None
    return parse(document, done.stderr)


def parse(document: Mapping[str, Any], said: str = "") -> Listing:
    """The listing that hak_options_print(fd, "json") wrote."""
    profiles = [Profile(**row) for row in document["profiles"]]
    older = {alias for profile in profiles for alias in profile.aliases}
    return Listing(
        options=[_option(row, older) for row in document["options"]],
        profiles=profiles,
        document=document,
        said=said,
    )


def _option(row: Mapping[str, Any], older: set[str]) -> Option:
    if row["type"] == "number":
        allowed = f"{row['least']} to {row['most']}"
    elif row["type"] == "word":
        allowed = ", ".join(word for word in row["words"] if word not in older)
    else:
        allowed = "text"
    names = ("name", "group", "default", "value", "origin", "level", "when", "built", "doc")
    return Option(allowed=allowed, unit=row.get("unit", ""), **{name: row[name] for name in names})


# ---- in the terminal ----


ROOMY = 110  # console width from which on there is room to say what each option is


def tables(listing: Listing, width: int) -> Group:
    """One table per group of options; what is not the default stands out."""
    return Group(*(_table(title, rows, width >= ROOMY) for title, rows in _groups(listing)))


def _table(title: str, options: Sequence[Option], roomy: bool) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", title_justify="left")
    table.title = Text(f"\n{title}", style="bold")
    table.add_column("option", no_wrap=True, width=33)
    if roomy:
        table.add_column("allowed", width=18)
        table.add_column("default", justify="right", width=9)
    table.add_column("effective", justify="right", width=14, overflow="fold")
    table.add_column("from", width=11, overflow="fold")
    if roomy:
        table.add_column("what it is", ratio=1)
    for option in options:
        style = "" if option.value == option.default else "bold green"
        name, value, origin = (
            Text(text, style=style) for text in (option.name, option.value or "–", option.origin)
        )
        if roomy:
            allowed = f"{option.allowed} {option.unit}".strip()
            table.add_row(name, allowed, option.default or "–", value, origin, _sentence(option))
        else:
            table.add_row(name, value, origin)
    return table


def _sentence(option: Option) -> str:
    remarks = [] if option.level == "stable" else [option.level]
    remarks += ["can change at run time"] if option.when == "run time" else []
    remarks += [] if option.built else ["NOT IN THIS BUILD"]
    return f"{option.doc} ({'; '.join(remarks)})" if remarks else option.doc


def _groups(listing: Listing) -> list[tuple[str, list[Option]]]:
    return [(title, list(rows)) for title, rows in groupby(listing.options, lambda o: o.group)]


# ---- docs/options.md ----

PAGE = Path("docs") / "options.md"


def markdown(page: str, listing: Listing) -> str:
    """The page with its tables, made of the defaults."""
    page = pages.with_table(page, "profiles", "".join(_profile_lines(listing)))
    return pages.with_table(page, "options", "\n".join(map(_group, _groups(listing))))


def _group(named: tuple[str, Sequence[Option]]) -> str:
    title, options = named
    head = "| option | allowed | default | when | level | what it is |\n|---|---|---|---|---|---|\n"
    return "".join((f"## {title}\n\n{head}", *map(_option_line, options)))


def _profile_lines(listing: Listing) -> list[str]:
    lines = ["| `HAKMEM_PROFILE` | also known as | what it is | sets |\n|---|---|---|---|\n"]
    for profile in listing.profiles:
        sets = [f"`{name}={value}`" for name, value in profile.sets.items()]
        also = [f"`{alias}`" for alias in profile.aliases]
        cells = (f"`{profile.name}`", ", ".join(also), profile.doc, " ".join(sets))
        lines.append(pages.row(cells))
    return lines


def _option_line(option: Option) -> str:
    default = "not set" if option.default is None else f"`{option.default}`"
    allowed = f"{option.allowed} {option.unit}".strip()
    cells = (f"`{option.name}`", allowed, default, option.when, option.level, option.doc)
    return pages.row(cells)


def check_page(page: Path, listing: Listing) -> str:
    """One line if the page is what the library gives; else LabError."""
    text = project.require_file(page, "page").read_text(encoding="utf-8")
    remedy = "`hakmem config --markdown` makes it again"
    pages.require_same(page, markdown(text, listing), "the library says", remedy)
    return f"{page}: {len(listing.options)} options, as the library has them"


# ---- the command ----


def command(
    lib: Library = None,
    env: Annotated[
        list[str] | None, typer.Option("--env", help="NAME=VALUE to set for the process asked.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As the library writes it.")] = False,
    as_markdown: Annotated[
        bool,
        typer.Option("--markdown", help="Print docs/options.md with its tables; in a checkout."),
    ] = False,
    check: Annotated[
        Path | None, typer.Option(help="Fail if this page is not what --markdown prints.")
    ] = None,
) -> None:
    """Show every option: what is allowed, what is effective here, and where that comes from."""
    library = project.library(lib)
    if as_markdown or check:
        defaults = ask(library, without_settings(os.environ))
        if check:
            print(check_page(check, defaults))
        else:
            page = project.require_file(project.source_dir() / PAGE, "page")
            print(markdown(page.read_text(encoding="utf-8"), defaults).rstrip())
        return
    listing = ask(library, environment(env or [], os.environ))
    print(listing.said, end="", file=sys.stderr)
    if as_json:
        print(json.dumps(listing.document, indent=1))
    else:
        console = terminal.new_console()
        console.print(tables(listing, console.width))
