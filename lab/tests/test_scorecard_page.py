"""The file of targets, the scorecard's page and command, and targets on soaks and matrices."""

import math
from pathlib import Path

import pytest
from hakmem import project
from hakmem.audit import check as audit, scanner
from hakmem.audit.check import Audit
from hakmem.audit.citing import differences
from hakmem.errors import LabError
from hakmem.ledger import claims
from hakmem.ledger.store import Ledger
from hakmem.process import provenance
from hakmem.scorecard import page as scorecard, targets as scorecard_targets
from hakmem.soak import session
from hakmem.soak.analysis import Analysis, Drift
from scorecards import BENCH, TARGETS, Site, ratio, soak, states, suite
from standing import commit, git

ROOT = Path(__file__).parents[2]


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
        ('from = "the purpose"\n', "", "target time: from is missing"),
        ("tie =", "tye =", "target time: unknown: tye"),
        (f'benchmarks = ["{BENCH}"]', 'benchmarks = ["fast"]', "unknown benchmark: fast"),
        ("interval = false\nwhy", "interval = true\nwhy", "target tail: interval can only be"),
        ('why = "a percentile"\n', "", "target tail: interval can only be false, with the reason"),
        ('is = "GO"', 'is = "NO-GO"', "target matrix: a verdict has the bound"),
        ('scale = "Mi"', 'scale = "miles"', "target drift: no scale 'miles'"),
        ('id = "time"\n', "", "target 1: id is missing"),
        ("[[target]]", "[[targets]]", "unknown: targets"),
        ("[[target]]", "[[target", "targets.toml is not TOML: "),
        ('per = "throughput"', "per = 1", "target tail: per must be a text, not 1"),
    ],
)
def test_a_wrong_target_gets_one_line(tmp_path: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(LabError) as error:
        changed(tmp_path, old, new)
    message = str(error.value)
    assert said in message
    assert str(tmp_path / "targets.toml") in message
    assert "\n" not in message


def test_a_file_that_is_not_there_or_has_no_target_is_said(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="cannot read"):
        scorecard_targets.load(tmp_path / "none.toml")
    for text in ("", "target = 1", "target = [1]"):
        (tmp_path / "none.toml").write_text(text)
        with pytest.raises(LabError, match="no target in it"):
            scorecard_targets.load(tmp_path / "none.toml")


def test_the_projects_own_targets_are_right() -> None:
    targets = scorecard_targets.load(ROOT / scorecard_targets.FILE)
    kinds = {target.kind for target in targets}
    assert {"suite", "soak", "matrix", "A/A", "verdict", "hotpath"} <= kinds
    named = {"soak": ["binary.name"], "verdict": ["cells.0.library", "cells.1.library"]}
    for target in targets:
        said = {target.where.get(path) for path in named.get(target.kind, ())}
        assert said <= {"hakmem"}, f"{target.id} is of any library"


# ---- the page ----


def filled(site: Site) -> Path:
    site.add("suite", suite({"a": 1.234, "b": 0.9}))
    site.add("soak", soak())
    path = site.root / "page.md"
    path.write_text("# Scorecard\n\n<!--scorecard:begin FILE-->\n<!--scorecard:end-->\n")
    audit.write(site.root, [path], site.ledger)
    return path


def problems(site: Site, path: Path) -> list[str]:
    found = Audit.of(site.root, site.ledger, stale_after=0)
    found.document(path)
    return found.problems


def test_the_page_says_losses_like_wins(site: Site) -> None:
    text = filled(site).read_text()
    record = site.rows()["time"].record
    assert "| ≤ 1 + 0.01 | 1.234, a | [1.184–1.284] | ✗ missed |" in text
    assert f"[{record.id}](../evidence/ledger/{record.host}.jsonl#L{record.seq})" in text
    assert "**8 targets: 3 met, 1 missed, 4 not measured**" in text


def test_the_audit_makes_the_page_again(site: Site) -> None:
    path = filled(site)
    text = path.read_text()
    assert problems(site, path) == []
    for old, new, said in (
        ("✗ missed", "✓ met", "not what its source gives"),
        ("1.234", "1.235", "not what its source gives"),
        ("<!--scorecard:end-->", "more\n<!--scorecard:end-->", "not what its source gives"),
        ("<!--scorecard:end-->", "", "makes no block"),
    ):
        path.write_text(text.replace(old, new))
        assert any(said in problem for problem in problems(site, path))


def test_a_release_refuses_a_scorecard_of_an_older_source(site: Site) -> None:
    (site.root / "evidence/audit.toml").write_text(
        'floor = 0\nstale-after = 5\nmessages-from = ""\n'
    )
    path = filled(site)
    site.age()
    assert states(site)["drift"] == "met"
    assert sum("is stale" in problem for problem in problems(site, path)) == 4


def test_a_stale_line_is_no_problem_of_the_page(site: Site) -> None:
    path = filled(site)
    site.age()
    audit.write(site.root, [path], site.ledger)
    assert "~ stale" in path.read_text()
    assert problems(site, path) == []


# ---- records of soaks and matrices ----


@pytest.fixture
def soaked(here: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    """A project whose bench/ has the soak's source, and whose build folder is its own."""
    monkeypatch.setenv("LAB_BUILD_DIR", str(here.root / "build"))
    (here.root / "bench/soak_mixed.c").write_text("int main;\n")
    commit(here.root)
    here.source = provenance.source(here.root)
    return here


def test_only_its_own_benchmark_makes_a_soak_stale(soaked: Site) -> None:
    stated = session.benchmarks([str(project.bench_dir() / "soak_mixed"), "--ws=7"])
    work = stated[0]["works"]["soak_mixed"]
    assert (work["executable"], work["arguments"]) == ("soak_mixed", ["--ws=7"])
    soaked.add("soak", soak(benchmarks=stated))
    (soaked.root / "bench/a.c").write_text("int b;\n")
    assert states(soaked)["drift"] == "met"
    (soaked.root / "bench/soak_mixed.c").write_text("int other;\n")
    assert states(soaked)["drift"] == "stale"


def test_what_a_soak_ran_must_be_what_it_states(soaked: Site) -> None:
    stated = session.benchmarks([str(project.bench_dir() / "soak_mixed"), "--ws=7"])
    stated[0]["works"]["soak_mixed"]["arguments"] = ["--ws=8"]
    soaked.add("soak", soak(benchmarks=stated))
    assert states(soaked)["drift"] == "stale"


@pytest.mark.parametrize(
    ("argv", "state"),
    [
        (["redis-server", "--save"], "met"),  # a user's program, which has no source in bench/
        (["sh", "-c", "soak_mixed --ws=7"], "stale"),  # our benchmark inside another command
    ],
)
def test_a_users_command_has_no_definition(soaked: Site, argv: list[str], state: str) -> None:
    soaked.add("soak", soak(benchmarks=session.benchmarks(argv)))
    (soaked.root / "bench/a.c").write_text("int b;\n")
    assert states(soaked)["drift"] == state


def test_a_soak_states_the_benchmark_of_the_source_that_its_build_is_of(
    soaked: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rerun of an older commit sets LAB_SOURCE_DIR: its benchmark's definition counts."""
    argv = [str(project.bench_dir() / "soak_mixed")]
    present = session.benchmarks(argv)
    (tmp_path / "old/bench").mkdir(parents=True)
    (tmp_path / "old/bench/soak_mixed.c").write_text("int older;\n")
    monkeypatch.setenv("LAB_SOURCE_DIR", str(tmp_path / "old"))
    assert session.benchmarks(argv) != present


def test_a_program_without_source_states_nothing(soaked: Site) -> None:
    assert session.benchmarks([str(project.bench_dir() / "gone")]) == []


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
    assert session.metrics(analysis) == {
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


def test_the_command_shows_the_last_record(here: Site, capsys: pytest.CaptureFixture[str]) -> None:
    here.add("soak", soak())
    here.add("soak", soak(low=2, high=3))
    scorecard.command()
    said = capsys.readouterr().out
    assert said.startswith("8 targets: 1 met, 1 missed, 6 not measured")


@pytest.mark.parametrize("columns", [46, 60])
def test_in_a_narrow_terminal_names_are_words(
    here: Site, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    here.add("suite", suite({"mimalloc2-debian": 0.9}))
    scorecard.command()
    said = capsys.readouterr().out
    assert BENCH in said
    assert min(len(line.strip()) for line in said.splitlines() if line.strip()) >= 3
    assert max(map(len, said.splitlines())) <= columns
    assert "not measured" in " ".join(said.partition(BENCH)[2].split())
    assert "0 of 10 runs are there" in said


def test_a_shallow_clone_cannot_judge_and_says_so(site: Site, tmp_path: Path) -> None:
    page = filled(site)
    commit(site.root)
    path = tmp_path / "clone"
    git(site.root, "clone", "-q", "--depth", "1", f"file://{site.root}", str(path))
    found = Audit.of(path, Ledger(path / "evidence"), stale_after=0)
    found.document(path / page.name)
    assert found.problems == []
    assert any("was not made again" in note for note in found.notes)
    with pytest.raises(LabError, match="git fetch --unshallow"):
        audit.write(path, [path / page.name], Ledger(path / "evidence"))


def test_an_edited_ledger_is_no_evidence(here: Site) -> None:
    here.add("soak", soak())
    path = here.ledger.files()[0]
    path.write_text(path.read_text().replace("95.0", "96.0"))
    with pytest.raises(LabError, match="does not verify"):
        scorecard.command()
