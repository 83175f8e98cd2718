"""`hakmem rerun` repeats the measurement of a record from the record alone."""

import json
import math
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import pytest
from hakmem import project
from hakmem.ledger.claims import WITHIN
from hakmem.ledger.store import Ledger, Record
from hakmem.ledger.verify import verify
from hakmem.matrix import plan
from hakmem.rerun.run import expected_s, judge
from hakmem.rerun.source import Past
from standing import (
    INTERRUPTED,
    MATRIX,
    PROGRAMS,
    Stand,
    commit,
    compile_c,
    ended,
    flat,
    git,
    need,
    ran,
    refused,
    until,
)

Done = subprocess.CompletedProcess[str]
SHORT = ("--max-blocks", 8, "--min-seconds", 0)


@pytest.fixture
def own(own: Stand) -> Stand:
    return own.under(LAB_LEDGER_HOST="here")


def altered(own: Stand, record: Record, **changes: object) -> Record:
    """Appends a copy of the record with changes, as if they had been measured."""
    body = json.loads(json.dumps({**record.body, **changes}))
    return Ledger(own.evidence, "here").append(record.kind, body, None)


def recorded(own: Stand, *arguments: object) -> Record:
    """Runs a command, whose status may be a verdict; returns its last record."""
    done = own.call(*arguments)
    assert done.returncode in (0, 3, 4), done.stdout + done.stderr
    return own.records()[-1]


# ---- what agreement means ----


def ratio(low: float, high: float, **more: object) -> dict[str, object]:
    return {"estimate": math.sqrt(low * high), "low": low, "high": high, "unit": "ratio", **more}


def body(metric: dict[str, object], verdict: str = "GO", cpu: str = "x") -> dict[str, object]:
    return {"metrics": {"m": metric}, "verdict": verdict, "host": {"cpu": cpu}}


@pytest.mark.parametrize(
    ("before", "now", "state"),
    [
        (body(ratio(0.8, 0.9)), body(ratio(0.89, 0.99)), "agrees"),
        (body(ratio(0.8, 0.9)), body(ratio(0.91, 0.99)), "contradicts"),
        (body(ratio(0.91, 0.99)), body(ratio(0.8, 0.9)), "contradicts"),
        (body(ratio(0.8, 1.1)), body(ratio(0.9, 1.2), "NO-GO"), "contradicts"),
        (body(ratio(0.8, 1.1)), body(ratio(0.9, 1.2), "UNDECIDED"), "agrees"),
        (body(ratio(0.8, 0.9)), body(ratio(0.91, 0.99), cpu="y"), "contradicts"),
    ],
)
def test_figures_agree_where_intervals_overlap_and_verdicts_where_not_opposite(
    before: dict[str, object], now: dict[str, object], state: str
) -> None:
    assert judge(before, now).state == state


def test_what_has_no_interval_or_another_machine_is_not_judged() -> None:
    bare = {"metrics": {"m": {"value": 1, "unit": "ops/s"}}}
    other = {"metrics": {"m": {"value": 9, "unit": "ops/s"}}}
    assert judge(bare, other).state == "not judged"
    ranged = {"value": 5, "low": 4, "high": 6, "unit": "ops/s"}
    far = {"value": 50, "low": 40, "high": 60, "unit": "ops/s"}
    here, there = {"cpu": "x"}, {"cpu": "y"}
    same = [{"metrics": {"m": m}, "host": here} for m in (ranged, far)]
    assert judge(*same).state == "contradicts"
    assert judge(same[0], {**same[1], "host": there}).state == "not judged"
    for kind in ("range", WITHIN):
        runs = [{"metrics": {"m": {**m, "kind": kind}}, "host": here} for m in (ranged, far)]
        assert judge(*runs).state == "not judged"


def test_bisections_contradict_each_other_if_they_suspect_no_commit_in_common() -> None:
    def found(*suspects: str) -> dict[str, object]:
        return {"verdict": "FOUND", "suspects": suspects}

    assert judge(found("a"), found("a")).state == "agrees"
    assert judge(found("a", "b"), found("b")).state == "agrees"
    assert judge(found("a"), found("b", "c")).state == "contradicts"
    assert judge(found("a"), found()).state == "agrees"  # only verdicts are left


def test_a_soak_that_drifts_now_contradicts_one_that_did_not() -> None:
    def soak(state: str) -> dict[str, object]:
        return {"metrics": {}, "analysis": {"drift": {"rss_kb": {"state": state}}}}

    assert judge(soak("none"), soak("none")).state == "agrees"
    assert judge(soak("none"), soak("drifts")).state == "contradicts"
    assert judge(soak("open"), soak("drifts")).state == "agrees"


# ---- verdicts ----


@pytest.fixture
def cost(tmp_path: Path) -> Callable[[float], tuple[str, ...]]:
    """A comparison whose cost under X=1 is read from a file, so that a later run can differ."""

    def arguments(now: float) -> tuple[str, ...]:
        (tmp_path / "cost").write_text(f"cost={now}\n")
        program = f'if [ -n "$X" ]; then cat {tmp_path}/cost; else echo cost=100; fi'
        pattern = ("--metric", "regex:cost=([0-9.]+)")
        return ("ab", *SHORT, "--b", "X=1", *pattern, "--", "sh", "-c", program)

    return arguments


Cost = Callable[[float], tuple[str, ...]]


def test_a_verdict_is_measured_again_and_shown_side_by_side(own: Stand, cost: Cost) -> None:
    first = recorded(own, *cost(105))
    done = ran(own.call("rerun", first.id))
    again = own.records()[-1]
    assert f"agrees: {first.id} against {again.id}" in done.stdout
    assert done.stdout.count("1.050 [1.050–1.050]") == 2
    assert "the two intervals overlap, no GO stands against a NO-GO" in done.stdout
    assert "1 repeated: 1 agrees" in done.stdout
    assert again.body["repeats"] == first.id
    same = ("question", "verdict", "margin", "seed", "aim", "most_blocks", "cells", "benchmarks")
    assert {k: again.body[k] for k in same} == {k: first.body[k] for k in same}
    # The same seed gives the same samples in the same order.
    one, other = (own.samples(setting) for setting in own.records("setting"))
    assert [row["cell"] for row in one] == [row["cell"] for row in other]
    assert [row["padding"] for row in one] == [row["padding"] for row in other]
    assert not verify(own.ledger).problems


@pytest.mark.parametrize(
    ("now", "state", "status"),
    [(95, "contradicts", 1), (110, "contradicts", 1), (105, "agrees", 0)],
)
def test_a_disagreement_is_reported_as_one(
    own: Stand, cost: Cost, now: float, state: str, status: int
) -> None:
    """Planted: since the record the program became cheaper, or dearer, or stayed the same."""
    first = recorded(own, *cost(105))
    cost(now)
    done = ran(own.call("rerun", first.id), status)
    assert f"{state}: {first.id} against" in done.stdout
    assert f"{now / 100:.3f} [{now / 100:.3f}–{now / 100:.3f}]" in done.stdout
    opposite = "verdict NO-GO GO ✗ contradicts" in " ".join(done.stdout.split())
    assert opposite is (now == 95)


def test_the_settings_of_the_shell_are_replaced_by_the_recorded_ones(
    own: Stand, cost: Cost
) -> None:
    own.call(*cost(105), HAKMEM_THEN="1")
    first = own.records()[-1]
    done = ran(own.call("rerun", first.id, HAKMEM_NOW="2"))
    assert "HAKMEM_NOW of your shell was not used" in done.stdout
    then, now = (r.body["settings_of_user"] for r in own.records("setting"))
    assert then["HAKMEM_THEN"] == "1"
    assert now == then


def test_the_noise_floor_is_measured_between_two_new_copies(own: Stand) -> None:
    first = recorded(own, "ab", *SHORT, "--aa", "--bench", "prodcons")
    ran(own.call("rerun", first.id))
    again = own.records()[-1]
    assert (again.kind, again.body["repeats"]) == ("A/A", first.id)
    assert again.body["cells"][0]["name"] == first.body["cells"][0]["name"]


def test_a_verdict_of_compare_keeps_its_direction(own: Stand) -> None:
    """A verdict of compare is on cell A, hakmem, against a rival; ab's is on B: both keep that."""
    program = 'case "$LD_PRELOAD" in *libhakmem*) echo cost=50;; *) echo cost=100;; esac'
    metric = ("--metric", "regex:cost=([0-9.]+)", "--rival", "system", "--min-seconds", 0)
    first = recorded(own, "compare", *metric, "--", "sh", "-c", program)
    assert first.body["verdict"] == "GO"
    assert own.call("rerun", first.id).returncode == 0
    again = own.records()[-1].body
    assert again["verdict"] == "GO"
    assert [cell["library"] for cell in again["cells"]] == ["system", "hakmem"]
    assert again["metrics"]["sh"]["estimate"] == pytest.approx(0.5)


def test_ctrl_c_leaves_one_line_and_no_record(own: Stand, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    program = f"if [ -e {tmp_path}/then ]; then echo $$ > {mark}; exec sleep 600; fi; "
    pattern = ("--metric", "regex:cost=([0-9.]+)")
    words = ("ab", *SHORT, "--b", "X=1", *pattern, "--", "sh", "-c", program + "echo cost=1$X")
    first = recorded(own, *words)
    before = len(own.records())
    (tmp_path / "then").touch()
    done = own.interrupted(lambda: mark.exists() and mark.read_text(), "rerun", first.id)
    assert (done.returncode, done.stderr) == (130, INTERRUPTED)
    assert until(lambda: ended(int(mark.read_text())))
    assert len(own.records()) == before


# ---- what rerun needs ----


def test_a_library_that_is_gone_is_named_and_may_be_given(
    own: Stand, rival: Path, tmp_path: Path, cost: Cost
) -> None:
    rival = Path(shutil.copy(rival, tmp_path / "r.so"))
    words = list(cost(105))
    words[words.index("X=1")] = f"lib={rival} X=1"
    first = recorded(own, *words)
    rival.rename(tmp_path / "elsewhere.so")
    done = ran(own.call("rerun", first.id), 1)
    assert f"library not found: {rival}" in done.stdout
    done = ran(own.call("rerun", first.id, "--lib", f"r.so={tmp_path}/elsewhere.so"))
    assert "is not the recorded file" not in done.stdout
    compile_c(
        "stub_library.c", rival, "-shared", "-fPIC", "-DSILENT", "-Dhak_version=no", "-DOTHER=1",
        "-O0", "-Dmalloc_usable_size=malloc_usable_size", "-g",
    )  # fmt: skip
    assert "is not the recorded file" in ran(own.call("rerun", first.id)).stdout


WRONG = [
    (("{setting}",), "is a setting, a part of a result: repeat {verdict}"),
    (("{verdict}", "--lib", "x"), "--lib takes NAME=PATH, not 'x'"),
    (("{verdict}", "--lib", "x=/no/such.so"), "library x not found: /no/such.so"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG)
def test_what_cannot_be_repeated_is_one_clear_line(
    own: Stand, cost: Cost, arguments: tuple[str, ...], message: str
) -> None:
    verdict = recorded(own, *cost(105))
    ids = {"verdict": verdict.id, "setting": own.records("setting")[0].id}
    refused(own.call("rerun", *(word.format(**ids) for word in arguments)), message.format(**ids))


# ---- the source that the record names ----


@pytest.fixture
def repository(own: Stand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small project in a repository, in place of this one."""
    need("git", "cmake")
    root = tmp_path / "repo"
    (root / "src").mkdir(parents=True)
    (root / "bench" / "harness").mkdir(parents=True)
    shutil.copy(PROGRAMS / "stub_library.c", root / "src" / "library.c")
    shutil.copy(PROGRAMS / "stub_bench.c", root / "bench" / "prodcons.c")
    (root / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(small C)\n"
        "add_library(hakmem SHARED src/library.c)\n"
        "add_executable(bench_prodcons bench/prodcons.c)\n"
        "set_target_properties(bench_prodcons PROPERTIES RUNTIME_OUTPUT_DIRECTORY bench)\n"
    )
    (root / ".gitignore").write_text("build/\n")
    commit(root)
    monkeypatch.setattr(project, "root", lambda: root)
    return root


def at_the_commit(own: Stand, root: Path) -> Record:
    """Records a verdict at the present commit, and then commits a changed library."""
    first = recorded(own, "ab", *SHORT, "--b", "X=1", "--bench", "prodcons")
    assert first.body["source"]["dirty"] is False
    source = root / "src" / "library.c"
    source.write_text(source.read_text().replace("0.0-stub", "0.1-stub"))
    commit(root)
    return first


def with_present_build(own: Stand, root: Path) -> Stand:
    """Builds the present source in the folder where builds are."""
    present = own.elsewhere(root / "build", benches=True)
    compile_c(root / "src" / "library.c", present.library, "-shared", "-fPIC")
    (present.folder / "bench" / "bench_prodcons").touch()
    return present


def test_another_source_is_checked_out_and_built(own: Stand, repository: Path) -> None:
    """The proof in the samples shows by its version which library really ran."""
    before = git(repository, "rev-parse", "HEAD")
    first = at_the_commit(own, repository)
    now = with_present_build(own, repository)
    listed = now.call("rerun", first.id, "--list")
    assert f"build {before[:8]}" in listed.stdout
    done = ran(now.call("rerun", first.id))
    assert f"measured with the library and benchmarks of {before[:12]}" in done.stdout
    again = own.records()[-1].body
    assert again["source"] == first.body["source"]
    assert '"version": "0.0-stub"' in own.output()
    assert f"build/commits/{before}" in own.output()
    assert len(git(repository, "worktree", "list").splitlines()) == 1
    # A record of the present source is repeated with the present build.
    new = recorded(now, "ab", *SHORT, "--b", "X=1", "--bench", "prodcons")
    assert "present" in now.call("rerun", new.id, "--list").stdout
    # Also if the library's bytes differ, as by another compiler, but not if shared/ has changed.
    with now.library.open("ab") as library:
        library.write(b"another build")
    assert "present" in now.call("rerun", new.id, "--list").stdout
    (repository / "shared").mkdir()
    (repository / "shared" / "more.c").touch()
    commit(repository)
    listed = ran(now.call("rerun", new.id, "--list"))
    assert f"build {new.body['source']['commit'][:8]}" in listed.stdout


def test_a_changed_benchmark_is_said_and_the_commits_own_is_run(
    own: Stand, repository: Path
) -> None:
    first = recorded(own, "ab", *SHORT, "--b", "X=1", "--bench", "prodcons")
    program = repository / "bench" / "prodcons.c"
    program.write_text(program.read_text().replace("0.4", "0.3"))
    commit(repository)
    done = ran(own.call("rerun", first.id))
    assert "since then the definition of prodcons has changed" in done.stdout
    then, again = (record.body["benchmarks"][0]["works"] for record in (first, own.records()[-1]))
    assert again["prodcons"]["definition"] == then["prodcons"]["definition"]


def test_a_commit_that_cannot_be_had_is_one_clear_message(own: Stand, repository: Path) -> None:
    first = at_the_commit(own, repository)
    now = with_present_build(own, repository)
    lost = {"commit": "f" * 40, "tree": "e" * 40, "dirty": False}
    done = ran(now.call("rerun", altered(own, first, source=lost).id), 1)
    assert "the commit ffffffffffff of record" in done.stdout
    dirty = {**first.body["source"], "dirty": True}
    done = ran(now.call("rerun", altered(own, first, source=dirty).id), 1)
    assert "with uncommitted changes" in done.stdout
    # After an amended message the commit is unknown, but its tree is the present one.
    same = {**first.body["source"], "commit": "f" * 40}
    assert "agrees" in now.call("rerun", altered(own, first, source=same).id).stdout


# ---- kinds that are repeated by their command line ----


def test_a_soak_is_run_again_and_writes_elsewhere(
    own: Stand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "a.csv"
    arguments = ("--seconds", 80, "--epoch-sec", 1, "--out", out)
    first = recorded(own, "soak", *arguments, "--env", "HAKMEM_X=1")
    before = out.read_bytes()
    done = ran(own.call("rerun", first.id))
    assert "drift of rss_kb" in done.stdout
    again = own.records()[-1]
    assert (again.kind, again.body["repeats"]) == ("soak", first.id)
    assert again.body["environment"]["HAKMEM_X"] == "1"
    assert out.read_bytes() == before
    assert (tmp_path / "out" / f"rerun-{first.id}" / "soak.csv").is_file()


def test_a_baseline_and_a_matrix_are_run_again(
    own: Stand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    first = recorded(own, "baseline", "--runs", 4)
    assert own.call("rerun", first.id).returncode == 0
    assert own.records()[-1].body["repeats"] == first.id
    file = tmp_path / "m.toml"
    file.write_text(MATRIX)
    first = recorded(own, "matrix", file, "--out", tmp_path / "m")
    file.unlink()  # the record holds the file's text
    for _ in range(2):
        assert "GO kept every rule: x" in flat(ran(own.call("rerun", first.id)).stdout)
    matrices = own.records("matrix")
    assert [r.body.get("repeats") for r in matrices] == [None, first.id, first.id]
    assert {r.body["definition"] for r in matrices} == {first.body["definition"]}


def test_pairs_that_no_rule_asks_for_are_no_part_of_a_matrixs_time(tmp_path: Path) -> None:
    """rerun estimates the time of a matrix; pairs are not run if no rule needs throughput."""
    file = tmp_path / "m.toml"
    for rule, seconds in (("throughput_floor = -0.2", 2 * (60 + 14)), ("cv = 0.05", 2 * 60)):
        file.write_text(MATRIX.replace("throughput_floor = -0.2", rule))
        (stage,) = plan.load(file).stages
        body = {"stages": [{"stage": asdict(stage), "judged": {"base": [], "x": []}}]}
        assert expected_s(Past(SimpleNamespace(kind="matrix", body=body), {})) == seconds


# ---- rerun of all records ----


def test_a_suite_is_measured_again_as_one(own: Stand) -> None:
    benches = ("--bench", "prodcons", "--bench", "larson_1")
    first = recorded(own, "compare", *benches, "--rival", "system", *SHORT)
    assert first.kind == "suite"
    assert "1 to measure" in own.call("rerun", first.id, "--list").stdout
    comparison, setting = own.records("comparison")[0], own.records("setting")[0]
    for part in (comparison, setting):
        said = own.call("rerun", part.id).stderr
        assert f"is a {part.kind}, a part of a result: repeat {first.id}" in said
    done = ran(own.call("rerun", first.id))
    assert "prodcons against system" in done.stdout
    again = own.records()[-1]
    assert (again.kind, again.body["repeats"]) == ("suite", first.id)
    assert again.body["metrics"].keys() == first.body["metrics"].keys()


def test_all_that_the_documents_claim_is_listed_and_repeated(
    own: Stand, tmp_path: Path, cost: Cost, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "docs"
    root.mkdir()
    git(root, "init", "-q")
    monkeypatch.setattr(project, "root", lambda: root)
    cited, table, other = (recorded(own, *cost(105)) for _ in range(3))
    (root / "a.md").write_text(
        f"It takes 1.05 [1.05–1.05]<!--c:{cited.id}/sh--> of it, and 1.05 [1.05–1.05]"
        f"<!--c:{cited.id}/sh--> again.\n\n<!--claims:begin verdict={table.id}-->\n| a |\n"
        "<!--claims:end-->\n"
    )
    listed = ran(own.call("rerun", "--all-claims", "--list"))
    assert "2 to measure, about" in listed.stdout
    assert cited.id in listed.stdout
    assert table.id in listed.stdout
    assert other.id not in listed.stdout
    assert len(own.records("verdict")) == 3
    assert own.call("rerun", "--all-claims").returncode == 0
    cost(95)
    done = ran(own.call("rerun", "--all-claims"), 1)
    assert "2 repeated: 2 contradicts" in done.stdout
    (root / "a.md").write_text("It takes 1.05 [1.05–1.05]<!--c:abcdef123456/sh--> of it.\n")
    assert "cited, but not in the ledger: abcdef123456" in own.call("rerun", "--all-claims").stderr
    (root / "a.md").write_text("Nothing.\n")
    assert "no document cites a record" in own.call("rerun", "--all-claims").stderr
