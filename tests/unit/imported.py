"""Bounds how many names the loader looks up for the built library at each start of a process.

Each lookup takes some six hundred instructions, whether or not the process ever uses the name
(docs/decisions/0023-small-processes.md). Exit code 0: within the bound; 1: not, with what to do.
"""

import argparse
import subprocess
import sys

MOST = 69  # as linked by GNU's tools for x86-64


def imported(relocations: str) -> list[str]:
    """The names in the output of `readelf --relocs --wide`, sorted; ValueError if none."""
    rows = [line.split() for line in relocations.splitlines()]
    names = {row[4].partition("@")[0] for row in rows if len(row) > 4 and row[2].startswith("R_")}
    if not names:
        raise ValueError("nothing is looked up")
    return sorted(names)


def complaint(names: list[str], most: int) -> str | None:
    if len(names) <= most:
        return None
    return (
        f"imported: the loader looks up {len(names)} names, {most} are allowed: do without one (a "
        "call of the system goes by its number, HK_CALL), or say why not in 0023: "
        + " ".join(names)
    )


def self_test() -> None:
    """One name too many is found; a relocation without a name does not count."""
    said = (
        "    Offset             Info             Type               Symbol's Value  Name + Addend\n"
        "000000000003b000  0000000000000008 R_X86_64_RELATIVE                         e6a0\n"
        "000000000003bf08  0000000100000006 R_X86_64_GLOB_DAT  0000000000000000 mmap@GLIBC + 0\n"
        "000000000003bf10  0000000200000006 R_X86_64_GLOB_DAT  00000000000051f0 malloc + 0\n"
    )
    assert imported(said) == ["malloc", "mmap"]
    assert complaint(imported(said), 2) is None
    found = complaint(imported(said), 1)
    assert found is not None
    assert "2 names, 1 are allowed" in found
    print("the planted name was found")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", nargs="?", help="e.g. build/libhakmem.so")
    parser.add_argument("--self-test", action="store_true", help="check planted faults instead")
    arguments = parser.parse_args()
    if arguments.self_test:
        self_test()
        return 0
    if arguments.library is None:
        parser.error("name the library to check, e.g. build/libhakmem.so")
    command = ["readelf", "--relocs", "--wide", arguments.library]
    names = imported(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    found = complaint(names, MOST)
    if found is not None:
        print(found)
    return int(found is not None)


if __name__ == "__main__":
    sys.exit(main())
