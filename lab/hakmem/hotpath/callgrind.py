"""Callgrind, for where counters are refused: instructions exactly, caches and predictor simulated.

It replaces no malloc (memcheck would), so the allocator under test serves the program. Pure but for
`refusal`. Only this module knows the format of callgrind's file.
"""

import re
import shutil
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hakmem.errors import LabError

WHAT = "instructions are exact; branch and cache misses are those of a simulated processor"

# Our names for sums of callgrind's events. Branches are the conditional and the indirect ones.
FIGURES: Mapping[str, Sequence[str]] = {
    "instructions": ("Ir",),
    "conditional branches": ("Bc",),
    "indirect branches": ("Bi",),
    "simulated branch misses": ("Bcm", "Bim"),
    "data reads": ("Dr",),
    "data writes": ("Dw",),
    "simulated L1 data misses": ("D1mr", "D1mw"),
    "simulated last-level misses": ("ILmr", "DLmr", "DLmw"),
}

# Stands for a file that callgrind does not know: valgrind 3.19 finds a file's code by its section
# .text.
_NOWHERE = "???"

_NAME = re.compile(r"\((\d+)\)(?: (.*))?")
_POSITION = re.compile(r"[+-]?\d+|\*|0x[0-9a-f]+")
_SAME = {"cob": "ob", "cfi": "fl", "cfl": "fl", "fi": "fl", "fe": "fl", "cfn": "fn"}


@dataclass
class Function:
    """Instructions in the function itself, and with all that it called."""

    own: int = 0
    inclusive: int = 0


@dataclass(frozen=True)
class Profile:
    """Totals by event, functions by (object, name), and the caches that were simulated."""

    totals: Mapping[str, int]
    functions: Mapping[tuple[str, str], Function]
    caches: Sequence[str] = ()

    def figures(self) -> dict[str, float]:
        return {
            name: sum(self.totals[event] for event in events)
            for name, events in FIGURES.items()
            if all(event in self.totals for event in events)
        }

    def objects(self) -> dict[str, int]:
        """Instructions by the file they were executed from."""
        sums: dict[str, int] = {}
        for (file, _), function in self.functions.items():
            sums[file] = sums.get(file, 0) + function.own
        return sums


NOTHING = Profile({}, {})


def refusal() -> str | None:
    """None if callgrind can be used here, else why not and what to do."""
    return (
        None if shutil.which("valgrind") else "valgrind is not installed: apt-get install valgrind"
    )


def argv(folder: Path) -> list[str]:
    """The words that start a program with instructions counted, predictor and caches simulated.

    Each process writes a file of its own: that of a forked one must not replace its parent's.
    """
    out = f"--callgrind-out-file={profile_of(folder, '%p')}"
    return ["valgrind", "--tool=callgrind", out, "--branch-sim=yes", "--cache-sim=yes"]


def profile_of(folder: Path, pid: object) -> Path:
    return folder / f"callgrind.{pid}"


def parse(text: str) -> Profile:
    """A profile as callgrind writes it. LabError where it is none, or not whole."""
    named = re.search(r"^events: (.+)$", text, re.MULTILINE)
    events = named[1].split() if named else []
    if "Ir" not in events:
        raise LabError("not a callgrind profile: it names no events", status=1)
    functions = _functions(text, len(events), events.index("Ir"))
    totals = [line.split() for line in re.findall(r"^totals: (.+)$", text, re.MULTILINE)]
    if len(totals) != 1 or len(totals[0]) > len(events):
        raise LabError("the callgrind profile is not whole: it has no totals", status=1)
    found = dict.fromkeys(events, 0) | dict(zip(events, map(int, totals[0]), strict=False))
    own = sum(function.own for function in functions.values())
    if own != found["Ir"]:
        raise LabError(
            f"the callgrind profile was misread: its functions have {own} instructions, "
            f"its totals {found['Ir']}",
            status=1,
        )
    caches = re.findall(r"^desc: (\w+ cache: .+)$", text, re.MULTILINE)
    return Profile(found, functions, caches)


def placed(profile: Profile, library: Path, names: Container[str]) -> Profile:
    """The profile with functions of unknown files moved into the library, if it defines them."""
    functions: dict[tuple[str, str], Function] = {}
    for (file, name), spent in profile.functions.items():
        its_own = file == _NOWHERE and name.partition("'")[0] in names
        into = functions.setdefault((str(library) if its_own else file, name), Function())
        into.own += spent.own
        into.inclusive += spent.inclusive
    return replace(profile, functions=functions)


def summary_lines(text: str) -> str:
    """The part of a profile that is kept as raw output: who wrote it, of what, and the sums."""
    kept = ("version:", "creator:", "cmd:", "desc:", "events:", "summary:", "totals:")
    return "\n".join(line for line in text.splitlines() if line.startswith(kept))


def _functions(text: str, most: int, instructions: int) -> dict[tuple[str, str], Function]:
    """Functions by (object, name). A line has up to `most` costs; `instructions` is the index of
    theirs.

    Names are given once and then by number; the line after calls= is the cost of that call.
    """
    functions: dict[tuple[str, str], Function] = {}
    names: dict[tuple[str, str], str] = {}
    here, called = {"ob": "", "fn": ""}, False
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        if equals and key == "calls":
            called = True
        elif equals and key.isalpha():
            kind, named = _SAME.get(key, key), _NAME.fullmatch(value)
            if named and named[2]:
                names[kind, named[1]] = named[2]
            if named and key in here:
                here[key] = names[kind, named[1]]
        else:
            first, *rest = line.split() or [""]
            if not _POSITION.fullmatch(first) or len(rest) > most:
                continue
            cost = int(rest[instructions]) if len(rest) > instructions else 0
            function = functions.setdefault((here["ob"], here["fn"]), Function())
            function.inclusive += cost
            function.own += 0 if called else cost
            called = False
    return functions


def functions_between(
    small: Profile, large: Profile, ops: int
) -> Iterator[tuple[tuple[str, str], float, float]]:
    """What the additional operations cost, per operation and function: itself, and with callees."""
    nothing = Function()
    for name, after in large.functions.items():
        before = small.functions.get(name, nothing)
        own, inclusive = after.own - before.own, after.inclusive - before.inclusive
        if own > 0 or inclusive > 0:
            yield name, own / ops, inclusive / ops
