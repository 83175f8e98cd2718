"""What malloc and free of a library are made of, from their disassembly (x86-64).

Loads and stores are explicit memory operands; what push, pop, call and ret do to the stack is not
counted. Pure but for `read`.
"""

import platform
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from hakmem.errors import LabError
from hakmem.process.children import output

FUNCTIONS = ("malloc", "free")

_LINE = re.compile(r"^\s*([0-9a-f]+):\t(\S+)\s*(.*)$")
_TARGET = re.compile(r"^([0-9a-f]+)\b")
_PREFIXES = {"bnd", "cs", "ds", "es", "data16", "lock", "notrack", "rep", "repz", "repnz"}
_MEMORY = re.compile(r"\(|^\*?%\w+:")
_NEITHER = re.compile(r"lea|nop|endbr|prefetch|clflush")
_ONLY_READS = re.compile(r"v?u?comi|cmp[bwlq]?$|test|bt[wlq]?$|push|call|jmp|i?div|i?mul")
_ONLY_WRITES = re.compile(r"v?mov|set|pop|stos|stmxcsr")
_STOPS = ("call", "syscall", "int", "ud2", "hlt")
_LONGEST = 1000


@dataclass(frozen=True)
class Instruction:
    address: int
    name: str
    operands: str


@dataclass(frozen=True)
class Tally:
    """How many of each; `branches` are conditional, `jumps` are not (tail calls among them)."""

    instructions: int
    branches: int
    jumps: int
    loads: int
    stores: int
    calls: int


@dataclass(frozen=True)
class Code:
    """One function: its size in bytes, all instructions, and its hit path or why it is unknown."""

    function: str
    size: int
    whole: Tally
    hit: Tally | None
    why: str = ""


def read(library: Path, is_hakmem: bool) -> list[Code]:
    """malloc and free of a library. LabError where they cannot be read, with what to do."""
    if platform.machine() != "x86_64":
        raise LabError(f"the disassembly is read on x86-64 only, this is {platform.machine()}")
    symbols = _objdump("-T", library)
    found = []
    for name in FUNCTIONS:
        start, size = extent(symbols, name)
        ends = (f"--start-address={start}", f"--stop-address={start + size}")
        found.append(
            describe(name, size, _objdump("-d", "--no-show-raw-insn", *ends, library), is_hakmem)
        )
    return found


def names(library: Path) -> frozenset[str]:
    """The names of the functions that the library defines; none where they cannot be read."""
    try:
        symbols = _objdump("-t", library) + _objdump("-T", library)
    except LabError:
        return frozenset()
    return frozenset(re.findall(r"^[0-9a-f]+ .{6}F [^*\s]+\t.*?(\S+)$", symbols, re.MULTILINE))


def extent(symbols: str, name: str) -> tuple[int, int]:
    """Address and size of an exported function, from `objdump -T`; LabError where it has none."""
    pattern = rf"^([0-9a-f]+) [^*\n]*\t([0-9a-f]+)\s.*\b{re.escape(name)}$"
    found = re.search(pattern, symbols, re.MULTILINE)
    if found is None:
        raise LabError(f"it exports no {name}")
    if int(found[2], 16) == 0:
        raise LabError(f"its symbol {name} has no size, so where it ends is not known")
    return int(found[1], 16), int(found[2], 16)


def describe(function: str, size: int, listing: str, is_hakmem: bool) -> Code:
    """A function from its disassembly. The hit path is the one on which no conditional branch is
    taken: hakmem is built so, and its own tests check that; of another library it would be a guess.
    """
    code = parse(listing)
    if not code:
        raise LabError(f"objdump shows no instructions of {function}")
    hit, why = None, "only known of hakmem"
    if is_hakmem:
        try:
            hit, why = tally(straight(code)), ""
        except LabError as refusal:
            why = str(refusal)
    return Code(function, size, tally(code.values()), hit, why)


def parse(listing: str) -> dict[int, Instruction]:
    """The instructions of `objdump -d --no-show-raw-insn`, by address, without prefixes."""
    found = {}
    for line in listing.splitlines():
        if match := _LINE.match(line):
            address, name, operands = int(match[1], 16), match[2], match[3]
            while name in _PREFIXES and operands:
                name, _, operands = operands.partition(" ")
                operands = operands.lstrip()
            operands = operands.partition("#")[0].strip()
            found[address] = Instruction(address, name, operands)
    return found


def straight(code: Mapping[int, Instruction]) -> list[Instruction]:
    """The path from the entry to ret with no branch taken; LabError where it does not end so."""
    order = sorted(code)
    following = dict(pairwise(order))
    path: list[Instruction] = []
    at: int | None = order[0]
    while True:
        step = code.get(at) if at is not None else None
        if step is None:
            raise LabError("the path leaves the function")
        if len(path) == _LONGEST:
            raise LabError("the path does not end")
        path.append(step)
        if step.name.startswith("ret"):
            return path
        if step.name.startswith(_STOPS):
            raise LabError(f"{step.name} lies on the path")
        if step.name.startswith("jmp"):
            target = _TARGET.match(step.operands)
            if target is None:
                raise LabError("an indirect jump lies on the path")
            at = int(target[1], 16)
        else:
            at = following.get(step.address)


def tally(instructions: Iterable[Instruction]) -> Tally:
    """Counts all instructions but nop, which is padding."""
    steps = [step for step in instructions if not step.name.startswith("nop")]
    begins = {word: sum(s.name.startswith(word) for s in steps) for word in ("j", "jmp", "call")}
    touched = [accesses(step) for step in steps]
    return Tally(
        instructions=len(steps),
        branches=begins["j"] - begins["jmp"],
        jumps=begins["jmp"],
        loads=sum(load for load, _ in touched),
        stores=sum(store for _, store in touched),
        calls=begins["call"],
    )


def accesses(step: Instruction) -> tuple[bool, bool]:
    """Whether it loads and whether it stores, in AT&T order: the destination comes last."""
    # Split at the commas that are not inside an address.
    operands = re.split(r",(?![^(]*\))", step.operands) if step.operands else []
    memory = [bool(_MEMORY.search(operand)) for operand in operands]
    if not any(memory) or _NEITHER.match(step.name):
        return False, False
    *sources, last = memory
    if not last or _ONLY_READS.match(step.name):
        return True, False
    if _ONLY_WRITES.match(step.name):
        return any(sources), True
    return True, True


def _objdump(*arguments: str | Path) -> str:
    return output(["objdump", *map(str, arguments)])
