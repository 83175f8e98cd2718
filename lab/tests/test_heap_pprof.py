"""Reading profiles: the format's numbers, and files that are no profile."""

import gzip
from dataclasses import replace
from pathlib import Path

import heap_world as world
import pytest
from hakmem.errors import LabError
from hakmem.heap import page, pprof, story
from hakmem.heap.pprof import ALLOCATED, IN_USE
from hakmem.heap.weigh import Growth

PROGRAM = world.Mapped(0x1000, 0x3000, 0x400, "/bin/program", "ab12")
MADE = world.Made(
    rows=[([0x1010, 0x2FFF], [1, 100, 3, 300]), ([0x2FFF, 0x9000], [0, 0, 2, 1 << 40])],
    modules=[PROGRAM],
    interval=524288,
    duration_ns=5,
)


def test_growth_of_nothing_can_be_drawn() -> None:
    nothing = Growth((0.0, 1.0), (), (), (0, 0))
    assert "<svg" in page.growth_drawing(nothing)


def test_containers_each_have_a_process_1(tmp_path: Path) -> None:
    rows = [([0x1010], (1, 512, 1, 512))]
    files = []
    for number, start in enumerate((0x1000, 0x1000, 0x10000)):
        modules = [world.Mapped(start, start + 0x1000, 0, "/bin/server")]
        comments = ("hakmem 0.0-made", "pid 1", "reason signal")
        made = world.Made(rows, modules, time_ns=10**18 + number, comments=comments)
        files.append(made.write(tmp_path / f"{number}.pb.gz"))
    assert sorted(len(one.profiles) for one in story.processes(files)) == [1, 2]


@pytest.mark.parametrize("level", [0, 9])
@pytest.mark.parametrize("unpacked", [False, True])
def test_what_was_written_is_read(tmp_path: Path, level: int, unpacked: bool) -> None:
    found = pprof.read(replace(MADE, unpacked=unpacked).write(tmp_path / "p.pb.gz", level))
    one, other = found.samples
    assert [place.address for place in one.stack] == [0x1010, 0x2FFF]
    assert [place.address for place in other.stack] == [0x2FFF, 0x9000]
    assert (one.bytes, one.objects) == ({IN_USE: 100, ALLOCATED: 300}, {IN_USE: 1, ALLOCATED: 3})
    assert other.bytes == {IN_USE: 0, ALLOCATED: 1 << 40}
    assert other.objects == {IN_USE: 0, ALLOCATED: 2}
    module = pprof.Module(0x1000, 0x400, "/bin/program", "ab12")
    assert [place.module for s in found.samples for place in s.stack] == [module] * 3 + [None]
    assert (found.pid, found.interval, found.duration_ns) == (4711, 524288, 5)
    assert found.facts == {"hakmem": "0.0-made", "pid": "4711", "reason": "exit"}
    assert (found.total(IN_USE), found.total(ALLOCATED)) == (100, (1 << 40) + 300)


def test_types_are_found_by_name_in_any_order(tmp_path: Path) -> None:
    other = replace(MADE, types=MADE.types[2:] + MADE.types[:2])
    found = pprof.read(other.write(tmp_path / "p"))
    assert found.total(ALLOCATED) == 100


def test_numbers_below_zero_stay_so(tmp_path: Path) -> None:
    below = replace(MADE, rows=[([0x1010], [-1, -64, 1, 64])])
    assert pprof.read(below.write(tmp_path / "p")).total(IN_USE) == -64


def test_names_that_the_profile_has_are_taken(tmp_path: Path) -> None:
    found = pprof.read(replace(MADE, rows=[(["f", "main"], [1, 2, 3, 4])]).write(tmp_path / "p"))
    named = [place.named for place in found.samples[0].stack]
    assert named == [(pprof.Named(name, "made.c", 7),) for name in ("f", "main")]


def test_fields_that_a_heap_does_not_need_are_passed_over() -> None:
    eight, four = world.varint(99 << 3 | 1) + b"\xff" * 8, world.varint(98 << 3 | 5) + b"\xff" * 4
    data = eight + four + MADE.encode() + world.number(97, 3) + world.part(96, b"text")
    assert pprof.decode(data, "p").samples == pprof.decode(MADE.encode(), "p").samples


def test_a_field_that_goes_on_after_the_end_is_refused() -> None:
    with pytest.raises(ValueError, match="after the end"):
        pprof.Message(world.part(1, b"text")[:-1])


WHOLE = gzip.compress(MADE.encode())
CPU = replace(MADE, types=[("samples", "count"), ("cpu", "nanoseconds")], rows=[])


NO_PROFILES = {
    "empty": (b"", "it is empty"),
    "plain": (b"\n\x04\x08\x01", "it is not compressed by gzip"),
    "older": (b"heap profile: 1: 2 [1: 2] @ heap_v2/1\n", "HAKMEM_PROF_FORMAT=text made it"),
    "cut off": (WHOLE[:-20], "it is cut off"),
    "damaged": (WHOLE[:60] + b"XXXX" + WHOLE[64:], "it is damaged"),
    "no deflate": (WHOLE[:10] + b"\xff" * 20, "it is damaged"),
    "text": (gzip.compress(b"heap profile: 1: 2"), "not in pprof's format"),
    "half": (gzip.compress(MADE.encode()[:-300]), "not in pprof's format"),
    "another kind": (gzip.compress(CPU.encode()), "it counts samples, cpu, not inuse_space"),
}


@pytest.mark.parametrize(("content", "why"), NO_PROFILES.values(), ids=NO_PROFILES)
def test_what_is_no_profile_is_one_line(tmp_path: Path, content: bytes, why: str) -> None:
    file = tmp_path / "p.pb.gz"
    file.write_bytes(content)
    with pytest.raises(LabError, match=r"p\.pb\.gz is no heap profile: ") as said:
        pprof.read(file)
    assert why in str(said.value)
    assert "\n" not in str(said.value)


def test_every_cut_of_a_profile_is_refused_or_read(tmp_path: Path) -> None:
    """A truncated profile is read, or refused by LabError: no other exception escapes."""
    whole = MADE.encode()
    refused = 0
    for length in range(len(whole)):
        file = tmp_path / "p"
        file.write_bytes(gzip.compress(whole[:length], 0))
        try:
            pprof.read(file)
        except LabError:
            refused += 1
    assert refused > len(whole) // 2
