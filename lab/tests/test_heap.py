"""`hakmem heap`: the page of given profiles or of a program's own, differences, bad input."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import heap_world as world
import pytest
from hakmem import project
from standing import Stand, compile_c, ran, refused

MIB = 1 << 20
FIRST = world.Made(
    rows=[
        (["malloc", "load", "main"], [10, 10 * MIB, 10, 10 * MIB]),
        (["malloc", "parse", "main"], [1, 2 * MIB, 1, 2 * MIB]),
    ],
    duration_ns=10**9,
    comments=["hakmem 0.0-made", "pid 4711", "reason peak", f"rss_bytes {20 * MIB}"],
)
LAST = replace(
    FIRST,
    rows=[
        (["malloc", "load", "main"], [1, 1 * MIB, 20, 20 * MIB]),
        (["malloc", "parse", "main"], [2, 4 * MIB, 2, 4 * MIB]),
    ],
    time_ns=FIRST.time_ns + 10**9,
    duration_ns=2 * 10**9,
    comments=["hakmem 0.0-made", "pid 4711", "reason exit", f"live_bytes {5 * MIB}"],
)
OTHER = replace(FIRST, comments=["pid 99", "reason exit"], rows=[(["f"], [1, MIB, 1, MIB])])
# Shell text that writes a profile where the allocator of a profiled program would.
LEAVES = 'cp "$MADE" "$(echo "$HAKMEM_PROF_PATH" | sed s/%p/$$/).0001.exit.pb.gz"'


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    return [
        FIRST.write(tmp_path / "p.4711.0001.peak.pb.gz"),
        LAST.write(tmp_path / "p.4711.0002.exit.pb.gz"),
    ]


Shown = Callable[..., tuple[Path, str]]


@pytest.fixture
def shown(stand: Stand, tmp_path: Path) -> Shown:
    """Runs `hakmem heap` with arguments; returns the page and what the terminal shows."""

    def of(*words: object) -> tuple[Path, str]:
        page = tmp_path / "heap.html"
        done = stand.call("heap", *words, "--out", page)
        assert (done.returncode, done.stderr) == (0, "")
        return page, done.stdout

    return of


def data(page: Path) -> dict[str, object]:
    found = re.search(r'id="flame-data">(.*?)</script>', page.read_text())
    return json.loads(found[1])


def weights(page: Path, view: str) -> dict[str, int]:
    """The bytes of each function in the page's flame graph; each has only one caller here."""
    whole = data(page)
    found: dict[str, int] = {}

    def walk(node: list[object]) -> None:
        index, bytes, _, below = node
        found[whole["frames"][index][0]] = bytes
        for child in below:
            walk(child)

    walk(whole["views"][view])
    return found


def test_show_says_where_memory_went_at_each_time(shown: Shown, files: list[Path]) -> None:
    page, said = shown("show", *files)
    assert "12.0 MiB were in use at the peak, 5.00 MiB in the end" in said
    assert re.search(r"load\W+10\.0 MiB\W+83\.3 %\W+exact\W+10\W+10\.0 MiB", said)
    assert f"written: {page}" in said
    assert {n: b // MIB for n, b in weights(page, "inuse").items()} == {
        "In use": 5, "main": 5, "parse": 4, "load": 1, "malloc": 1,
    }  # fmt: skip
    assert weights(page, "peak")["load"] == 10 * MIB
    assert weights(page, "alloc")["load"] == 20 * MIB
    text = page.read_text()
    assert 'id="v-peak" checked' in text
    for fact in ("0.0-made", "4711", "everything", "5.00 MiB"):
        assert f"<dd>{fact}</dd>" in text


def test_a_function_that_only_passes_requests_on_can_be_named(
    stand: Stand, files: list[Path], tmp_path: Path
) -> None:
    words = ("heap", "show", files[0], "--out", tmp_path / "a.html", "--wrappers")
    assert re.search(r"main +10\.0 MiB", stand.call(*words, "malloc|load").stdout)
    assert re.search(r"malloc +12\.0 MiB", stand.call(*words, "").stdout)


def test_over_time_the_areas_are_what_was_in_use(shown: Shown, files: list[Path]) -> None:
    """The stacked areas: at the last profile parse is 4 MiB high, and load 1 MiB above it."""
    page, _ = shown("show", *reversed(files))
    section = page.read_text().partition('id="growth"')[2]
    areas = re.findall(r'points="([^"]*)" class="area c[12]"', section.partition("narrow")[0])
    corners = [[tuple(map(float, p.split(","))) for p in area.split()] for area in areas]
    load, parse = ([y for _, y in area] for area in corners)
    unit = (load[3] - load[0]) / 10
    assert unit > 10
    assert load[2] - load[1] == pytest.approx(unit, abs=0.3)
    assert parse[2] - parse[1] == pytest.approx(4 * unit, abs=0.3)
    assert parse[3] - parse[0] == pytest.approx(2 * unit, abs=0.3)


def test_one_profile_has_no_course(shown: Shown, files: list[Path]) -> None:
    page, _ = shown("show", files[0])
    assert 'id="growth"' not in page.read_text()
    assert sorted(data(page)["views"]) == ["alloc", "inuse"]


def test_of_several_processes_the_largest_is_shown_and_the_others_named(
    stand: Stand, shown: Shown, files: list[Path], tmp_path: Path
) -> None:
    other = OTHER.write(tmp_path / "p.99.0001.exit.pb.gz")
    page, _ = shown("show", other, *files)
    assert weights(page, "inuse")["parse"] == 4 * MIB
    assert "process 99 (pid 99, 1 profiles)" in page.read_text()
    shown("show", other, *files, "--pid", "99")
    assert weights(page, "inuse") == {"In use": MIB, "f": MIB}
    done = stand.call("heap", "show", other, *files, "--out", page, "--pid", "5")
    refused(done, "--pid 5: no profile is of that process, but of 4711")


def test_diff_says_what_grew_and_what_shrank(shown: Shown, files: list[Path]) -> None:
    page, said = shown("diff", *files)
    assert "12.0 MiB were in use before, 5.00 MiB after: 7.00 MiB less" in said
    assert re.search(r"load\W+−9\.00 MiB\W+exact\W+10\.0 MiB\W+1\.00 MiB", said)
    assert re.search(r"parse\W+\+2\.00 MiB\W+exact\W+2\.00 MiB\W+4\.00 MiB", said)
    assert weights(page, "grew")["parse"] == weights(page, "grew")["Grew"] == 2 * MIB
    assert weights(page, "shrank")["load"] == weights(page, "shrank")["Shrank"] == 9 * MIB
    assert weights(page, "alloc")["load"] == 10 * MIB
    assert 'id="v-shrank" checked' in page.read_text()


def test_only_of_one_process_in_time_it_says_what_was_allocated_between(
    shown: Shown, files: list[Path], tmp_path: Path
) -> None:
    other = OTHER.write(tmp_path / "q")
    for before, after in ((other, files[0]), (files[1], files[0])):
        page, _ = shown("diff", before, after)
        assert sorted(data(page)["views"]) == ["grew", "shrank"]


def test_a_diff_of_two_programs_names_both(shown: Shown, tmp_path: Path) -> None:
    def of(program: str) -> Path:
        module = world.Mapped(0x1000, 0x2000, 0, f"/none/{program}")
        return replace(FIRST, modules=[module]).write(tmp_path / f"{program}.pb.gz")

    page, said = shown("diff", of("one"), of("two"))
    assert "The heap of one before, of two after: " in said
    assert "<h1>The heap of one before, of two after</h1>" in page.read_text()
    _, said = shown("diff", of("one"), of("one"))
    assert "The heap of one, before and after: " in said


def test_what_is_not_as_it_should_be_is_on_the_page_and_in_the_terminal(
    shown: Shown, tmp_path: Path
) -> None:
    module = world.Mapped(0x1000, 0x2000, 0, "/none/gone.so")
    made = world.Made([([0x1234], [1, MIB, 1, MIB])], [module], comments=["lost_samples 1234"])
    page, terminal = shown("show", made.write(tmp_path / "p"))
    assert weights(page, "inuse") == {"In use": MIB, "[gone.so+0x234]": MIB}
    section = page.read_text().partition('id="problems"')[2].partition("</section>")[0]
    for said in ("/none/gone.so: ", "1\u202f234 samples were lost"):
        assert said in section
        assert said in terminal


def test_a_stack_that_was_cut_off_is_not_taken_for_a_whole_one(
    shown: Shown, tmp_path: Path
) -> None:
    rows = [([f"f{n}" for n in range(64)], [1, MIB, 1, MIB]), (["g"], [1, MIB, 1, MIB])]
    made = replace(FIRST, rows=rows)
    page, _ = shown("show", made.write(tmp_path / "p"))
    outermost = data(page)["views"]["inuse"][3]
    frames = data(page)["frames"]
    assert [frames[node[0]][0] for node in outermost] == ["[deeper: callers not kept]", "g"]


def test_the_allocators_own_functions_are_left_out(shown: Shown, tmp_path: Path) -> None:
    linked = ["read", "given", "hk_watched_malloc", "new_slow", "operator new", "hk_f", "main"]
    made = replace(FIRST, rows=[(linked, [1, MIB, 1, MIB])])
    page, _ = shown("show", made.write(tmp_path / "p"))
    assert list(weights(page, "inuse")) == ["In use", "main", "hk_f", "operator new"]


def test_a_narrow_terminal_shortens_names_and_no_figure(
    stand: Stand, files: list[Path], tmp_path: Path
) -> None:
    long = replace(FIRST, rows=[(["malloc", "a_function_of_many_words" * 4], [1, MIB, 1, MIB])])
    words = ("heap", "show", long.write(tmp_path / "p"), "--out", tmp_path / "a.html")
    whole = stand.call(*words, COLUMNS="140").stdout
    assert re.search(r"a_function[a-z_]*…\W+1\.00 MiB\W+100\.0 %\W+exact\W+1\W+1\.00 MiB", whole)
    for columns in (80, 60, 30):
        narrow = stand.call(*words, COLUMNS=str(columns)).stdout.partition("written")[0]
        shown = narrow.splitlines()[1:]
        assert max(map(len, shown)) <= columns
        for figure in ("1.00 MiB", "100.0 %", "exact", "with callees"):
            assert figure in " ".join(" ".join(shown).split())


def test_names_in_a_profile_cannot_take_over_the_page(shown: Shown, tmp_path: Path) -> None:
    evil = "</script><script>alert(1)</script>"
    stack = [evil, "\033[2J", "main"]
    made = replace(FIRST, rows=[(stack, [1, MIB, 1, MIB])], comments=[f"hakmem {evil}", "pid 1"])
    page, said = shown("show", made.write(tmp_path / "p"), "--wrappers", "script")
    assert "?[2J" in said
    assert "\033" not in said
    assert evil not in page.read_text()
    assert "&lt;script&gt;alert(1)" in page.read_text()
    assert weights(page, "inuse")[evil] == MIB


# ---- a program ----


def test_a_program_is_run_and_its_profiles_are_shown_and_kept(
    stand: Stand, files: list[Path], tmp_path: Path
) -> None:
    page, keep = tmp_path / "heap.html", tmp_path / "kept"
    script = f'{LEAVES}; echo "7f00 10 py::f:/a.py" >/tmp/perf-$$.map; echo $$'
    words = ("heap", "--out", page, "--keep", keep, "--", "sh", "-c", script, "caf\udce9")
    done = ran(stand.run(*words, MADE=str(files[1])))
    pid = done.stdout.split("\n")[0]
    Path(f"/tmp/perf-{pid}.map").unlink()
    assert "hakmem 0.0-stub served malloc in" in done.stderr
    assert "parse" in done.stdout
    kept, names = sorted(keep.iterdir(), reverse=True)
    assert (kept.name, names.name) == (f"sh.{pid}.0001.exit.pb.gz", f"perf-{pid}.map")
    assert kept.read_bytes() == files[1].read_bytes()
    assert "sh -c &#39;cp" in page.read_text()
    assert "caf\\udce9" in page.read_text()  # a byte that is no UTF-8 is escaped


@pytest.mark.parametrize(
    ("words", "own", "seen"),
    [
        ((), {}, "1  1 256 "),
        (("--sample-kb", "0", "--every-mb", "0", "--no-peaks"), {}, "1 0   "),
        ((), {"HAKMEM_PROF_SAMPLE_KB": "64", "HAKMEM_PROF_EVERY_MB": "3"}, "1 64 1 3 "),
        (("--sample-kb", "7"), {"HAKMEM_PROF_SAMPLE_KB": "64"}, "1 7 1 256 "),
        ((), {"HAKMEM_PROF_FORMAT": "text"}, "1  1 256 pprof"),
    ],
)
def test_what_the_program_is_told(
    stand: Stand, tmp_path: Path, words: tuple[str, ...], own: dict[str, str], seen: str
) -> None:
    names = ("", "_SAMPLE_KB", "_PEAK", "_EVERY_MB", "_FORMAT")
    shown = " ".join(f"$HAKMEM_PROF{name}" for name in names)
    command = ("--", "sh", "-c", f'echo "{shown}"')
    done = stand.run("heap", "--out", tmp_path / "a.html", *words, *command, **own)
    assert done.stdout == f"{seen}\n"


def test_the_programs_own_status_is_kept_and_the_page_made(
    stand: Stand, files: list[Path], tmp_path: Path
) -> None:
    page = tmp_path / "heap.html"
    words = ("heap", "--out", page, "--", "sh", "-c", f"{LEAVES}; exit 7")
    done = ran(stand.run(*words, MADE=str(files[1])), 7)
    assert page.is_file()
    assert "the command ended with status 7" in done.stderr.splitlines()[-1]


def test_a_program_that_is_not_on_hakmem_says_why_and_exits_3(stand: Stand, tmp_path: Path) -> None:
    words = ("heap", "--lib", stand.silent, "--out", tmp_path / "a.html", "--", "true")
    refused(stand.run(*words), "NOT proven in true", status=3)
    assert not (tmp_path / "a.html").exists()


@pytest.mark.parametrize(
    ("script", "status", "why"),
    [
        ("true", 1, "no profile was written: it left by _exit or exec"),
        ("exit 5", 5, "no profile was written: it left by _exit or exec"),
        ("kill -9 $$", 137, "no profile was written: a signal ended it (status 137)"),
    ],
)
def test_a_program_without_a_profile_is_one_line_more(
    stand: Stand, tmp_path: Path, script: str, status: int, why: str
) -> None:
    done = ran(stand.run("heap", "--out", tmp_path / "a.html", "--", "sh", "-c", script), status)
    assert why in done.stderr
    assert done.stderr.count("\n") == 2


@pytest.mark.built
def test_the_allocators_own_profiles_are_exact_where_every_allocation_is_one(
    tmp_path: Path, stand: Stand
) -> None:
    library = project.build_dir() / "libhakmem.so"
    if not library.is_file() or b"HAKMEM_PROF_SAMPLE_KB" not in library.read_bytes():
        pytest.skip("nothing is built that writes heap profiles: run `make build` first")
    program = compile_c("heap_names.c", tmp_path / "program", "-g")
    page = tmp_path / "heap.html"
    words = ("heap", "--lib", library, "--out", page, "--sample-kb", "0")
    ran(stand.run(*words, "--", program, "2000"))
    found = weights(page, "inuse")
    assert found["inlined"] == found["keep_static"] == 2000 * 1000
    assert "keep_exported" not in found
    assert weights(page, "alloc")["keep_exported"] == 2000 * 5000


# ---- bad input ----


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ((), 2, "what is to be run?"),
        (("show", "{tmp}/none"), 2, "cannot read {tmp}/none: No such file"),
        (("show", "{tmp}"), 2, "cannot read {tmp}: Is a directory"),
        (("show", "{tmp}/text"), 2, "{tmp}/text is no heap profile: it is not compressed"),
        (("diff", "{tmp}/good", "{tmp}/text"), 2, "{tmp}/text is no heap profile"),
        (("show", "{tmp}/none-sampled"), 1, "nothing was sampled in process 4711: it allocates"),
        (("show", "{tmp}/none-made"), 1, "nothing was allocated in process 4711"),
        (("show", "{tmp}/good", "--wrappers", "("), 2, "no regular expression"),
        (("--", "no-such-program"), 127, "command not found: no-such-program"),
        (("--keep", "{tmp}/no/a", "--", "true"), 2, "--keep {tmp}/no/a: there is no folder"),
    ],
)
def test_bad_input_is_one_line(
    stand: Stand, tmp_path: Path, arguments: tuple[str, ...], status: int, message: str
) -> None:
    FIRST.write(tmp_path / "good")
    replace(FIRST, rows=[], interval=MIB).write(tmp_path / "none-sampled")
    replace(FIRST, rows=[]).write(tmp_path / "none-made")
    (tmp_path / "text").write_text("no profile")
    out = () if "--out" in arguments else ("--out", tmp_path / "out.html")
    given = [argument.format(tmp=tmp_path) for argument in arguments]
    first = given[:1] if given[:1] in (["show"], ["diff"]) else []
    done = stand.call("heap", *first, *out, *given[len(first) :])
    refused(done, message.format(tmp=tmp_path), status=status)
    assert not (tmp_path / "out.html").exists()
