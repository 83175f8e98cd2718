"""Heap profiles in pprof's format, of which only what a heap needs is read. Pure but for `read`.

The numbers of the fields are those of the message perftools.profiles.Profile. The wire format is
read here, because it is less than what a library would have to be told of the messages.
"""

import gzip
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hakmem import project
from hakmem.errors import LabError

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
IN_USE, ALLOCATED = "inuse", "alloc"


@dataclass(frozen=True)
class Module:
    """A file that the process had mapped, and where."""

    start: int
    limit: int
    offset: int
    file: str
    build_id: str


@dataclass(frozen=True)
class Named:
    """What the profile itself says of a location: pprof names them, the allocator does not."""

    function: str
    file: str
    line: int


@dataclass(frozen=True)
class Location:
    """`named`: innermost first."""

    address: int
    module: Module | None
    named: tuple[Named, ...] = ()


@dataclass(frozen=True)
class Sample:
    """`stack`: innermost first. `objects` and `bytes`: by IN_USE and ALLOCATED."""

    stack: tuple[Location, ...]
    objects: Mapping[str, int]
    bytes: Mapping[str, int]


@dataclass(frozen=True)
class Profile:
    """`interval`: mean distance of two samples in bytes, 0 where every allocation is one.

    `facts`: what the process wrote beside its samples, by the first word of each line.
    """

    name: str
    samples: Sequence[Sample]
    modules: Sequence[Module]
    time_ns: int
    duration_ns: int
    interval: int
    facts: Mapping[str, str]

    @property
    def pid(self) -> int:
        """0 where the profile does not say."""
        return self.fact("pid")

    def fact(self, name: str) -> int:
        text = self.facts.get(name, "")
        return int(text) if text.isdecimal() else 0

    def total(self, what: str) -> int:
        return sum(sample.bytes[what] for sample in self.samples)


def read(path: Path) -> Profile:
    """LabError, one line, where the file is no whole heap profile."""
    packed = project.read(path)
    if not packed:
        raise LabError(f"{path} is no heap profile: it is empty")
    try:
        return decode(gzip.decompress(packed), path.name)
    except EOFError:
        why = "it is cut off: it was still being written, or the disk was full; take another"
    except (gzip.BadGzipFile, zlib.error) as error:
        known = packed[:2] == b"\x1f\x8b"
        why = f"it is damaged ({error})" if known else "it is not compressed by gzip"
        if packed.startswith(b"heap profile: "):
            why = "it is of the older form, which only pprof reads: HAKMEM_PROF_FORMAT=text made it"
    except (ValueError, IndexError, KeyError):
        why = "what is in it is not in pprof's format"
    raise LabError(f"{path} is no heap profile: {why}")


def decode(data: bytes, name: str) -> Profile:
    """ValueError, IndexError or KeyError where the data is not in the format."""
    whole = message(data)
    strings = [_text(part) for part in whole.get(6, [])]
    if not strings or strings[0]:
        raise ValueError("the table of strings does not begin with an empty one")
    types = [strings[_number(message(part), 1)] for part in whole.get(1, [])]
    if "inuse_space" not in types:
        asked = ", ".join(types) or "nothing"
        raise LabError(f"{name} is no heap profile: it counts {asked}, not inuse_space")
    modules = {_number(m, 1): _module(m, strings) for m in map(message, whole.get(3, []))}
    functions = {_number(f, 1): f for f in map(message, whole.get(5, []))}
    places = {
        _number(one, 1): Location(
            address=_number(one, 3),
            module=modules.get(_number(one, 2)),
            named=tuple(_named(message(line), functions, strings) for line in one.get(4, [])),
        )
        for one in map(message, whole.get(4, []))
    }
    return Profile(
        name=name,
        samples=[_sample(message(part), places, types) for part in whole.get(2, [])],
        modules=list(modules.values()),
        time_ns=_number(whole, 9),
        duration_ns=_number(whole, 10),
        interval=_number(whole, 12),
        facts=dict(_fact(strings[at]) for part in whole.get(13, []) for at in _numbers(part)),
    )


def _sample(
    one: dict[int, list[int | bytes]], places: dict[int, Location], types: list[str]
) -> Sample:
    stack = tuple(places[id] for part in one.get(1, []) for id in _numbers(part))
    values = [_signed(value) for part in one.get(2, []) for value in _numbers(part)]
    of = dict(zip(types, values, strict=True))
    return Sample(
        stack=stack,
        objects={what: of.get(f"{what}_objects", 0) for what in (IN_USE, ALLOCATED)},
        bytes={what: of.get(f"{what}_space", 0) for what in (IN_USE, ALLOCATED)},
    )


def _module(one: dict[int, list[int | bytes]], strings: list[str]) -> Module:
    start, limit, offset = (_number(one, field) for field in (2, 3, 4))
    return Module(start, limit, offset, strings[_number(one, 5)], strings[_number(one, 6)])


def _named(
    line: dict[int, list[int | bytes]],
    functions: dict[int, dict[int, list[int | bytes]]],
    strings: list[str],
) -> Named:
    function = functions[_number(line, 1)]
    name, file = strings[_number(function, 2)], strings[_number(function, 4)]
    return Named(name, file, _number(line, 2))


def _fact(comment: str) -> tuple[str, str]:
    found = re.match(r"(\w*)\s*(.*)", comment)
    return (found[1], found[2]) if found else ("", comment)


# ---- the wire format ----


def message(data: int | bytes) -> dict[int, list[int | bytes]]:
    """All values of each field, by its number: of a varint the number, of the rest the bytes."""
    if isinstance(data, int):
        raise ValueError("a number where a message is due")
    found: dict[int, list[int | bytes]] = {}
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind, value = key & 7, 0
        if kind == VARINT:
            value, at = _varint(data, at)
            found.setdefault(key >> 3, []).append(value)
            continue
        if kind == BYTES:
            size, at = _varint(data, at)
        elif kind in (FIXED64, FIXED32):
            size = 8 if kind == FIXED64 else 4
        else:
            raise ValueError(f"no kind of field: {kind}")
        if at + size > len(data):
            raise ValueError("a field goes on after the end")
        found.setdefault(key >> 3, []).append(data[at : at + size])
        at += size
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (1 << 64) - 1, at
        shift += 7


def _numbers(part: int | bytes) -> Iterator[int]:
    """A repeated number: packed, or one by one."""
    if isinstance(part, int):
        yield part
        return
    at = 0
    while at < len(part):
        value, at = _varint(part, at)
        yield value


def _number(one: dict[int, list[int | bytes]], field: int) -> int:
    value = one.get(field, [0])[-1]
    if isinstance(value, bytes):
        raise ValueError("bytes where a number is due")
    return value


def _text(part: int | bytes) -> str:
    if isinstance(part, int):
        raise ValueError("a number where a text is due")
    return part.decode(errors="replace")


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value
