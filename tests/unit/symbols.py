"""Reads from `nm` what the built library exports; the command line that the checks of it share."""

import argparse
import subprocess
from collections.abc import Callable
from pathlib import Path

KINDS = {"T": "function", "W": "function", "i": "function", "D": "data", "B": "data", "R": "data"}


def read(symbols: str) -> list[tuple[int, str, str]]:
    """Address, kind and name from `nm --dynamic --defined-only`; ValueError if there are none."""
    lines = [line.split() for line in symbols.splitlines()]
    found = [
        (int(address, 16), KINDS[kind], name.partition("@")[0])
        for address, kind, name in (line for line in lines if len(line) == 3)
    ]
    if not found:
        raise ValueError("nothing is exported")
    return found


def arguments(
    doc: str, self_test: Callable[[], None], *flags: tuple[str, str]
) -> argparse.Namespace:
    """The command line, with nm's output for the library as `symbols`.

    With --self-test it runs the self-test and ends the process.
    """
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("library", nargs="?", type=Path, help="e.g. build/libhakmem.so")
    parser.add_argument("--self-test", action="store_true", help="check planted faults instead")
    for flag, text in flags:
        parser.add_argument(flag, action="store_true", help=text)
    found = parser.parse_args()
    if found.self_test:
        self_test()
        parser.exit()
    if found.library is None:
        parser.error("name the library to check, e.g. build/libhakmem.so")
    command = ["nm", "--dynamic", "--defined-only", found.library]
    found.symbols = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return found
