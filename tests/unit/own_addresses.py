"""Checks that no two functions that the built library exports share an address.

Tools that replace malloc and its kin (valgrind) or show where a program is tell functions apart by
their address: of two names at one address they take either, and report a block of operator new as
freed by free. Exit code 0: each has its own; 1: not.
"""

import argparse
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

FUNCTION_TYPES = {"T", "W", "i"}


def shared(symbols: str) -> list[list[str]]:
    """The groups of functions at one address in the output of `nm`; ValueError if it has none."""
    names = defaultdict(set)
    for line in symbols.splitlines():
        fields = line.split()
        if len(fields) == 3 and fields[1] in FUNCTION_TYPES:
            names[int(fields[0], 16)].add(fields[2].partition("@")[0])
    if not names:
        raise ValueError("no function is exported")
    return sorted(sorted(group) for group in names.values() if len(group) > 1)


def self_test() -> None:
    """Aliases are found, wherever they stand; what is no function does not count."""
    apart = ["0000000000006900 T malloc", "0000000000006980 T free", "0000000000006980 D data"]
    alias = "0000000000006900 T _Znwm"
    weak = "0000000000006980 W cfree@@Base"
    assert shared("\n".join(apart)) == []
    assert shared("\n".join([*apart, alias])) == [["_Znwm", "malloc"]]
    assert shared("\n".join([alias, weak, *apart])) == [["_Znwm", "malloc"], ["cfree", "free"]]
    try:
        shared("                 U getpid")
    except ValueError:
        print("each planted violation was found")
    else:
        raise SystemExit("own_addresses: a library without functions passed")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", nargs="?", type=Path, help="e.g. build/libhakmem.so")
    parser.add_argument("--self-test", action="store_true", help="check planted violations instead")
    arguments = parser.parse_args()
    if arguments.self_test:
        self_test()
        return 0
    if arguments.library is None:
        parser.error("name the library to check, e.g. build/libhakmem.so")
    command = ["nm", "--dynamic", "--defined-only", arguments.library]
    groups = shared(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    for group in groups:
        print(f"own_addresses: one address for {', '.join(group)}")
    return int(bool(groups))


if __name__ == "__main__":
    sys.exit(main())
