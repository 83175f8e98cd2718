"""`hakmem hotpath`: differences of two amounts of work, real callgrind, sections, the record."""

import json
import os
import shutil
from pathlib import Path

import pytest
from hakmem import project
from hakmem.errors import LabError
from hakmem.hotpath import callgrind, cli as hotpath_view, sections as hotpath_sections, work
from hakmem.hotpath.work import Amounts
from hakmem.process import provenance
from hakmem.suite import SUITE
from standing import Stand, compile_c, compile_static, need, ran, refused, script


@pytest.fixture(scope="session")
def planted(stand: Stand, tmp_path_factory: pytest.TempPathFactory) -> Stand:
    """A build whose benchmarks are programs/operations.c, on a PATH whose perf cannot count."""
    planted = stand.elsewhere(tmp_path_factory.mktemp("planted"))
    folder, program = planted.folder, planted.folder / "bench" / "bench_random_mixed"
    compile_c("operations.c", program)
    for name in ("batch", "burst"):
        shutil.copy(program, program.with_name(f"bench_{name}"))
    return planted.under(PATH=f"{without_perf(folder / 'bin')}:{os.environ['PATH']}")


def without_perf(folder: Path) -> Path:
    """A folder for PATH with a perf that cannot count, as on most virtual machines."""
    said = "echo '<not supported>,,{}:u,0,100.00,,' >&2"
    lines = (said.format(name) for name in ("cycles", "instructions"))
    return script(folder / "perf", "\n".join(lines)).parent


def figure(document: dict, name: str) -> float:
    return document["metrics"][name]["value"]


# ---- callgrind for real ----


def test_warm_up_drops_out_and_the_figure_is_that_of_the_operations(planted: Stand) -> None:
    need("valgrind")

    def instructions(*arguments: object) -> float:
        words = ("--json", "--no-record", "--repeat", 1, "--sections-sample", 0, *arguments)
        metrics = json.loads(ran(planted.call("hotpath", *words)).stdout)["metrics"]
        return next(m["value"] for name, m in metrics.items() if "instructions per" in name)

    program = planted.folder / "bench" / "bench_random_mixed"
    plain = instructions("--amounts", "2000,6000", "--", program, "{n}", "plain")
    # One operation is a malloc and a free of the stand-in, which calls the C library's.
    assert 30 < plain < 400
    mixed = instructions("--amounts", "2000,6000", "--bench", "random_mixed 16-1024")
    assert mixed == pytest.approx(plain, rel=0.01)
    # A forked child has a profile of its own, which must not count.
    forks = instructions("--amounts", "2000,6000", "--", program, "{n}", "forks")
    # Without --warmup the untimed pass grows with the amount: the figure is a tenth too large.
    uneven = instructions("--amounts", "2000,6000", "--", program, "{n}")
    assert uneven == pytest.approx(1.1 * plain, rel=0.01)
    assert forks == pytest.approx(uneven, rel=0.01)


def test_the_record_states_method_repetitions_and_functions(planted: Stand, tmp_path: Path) -> None:
    need("valgrind")
    own = planted.under(LAB_LEDGER=tmp_path)
    done = ran(own.call(
        "hotpath", "--bench", "random_mixed 129-1024", "--amounts", "500,1500", "--repeat", 2,
        "--lib", "hakmem", "--lib", "system", "--seed", 3,
    ))  # fmt: skip
    assert "perf counts nothing here (cycles:u not supported" in done.stdout
    assert "simulated branch misses" in done.stdout
    (record,) = own.records()
    assert done.stdout.rstrip().endswith(f"recorded: {record.id}")
    body = record.body
    assert (record.kind, body["method"], body["ok"], body["repeat"]) == (
        "hotpath", "callgrind", True, 2,
    )  # fmt: skip
    metric = body["metrics"]["random_mixed 129-1024 instructions per operation"]
    assert metric["unit"] == "instructions/op"
    assert (metric["method"], metric["kind"], metric["runs"]) == ("callgrind", "range", 2)
    assert metric["low"] <= metric["value"] <= metric["high"]
    of_system = body["metrics"]["random_mixed 129-1024 instructions per operation of system"]
    # The stand-in calls the C library's allocator, so it needs more than that alone.
    assert 0 < of_system["value"] < metric["value"]
    faults = body["metrics"]["random_mixed 129-1024 page faults per operation"]
    assert faults["method"] == "rusage"
    assert not any("cycles" in name or "/" in name for name in body["metrics"])
    functions = body["functions"]["random_mixed 129-1024"]["A"]
    by_name = {(Path(f["object"]).name, f["function"]): f for f in functions}
    served = by_name["libhakmem.so", "malloc"]
    assert 1 <= served["own"] < served["inclusive"]
    (entry,) = body["benchmarks"]
    assert entry["works"]["random_mixed_400"]["arguments"] == ["129", "1024"]
    command = SUITE.command("random_mixed_400")
    definition = provenance.definition(command, project.root())
    assert entry["works"]["random_mixed_400"]["definition"] == definition
    assert entry["works"]["random_mixed_400"]["amounts"]["counted"] == [500, 1500]
    assert own.ledger.raw(record.raw["runs.txt"]).count(b"totals: ") == 8
    ran(own.call("ledger", "verify"))
    ran(own.call("rerun", record.id))
    *_, again = own.records()
    assert (again.kind, again.body["repeats"]) == ("hotpath", record.id)
    assert again.body["argv"] == body["argv"]
    assert again.body["metrics"].keys() == body["metrics"].keys()


def test_a_library_that_does_not_serve_is_refused(planted: Stand, tmp_path: Path) -> None:
    """The silent stand-in claims to be hakmem, but leaves no proof in the process."""
    need("valgrind")
    done = planted.call(
        "hotpath", "--lib", planted.silent, "--bench", "burst", "--amounts", "50,100",
        "--repeat", 1, LAB_LEDGER=str(tmp_path / "x"),
    )  # fmt: skip
    assert done.returncode == 1
    assert "the process did not say that it was loaded" in done.stdout
    assert "\nrecorded: " in done.stdout


@pytest.mark.parametrize("lib", ["hakmem", "system"])
def test_a_benchmark_that_hakmem_fails_is_on_record(
    planted: Stand, tmp_path: Path, lib: str
) -> None:
    own = planted.under(LAB_LEDGER=tmp_path / "x", PATH=tmp_path)  # no tool is needed
    fails = f"lib={lib} PLANTED_FAILURE=1 name={lib}"
    both = ("--lib", fails, "--lib", "lib=system name=other")
    done = ran(own.call("hotpath", *both, "--repeat", 1, "--bench", "batch_fifo"), 1)
    assert f"✗ batch_fifo, {lib}: status 9: planted failure" in done.stdout
    if lib == "system":
        assert own.records() == []
        return
    (record,) = own.records("hotpath")
    why = {"batch_fifo": "status 9: planted failure"}
    assert (record.body["ok"], record.body["failures"]) == (False, why)
    assert "batch_fifo page faults per operation of other" in record.body["metrics"]


def test_code_in_sections_beside_text_is_the_librarys_too(planted: Stand, tmp_path: Path) -> None:
    need("valgrind", "objdump")
    apart = compile_c("stub_library.c", tmp_path / "apart.so", "-shared", "-fPIC", "-DAPART")
    done = ran(planted.call(
        "hotpath", "--lib", apart, "--bench", "burst", "--amounts", "50,100",
        "--repeat", 1, "--no-record",
    ))  # fmt: skip
    assert "???" not in done.stdout
    assert done.stdout.count("apart.so") >= 2


def test_the_tools_own_proof_is_not_the_programs(planted: Stand, tmp_path: Path) -> None:
    """valgrind's launcher loads the library and leaves proof; the static program does not."""
    need("valgrind")
    source = tmp_path / "program.c"
    source.write_text("int main(void) { return 0; }\n")
    program = compile_static(source, tmp_path / "static")
    done = ran(planted.call("hotpath", "--no-record", "--repeat", 1, "--", program), 1)
    assert "the process did not say that it was loaded" in done.stdout


@pytest.mark.parametrize(
    ("how", "said"), [("crash", "killed by SIGABRT"), ("give up", "status 9: planted failure")]
)
def test_a_program_of_ones_own_that_fails_is_named_and_not_recorded(
    planted: Stand, tmp_path: Path, how: str, said: str
) -> None:
    need("valgrind")
    program = planted.folder / "bench" / "bench_random_mixed"
    done = planted.call(
        "hotpath", "--repeat", 1, "--amounts", "8,9", "--", program, "{n}", how,
        LAB_LEDGER=str(tmp_path / "x"),
    )  # fmt: skip
    assert done.returncode == 1
    assert f"✗ bench_random_mixed, hakmem: {said}" in done.stdout
    assert not (tmp_path / "x").exists()


def test_sections_of_a_process_that_states_them(planted: Stand, tmp_path: Path) -> None:
    # Sections need no tool.
    no_tools = {"PATH": str(tmp_path)}
    arguments = ("hotpath", "--json", "--no-record", "--repeat", 1, "--bench", "batch_fifo",
                 "--amounts", "800,8800")  # fmt: skip
    done = ran(planted.call(*arguments, "--lib", "HAKMEM_PLANTED=1 name=hakmem", **no_tools))
    document = json.loads(done.stdout)
    (section,) = document["sections"]["batch_fifo"]["A"]
    # The program reports 7 + n/8 entries, n/80 of them timed, with 40 cycles each.
    assert section == {
        "name": "refill", "entries_per_op": 0.125, "timed": 110, "cycles_per_entry": 40.0,
        "longest": 900, "cycles_per_op": 5.0,
    }  # fmt: skip
    assert figure(document, "batch_fifo refill cycles per operation") == 5
    without = json.loads(planted.call(*arguments, **no_tools).stdout)
    assert without["sections"] == {}
    (note,) = without["notes"]["batch_fifo"]["A"]
    assert "no HAKMEM_SECTIONS_SAMPLE" in note


# ---- wrong command lines ----


def test_a_method_that_cannot_be_used_here_is_refused_where_it_is_named(planted: Stand) -> None:
    done = planted.call("hotpath", "--no-record", "--method", "perf")
    refused(done, "perf counts nothing here", status=1)


def test_an_unknown_method_names_those_that_are_there(planted: Stand) -> None:
    done = ran(planted.call("hotpath", "--method", "guess"), 2)
    assert "'guess' is not one of auto, perf, callgrind, emulated" in done.stderr


def test_a_script_is_no_program(planted: Stand, tmp_path: Path) -> None:
    program = script(tmp_path / "script", "true")
    refused(planted.call("hotpath", "--no-record", "--", program), "is a script")


def test_without_any_tool_each_is_named_and_page_faults_remain(
    planted: Stand, tmp_path: Path
) -> None:
    empty = tmp_path / "bin"
    empty.mkdir()
    arguments = ("hotpath", "--no-record", "--repeat", 2, "--bench", "batch_fifo",
                 "--amounts", "10,20")  # fmt: skip
    done = ran(planted.call(*arguments, PATH=str(empty)))
    for tool in ("perf is not installed", "valgrind is not installed", "objdump is not installed"):
        (line,) = [line for line in done.stdout.splitlines() if tool in line]
        assert "apt-get install" in line
    assert "page faults" in done.stdout
    assert "instructions  " not in done.stdout
    named = planted.call(*arguments, "--method", "callgrind", PATH=str(empty))
    refused(named, "valgrind is not installed", status=1)
    assert named.stdout == ""


# ---- two amounts of work ----


def test_both_processes_have_the_same_untimed_pass(planted: Stand, monkeypatch: object) -> None:
    monkeypatch.setenv("LAB_BUILD_DIR", planted.environment["LAB_BUILD_DIR"])
    found = work.benchmark("random_mixed 16-1024")
    for simulated in (True, False):
        amounts = found.amounts(simulated)
        passes = set()
        for amount in (amounts.small, amounts.large):
            _, n, slots, _, low, high, warmup = found.argv(amount, amounts)
            assert (int(n), slots, low, high) == (amount, "400", "16", "1024")
            passes.add(int(n) // 10 + int(warmup.removeprefix("--warmup=")))
        assert passes == {amounts.large // 10}
    assert found.amounts(True).large < found.amounts(False).large
    # Only random_mixed has the argument --warmup.
    assert not any("warmup" in a for a in work.benchmark("burst").argv(1, Amounts(1, 2)))


# ---- a callgrind profile ----

PROFILE = """# callgrind format
version: 1
creator: callgrind-3.19.0
cmd:  ./program 1
desc: I1 cache: 32768 B, 64 B, 8-way associative
desc: Timerange: Basic block 0 - 99
positions: line
events: Ir Dr Dw Bc Bcm
summary: 60 9 3 4 1

ob=(1) /p/program
fl=(1) main.c
fn=(1) main
5 10 2 1
+2 5
cob=(2) /p/lib.so
cfi=(2) alloc.c
cfn=(2) malloc
calls=3 40
+1 40 6 1 4 1
* 2
ob=(2)
fl=(2)
fn=(2)
40 20 3 1 4
fi=(3) inline.h
7 15 3 0 0 1
fe=(2)
-1 3
cfn=(3) slow
calls=1 90
* 5 1
fn=(3)
90 5 1 1
totals: 60 9 3 4 1
"""


def test_own_and_inclusive_instructions_by_function() -> None:
    profile = callgrind.parse(PROFILE)
    found = {k: (f.own, f.inclusive) for k, f in profile.functions.items()}
    assert found == {
        ("/p/program", "main"): (17, 57),
        ("/p/lib.so", "malloc"): (38, 43),
        ("/p/lib.so", "slow"): (5, 5),
    }
    assert profile.caches == ["I1 cache: 32768 B, 64 B, 8-way associative"]
    assert profile.figures() == {
        "instructions": 60,
        "conditional branches": 4,
        "data reads": 9,
        "data writes": 3,
    }
    assert profile.objects() == {"/p/program": 17, "/p/lib.so": 43}


def test_the_difference_of_two_profiles_by_function() -> None:
    small = callgrind.parse(PROFILE)
    more = PROFILE.replace("40 20 3 1 4", "40 120 3 1 4").replace("+1 40 6", "+1 140 6")
    large = callgrind.parse(more.replace("totals: 60", "totals: 160"))
    assert sorted(callgrind.functions_between(small, large, 50)) == [
        (("/p/lib.so", "malloc"), 2.0, 2.0),
        (("/p/program", "main"), 0.0, 2.0),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "names no events"),
        (PROFILE.replace("events: Ir", "events: Xx"), "names no events"),
        (PROFILE.partition("totals")[0], "not whole"),
        (PROFILE.replace("40 20 3", "40 21 3"), "misread"),
        (PROFILE.replace("calls=3 40\n", ""), "misread"),
    ],
)
def test_a_profile_that_does_not_add_up_is_refused(text: str, said: str) -> None:
    with pytest.raises(LabError, match=said):
        callgrind.parse(text)


# ---- sections ----


def sections(every: object = 16, **row: object) -> str:
    good = {"count": 1000, "sampled": 60, "cycles": 6000, "max": 400}
    flush = {**good, **row}
    document = {"sections_sample": every, "sections_timer": "tsc", "sections": {"flush": flush}}
    return json.dumps(document)


def test_cycles_per_entry_and_per_operation() -> None:
    small = hotpath_sections.parse(sections(), 16)
    large = hotpath_sections.parse(sections(count=3000, sampled=160, cycles=32000, max=900), 16)
    (found,) = hotpath_sections.between(small, large, 8000)
    assert (found.entries_per_op, found.cycles_per_entry, found.cycles_per_op) == (0.25, 200, 50)
    assert (found.timed, found.longest) == (160, 900)


def test_an_interrupted_entry_at_the_start_makes_no_cheap_operations() -> None:
    """One long entry at the start, as if interrupted, must not make the mean negative."""
    small = hotpath_sections.parse(sections(cycles=1_000_000, max=990_000), 16)
    large = hotpath_sections.parse(sections(count=3000, sampled=160, cycles=32000), 16)
    (found,) = hotpath_sections.between(small, large, 8000)
    assert found.cycles_per_entry == 200


def test_a_section_of_which_no_entry_was_timed_has_no_mean() -> None:
    small = hotpath_sections.parse(sections(sampled=0, cycles=0), 16)
    large = hotpath_sections.parse(sections(count=1010, sampled=0, cycles=0), 16)
    (found,) = hotpath_sections.between(small, large, 10)
    assert found.cycles_per_entry is None
    assert found.cycles_per_op is None
    (same,) = hotpath_sections.between(small, small, 10)
    assert (same.entries_per_op, same.cycles_per_op) == (0, 0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("no JSON", "not JSON"),
        ("[]", "not JSON"),
        ('{"heap": {}}', "has no HAKMEM_SECTIONS_SAMPLE"),
        (sections(every=4), "4 was in effect"),
        (sections(sampled=None), "flush has no count"),
    ],
)
def test_statistics_that_state_no_sections_are_refused(text: str, said: str) -> None:
    with pytest.raises(LabError, match=said):
        hotpath_sections.parse(text, 16)


def test_what_is_said_of_the_timer() -> None:
    assert hotpath_sections.about(hotpath_sections.parse(sections(), 16)) == {
        "sections_timer": "tsc"
    }


# ---- numbers ----


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (0, "0"), (0.00001, "<0.0001"), (-0.00001, "<0.0001"), (0.99998, "1.00"),
     (0.125, "0.1250"), (42.005, "42.01"), (1470.2, "1\u202f470"), (-2.5, "−2.50")],
)  # fmt: skip
def test_how_numbers_are_written(value: float | None, text: str) -> None:
    assert hotpath_view.number(value) == text


def test_the_spread_is_half_the_range() -> None:
    assert hotpath_view.with_spread([10.0, 12.0, 11.0]) == "11.00 ± 9.1 %"
    assert hotpath_view.with_spread([0.0, 0.004, 0.002]) == "0.0020 ± 0.0020"
    assert hotpath_view.with_spread([5.0]) == "5.00"
    assert hotpath_view.with_spread(None) == "–"
