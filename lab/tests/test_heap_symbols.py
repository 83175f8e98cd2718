"""Names for addresses: of a program with debug information, with symbols only, with neither."""

import re
from functools import cache
from pathlib import Path

import heap_world as world
import pytest
from hakmem.heap import pprof, symbols
from hakmem.heap.symbols import Frame
from hakmem.process import children
from standing import compile_c, need, ran

BASE = 0x5500_0000_0000


def tool(*argv: object) -> str:
    return ran(children.said(argv)).stdout


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need("gcc", "addr2line", "objdump")
    out = tmp_path_factory.mktemp("names") / "program"
    return compile_c("heap_names.c", out, "-g", "-rdynamic", "-no-pie", "-Wl,--build-id")


def calls_of_malloc(program: Path) -> dict[str, int]:
    """The link-time address of the call of malloc in each function of the program."""
    found, function = {}, ""
    for line in tool("objdump", "-d", "--no-show-raw-insn", program).splitlines():
        if match := re.match(r"[0-9a-f]+ <(\w+)>:", line):
            function = match[1]
        elif match := re.match(r"\s*([0-9a-f]+):\tcall.*<malloc@plt>", line):
            found[function] = int(match[1], 16)
    return found


@cache
def text_segment(program: Path) -> tuple[int, int]:
    """File offset and link-time address of the executable segment."""
    listed = tool("readelf", "-Wl", program)
    found = re.search(r"LOAD\s+0x(\w+) 0x(\w+) 0x\w+ 0x\w+ 0x\w+ R E", listed)
    return int(found[1], 16), int(found[2], 16)


def build_id(program: Path) -> str:
    found = re.search(r"Build ID: (\w+)", tool("readelf", "-n", program))
    return found[1]


def named(file: Path, addresses: list[int], id: str = "") -> symbols.Names:
    """The names of link-time addresses, by address, in a profile of a process that maps the file at
    BASE."""
    offset, address = text_segment(file) if file.is_file() else (0x1000, 0x1000)
    placed = [one - address + BASE for one in addresses]
    module = world.Mapped(BASE, BASE + 0x10000, offset, str(file), id)
    made = world.Made(rows=[(placed, [1, 1, 1, 1])], modules=[module])
    profile = pprof.decode(made.encode(), "p")
    found = symbols.names([profile], [])
    order = [found.of[place] for place in profile.samples[0].stack]
    return symbols.Names(dict(zip(addresses, order, strict=True)), found.problems)


def said(frames: tuple[Frame, ...]) -> list[tuple[str, str, int]]:
    return [(frame.name, Path(frame.file).name, frame.line) for frame in frames]


def test_debug_information_names_functions_inlined_ones_and_lines(program: Path) -> None:
    calls = calls_of_malloc(program)
    found = named(program, list(calls.values()), build_id(program))
    assert said(found.of[calls["keep_static"]]) == [
        ("inlined", "heap_names.c", 8),
        ("keep_static", "heap_names.c", 12),
    ]
    assert said(found.of[calls["keep_exported"]]) == [("keep_exported", "heap_names.c", 16)]
    assert found.problems == []


def test_without_it_the_symbols_do(program: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    tool("objcopy", "--strip-debug", program, bare)
    calls = calls_of_malloc(program)
    found = named(bare, list(calls.values()))
    assert {name: said(found.of[at]) for name, at in calls.items()} == {
        "keep_static": [("keep_static", "", 0)],
        "keep_exported": [("keep_exported", "", 0)],
    }


def test_a_stripped_function_is_an_offset_and_not_its_neighbour(
    program: Path, tmp_path: Path
) -> None:
    bare = tmp_path / "bare"
    tool("strip", "-o", bare, program)
    calls = calls_of_malloc(program)
    found = named(bare, list(calls.values()))
    at = calls["keep_static"]
    assert said(found.of[at]) == [(f"[bare+0x{at:x}]", "", 0)]
    assert said(found.of[calls["keep_exported"]]) == [("keep_exported", "", 0)]


def test_debug_information_beside_a_stripped_program_is_found(
    program: Path, tmp_path: Path
) -> None:
    bare, beside = tmp_path / "bare", tmp_path / "bare.debug"
    tool("objcopy", "--only-keep-debug", program, beside)
    tool("objcopy", "--strip-all", f"--add-gnu-debuglink={beside}", program, bare)
    at = calls_of_malloc(program)["keep_static"]
    assert [name for name, _, _ in said(named(bare, [at]).of[at])] == ["inlined", "keep_static"]


def test_another_build_names_nothing(program: Path) -> None:
    at = calls_of_malloc(program)["keep_static"]
    found = named(program, [at], id="00" * 20)
    assert found.problems == [f"{program}: it is another build than the one that ran"]
    offset, address = text_segment(program)
    assert said(found.of[at]) == [(f"[program+0x{at - address + offset:x}]", "", 0)]


def test_each_build_of_a_file_is_named_by_itself(program: Path) -> None:
    """A plugin was replaced and opened again: only the build that is on disk now has names."""
    offset, address = text_segment(program)
    place = calls_of_malloc(program)["keep_static"] - address + BASE
    modules = [
        world.Mapped(start, start + 0x10000, offset, str(program), id)
        for start, id in ((BASE, build_id(program)), (2 * BASE, "00" * 20))
    ]
    made = world.Made(rows=[([place, place + BASE], [1, 1, 1, 1])], modules=modules)
    profile = pprof.decode(made.encode(), "p")
    found = symbols.names([profile], [])
    names = [found.of[each][-1].name for each in profile.samples[0].stack]
    assert names == ["keep_static", f"[program+0x{place - BASE + offset:x}]"]


def test_a_module_that_is_gone_is_said(tmp_path: Path) -> None:
    found = named(tmp_path / "gone.so", [0x1234])
    assert said(found.of[0x1234]) == [("[gone.so+0x1234]", "", 0)]
    assert len(found.problems) == 1
    assert "gone.so" in found.problems[0]


def test_without_binutils_it_says_what_to_install(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = calls_of_malloc(program)["keep_static"]
    text_segment(program)
    monkeypatch.setenv("PATH", "/none")
    (problem,) = named(program, [at]).problems
    assert problem.endswith("readelf is not installed: apt-get install binutils")


def test_generated_code_is_called_what_its_runtime_says(tmp_path: Path) -> None:
    text = "7f0000001000 40 py::load:/srv/app.py\n7f0000002000 80 stub\033for f\n"
    (tmp_path / "perf-4711.map").write_text(text)
    made = world.Made(rows=[([0x7F0000001004, 0x7F0000002000, 0x7F0000001040], [1, 1, 1, 1])])
    profile = pprof.decode(made.encode(), "p")
    found = symbols.names([profile], [tmp_path]).of
    frames = [found[place][0] for place in profile.samples[0].stack]
    assert [(f.name, f.module, f.file) for f in frames] == [
        ("load", "python", "/srv/app.py"),
        ("stub?for f", "generated", ""),
        ("[0x7f0000001040]", "?", ""),
    ]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("f", ("f", "made.c", 7)),
        # pprof writes an empty name if its symbolizer found a line only.
        ("", ("[0x0]", "", 0)),
    ],
)
def test_names_in_the_profile_need_no_module_and_an_empty_one_is_none(
    name: str, expected: tuple[str, str, int]
) -> None:
    profile = pprof.decode(world.Made(rows=[([name], [1, 1, 1, 1])]).encode(), "p")
    (frames,) = symbols.names([profile], []).of.values()
    assert said(frames) == [expected]
