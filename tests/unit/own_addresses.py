"""Checks that no two functions that the built library exports share an address.

Tools that replace malloc and its kin (valgrind), profilers and debuggers identify a function by its
address. With two names at one address they may take the wrong one, and report that free frees a
block of operator new. Exit code 0: no address is shared; 1: one is.
"""

import sys
from collections import defaultdict

import symbols


def shared(said: str) -> list[list[str]]:
    """The groups of functions at one address in the output of `nm`; ValueError if that is empty."""
    names = defaultdict(set)
    for address, kind, name in symbols.read(said):
        if kind == "function":
            names[address].add(name)
    return sorted(sorted(group) for group in names.values() if len(group) > 1)


def self_test() -> None:
    """Aliases are found at any place in the list; a symbol that is no function does not count."""
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
    groups = shared(symbols.arguments(__doc__, self_test).symbols)
    for group in groups:
        print(f"own_addresses: one address for {', '.join(group)}")
    return int(bool(groups))


if __name__ == "__main__":
    sys.exit(main())
