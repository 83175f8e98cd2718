"""The scorecard: states, what counts as evidence, its TOML, and a page that cannot be edited."""

import math
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hakmem import cli, project
from hakmem.audit import planted as audit_planted
from hakmem.audit import scanner
from hakmem.audit.check import Audit
from hakmem.audit.citing import differences
from hakmem.errors import LabError
from hakmem.ledger import claims
from hakmem.ledger.store import Ledger, Record
from hakmem.ledger.verify import verify
from hakmem.paired import suite_record
from hakmem.process import provenance
from hakmem.scorecard import cli as scorecard_cli
from hakmem.scorecard import page as scorecard
from hakmem.scorecard import targets as scorecard_targets
from hakmem.scorecard.read import Row
from hakmem.scorecard.rules import Bound, Figure, decide, judge
from hakmem.soak import session as soak_session
from hakmem.soak.analysis import Analysis, Drift

ROOT = Path(__file__).parents[2]
AT_MOST_1 = Bound("at most", 1)
BENCH = "batch_fifo"


# ---- states ----


@pytest.mark.parametrize(
    ("low", "high", "state"),
    [
        (0.8, 0.99, "met"),
        (0.8, 1.0, "met"),
        (0.8, 1.01, "undecided"),
        (1.0, 1.2, "undecided"),
        (1.01, 1.2, "missed"),
    ],
)
def test_the_ends_of_the_interval_decide(low: float, high: float, state: str) -> None:
    assert judge(Figure((low + high) / 2, low, high), AT_MOST_1) == state
    mirrored = Figure(-(low + high) / 2, -high, -low)
    assert judge(mirrored, Bound("at least", -1)) == state


def test_a_tie_moves_the_limit_on_either_side() -> None:
    assert judge(Figure(1.005, 1.001, 1.009), Bound("at most", 1, tie=0.01)) == "met"
    assert judge(Figure(1.005, 1.001, 1.011), Bound("at most", 1, tie=0.01)) == "undecided"
    assert judge(Figure(1.1, 1.02, 1.2), Bound("at most", 1, tie=0.01)) == "missed"
    assert judge(Figure(0.995, 0.991, 0.999), Bound("at least", 1, tie=0.01)) == "met"


def test_without_an_interval_only_a_plain_target_decides() -> None:
    assert judge(Figure(0.5), AT_MOST_1) == "undecided"
    assert judge(Figure(0.5, low=0.4), AT_MOST_1) == "undecided"
    assert judge(Figure(1.0), AT_MOST_1, plain=True) == "met"
    assert judge(Figure(1.1), AT_MOST_1, plain=True) == "missed"


def test_one_rival_that_is_better_is_enough_to_miss() -> None:
    good, open_, bad, worse = (
        Figure(0.7, 0.6, 0.8),
        Figure(1.0, 0.9, 1.1),
        Figure(1.2, 1.1, 1.5),
        Figure(1.25, 1.2, 1.3),
    )
    assert decide({}, AT_MOST_1) == ("not measured", None)
    assert decide({"a": good, "b": Figure(0.8, 0.7, 0.9)}, AT_MOST_1) == ("met", "b")
    assert decide({"a": good, "b": open_}, AT_MOST_1) == ("undecided", "b")
    # The one whose good end is farthest beyond, not whose bad end is.
    assert decide({"a": bad, "b": worse, "c": open_, "d": good}, AT_MOST_1) == ("missed", "b")


# ---- a small project with targets and records ----

TARGETS = f"""
[[target]]
id = "time"
area = "Time"
what = "no rival needs less"
from = "the purpose"
kind = "suite"
metric = "against"
at_most = 1
tie = 0.01
benchmarks = ["{BENCH}"]
needs = ["a", "b"]

[[target]]
id = "memory"
area = "Memory"
what = "against the leanest"
from = "the purpose"
kind = "suite"
metric = "memory"
at_most = 1.1
benchmarks = ["{BENCH}"]
rivals = ["b"]

[[target]]
id = "drift"
area = "Soak"
what = "memory stays"
from = "the protocol"
kind = "soak"
metric = "rss_drift"
at_most = "margin"
unit = "B"
scale = "Mi"
where = {{ "binary.origin" = "hakmem", environment = {{}} }}
least = {{ "analysis.run_s" = 290 }}

[[target]]
id = "tail"
area = "Soak"
what = "slow epochs"
from = "derived"
kind = "soak"
metric = "throughput_p5"
per = "throughput"
at_least = 0.9
unit = "share"
scale = "%"
interval = false
why = "a percentile"

[[target]]
id = "matrix"
area = "Matrix"
what = "GO"
from = "the design"
kind = "matrix"
metric = "verdict"
is = "GO"

[[target]]
id = "noise"
area = "Lab"
what = "noise"
from = "the protocol"
kind = "A/A"
metric = "half-width"
at_most = 0.03
unit = "share"
scale = "%"
interval = false
why = "it is a width"

[[target]]
id = "same"
area = "Lab"
what = "ten times the same"
from = "the order"
kind = "A/A"
metric = "no difference"
at_least = 8
unit = "runs"
interval = false
why = "a count"

[[target]]
id = "hit"
area = "Code"
what = "instructions"
from = "the design"
kind = "hotpath"
metric = "malloc hit path instructions"
at_most = 18
unit = "instructions"
interval = false
why = "a count"
"""


class Site:
    """A checkout with one commit, TARGETS, and an empty ledger."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.ledger = Ledger(root / "evidence")
        self.source = provenance.source(root).to_dict()

    def git(self, *words: str) -> None:
        audit_planted._git(self.root, *words)

    def add(self, kind: str, body: Mapping[str, Any]) -> Record:
        """A suite comes with its one benchmark, as `part`."""
        if kind == "suite":
            body = dict(body)
            part = self.ledger.append("comparison", body.pop("part"))
            body = {"inputs": [part.id], **body}
        return self.ledger.append(kind, {"ok": True, "source": self.source, **body})

    def rows(self) -> dict[str, Row]:
        found = scorecard.rows(self.root, verify(self.ledger).records)
        return {row.target.id: row for row in found}

    def age(self) -> None:
        (self.root / "src/a.c").write_text("int b;\n")
        self.git("commit", "-q", "-a", "-m", "another source")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("template")
    for name, text in {
        "bench/a.c": "int a;\n",
        "src/a.c": "int a;\n",
        "evidence/targets.toml": TARGETS,
        "evidence/audit.toml": 'floor = 0\nstale-after = 0\nmessages-from = ""\n',
    }.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)
    audit_planted._git(root, "init", "-q", "--template=")
    audit_planted._git(root, "add", ".")
    audit_planted._git(root, "commit", "-q", "-m", "targets")
    return root


@pytest.fixture
def site(tmp_path: Path, template: Path) -> Site:
    shutil.copytree(template, tmp_path / "site")
    return Site(tmp_path / "site")


@pytest.fixture
def here(site: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setattr(project, "root", lambda: site.root)
    monkeypatch.setenv("LAB_LEDGER", str(site.root / "evidence"))
    return site


def ratio(value: float, **more: Any) -> dict[str, Any]:
    return {"value": value, "low": value - 0.05, "high": value + 0.05, "unit": "ratio", **more}


def suite(
    time: Mapping[str, float], memory: float = 0.9, bench: str = BENCH, **more: Any
) -> dict[str, Any]:
    """A suite record of one benchmark against the rivals of `time`, with that as its part."""

    def short(value: float) -> list[Any]:
        return [value, value - 0.05, value + 0.05, 0, 20, "win"]

    figures: dict[str, Any] = {name: {"value": 10.0, "memory_kb": 9} for name in time}
    part = {
        "suite": bench,
        "subject": "hakmem",
        "unit": "ns/op",
        "reading": "wall time",
        "better": "lower",
        "settings": {},
        "program": None,
        "left_out": {},
        "figures": {**figures, "hakmem": {"value": 8.0, "memory_kb": 9}},
        "ratios": {
            "time": {name: short(value) for name, value in time.items()},
            "memory": {name: short(memory) for name in time},
        },
    }
    libraries = {"hakmem": {"origin": "hakmem"}}
    return {"part": part, "metrics": {}, "libraries": libraries, "argv": ["compare"], **more}


def soak(low: float = 0, high: float = 0.5, **more: Any) -> dict[str, Any]:
    mib = 2**20
    drift = {"value": mib * (low + high) / 2, "low": mib * low, "high": mib * high}
    metrics: dict[str, Any] = {
        "rss_drift": {**drift, "margin": mib, "unit": "B"},
        "throughput": {"value": 100.0, "unit": "ops/s"},
        "throughput_p5": {"value": 95.0, "unit": "ops/s"},
    }
    base = {"metrics": metrics, "binary": {"origin": "hakmem"}, "environment": {}}
    return {**base, "analysis": {"run_s": 300.0}, **more}


def states(site: Site) -> dict[str, str]:
    return {id: row.state for id, row in site.rows().items()}


def test_an_empty_ledger_has_measured_nothing(site: Site) -> None:
    assert set(states(site).values()) == {"not measured"}
    page = scorecard.page(list(site.rows().values()))
    assert "**8 targets: 8 not measured**" in page
    assert "evidence/ledger/" in page
    assert "jsonl" not in page


def test_the_suite_is_met_by_all_rivals_and_missed_by_one(site: Site) -> None:
    site.add("suite", suite({"a": 0.8, "b": 0.9}))
    assert (states(site)["time"], site.rows()["time"].against) == ("met", "b")
    assert states(site)["memory"] == "met"
    site.add("suite", suite({"a": 1.2, "b": 0.9, "c": 1.0}))
    assert (states(site)["time"], site.rows()["time"].against) == ("missed", "a")
    site.add("suite", suite({"a": 0.8, "b": 0.9, "c": 1.0}, memory=1.3))
    assert (states(site)["time"], site.rows()["time"].against) == ("undecided", "c")
    assert (states(site)["memory"], site.rows()["memory"].against) == ("missed", "b")


def test_a_needed_rival_that_was_not_measured_keeps_it_open(site: Site) -> None:
    site.add("suite", suite({"a": 0.8}))
    row = site.rows()["time"]
    assert (row.state, row.remark) == ("undecided", "not measured: b")
    assert states(site)["memory"] == "not measured"
    site.add("suite", suite({"a": 1.2}))
    assert states(site)["time"] == "missed"


def test_an_earlier_form_of_a_suite_is_not_read(site: Site) -> None:
    old = site.ledger.append("verdict", {"suite": BENCH})
    body = {k: v for k, v in suite({"a": 0.8, "b": 0.8}).items() if k != "part"}
    site.ledger.append("suite", {"ok": True, "source": site.source, **body, "inputs": [old.id]})
    assert states(site)["time"] == "not measured"


def test_the_mean_against_the_oracle_is_a_target_of_its_own(site: Site) -> None:
    path = site.root / "evidence/targets.toml"
    own = (
        '[[target]]\nid = "all"\narea = "All"\nwhat = "w"\nfrom = "f"\nkind = "suite"\n'
        'metric = "time against the oracle"\nat_most = 1\n'
    )
    path.write_text(TARGETS + own)
    body = suite({"a": 0.8})
    body["part"]["ratios"]["time"]["the oracle"] = [0.9, 0.88, 0.9205, 2, 20, None]
    site.add("suite", body)
    row = site.rows()["all"]
    assert row.state == "met"
    assert row.figure
    assert (row.figure.value, row.figure.low) == pytest.approx((0.9, 0.88), rel=1e-3)
    path.write_text(TARGETS + own + 'benchmarks = ["larson_1"]\n')
    with pytest.raises(LabError, match="belong to figures of single benchmarks"):
        site.rows()


def test_a_range_is_no_interval(site: Site) -> None:
    body = suite({"a": 0.8, "b": 0.8})
    body["part"]["ratios"]["time"]["a"][3] = suite_record.KINDS.index("range")
    site.add("suite", body)
    row = site.rows()["time"]
    assert row.state == "undecided"
    assert row.figure == Figure(0.8)


@pytest.mark.parametrize(
    "change",
    [
        {"argv": ["compare", "--metric=rss"]},
        {"libraries": {"old": {"origin": "hakmem"}}},
        {"libraries": {"hakmem": {"origin": "given"}}},
    ],
)
def test_another_metric_or_library_is_another_question(site: Site, change: Any) -> None:
    site.add("suite", suite({"a": 0.5, "b": 0.5}, **change))
    assert states(site)["time"] == "not measured"


def test_a_benchmark_that_hakmem_failed_is_missed(site: Site) -> None:
    site.add("suite", suite({"a": 0.8, "b": 0.9}))
    failed = {"failures": {BENCH: "killed by SIGSEGV"}, "ok": False}
    record = site.add("suite", suite({"a": 0.8}, bench="another", **failed))
    row = site.rows()["time"]
    assert (row.state, row.record and row.record.id) == ("missed", record.id)
    assert "SIGSEGV" in row.remark
    site.add("suite", suite({"a": 0.8, "b": 0.9}))
    assert states(site)["time"] == "met"


@pytest.mark.parametrize(
    "change", [{"ok": False}, {"source": {"dirty": True}}, {"inputs": ["0" * 12]}]
)
def test_what_may_not_be_cited_does_not_count(site: Site, change: Any) -> None:
    if "source" in change:
        change = {"source": {**site.source, **change["source"]}}
    site.add("soak", soak(low=2, high=3, **change))
    assert states(site)["drift"] == "not measured"
    good = site.add("soak", soak())
    site.add("soak", soak(low=2, high=3, **change))
    row = site.rows()["drift"]
    assert (row.state, row.record) == ("met", good)


def test_stale_is_shown_as_stale_and_never_as_met(site: Site) -> None:
    site.add("soak", soak())
    site.add("suite", suite({"a": 1.2, "b": 0.9}))
    site.add("matrix", {"verdict": "GO"})
    site.age()
    found = states(site)
    assert [found[id] for id in ("drift", "time", "matrix")] == ["stale"] * 3
    site.source = provenance.source(site.root).to_dict()
    site.add("soak", soak(low=0.5, high=2))
    assert states(site)["drift"] == "undecided"


def test_a_changed_benchmark_makes_stale(site: Site) -> None:
    site.add("soak", soak())
    (site.root / "bench/a.c").write_text("int b;\n")
    assert states(site)["drift"] == "stale"


@pytest.mark.parametrize(
    ("low", "high", "state"), [(-0.5, 0.9, "met"), (0.5, 1.5, "undecided"), (1.1, 2, "missed")]
)
def test_a_drift_is_held_to_its_own_margin(site: Site, low: float, high: float, state: str) -> None:
    site.add("soak", soak(low, high))
    row = site.rows()["drift"]
    assert (row.state, scorecard.bound(row)) == (state, "≤ 1 MiB")


def test_where_and_least_choose_the_records(site: Site) -> None:
    site.add("soak", soak(environment={"HAKMEM_PROFILE": "lean"}))
    site.add("soak", soak(analysis={"run_s": 10.0}))
    site.add("soak", soak(binary={"origin": "given"}))
    assert states(site)["drift"] == "not measured"
    assert states(site)["tail"] == "met"


def test_a_figure_can_be_a_share_of_another(site: Site) -> None:
    body = soak()
    site.add("soak", body)
    assert scorecard.last(site.rows()["tail"]) == "95 %"
    body["metrics"]["throughput_p5"]["value"] = 89.0
    site.add("soak", body)
    assert states(site)["tail"] == "missed"
    del body["metrics"]["throughput"]
    site.ledger = Ledger(site.root / "other")
    site.add("soak", body)
    assert states(site)["tail"] == "not measured"


@pytest.mark.parametrize(
    ("word", "state"), [("GO", "met"), ("NO-GO", "missed"), ("UNDECIDED", "undecided")]
)
def test_a_verdict_has_the_same_three_states(site: Site, word: str, state: str) -> None:
    site.add("matrix", {"verdict": word, "why": "so it is"})
    row = site.rows()["matrix"]
    assert (row.state, row.remark) == (state, "so it is")


def test_the_noise_floor_is_half_the_interval(site: Site) -> None:
    site.add("A/A", {"metrics": {"x": {"estimate": 1.0, "low": 0.96, "high": 1.04}}})
    assert states(site)["noise"] == "missed"
    site.add("A/A", {"metrics": {"x": {"estimate": 1.0, "low": 0.98, "high": 1.02}}})
    assert states(site)["noise"] == "met"


def test_ten_runs_are_counted_together(site: Site) -> None:
    def run(low: float, high: float, **more: Any) -> None:
        metric = {"estimate": (low + high) / 2, "low": low, "high": high}
        site.add("A/A", {"metrics": {"x": metric}, **more})

    for ends in ((0.9, 1.1), (1.05, 1.1), (0.9, 0.95), *[(0.9, 1.1)] * 6):
        run(*ends)
    run(0.9, 1.1, ok=False)
    assert states(site)["same"] == "not measured"
    run(0.9, 1.1)
    assert (states(site)["same"], site.rows()["same"].figure) == ("met", Figure(8))
    run(1.05, 1.1)  # and the oldest, in which there was no difference, is left out
    assert (states(site)["same"], site.rows()["same"].figure) == ("missed", Figure(7))


def test_a_benchmarks_own_figure_and_its_distance_to_the_system(site: Site) -> None:
    path = site.root / "evidence/targets.toml"
    text = TARGETS.replace('metric = "against"', 'metric = "own"', 1)
    path.write_text(text.replace('metric = "memory"', 'metric = "above system"', 1))
    site.add("suite", suite({"b": 1.0}))
    row = site.rows()["time"]
    assert (row.state, row.figure, row.against) == ("undecided", Figure(8.0), None)
    assert states(site)["memory"] == "not measured"
    site.add("suite", suite({"system": 1.0}))
    assert site.rows()["memory"].figure == Figure(-2.0)


def test_a_count_needs_no_interval(site: Site) -> None:
    for count, state in ((18, "met"), (19, "missed")):
        entry = {"value": count, "unit": "instructions"}
        site.add("hotpath", {"metrics": {"malloc hit path instructions": entry}})
        assert states(site)["hit"] == state


def test_variation_is_one_figure_over_all_benchmarks(site: Site) -> None:
    path = site.root / "evidence/targets.toml"
    own = (
        '[[target]]\nid = "spread"\narea = "All"\nwhat = "w"\nfrom = "f"\nkind = "suite"\n'
        'metric = "variation"\nat_most = 1\n'
    )
    path.write_text(TARGETS + own)
    body = suite({"a": 0.8, "b": 0.8})
    body["part"]["ratios"]["variation"] = {
        "a": [0.7, 0.6, 0.8, 0, 20, "win"],
        "b": [1.4, 1.2, 1.6, 0, 20, "loss"],
    }
    site.add("suite", body)
    row = site.rows()["spread"]
    assert (row.state, row.against) == ("missed", "b")
    assert row.figure
    assert row.figure.value == pytest.approx(1.4)


# ---- the targets' file ----


def changed(tmp_path: Path, old: str, new: str) -> list[scorecard_targets.Target]:
    assert old in TARGETS
    path = tmp_path / "targets.toml"
    path.write_text(TARGETS.replace(old, new, 1))
    return scorecard_targets.load(path)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('kind = "suite"', 'kind = "sweet"', "target time: unknown kind of record: sweet"),
        (
            'metric = "against"',
            'metric = "agianst"',
            "target time: unknown metric: no suite record",
        ),
        ('metric = "rss_drift"', 'metric = "rss_cvv"', "target drift: unknown metric"),
        ("at_most = 1\n", "", "target time: needs one bound"),
        ("at_most = 1\n", "at_most = 1\nat_least = 1\n", "target time: needs one bound"),
        ("at_most = 1\n", 'at_most = "one"\n', "target time: at_most must be a number"),
        ("at_most = 1\n", 'at_most = "margin"\n', "only a drift has a margin"),
        ('id = "memory"', 'id = "time"', "target time: the id is taken"),
        ('from = "the purpose"\n', "", "target time: needs from"),
        ("tie =", "tye =", "target time: unknown key: tye"),
        (f'benchmarks = ["{BENCH}"]', 'benchmarks = ["fast"]', "unknown benchmark: fast"),
        ("interval = false\nwhy", "interval = true\nwhy", "target tail: interval can only be"),
        ('why = "a percentile"\n', "", "target tail: interval can only be false, with the reason"),
        ('is = "GO"', 'is = "NO-GO"', "target matrix: a verdict has the bound"),
        ('scale = "Mi"', 'scale = "miles"', "target drift: no scale 'miles'"),
        ('id = "time"\n', "", "target 1: needs id"),
        ("[[target]]", "[[targets]]", "unknown: targets"),
        ("[[target]]", "[[target", "targets.toml: "),
    ],
)
def test_a_wrong_target_gets_one_line(tmp_path: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(LabError) as error:
        changed(tmp_path, old, new)
    message = str(error.value)
    assert said in message
    assert str(tmp_path / "targets.toml") in message
    assert "\n" not in message


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="cannot read the targets"):
        scorecard_targets.load(tmp_path / "none.toml")


def test_the_projects_own_targets_are_right() -> None:
    targets = scorecard_targets.load(ROOT / scorecard_targets.FILE)
    kinds = {target.kind for target in targets}
    assert {"suite", "soak", "matrix", "A/A", "verdict", "hotpath"} <= kinds


# ---- the page ----


def filled(site: Site) -> Path:
    site.add("suite", suite({"a": 1.234, "b": 0.9}))
    site.add("soak", soak())
    path = site.root / scorecard.PAGE
    project.write_atomically(path, scorecard.page(list(site.rows().values())))
    return path


def problems(site: Site) -> list[str]:
    audit = Audit.of(site.root, site.ledger, stale_after=0)
    audit.document(site.root / scorecard.PAGE)
    return audit.problems


def test_the_page_says_losses_like_wins(site: Site) -> None:
    text = filled(site).read_text()
    record = site.rows()["time"].record
    assert record is not None
    assert "| ≤ 1 + 0.01 | 1.234, a | [1.184–1.284] | ✗ missed |" in text
    assert f"[{record.id}](../evidence/ledger/{record.host}.jsonl#L{record.seq})" in text
    assert "**8 targets: 3 met, 1 missed, 4 not measured**" in text


def test_check_refuses_a_changed_digit(site: Site) -> None:
    path = filled(site)
    rows = list(site.rows().values())
    assert "as the ledger has it" in scorecard.check(path, rows)
    line = next(n for n, t in enumerate(path.read_text().split("\n"), 1) if "1.234" in t)
    path.write_text(path.read_text().replace("1.234", "1.235"))
    with pytest.raises(LabError, match=f":{line}: not what the ledger says"):
        scorecard.check(path, rows)
    path.unlink()
    with pytest.raises(LabError, match="scorecard --write"):
        scorecard.check(path, rows)


def test_check_refuses_a_page_that_is_cut_or_longer(site: Site) -> None:
    path = filled(site)
    text, rows = path.read_text(), list(site.rows().values())
    for other in (text.removesuffix("\n"), text + "more\n", text[: len(text) // 2]):
        path.write_text(other)
        with pytest.raises(LabError, match="not what the ledger says"):
            scorecard.check(path, rows)


def test_the_audit_makes_the_page_again(site: Site) -> None:
    path = filled(site)
    assert problems(site) == []
    path.write_text(path.read_text().replace("✗ missed", "✓ met"))
    assert any("not what its source gives" in problem for problem in problems(site))
    path.write_text(path.read_text().replace("<!--scorecard:end-->", ""))
    assert any("makes no block" in problem for problem in problems(site))


def test_a_release_refuses_a_scorecard_of_an_older_source(site: Site) -> None:
    (site.root / "evidence/audit.toml").write_text(
        'floor = 0\nstale-after = 5\nmessages-from = ""\n'
    )
    filled(site)
    site.age()
    assert states(site)["drift"] == "met"
    assert sum("is stale" in problem for problem in problems(site)) == 4


def test_a_stale_line_is_no_problem_of_the_page(site: Site) -> None:
    filled(site)
    site.age()
    project.write_atomically(site.root / scorecard.PAGE, scorecard.page(list(site.rows().values())))
    assert "~ stale" in (site.root / scorecard.PAGE).read_text()
    assert problems(site) == []


# ---- records of soaks and matrices ----


@pytest.fixture
def soaked(here: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    """Its bench/ has the soak's source, and its build the program."""
    monkeypatch.setenv("LAB_BUILD_DIR", str(here.root / "build"))
    (here.root / "bench/soak_mixed.c").write_text("int main;\n")
    here.git("add", ".")
    here.git("commit", "-q", "-m", "the soak")
    here.source = provenance.source(here.root).to_dict()
    return here


def test_only_its_own_benchmark_makes_a_soak_stale(soaked: Site) -> None:
    stated = soak_session.benchmarks([str(project.bench_dir() / "soak_mixed"), "--ws=7"])
    work = stated[0]["works"]["soak_mixed"]  # type: ignore[index]
    assert (work["executable"], work["arguments"]) == ("soak_mixed", ["--ws=7"])
    soaked.add("soak", soak(benchmarks=stated))
    (soaked.root / "bench/a.c").write_text("int b;\n")
    assert states(soaked)["drift"] == "met"
    (soaked.root / "bench/soak_mixed.c").write_text("int other;\n")
    assert states(soaked)["drift"] == "stale"


def test_what_a_soak_ran_must_be_what_it_states(soaked: Site) -> None:
    stated = soak_session.benchmarks([str(project.bench_dir() / "soak_mixed"), "--ws=7"])
    stated[0]["works"]["soak_mixed"]["arguments"] = ["--ws=8"]  # type: ignore[index]
    soaked.add("soak", soak(benchmarks=stated))
    assert states(soaked)["drift"] == "stale"


@pytest.mark.parametrize(
    ("argv", "state"),
    [
        (["redis-server", "--save"], "met"),  # a user's own: nothing in bench/ is behind it
        (["sh", "-c", "soak_mixed --ws=7"], "stale"),  # ours in disguise
    ],
)
def test_a_users_command_has_no_definition(soaked: Site, argv: list[str], state: str) -> None:
    soaked.add("soak", soak(benchmarks=soak_session.benchmarks(argv)))
    (soaked.root / "bench/a.c").write_text("int b;\n")
    assert states(soaked)["drift"] == state


def test_a_program_without_source_states_nothing(soaked: Site) -> None:
    assert soak_session.benchmarks([str(project.bench_dir() / "gone")]) == []


def test_a_soak_records_its_drift_with_interval_and_margin() -> None:
    known = Drift("none", 20, per_run=1, low=-2, high=3, margin=1024)
    unknown = Drift("open", 0, math.nan, -math.inf, math.inf, 5.0)
    analysis = Analysis(
        method=1, epochs=400, used=300, run_s=400,
        plateau={}, spread={}, changes={}, distributions={},
        drift={"rss_kb": known, "ops_per_s": unknown},
        cpu_share=None, calls_per_op=None, remarks=(),
    )  # fmt: skip
    kib = 1024
    assert soak_session.metrics(analysis) == {
        "rss_drift": {
            "value": kib, "low": -2 * kib, "high": 3 * kib, "margin": kib * kib,
            "unit": "B", "kind": claims.WITHIN,
        }
    }  # fmt: skip


def test_a_ratio_of_a_matrix_may_be_cited_with_its_verdict(site: Site) -> None:
    metric = {**ratio(1.0), "estimate": 1.0, "verdict": "UNDECIDED"}
    record = site.add("matrix", {"verdict": "GO", "metrics": {"throughput": metric}})
    figure = f"1.00 [0.95–1.05]<!--c:{record.id}/throughput-->"
    said = {}
    for text in (
        f"It is {figure}.",
        f"It is {figure}, undecided.",
        f"1.00<!--c:{record.id}/throughput-->",
    ):
        found = scanner.scan(text).claims
        said[text] = [why for claim in found for why in differences(claim, record)]
    plain, open_, bare = said.values()
    assert plain == ["the verdict is UNDECIDED, and the paragraph does not say so"]
    assert open_ == []
    assert "a ratio must show its interval" in bare


# ---- the command ----


def test_the_command_writes_what_it_then_accepts(
    here: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    here.add("soak", soak())
    scorecard_cli.command(write=True, check=False)
    scorecard_cli.command(write=False, check=True)
    assert "8 targets: 2 met, 6 not measured, as the ledger has it" in capsys.readouterr().out
    here.add("soak", soak(low=2, high=3))
    with pytest.raises(LabError, match="not what the ledger says"):
        scorecard_cli.command(write=False, check=True)
    scorecard_cli.command(write=False, check=False)
    said = capsys.readouterr().out
    assert said.startswith("8 targets: 1 met, 1 missed, 6 not measured")
    assert "0 of 10 runs are there" in said


def test_a_shallow_clone_cannot_judge_and_says_so(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    filled(site)
    site.git("add", "-A")
    site.git("commit", "-q", "-m", "a page")
    path = tmp_path / "clone"
    site.git("clone", "-q", "--depth", "1", f"file://{site.root}", str(path))
    monkeypatch.setattr(project, "root", lambda: path)
    monkeypatch.setenv("LAB_LEDGER", str(path / "evidence"))
    scorecard_cli.command(write=False, check=True)
    assert "not checked: without the whole history" in capsys.readouterr().out
    with pytest.raises(LabError, match="git fetch --unshallow"):
        scorecard_cli.command(write=True, check=False)
    audit = Audit.of(path, Ledger(path / "evidence"), stale_after=0)
    audit.document(path / scorecard.PAGE)
    assert audit.problems == []
    assert any("was not made again" in note for note in audit.notes)


def test_an_edited_ledger_is_no_evidence(here: Site) -> None:
    here.add("soak", soak())
    path = here.ledger.files()[0]
    path.write_text(path.read_text().replace("95.0", "96.0"))
    with pytest.raises(LabError, match="does not verify"):
        scorecard_cli.command(write=True, check=False)
    assert not (here.root / scorecard.PAGE).exists()


def test_the_command_is_there() -> None:
    assert "scorecard" in {command.name for command in cli.app.registered_commands}
