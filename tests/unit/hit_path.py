"""Counts the instructions of the hit path in the built library, from its disassembly.

A hit runs from the entry of malloc or free to `ret` without taking a conditional branch. The limits
are what gcc has reached: 16 instructions for malloc and 14 for free, and no call. Operator new and
delete have copies of this path and the same limits. clang may need two more. Exit code 0: within
the limits; 1: not; 77: nothing was checked, with the reason.
"""

import argparse
import platform
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

OF_MALLOC, OF_FREE = 16, 14
LIKE_MALLOC = ("malloc", "hak_malloc", "_Znwm", "_Znam", "_ZnwmRKSt9nothrow_t")
LIKE_FREE = ("free", "hak_free", "_ZdlPv", "_ZdaPv", "_ZdlPvm", "_ZdaPvm")
LIMITS = dict.fromkeys(LIKE_MALLOC, OF_MALLOC) | dict.fromkeys(LIKE_FREE, OF_FREE)
MORE_BY_CLANG = 2
SKIPPED = 77

INSTRUCTION = re.compile(r"^\s*([0-9a-f]+):\t(\S+)\s*(.*)$")
TARGET = re.compile(r"^([0-9a-f]+)\b")
PREFIXES = {"bnd", "cs", "ds", "data16", "lock", "notrack", "rep", "repz", "repnz"}


class NotAHitPathError(Exception):
    """The listing breaks a rule of the hit path; the message says which rule, and where."""


@dataclass(frozen=True)
class Instruction:
    address: int
    name: str
    operands: str


def parse(listing: str) -> dict[int, Instruction]:
    """The instructions of `objdump -d --no-show-raw-insn`, by address."""
    found = {}
    for line in listing.splitlines():
        if match := INSTRUCTION.match(line):
            address, name, operands = int(match[1], 16), match[2], match[3]
            while name in PREFIXES and operands:
                name, _, operands = operands.partition(" ")
                operands = operands.lstrip()
            found[address] = Instruction(address, name, operands)
    return found


def straight_path(code: dict[int, Instruction], entry: int) -> list[Instruction]:
    """What runs from `entry` to `ret` when no conditional branch is taken."""
    following = dict(zip(sorted(code), sorted(code)[1:], strict=False))
    path: list[Instruction] = []
    at = entry
    while True:
        step = code.get(at)
        if step is None:
            raise NotAHitPathError(f"the path leaves the function at {at:#x} (a tail call?)")
        if len(path) > 1000:
            raise NotAHitPathError(f"the path does not end: it loops at {at:#x}")
        path.append(step)
        if step.name.startswith("ret"):
            return path
        if step.name.startswith(("call", "syscall", "int", "ud2", "hlt")):
            raise NotAHitPathError(f"{step.name} {step.operands} at {at:#x} lies on the hit path")
        if step.name.startswith("jmp"):
            target = TARGET.match(step.operands)
            if target is None:
                raise NotAHitPathError(f"an indirect jump at {at:#x} lies on the hit path")
            at = int(target[1], 16)
        elif at in following:
            at = following[at]
        else:
            raise NotAHitPathError(f"the listing ends at {at:#x} without ret")


def check(name: str, listing: str, more: int = 0) -> int:
    """The length of the hit path of `name`; NotAHitPathError where it breaks a rule."""
    code = parse(listing)
    if not code:
        raise NotAHitPathError("the listing holds no instructions")
    path = straight_path(code, min(code))
    if len(path) > LIMITS[name] + more:
        raise NotAHitPathError(f"{len(path)} instructions, {LIMITS[name] + more} are allowed")
    return len(path)


def listing_of(library: Path, name: str) -> str:
    """The disassembly of one exported function."""
    symbols = run("objdump", "-T", library)
    match = re.search(rf"^([0-9a-f]+) .*\.text\S*\s+([0-9a-f]+)\s.*\b{name}$", symbols, re.M)
    if match is None:
        raise NotAHitPathError(f"{library} does not export {name}: is it the product's build?")
    start = int(match[1], 16)
    end = start + int(match[2], 16)
    return run("objdump", "-d", "--no-show-raw-insn", f"--start-address={start}",
               f"--stop-address={end}", library)  # fmt: skip


def run(*command: str | Path) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def planted(instructions: list[str]) -> str:
    return "\n".join(f"    {0x1000 + 4 * i:x}:\t{text}" for i, text in enumerate(instructions))


def self_test() -> None:
    """The checker accepts listings that keep the rules, and refuses each planted violation."""
    filler = ["mov    %rdi,%rax"]
    good = {
        "exactly the limit": [*filler * (OF_MALLOC - 1), "ret"],
        "branches that are not taken": [
            "ja     9999 <hk_malloc_slow>",
            *filler * (OF_MALLOC - 2),
            "ret",
        ],
        "a jump inside": ["jmp    1008 <malloc+0x8>", "call   9999 <f>", "bnd ret"],
    }
    bad = {
        "one instruction too many": [*filler * OF_MALLOC, "ret"],
        "a call": ["call   9999 <hk_malloc_slow>", "ret"],
        "a prefixed call": ["notrack call *%rax", "ret"],
        "a system call": ["syscall", "ret"],
        "a tail call": ["jmp    9999 <hk_malloc_slow>"],
        "an indirect jump": ["notrack jmp *%rax", "ret"],
        "no end": [*filler * 3],
        "a loop": ["jmp    1000 <malloc>"],
        "nothing": [],
    }
    for name, instructions in good.items():
        check("malloc", planted(instructions))
        print(f"accepted: {name}")
    for name, instructions in bad.items():
        try:
            check("malloc", planted(instructions))
        except NotAHitPathError as refusal:
            print(f"refused: {name}: {refusal}")
        else:
            raise SystemExit(f"hit_path: a planted violation passed: {name}")
    check("free", planted([*filler * (OF_FREE + MORE_BY_CLANG - 1), "ret"]), MORE_BY_CLANG)
    print("accepted: two more by clang")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", nargs="?", type=Path, help="libhakmem.so of the release build")
    parser.add_argument("--clang", action="store_true", help="clang built it, and may need more")
    parser.add_argument("--skip", metavar="REASON", help="say why nothing is checked; exit with 77")
    parser.add_argument("--self-test", action="store_true", help="check planted violations instead")
    arguments = parser.parse_args()
    if arguments.self_test:
        self_test()
        return 0
    reason = arguments.skip
    if not reason and platform.machine() != "x86_64":
        reason = f"the limits are those of x86-64, this machine is {platform.machine()}"
    if reason:
        print(f"hit_path: SKIPPED: {reason}")
        return SKIPPED
    if arguments.library is None:
        parser.error("name the library to check, e.g. build/libhakmem.so")
    failed, more = False, MORE_BY_CLANG if arguments.clang else 0
    for name, limit in LIMITS.items():
        try:
            length = check(name, listing_of(arguments.library, name), more)
            print(f"hit_path: {name}: {length} instructions, {limit + more} are allowed")
        except NotAHitPathError as refusal:
            print(f"hit_path: {name}: FAILED: {refusal}; see objdump -d {arguments.library}")
            failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
