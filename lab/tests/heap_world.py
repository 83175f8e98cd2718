"""Heap profiles made by hand, in pprof's wire format, with known weights."""

import gzip
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

TYPES = (
    ("inuse_objects", "count"),
    ("inuse_space", "bytes"),
    ("alloc_objects", "count"),
    ("alloc_space", "bytes"),
)


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def part(field: int, value: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(value)) + value


def packed(field: int, values: Iterable[int]) -> bytes:
    return part(field, b"".join(map(varint, values)))


@dataclass(frozen=True)
class Mapped:
    start: int
    limit: int
    offset: int
    file: str
    build_id: str = ""


@dataclass
class Made:
    """A profile to be written. A row of `rows` is a stack, innermost frame first, and its values. A
    frame is an address, or a function's name: the profile then holds that name itself."""

    rows: Sequence[tuple[Sequence[int | str], Sequence[int]]]
    modules: Sequence[Mapped] = ()
    interval: int = 0
    time_ns: int = 1_800_000_000 * 10**9
    duration_ns: int = 0
    comments: Sequence[str] = ("hakmem 0.0-made", "pid 4711", "reason exit")
    types: Sequence[tuple[str, str]] = TYPES
    unpacked: bool = False
    strings: list[str] = field(default_factory=lambda: [""])

    def text(self, value: str) -> int:
        if value not in self.strings:
            self.strings.append(value)
        return self.strings.index(value)

    def encode(self) -> bytes:
        out = b""
        for name, unit in self.types:
            out += part(1, number(1, self.text(name)) + number(2, self.text(unit)))
        places = {place: n for n, place in enumerate({p: 0 for s, _ in self.rows for p in s}, 1)}
        for stack, values in self.rows:
            out += part(2, self._row([places[place] for place in stack], values))
        for n, module in enumerate(self.modules, 1):
            where = (module.start, module.limit, module.offset)
            fields = (n, *where, self.text(module.file), self.text(module.build_id))
            out += part(3, b"".join(number(k, v) for k, v in enumerate(fields, 1)))
        for place, n in places.items():
            out += self._place(place, n)
        comments = [self.text(comment) for comment in self.comments]
        space, unit = self.text("space"), self.text("bytes")
        out += b"".join(part(6, text.encode()) for text in self.strings)
        out += number(9, self.time_ns) + number(10, self.duration_ns)
        out += part(11, number(1, space) + number(2, unit)) + number(12, self.interval)
        return out + b"".join(number(13, comment) for comment in comments)

    def _row(self, stack: Sequence[int], values: Sequence[int]) -> bytes:
        if self.unpacked:
            return b"".join([number(1, n) for n in stack] + [number(2, v) for v in values])
        return packed(1, stack) + packed(2, values)

    def _place(self, place: int | str, n: int) -> bytes:
        if isinstance(place, str):
            line = part(4, number(1, n) + number(2, 7))
            function = number(1, n) + number(2, self.text(place)) + number(4, self.text("made.c"))
            return part(4, number(1, n) + line) + part(5, function)
        of = next((m for m, row in enumerate(self.modules, 1) if row.start <= place < row.limit), 0)
        return part(4, number(1, n) + number(2, of) + number(3, place))

    def write(self, file: Path, level: int = 0) -> Path:
        """`level` 0 stores without compressing, as the allocator does."""
        file.write_bytes(gzip.compress(self.encode(), level))
        return file
