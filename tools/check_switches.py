#!/usr/bin/env python3
"""Checks that compile-time switches (HK_* macros tested by #if) stay few and in src/base/build.h.

Usage: tools/check_switches.py [ROOT]      check ROOT/src and ROOT/include (default: this project)
       tools/check_switches.py --self-test  prove on planted violations that the check can fail
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from planting import main, sources

LIMIT = 10
HOME = Path("src/base/build.h")

CONDITION = re.compile(r"^[ \t]*#[ \t]*(if|ifdef|ifndef|elif)\b(.*)", re.MULTILINE)
GUARD = re.compile(r"^\s*#\s*ifndef\s+(\w+_H)\s*\n\s*#\s*define\s+\1\s*$", re.MULTILINE)
# A .def list's default for its row macro, used where the includer defines none. It takes arguments,
# so it is no switch.
ROW = re.compile(r"^\s*#\s*ifndef\s+(HK_\w+)\s*\n\s*#\s*define\s+\1\(", re.MULTILINE)
DEFINE = re.compile(r"^\s*#\s*define\s+(HK_\w+)", re.MULTILINE)
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
CONTINUATION = re.compile(r"\\\n")
SWITCH = re.compile(r"\bHK_\w+")


def switches_in(text: str) -> Iterator[tuple[int, str]]:
    """Line number and name of every switch that a condition of this file tests."""
    text = COMMENT.sub(lambda match: "\n" * match[0].count("\n") or " ", text)
    guard = GUARD.search(text)
    none = {*ROW.findall(text), *(guard.groups() if guard else ())}
    for condition in CONDITION.finditer(CONTINUATION.sub(" \x00", text)):
        for name in SWITCH.findall(condition[2]):
            if name not in none:
                before = condition.string[: condition.start()]
                yield 1 + before.count("\n") + before.count("\x00"), name


def declared_in(text: str) -> set[str]:
    """The switches that build.h defines, without its include guard."""
    guard = GUARD.search(text)
    return set(DEFINE.findall(text)) - ({guard[1]} if guard else set())


def check_tree(root: Path) -> tuple[str, list[str]]:
    """A summary of the switches declared under `root`, and one message per violation."""
    home = root / HOME
    if not home.is_file():
        return "", [f"{HOME}: not there; it declares every compile-time switch"]
    declared = declared_in(home.read_text())
    found: list[str] = []
    if len(declared) > LIMIT:
        found.append(f"{HOME}:1: {len(declared)} switches, at most {LIMIT} may exist; remove one")
    for path in sources(root, "src", "include"):
        found += [
            f"{path.relative_to(root)}:{line}: #if tests {name}, unknown to {HOME}; "
            "declare it there, or decide at run time"
            for line, name in switches_in(path.read_text())
            if name not in declared
        ]
    return f"{len(declared)} of at most {LIMIT}: {' '.join(sorted(declared))}", found


def build_h(count: int) -> str:
    names = [f"HK_SWITCH_{i}" for i in range(count)]
    body = "".join(f"#ifndef {name}\n#define {name} 0\n#endif\n" for name in names)
    return f"/* Switches. */\n#ifndef HK_BUILD_H\n#define HK_BUILD_H\n{body}#endif\n"


CLEAN: dict[str, str] = {
    str(HOME): build_h(LIMIT),
    "src/os/os.h": "#ifndef HK_OS_H\n#define HK_OS_H\n#if HK_SWITCH_0 && HAVE_X\n#endif\n#endif\n",
    "src/os/a.def": "#ifndef HK_ROW\n#define HK_ROW(name)\n#endif\nHK_ROW(a)\n#undef HK_ROW\n",
    "src/os/os.c": "/* text\n#if HK_IN_A_COMMENT\n*/\n#if 1 // HK_NOR_HERE\n#endif\n",
}
PLANTED: tuple[tuple[str, str, int, str], ...] = (
    (str(HOME), build_h(LIMIT + 1), 1, "at most"),
    ("src/os/a.c", "\n#if HK_STRAY\n#endif\n", 2, "HK_STRAY"),
    ("src/os/b.c", "/* x\n*/\n#ifdef HK_STRAY\n#endif\n", 3, "HK_STRAY"),
    ("src/os/c.c", "#if 0\n#elif 1 && \\\n  HK_STRAY\n#endif\n", 2, "HK_STRAY"),
    ("src/os/d.c", "#if 1 || \\\n 2\n#endif\n#if HK_STRAY\n#endif\n", 4, "HK_STRAY"),
    ("src/os/e.def", "#ifndef HK_STRAY\n#define HK_STRAY 1\n#endif\nHK_ROW(a)\n", 1, "HK_STRAY"),
    ("include/hakmem/e.h", "#ifndef HK_STRAY\n#endif\n", 1, "HK_STRAY"),
)


if __name__ == "__main__":
    sys.exit(main(check_tree, CLEAN, PLANTED))
