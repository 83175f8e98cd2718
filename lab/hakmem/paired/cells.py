"""The cells of a comparison: a library, an environment and, if named, a benchmark of its own."""

import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from hakmem import peers, project
from hakmem.errors import LabError
from hakmem.process import library
from hakmem.process.library import CHECKED, SUBJECT, SYSTEM, Library

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_VARIABLE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
KEYS = ("lib", "bench", "name")
GRAMMAR = "a cell is written [lib=]NAME-or-PATH, bench=NAME, name=LABEL and VARIABLE=VALUE"


@dataclass(frozen=True)
class Cell:
    """One side of a comparison. `bench` None: the cell runs what all cells run.

    `twin`: the cell is one of the two copies of an A/A, and may be identical to the other.
    """

    name: str
    library: Library
    environment: Mapping[str, str] = field(default_factory=dict)
    bench: str | None = None
    twin: bool = False

    @property
    def is_hakmem(self) -> bool:
        return self.library.is_hakmem


def parse(text: str) -> Cell:
    """A cell from its specification (GRAMMAR); the empty one is hakmem as built, with nothing set.
    LabError where it is malformed, or sets a variable that the lab itself sets."""
    try:
        named, environment = _read(text)
        for key, value in environment.items():
            _require_variable(key, value)
    except ValueError as error:
        raise LabError(f"cell {text!r}: {error}") from None
    for key in ("LD_PRELOAD", "HAKMEM_PROOF"):
        if key in environment:
            raise LabError(f"cell {text!r}: {key} is the lab's own; name a library with lib=")
    chosen, bench = find(named.get("lib", SUBJECT)), named.get("bench")
    words_of_name = [f"{k}={v}" for k, v in environment.items()]
    if chosen.name != SUBJECT or not words_of_name:
        words_of_name.insert(0, chosen.name)
    if bench:
        words_of_name.append(f"on {bench}")
    return Cell(named.get("name") or " ".join(words_of_name), chosen, environment, bench)


def environment_of(text: str) -> dict[str, str]:
    """The variables that a cell of this specification sets; its library need not be here."""
    return _read(text)[1]


def _read(text: str) -> tuple[dict[str, str], dict[str, str]]:
    """What a specification names by KEYS, and the variables it sets. ValueError: a key is given
    twice, or a quotation does not end."""
    named: dict[str, str] = {}
    environment: dict[str, str] = {}
    for word in shlex.split(text):
        if word == "env":
            continue
        found = _VARIABLE.fullmatch(word)
        key, value = (found[1], found[2]) if found else ("lib", word)
        if key in named:
            raise ValueError(f"{key} is given twice: {named[key]}, {value}")
        (named if key in KEYS else environment)[key] = value
    return named, environment


def _require_variable(key: str, value: str) -> None:
    """ValueError for a variable that was probably meant as a library or as another key.

    Heuristic: the variables of programs are upper-case but for a few, and those few have a `_`
    (http_proxy). A variable's value may be a library's file (LD_AUDIT), but hardly that of a
    variable with a single letter: cells are named so (A).
    """
    of_library = key.upper() == "LIB"
    if "/" in value and ".so" in value and (of_library or len(key) == 1 or not key.isupper()):
        meant = f"lib={shlex.quote(value)}" + ("" if of_library else f" name={key}")
        raise ValueError(f"{key} would be a variable; a library's file is named by {meant}")
    if of_library or (key.islower() and "_" not in key):
        raise ValueError(f"{key} is no variable, and none of {', '.join(KEYS)}; {GRAMMAR}")


def find(text: str) -> Library:
    """A library by its name or its file, which is examined. LabError: unknown, or not there."""
    if text == SUBJECT:
        return library.hakmem()
    if text == CHECKED:
        return library.checked()
    if text == SYSTEM:
        return library.system()
    if "/" in text or text.endswith(".so"):
        return from_file(project.require_file(Path(text), "library"))
    known = {lib.name: lib for lib in peers.found()}
    if text in known:
        return known[text]
    if text in peers.DEBIAN or text in peers.recipes():
        raise LabError(f"{text} is not here: `hakmem peers list` says how to get it")
    names = ", ".join([SUBJECT, CHECKED, *known])
    raise LabError(f"unknown library: {text}; known: {names}, or a path; {GRAMMAR}")


def from_file(path: Path) -> Library:
    """hakmem if the file is hakmem, so that proof is asked for; else a library known by name."""
    try:
        return replace(library.hakmem(path), name=path.name)
    except LabError:
        return Library(path.name, path, "not known", "given")


def distinct(cells: Sequence[Cell]) -> dict[str, Cell]:
    """The cells by letter, A first; equal names get their letter. LabError: too many cells."""
    if len(cells) > len(LETTERS):
        raise LabError(f"{len(cells)} cells are too many: {len(LETTERS)} at most")
    names = [cell.name for cell in cells]
    result = {}
    for letter, cell in zip(LETTERS, cells, strict=False):
        twice = names.count(cell.name) > 1
        result[letter] = replace(cell, name=f"{cell.name} ({letter})") if twice else cell
    return result


def twins(cell: Cell, folder: Path) -> list[Cell]:
    """Copies of the same library at paths of equal length: what differs between them is noise."""
    made = []
    for side in ("a", "b"):
        copy = cell.library
        if copy.path is not None:
            target = folder / side / copy.path.name
            target.parent.mkdir()
            shutil.copy2(copy.path, target)
            copy = replace(copy, path=target)
        made.append(replace(cell, name=f"{cell.name}, copy {side}", library=copy, twin=True))
    return made
