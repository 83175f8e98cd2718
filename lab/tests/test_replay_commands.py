"""The commands that replay a trace and advise on it."""

import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from hakmem import project
from hakmem.audit import citing
from hakmem.errors import LabError
from hakmem.ledger.store import Ledger, Record
from hakmem.paired import protocol
from hakmem.paired.blocks import Outcome
from hakmem.paired.protocol import Decision
from hakmem.paired.session import Conducted
from hakmem.process import provenance
from hakmem.replay import advise, measure, trace
from hakmem.replay.advise import Advice
from hakmem.rerun import run as rerun
from hakmem.rerun.source import Past
from hakmem.stats import Interval
from replay_world import REAL, built, small_trace
from rich.console import Console
from standing import Stand, flat, ran
from test_ab import plan


@pytest.fixture
def small(tmp_path: Path) -> trace.Trace:
    return small_trace(tmp_path)


@pytest.fixture
def real(tmp_path: Path) -> Stand:
    """The command with the real library, called in this process."""
    provenance._binary.cache_clear()
    places = {"LAB_LOCK_FILE": tmp_path / "lock", "LAB_LEDGER": tmp_path / "led"}
    return REAL.under(COLUMNS=140, NO_COLOR=1, **places)


@built
def test_replay_has_both_tables_and_the_page_has_the_curves(
    real: Stand, small: trace.Trace, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    asked = ("--allocator", "system", "--max-blocks", 8, "--min-seconds", 0, "--page", page)
    done = ran(real.call("replay", small.path, *asked))
    for words in ("ns/op", "× live", "MB·s", "wall time of hakmem", "memory held per live byte"):
        assert words in done.stdout
    text = page.read_text()
    assert text.count("<polyline") == 2 * 5  # both widths: live, two held; two held per live byte
    assert "time, s" in text
    assert "<script" not in text
    found = {r.body["benchmarks"][0]["metric"]: r for r in real.records("verdict")}
    assert list(found) == ["wall", "held"]
    for record in found.values():
        shown = real.call("ledger", "show", record.id)
        assert (shown.returncode, shown.stderr) == (0, "")
        assert "of small?" in flat(shown.stdout)
        assert hashlib.sha256(small.path.read_bytes()).hexdigest() in shown.stdout
        body = json.loads(json.dumps(record.body))
        evidence = citing.Evidence(project.root(), {}, 0)
        assert list(evidence._benchmark_changed(body, None)) == []
        body["benchmarks"][0]["works"]["small"]["arguments"][0] += "x"
        assert list(evidence._benchmark_changed(body, None)) == ["the benchmark small has changed"]


def test_a_verdict_is_repeated_by_that_on_the_same_metric(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LAB_LEDGER", str(tmp_path))

    def measure(argv: object = None) -> list[Record]:
        bodies = ({"argv": ["hakmem"], "inputs": [m], "benchmarks": [{"metric": m}]} for m in "ab")
        return [Ledger.default().append("verdict", body) for body in bodies]

    before = measure()
    monkeypatch.setattr(rerun, "run_own", measure)
    for record in before:
        again = rerun.by_command(Past(record, {r.id: r for r in before}), Console(quiet=True))
        assert again.id not in {r.id for r in before}
        assert again.body == record.body


def test_only_a_replay_that_is_to_be_recorded_says_how_to_repeat_it(
    stand: Stand, small: trace.Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[measure.Request] = []
    monkeypatch.setattr(measure, "run", lambda request, console: asked.append(request) or 1 / 0)
    for more in ((), ("--no-record",)):
        with pytest.raises(ZeroDivisionError):
            stand.call("replay", small.path, "--allocator", "system", "--seed", 7, *more)
    argv = ["hakmem", "replay", str(small.path), "--allocator", "system", "--seed", "7"]
    assert [request.argv for request in asked] == [argv, None]


@pytest.mark.parametrize(
    ("failed", "status"), [({}, 0), ({"C": "a rival died"}, 0), ({"A": "hakmem died"}, 1)]
)
def test_a_rival_that_fails_is_no_failure_of_a_replay(
    stand: Stand,
    small: trace.Trace,
    monkeypatch: pytest.MonkeyPatch,
    failed: dict[str, str],
    status: int,
) -> None:
    decided = {} if "A" in failed else {"B": decision(0.1, 0.2, "GO")}
    part = SimpleNamespace(outcome=Outcome(decisions=decided, failures=failed))
    found = SimpleNamespace(time=part, memory=part)
    monkeypatch.setattr(measure, "run", lambda request, console: found)
    monkeypatch.setattr(measure, "tell", lambda done, console: None)
    asked = ("--allocator", "system", "--no-record")
    ran(stand.call("replay", small.path, *asked), status)


def test_no_part_of_a_replay_takes_more_blocks_than_were_asked_for(
    small: trace.Trace, tmp_path: Path
) -> None:
    asked = measure.Request(small, dict.fromkeys("AB"), "pages", 8, 0, 1)
    plans = (measure.plan_of(asked, tmp_path, points) for points in (False, True))
    assert [plan.most for plan in plans] == [8, 8]


@built
def test_advise_measures_each_set_and_ends_in_a_sentence(
    real: Stand, small: trace.Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(advise, "SETS", ("HAKMEM_THP=0",))
    done = ran(real.call("advise", small.path, "--max-blocks", 8, "--min-seconds", 0))
    assert re.search(r"^HAKMEM_THP=0 +[\d.]+ +\[", done.stdout, re.MULTILINE)
    last = done.stdout.strip().splitlines()[-1]
    assert last.startswith(("recommended: HAKMEM_THP=0", "nothing helps"))
    assert not real.evidence.exists()


def decision(low: float, high: float, verdict: protocol.Verdict) -> Decision:
    gain = Interval((low + high) / 2, low, high, protocol.KIND)
    return Decision(verdict, gain, (), 8, 0.02, True)


def test_only_a_verdict_is_a_side() -> None:
    assert advise.side(decision(0.02, 0.05, "GO")) == "better"
    assert advise.side(decision(-0.05, -0.02, "NO-GO")) == "worse"
    assert advise.side(decision(-0.02, 0.05, "UNDECIDED")) == "open"
    assert advise.side(decision(-0.002, 0.005, "UNDECIDED")) == "same"
    assert advise.side(decision(0.004, 0.006, "GO")) == "same"
    assert advise.side(decision(0.004, 0.02, "GO")) == "open"
    assert advise.side(None) == "open"


@pytest.mark.parametrize(("failed", "said"), [("A", "–"), ("B", "failed")])
def test_of_a_replay_that_hakmem_failed_no_set_is_said_to_have_failed(
    failed: str, said: str
) -> None:
    done = Conducted(plan(), Outcome(failures={failed: "it died"}), {}, 1.0)
    parts, request = [(done, None)], SimpleNamespace(cells=done.plan.cells)
    table = advise.table(SimpleNamespace(parts=parts, request=request))
    assert [cell.plain for cell in table.columns[1].cells] == ["–", said]


@pytest.mark.parametrize("text", ["", "lean", "system", "HAKMEM_THP=0 jemalloc", "name=a"])
def test_a_set_is_of_options_alone(text: str) -> None:
    with pytest.raises(LabError, match=f"--set '{text}': a set is written 'HAKMEM_X=1"):
        advise.cells_of([text])


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
