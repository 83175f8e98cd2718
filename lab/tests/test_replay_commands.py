"""The commands that replay a trace and advise on it."""

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hakmem.paired import protocol
from hakmem.paired.protocol import Decision
from hakmem.process import provenance
from hakmem.replay import advise, trace
from hakmem.replay.advise import Advice
from hakmem.stats import Interval
from replay_world import BUILD, LIBRARY, built, small_trace
from standing import Stand


@pytest.fixture
def small(tmp_path: Path) -> trace.Trace:
    return small_trace(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("record",), 2, "which program? hakmem record -- COMMAND"),
        (("record", "--raw", "/no/such"), 2, "the recording not found: /no/such"),
        (("record", "--raw", __file__), 2, "is no recording of this version"),
        (("record", "--", "no-such-program"), 127, "command not found"),
        (("record", "--out", "/no/such/x", "--", "true"), 2, "there is no folder /no/such"),
        (("record", "--", "true"), 3, "nothing was recorded: hakmem 0.0-stub served malloc in"),
        (("replay", "/no/such.hktrace"), 2, "cannot read /no/such.hktrace: No such file"),
        (("advise", "/no/such.hktrace"), 2, "cannot read /no/such.hktrace: No such file"),
    ],
)
def test_mistakes_are_one_clear_line(
    stand: Stand, arguments: tuple[str, ...], status: int, message: str
) -> None:
    done = stand.call(*arguments)
    assert (done.returncode, done.stderr.count("\n")) == (status, 1), done.stderr
    assert message in done.stderr


@pytest.fixture
def real(tmp_path: Path) -> Stand:
    """The command against the product, in this process."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("HAKMEM_", "LD_PRE"))}
    environment |= {"LAB_LOCK_FILE": str(tmp_path / "lock"), "COLUMNS": "140", "NO_COLOR": "1"}
    provenance._binary.cache_clear()
    return Stand(BUILD, LIBRARY, LIBRARY, environment)


@built
def test_replay_has_both_tables_and_the_page_has_the_curves(
    real: Stand, small: trace.Trace, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    asked = ("--allocator", "system", "--max-blocks", 8, "--min-seconds", 0, "--page", page)
    done = real.call("replay", small.path, *asked)
    assert done.returncode == 0, done.stderr
    for words in ("ns/op", "× live", "MB·ms", "wall time of hakmem", "memory held per live byte"):
        assert words in done.stdout
    text = page.read_text()
    assert text.count("<polyline") == 2 * 3  # both widths: live, hakmem, the C library
    assert "operations done, %" in text
    assert "<script" not in text


@built
def test_advise_measures_each_set_and_ends_in_a_sentence(
    real: Stand, small: trace.Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(advise, "SETS", ("HAKMEM_THP=0",))
    done = real.call("advise", small.path, "--max-blocks", 8, "--min-seconds", 0)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^HAKMEM_THP=0 +[\d.]+ +\[", done.stdout, re.MULTILINE)
    last = done.stdout.strip().splitlines()[-1]
    assert last.startswith(("recommended: HAKMEM_THP=0", "nothing helps", "to be weighed"))


def decision(low: float, high: float, verdict: protocol.Verdict) -> Decision:
    gain = Interval((low + high) / 2, low, high, protocol.KIND)
    return Decision(verdict, gain, (), 8, 0.02, True)


def test_only_a_verdict_is_a_side() -> None:
    assert advise.side(decision(0.02, 0.05, "GO")) == "better"
    assert advise.side(decision(-0.05, -0.02, "NO-GO")) == "worse"
    assert advise.side(decision(-0.02, 0.05, "UNDECIDED")) == "open"
    assert advise.side(decision(-0.002, 0.005, "UNDECIDED")) == "same"
    assert advise.side(decision(0.004, 0.006, "GO")) == "same"
    assert advise.side(None) == "open"


def test_what_is_recommended_costs_nothing_and_nothing_is_an_answer() -> None:
    same = Advice("X=1", "same", "open")
    assert advise.sentence([same]).startswith("nothing helps: no set of options")
    free, dear = replace(same, time="better"), Advice("Y=2", "worse", "better")
    assert advise.sentence([same, free]) == "recommended: X=1 (faster)"
    assert advise.sentence([dear]) == (
        "nothing helps without a price; to be weighed: Y=2 (less memory, but slower)"
    )
    both = advise.sentence([free, dear, Advice("Z=3", "better", "better")])
    assert both == (
        "recommended: X=1 (faster), Z=3 (faster and less memory); "
        "to be weighed: Y=2 (less memory, but slower)"
    )
