"""perf's output is checked, not trusted: what it counted and recorded, and planted bad perfs."""

import json
import re
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest
from hakmem.errors import LabError
from hakmem.process import perf
from hakmem.process.perf import GROUPS, NEEDED, PERIOD, parse_script, parse_stat, require_event
from standing import Stand, compile_c, ran, refused

# ---- perf stat ----

STAT = """# started on Sat Jan  1 00:00:00 2026

4000000000,,cycles:u,1002000000,100.00,,
8000000000,,instructions:u,1002000000,100.00,2.00,insn per cycle
1500000000,,branches:u,501000000,50.00,,
<not supported>,,cache-misses:u,0,100.00,,
<not counted>,,L1-dcache-loads:u,0,0.00,,
"""
ASKED = ("cycles:u", "instructions:u", "branches:u", "cache-misses:u", "L1-dcache-loads:u",
         "branch-misses:u")  # fmt: skip


def test_only_what_was_counted_all_the_time_is_a_figure() -> None:
    found = parse_stat(STAT, ASKED)
    assert found.counted == {"cycles:u": 4_000_000_000, "instructions:u": 8_000_000_000}
    assert found.absent == {
        "branches:u": "was counted for 50.00 % of the time only",
        "cache-misses:u": "not supported",
        "L1-dcache-loads:u": "not counted",
        "branch-misses:u": "was not counted",
    }


def test_another_event_than_the_one_asked_for_is_no_figure() -> None:
    fallen = STAT.replace("cycles:u", "cpu-clock:u").replace("instructions:u", "page-faults:u")
    found = parse_stat(fallen, NEEDED)
    assert found.counted == {}
    assert set(found.absent) == set(NEEDED)
    # Without :u the count includes the kernel.
    assert parse_stat(STAT.replace("cycles:u", "cycles"), NEEDED).absent.keys() == {"cycles:u"}


def test_two_kinds_of_cores_are_added() -> None:
    text = (
        "300,,cpu_core/cycles/u,1000,100.00,,\n"
        "200,,cpu_atom/cycles/u,1000,100.00,,\n"
        "900,,cpu_core/instructions/u,1000,100.00,,\n"
        "<not counted>,,cpu_atom/instructions/u,0,0.00,,\n"
    )
    found = parse_stat(text, NEEDED)
    assert found.counted == {"cycles:u": 500, "instructions:u": 900}
    assert found.absent == {}
    moved = text.replace("900,,cpu_core/instructions/u,1000,100.00",
                         "900,,cpu_core/instructions/u,1000,60.00")  # fmt: skip
    assert "60.00 %" in parse_stat(moved, NEEDED).absent["instructions:u"]


@pytest.mark.parametrize(
    ("status", "said", "expected"),
    [
        (0, STAT, None),
        (0, "<not supported>,,cycles:u,0,100.00,,\n<not supported>,,instructions:u,0,100.00,,\n",
         r"counts nothing here \(cycles:u not supported, instructions:u not supported\)"),
        (0, "", "was not counted"),
        (255, "Error:\nAccess to performance monitoring and observability operations is limited.\n",
         r"perf_event_paranoid is 4\).*sysctl kernel.perf_event_paranoid=2"),
        (255, "perf: Permission denied", "CAP_PERFMON"),
        (2, "/usr/bin/perf: line 13: exec: perf_6.1: not found", "perf fails here: .*not found"),
        (1, "", "perf fails here: status 1"),
    ],
)  # fmt: skip
def test_why_perf_cannot_count(status: int, said: str, expected: str | None) -> None:
    found = perf.refused(status, said, "4")
    if expected is None:
        assert found is None
    else:
        assert "\n" not in found
        assert re.search(expected, found)


# ---- perf record ----

REFUSED = pytest.raises(LabError, match="cycles:u")
EVLIST = "cycles:u: type: 0, size: 128, { sample_period, sample_freq }: 100003, disabled: 1\n"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (EVLIST, nullcontext()),
        (EVLIST.replace("cycles:u", "cycles:uH"), nullcontext()),
        ("cycles:u\n", nullcontext()),
        (
            EVLIST.replace("cycles:u", "cpu_core/cycles/u").replace("type: 0", "type: 4"),
            nullcontext(),
        ),
        # perf 6.1's answer on a machine that refuses cycles:u.
        (
            "cpu-clock:uH: type: 1, size: 128, { sample_period, sample_freq }: 4000, inherit: 1\n",
            REFUSED,
        ),
        ("page-faults:u: type: 1, config: 0x2, size: 128\n", REFUSED),
        (EVLIST.replace("cycles:u", "cycles"), REFUSED),
        (EVLIST.replace("type: 0", "type: 1"), REFUSED),
        (EVLIST + "page-faults:u: type: 1, config: 0x2, size: 128\n", REFUSED),
        ("", REFUSED),
    ],
)
def test_the_event_asked_for_is_accepted_and_no_other(
    text: str, what: AbstractContextManager[object]
) -> None:
    with what:
        require_event(text)


def script(event: str = "cycles:u", period: int = PERIOD) -> str:
    rows = (("malloc", "/p/libhakmem.so"), ("malloc", "/p/libhakmem.so"), ("[unknown]", "[vdso]"),
            ("operator new(unsigned long)", "/p/a (b).so"))  # fmt: skip
    return "".join(
        f" bench_random_mi  {period:>9} {event}:      7f8ee01234ab {symbol} ({file})\n"
        for symbol, file in rows
    )


def test_samples_by_symbol() -> None:
    assert parse_script(script()) == {
        ("/p/libhakmem.so", "malloc"): 2,
        ("[vdso]", "[unknown]"): 1,
        ("/p/a (b).so", "operator new(unsigned long)"): 1,
    }
    assert parse_script(script("cycles:uH")) == parse_script(script())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (script("cpu-clock:uH", 250_000), "perf sampled cpu-clock:uH where cycles:u was asked"),
        (script("page-faults:u", 1), "perf sampled page-faults:u"),
        (script() + script("cpu-clock:u"), "cpu-clock"),
        (script(period=1), "each 1 events"),
        ("no sample at all\n", "not a sample"),
    ],
)
def test_samples_of_another_event_are_refused(text: str, said: str) -> None:
    with pytest.raises(LabError, match=said):
        parse_script(text)


# ---- a whole run under a planted perf ----

# A planted perf. It counts 1000 of each event, plus its rate for each operation; it samples malloc
# once for each operation, and start-up ten times.
PERF = """#!{python}
import os, subprocess, sys
from pathlib import Path

RATES = {{"instructions": 50, "cycles": 25, "branches": 9, "branch-misses": 1, "cache-misses": 2,
         "L1-dcache-loads": 20, "L1-dcache-load-misses": 4}}
how = os.environ.get("HAKMEM_PLANTED_PERF", "")
verb, *rest = sys.argv[1:]
if how == "refuses":
    sys.exit("Error:\\nAccess to performance monitoring is limited: perf_event_paranoid")
here = Path(sys.argv[0]).parent

def option(name):
    return rest[rest.index(name) + 1]

def amount(argv):
    return int(next((a for a in argv[1:] if a.isdigit()), "0"))

event = "cpu-clock:uH" if how == "falls back" else "cycles:u"
if verb in ("stat", "record"):
    program = rest[rest.index("--") + 1:]
    with open(option("-o"), "a") as out:
        for asked in option("-e").split(",") if verb == "stat" else []:
            name = asked.partition(":")[0]
            share = "40.00" if how == "shares" and name == "branches" else "100.00"
            count = 1000 + RATES[name] * amount(program)
            print(f"{{count}},,{{asked}},999,{{share}},,", file=out)
        if verb == "record":
            print(amount(program), file=out)
    sys.exit(subprocess.run(program).returncode)
n = int(Path(option("-i")).read_text().split()[-1])
if verb == "evlist":
    kind = 1 if how == "falls back" else 0
    print(f"{{event}}: type: {{kind}}, size: 128, {{{{ sample_period }}}}: {period}")
if verb == "script":
    row = f" bench {period} {{event}}:  7f00 "
    print((row + "malloc (/p/libhakmem.so)\\n") * n + (row + "main (/p/bench)\\n") * 10)
"""


@pytest.fixture(scope="session")
def under_perf(stand: Stand, tmp_path_factory: pytest.TempPathFactory) -> Stand:
    planted = stand.elsewhere(tmp_path_factory.mktemp("perf"))
    folder, tools = planted.folder, planted.folder / "bin"
    tools.mkdir()
    compile_c("operations.c", folder / "bench" / "bench_random_mixed")
    perf = tools / "perf"
    perf.write_text(PERF.format(python=sys.executable, period=PERIOD))
    perf.chmod(0o755)
    (tools / "true").symlink_to("/bin/true")
    return planted.under(PATH=tools)


RUN = ("hotpath", "--bench", "random_mixed 16-1024", "--amounts", "100,300", "--repeat", 2)


def test_figures_are_the_difference_and_say_perf(under_perf: Stand, tmp_path: Path) -> None:
    own = under_perf.under(LAB_LEDGER=tmp_path)
    done = ran(own.call(*RUN))
    assert "user mode only, by the processor's counters" in done.stdout
    assert "simulated" not in done.stdout
    (record,) = own.records()
    metrics = record.body["metrics"]

    def value(name: str) -> float:
        assert metrics[f"random_mixed 16-1024 {name}"]["method"] == "perf"
        return metrics[f"random_mixed 16-1024 {name}"]["value"]

    assert value("instructions per operation") == 50
    assert value("cycles per operation") == 25
    assert value("branch misses per operation") == 1
    assert value("L1 data load misses per operation") == 4
    assert value("instructions per cycle") == 2
    assert record.body["method"] == "perf"
    assert record.body["not_counted"] == {}
    # One sample of malloc for each operation; start-up has equally many in both runs: they cancel.
    assert record.body["functions"] == {
        "random_mixed 16-1024": {
            "A": [{"object": "/p/libhakmem.so", "function": "malloc", "own": float(PERIOD),
                   "inclusive": None}]
        }
    }  # fmt: skip


def test_a_perf_that_falls_back_silently_gives_no_symbols(
    under_perf: Stand, tmp_path: Path
) -> None:
    own = under_perf.under(LAB_LEDGER=tmp_path)
    done = ran(own.call(*RUN, HAKMEM_PLANTED_PERF="falls back"))
    assert "hakmem: perf recorded cpu-clock:uH where cycles:u was asked for" in done.stdout
    (record,) = own.records()
    assert record.body["functions"] == {}
    assert "cycles of hakmem" not in done.stdout


def test_an_event_counted_for_a_part_of_the_time_is_left_out(under_perf: Stand) -> None:
    done = under_perf.call(*RUN, "--no-record", "--json", HAKMEM_PLANTED_PERF="shares")
    document = json.loads(done.stdout)
    assert "random_mixed 16-1024 branches per operation" not in document["metrics"]
    assert "random_mixed 16-1024 branch misses per operation" in document["metrics"]
    assert document["not_counted"] == {
        "random_mixed 16-1024": {"A": {"branches:u": "was counted for 40.00 % of the time only"}}
    }


def test_a_perf_without_permission_says_what_to_do(under_perf: Stand) -> None:
    done = under_perf.call(*RUN, "--no-record", HAKMEM_PLANTED_PERF="refuses")
    ran(done)  # no counters, and no callgrind on this PATH: only page faults are left
    (line,) = [line for line in done.stdout.splitlines() if "paranoid" in line]
    assert "sysctl kernel.perf_event_paranoid=2" in line
    assert "page faults" in done.stdout
    words = (*RUN, "--no-record", "--method", "perf")
    refused(under_perf.call(*words, HAKMEM_PLANTED_PERF="refuses"), "paranoid", status=1)


def test_what_is_asked_of_the_processor_fits_into_four_counters() -> None:
    fixed = {"cycles:u", "instructions:u"}
    for group in GROUPS:
        assert len(set(group.values()) - fixed) <= 4
        assert all(event.endswith(":u") for event in group.values())
