"""Names a program's addresses: functions, inlined ones too, and their lines.

From the modules' debug information and symbols, as binutils read them, each module once. An address
in a module that has neither, or is another build than the one that ran, stays module+offset: the
nearest name would be wrong.
"""

import bisect
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from hakmem import words
from hakmem.errors import LabError
from hakmem.heap.pprof import Location, Module, Profile
from hakmem.process.children import output

_SEGMENT = re.compile(r"^\s*LOAD\s+0x(\w+)\s+0x(\w+)\s+0x\w+\s+0x(\w+)", re.MULTILINE)
_BUILD_ID = re.compile(r"Build ID: (\w+)")
_SYMBOL = re.compile(r"^(\w+) (\w+) [TtWwiu] (.+?)(?:@.*)?$", re.MULTILINE)
_ADDRESS = re.compile(r"^0x[0-9a-f]+$")
_PLACE = re.compile(r"^(.*):(\d+|\?)(?: \(discriminator \d+\))?$")
_GENERATED = re.compile(r"^(?:0x)?([0-9A-Fa-f]+) (?:0x)?([0-9A-Fa-f]+) (.+)$", re.MULTILINE)
_PYTHON = re.compile(r"^py::(.*):(.*)$")

_CLONE = re.compile(r"( \[clone [^]]*\]|\.(part|constprop|isra|cold|lto_priv)(\.\d+)?)+$")
_OPERATOR = re.compile(r"operator ?(->\*?|<=>|<<=?|>>=?|[<>]=?|\(\))")
_HIDDEN = {ord(sign): 0xE000 + ord(sign) for sign in "<>()"}
_SHOWN = {hidden: sign for sign, hidden in _HIDDEN.items()} | {ord("⟨"): "<…>"}


@dataclass(frozen=True)
class Frame:
    """A function of a module. Two frames are equal whatever line of it they are at, whatever types
    a template has, and whichever clone of it the compiler made."""

    name: str
    module: str
    function: str = field(default="", compare=False)
    file: str = field(default="", compare=False)
    line: int = field(default=0, compare=False)


def frame(function: str, module: str, file: str = "", line: int = 0) -> Frame:
    name = brief(function)
    if name == "operator()" and file:  # a lambda's: its function is not known
        name += f" in {Path(file).name}"
    return Frame(name, module, function, file, line)


@cache
def brief(function: str) -> str:
    """A name without what a reader skips: clones; in C++ arguments (of templates too), result."""
    function = _CLONE.sub("", function)
    if function.startswith("<") or not re.search(r"[(<]", function):
        return function
    text = function.replace("(anonymous namespace)", "{anonymous}")
    text = _OPERATOR.sub(lambda found: found[0].translate(_HIDDEN), text)
    for pattern, instead in ((r" ?<[^<>]*>", "⟨"), (r"\([^()]*\)", "")):
        before = ""
        while text != before:
            before, text = text, re.sub(pattern, instead, text)
    text = re.sub(r"( const)?( &&?)?$|\[abi:\w+\]", "", text)
    head, operator, tail = text.partition("operator ")
    text = head.rpartition(" ")[2] + operator + tail if operator else text.rpartition(" ")[2]
    return text.translate(_SHOWN) or function


@dataclass
class Names:
    """The frames of each location, innermost first; `problems`: why some have no name."""

    of: dict[Location, tuple[Frame, ...]]
    problems: list[str]


def names(profiles: Sequence[Profile], beside: Iterable[Path]) -> Names:
    """Names all locations of the profiles of one process. `beside`: folders that may have its
    perf-PID.map, in which a runtime names the code that it generates."""
    every = {place for p in profiles for sample in p.samples for place in sample.stack}
    found, problems = {}, []
    # (file, build that ran) -> location -> offset in the file
    by_file: dict[tuple[str, str], dict[Location, int]] = {}
    generated = _generated(profiles[0].pid, beside)
    for place in every:
        module = place.module
        if place.named and place.named[0].function:
            found[place] = tuple(
                frame(n.function, _short(module), n.file, n.line) for n in place.named
            )
        elif module is not None and module.file.startswith("/"):
            offset = place.address - module.start + module.offset
            by_file.setdefault((module.file, module.build_id), {})[place] = offset
        else:
            found[place] = (_of_no_file(place, generated.at(place.address)),)
    for file, build in sorted(by_file):
        known, why = _of_file(Path(file), by_file[file, build], build)
        found |= known
        problems += [f"{file}: {why}"] if why else []
    return Names(found, problems)


def _short(module: Module | None) -> str:
    return Path(module.file).name if module else "?"


def _unnamed(place: Location, offset: int) -> Frame:
    if place.module is None:
        return frame(f"[0x{place.address:x}]", "?")
    name = _short(place.module)
    return frame(f"[{name}+0x{offset:x}]", name)


def _of_file(
    file: Path, offsets: Mapping[Location, int], ran: str
) -> tuple[dict[Location, tuple[Frame, ...]], str]:
    """The frames by the offsets in the build that `ran`; and why there are no names, or ""."""
    try:
        headers = _tool("readelf", "-Wln", str(file))
        build_id = _BUILD_ID.search(headers)
        if ran and (not build_id or build_id[1] != ran.lower()):
            raise LabError("it is another build than the one that ran")
        at = {place: _virtual(offset, headers) for place, offset in offsets.items()}
        return _by_address(file, at), ""
    except LabError as error:
        return {place: (_unnamed(place, at),) for place, at in offsets.items()}, str(error)


def _virtual(offset: int, headers: str) -> int:
    """The address that the linker gave to this offset of the file."""
    for begin, address, size in ((int(n, 16) for n in s) for s in _SEGMENT.findall(headers)):
        if begin <= offset < begin + size:
            return offset - begin + address
    return offset


def _by_address(file: Path, at: Mapping[Location, int]) -> dict[Location, tuple[Frame, ...]]:
    """The frames by address. Where addr2line has no line its name is the nearest symbol's: then the
    sizes of the symbols decide."""
    order = sorted(set(at.values()))
    asked = "".join(f"0x{address:x}\n" for address in order)
    answers = _answers(_tool("addr2line", "-afiCe", str(file), asked=asked), file.name)
    lines = dict(zip(order, answers, strict=True))
    symbols = None if all(frames[0].file for frames in lines.values()) else _of_the_file(file)
    found = {}
    for place, address in at.items():
        frames = lines[address]
        if symbols and not frames[0].file:
            name = symbols.at(address)
            frames = (frame(name, file.name) if name else _unnamed(place, address),)
        found[place] = frames
    return found


def _answers(text: str, module: str) -> list[tuple[Frame, ...]]:
    """The frames that addr2line -afi prints for each address: pairs of lines, innermost first."""
    found: list[list[Frame]] = []
    lines = iter(text.splitlines())
    for line in lines:
        if _ADDRESS.match(line):
            found.append([])
            continue
        place = _PLACE.match(next(lines))
        file = "" if place is None or place[1] == "??" else place[1]
        number = int(place[2]) if place and place[2].isdecimal() else 0
        found[-1].append(frame(line, module, file, number))
    return [tuple(frames) for frames in found]


class _Symbols:
    """Finds the symbol of an address; rows are start, size (both hexadecimal) and name."""

    def __init__(self, rows: Iterable[tuple[str, str, str]]) -> None:
        self.rows = sorted((int(start, 16), int(size, 16), name) for start, size, name in rows)

    def at(self, address: int) -> str:
        index = bisect.bisect_right(self.rows, address, key=lambda row: row[0]) - 1
        start, size, name = self.rows[index] if index >= 0 else (0, 0, "")
        return name if start <= address < start + size else ""


def _of_the_file(file: Path) -> _Symbols:
    listed = [_tool("nm", *of, "-CS", "--defined-only", str(file)) for of in ([], ["-D"])]
    return _Symbols(row for text in listed for row in _SYMBOL.findall(text))


def _generated(pid: int, folders: Iterable[Path]) -> _Symbols:
    """The names that a runtime gives to the code it generates: perf-PID.map."""
    files = (folder / f"perf-{pid}.map" for folder in folders)
    file = next((file for file in files if pid and file.is_file()), None)
    listed = _GENERATED.findall(file.read_text(errors="replace")) if file else ()
    return _Symbols((start, size, words.printable(name)) for start, size, name in listed)


def _of_no_file(place: Location, name: str) -> Frame:
    """The frame of a place in no file, by the name that its runtime has for it, if any."""
    if not name:
        return _unnamed(place, place.address - place.module.start if place.module else 0)
    python = _PYTHON.match(name)
    return frame(python[1], "python", python[2]) if python else frame(name, "generated")


def _tool(*argv: str, asked: str = "") -> str:
    """Runs a tool without a time limit: what it reads may be large."""
    return output(argv, stdin=None, input=asked, timeout=None)
