"""Heap profiles in pprof's format, of which only what a heap needs is read. Pure but for `read`.

The numbers of the fields are those of the message perftools.profiles.Profile. The wire format is
read here, because that takes less code than to describe the messages to a library.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hakmem import project, words
from hakmem.errors import LabError

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
IN_USE, ALLOCATED = "inuse", "alloc"


@dataclass(frozen=True)
class Module:
    """A file that the process had mapped, and where."""

    start: int
    offset: int
    file: str
    build_id: str


@dataclass(frozen=True)
class Named:
    """A location's name in the profile itself: pprof writes such names, the allocator does not."""

    function: str
    file: str
    line: int


@dataclass(frozen=True)
class Location:
    """An address in a module. `named`: its functions, inlined ones too, innermost first."""

    address: int
    module: Module | None
    named: tuple[Named, ...] = ()


@dataclass(frozen=True)
class Sample:
    """One stack, innermost first, with its `objects` and `bytes` by IN_USE and ALLOCATED."""

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
        """The process id; 0 where the profile does not say."""
        return self.fact("pid")

    def fact(self, name: str) -> int:
        text = self.facts.get(name, "")
        return int(text) if text.isdecimal() else 0

    def total(self, what: str) -> int:
        return sum(sample.bytes[what] for sample in self.samples)


def read(path: Path) -> Profile:
    """The profile in a file; LabError, one line, where it is no whole heap profile."""
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
    """The profile in uncompressed data. ValueError, IndexError or KeyError where the data is not in
    the format, LabError where it has no inuse_space."""
    whole = Message(data)
    strings = [words.printable(text) for text in whole.texts(6)]
    if not strings or strings[0]:
        raise ValueError("the table of strings does not begin with an empty one")
    types = [strings[one.number(1)] for one in whole.messages(1)]
    if "inuse_space" not in types:
        asked = ", ".join(types) or "nothing"
        raise LabError(f"{name} is no heap profile: it counts {asked}, not inuse_space")
    modules = {one.number(1): _module(one, strings) for one in whole.messages(3)}
    functions = {one.number(1): one for one in whole.messages(5)}
    places = {
        one.number(1): Location(
            address=one.number(3),
            module=modules.get(one.number(2)),
            named=tuple(_named(line, functions, strings) for line in one.messages(4)),
        )
        for one in whole.messages(4)
    }
    return Profile(
        name=name,
        samples=[_sample(one, places, types) for one in whole.messages(2)],
        modules=list(modules.values()),
        time_ns=whole.number(9),
        duration_ns=whole.number(10),
        interval=whole.number(12),
        facts=dict(_fact(strings[at]) for at in whole.numbers(13)),
    )


def _sample(one: Message, places: Mapping[int, Location], types: Sequence[str]) -> Sample:
    of = dict(zip(types, map(_signed, one.numbers(2)), strict=True))
    return Sample(
        stack=tuple(places[id] for id in one.numbers(1)),
        objects={what: of.get(f"{what}_objects", 0) for what in (IN_USE, ALLOCATED)},
        bytes={what: of.get(f"{what}_space", 0) for what in (IN_USE, ALLOCATED)},
    )


def _module(one: Message, strings: Sequence[str]) -> Module:
    start, _, offset, file, build_id = (one.number(field) for field in range(2, 7))
    return Module(start, offset, strings[file], strings[build_id])


def _named(line: Message, functions: Mapping[int, Message], strings: Sequence[str]) -> Named:
    function = functions[line.number(1)]
    return Named(strings[function.number(2)], strings[function.number(4)], line.number(2))


def _fact(comment: str) -> tuple[str, str]:
    found = re.match(r"(\w*)\s*(.*)", comment)
    return (found[1], found[2]) if found else ("", comment)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


# ---- the wire format ----


class Message:
    """The values of each field by its number: of a varint the number, of the rest the bytes.

    ValueError or IndexError where the data is no message. A field of another wire type than the one
    asked for counts as absent.
    """

    def __init__(self, data: bytes) -> None:
        self._numbers: defaultdict[int, list[int]] = defaultdict(list)
        self._parts: defaultdict[int, list[bytes]] = defaultdict(list)
        at = 0
        while at < len(data):
            key, at = _varint(data, at)
            kind = key & 7
            if kind == VARINT:
                value, at = _varint(data, at)
                self._numbers[key >> 3].append(value)
                continue
            if kind == BYTES:
                size, at = _varint(data, at)
            elif kind in (FIXED64, FIXED32):
                size = 8 if kind == FIXED64 else 4
            else:
                raise ValueError(f"no kind of field: {kind}")
            if at + size > len(data):
                raise ValueError("a field goes on after the end")
            self._parts[key >> 3].append(data[at : at + size])
            at += size

    def number(self, field: int) -> int:
        """The last value, which is the one that counts; 0 where there is none."""
        return self._numbers[field][-1] if field in self._numbers else 0

    def numbers(self, field: int) -> Iterator[int]:
        """A repeated number: one by one, or packed."""
        yield from self._numbers[field]
        for part in self._parts[field]:
            at = 0
            while at < len(part):
                value, at = _varint(part, at)
                yield value

    def texts(self, field: int) -> list[str]:
        return [part.decode(errors="replace") for part in self._parts[field]]

    def messages(self, field: int) -> Iterator[Message]:
        return map(Message, self._parts[field])


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (1 << 64) - 1, at
        shift += 7
