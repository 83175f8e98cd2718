"""Holds what the built library exports to the list beside this file (docs/versioning.md).

A name that is gone, or that became another kind, breaks programs; one that is new is promised from
now on, and has to be meant. Exit code 0: as listed; 1: not, and what to do.
"""

import argparse
import subprocess
import sys
from pathlib import Path

LIST = Path(__file__).with_suffix(".txt")
KINDS = {"T": "function", "W": "function", "i": "function", "D": "data", "B": "data", "R": "data"}


def exported(symbols: str) -> set[str]:
    """Lines of the list from the output of `nm --dynamic --defined-only`; ValueError if none."""
    found = [line.split()[-2:] for line in symbols.splitlines()]
    if not found:
        raise ValueError("nothing is exported")
    return {f"{KINDS[kind]} {name.partition('@')[0]}" for kind, name in found}


def differences(is_now: set[str], promised: set[str]) -> list[str]:
    return [f"gone: {name}" for name in sorted(promised - is_now)] + [
        f"new: {name}" for name in sorted(is_now - promised)
    ]


def self_test() -> None:
    """A name that is gone, one that is new, and one of another kind are each found."""
    symbols = "0000000000006900 T malloc\n0000000000006980 W free\n0000000000007000 D hak_data\n"
    good = {"function malloc", "function free", "data hak_data"}
    assert differences(exported(symbols), good) == []
    assert differences(exported(symbols), good | {"function x"}) == ["gone: function x"]
    assert differences(exported(symbols), good - {"function free"}) == ["new: function free"]
    changed = exported(symbols.replace("T malloc", "B malloc"))
    assert differences(changed, good) == ["gone: function malloc", "new: data malloc"]
    print("each planted difference was found")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", nargs="?", type=Path, help="e.g. build/libhakmem.so")
    parser.add_argument(
        "--self-test", action="store_true", help="check planted differences instead"
    )
    parser.add_argument("--write", action="store_true", help="make the list what the library has")
    arguments = parser.parse_args()
    if arguments.self_test:
        self_test()
        return 0
    if arguments.library is None:
        parser.error("name the library to check, e.g. build/libhakmem.so")
    command = ["nm", "--dynamic", "--defined-only", arguments.library]
    is_now = exported(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
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
