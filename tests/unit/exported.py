"""Compares what the built library exports with the list beside this file (docs/versioning.md).

A name that disappears or changes its kind breaks programs; a new name is a promise from now on and
must be intended. Exit code 0: as listed; 1: not as listed, with what to do.
"""

import sys
from pathlib import Path

import symbols

LIST = Path(__file__).with_suffix(".txt")


def exported(said: str) -> set[str]:
    """Lines of the list from the output of `nm --dynamic --defined-only`; ValueError if none."""
    return {f"{kind} {name}" for _, kind, name in symbols.read(said)}


def differences(is_now: set[str], promised: set[str]) -> list[str]:
    return [f"gone: {name}" for name in sorted(promised - is_now)] + [
        f"new: {name}" for name in sorted(is_now - promised)
    ]


def self_test() -> None:
    """A missing name, a new name and a name of another kind are each found."""
    said = "0000000000006900 T malloc\n0000000000006980 W free\n0000000000007000 D hak_data\n"
    good = {"function malloc", "function free", "data hak_data"}
    assert differences(exported(said), good) == []
    assert differences(exported(said), good | {"function x"}) == ["gone: function x"]
    assert differences(exported(said), good - {"function free"}) == ["new: function free"]
    changed = exported(said.replace("T malloc", "B malloc"))
    assert differences(changed, good) == ["gone: function malloc", "new: data malloc"]
    print("each planted difference was found")


def main() -> int:
    write = ("--write", "make the list what the library has")
    arguments = symbols.arguments(__doc__, self_test, write)
    is_now = exported(arguments.symbols)
    if arguments.write:
        LIST.write_text("".join(f"{line}\n" for line in sorted(is_now)))
    found = differences(is_now, set(LIST.read_text().splitlines()))
    for line in found:
        print(f"exported: {line}")
    if found:
        print(
            "exported: if it is meant: exported.py --write; docs/versioning.md says what it takes"
        )
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
