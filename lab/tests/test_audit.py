"""The audit finds each figure, compares it with its record, and fails if it finds too few."""

import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
import standing
from hakmem import programs, project
from hakmem.audit import blocks, check as audit, citing, planted as audit_planted, scanner
from hakmem.audit.check import Audit
from hakmem.audit.planted import Site
from hakmem.audit.settings import Settings
from hakmem.errors import LabError
from hakmem.ledger import claims, store as ledger
from hakmem.ledger.store import Ledger, Record
from hakmem.ledger.verify import verify
from hakmem.matrix import plan as matrix_plan
from hakmem.process import provenance
from hakmem.suite import SUITE
from standing import Stand, ran, refused

Done = subprocess.CompletedProcess[str]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return audit_planted.build(tmp_path / "site")


def commit(site: Site, message: str, **files: str) -> str:
    for name, text in files.items():
        (site.root / name.replace("_", "/", 1)).with_suffix(".c").write_text(text)
    return standing.commit(site.root, message)


def problems(site: Site, text: str | None = None, stale_after: int = 0) -> str:
    """The audit's problems with doc.md, whose text becomes `text` if given."""
    if text is not None:
        (site.root / "doc.md").write_text(text)
    return "\n".join(audited(site, stale_after).problems)


def audited(site: Site, stale_after: int = 0) -> Audit:
    result = Audit.of(site.root, site.ledger, stale_after)
    result.document(site.root / "doc.md")
    return result


def recorded(site: Site, **more: object) -> str:
    """Appends a record whose rate is 1 s; returns its id."""
    metrics = {"rate": {"value": 1.0, "unit": "s"}}
    body = {"ok": True, "source": provenance.source(site.root), "metrics": metrics}
    return site.ledger.append("sample", body | more).id


# ---- the audit of the audit ----


def test_all_planted_violations_are_refused() -> None:
    assert audit_planted.rehearse() == []


def test_sentences_that_share_a_site_are_told_apart() -> None:
    together = [v.words for v in audit_planted.VIOLATIONS if v.together]
    assert len(set(together)) == len(together)
    assert len(audit_planted.VIOLATIONS) >= 40
    assert len(audit_planted.HARMLESS) >= 10


def test_an_audit_that_sees_figures_everywhere_notices(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = scanner.figures
    monkeypatch.setattr(scanner, "figures", lambda block: [*seen(block), *seen("7 ns")])
    wrong = audit_planted.rehearse([])
    assert sum("harmless" in what for what in wrong) >= len(audit_planted.HARMLESS)


@pytest.mark.parametrize(
    ("module", "name", "blind", "missed"),
    [
        (audit, "differences", lambda *_: [], "a changed last digit"),
        (citing, "_ratio_rules", lambda *_: [], "a ratio without interval"),
        (scanner, "figures", lambda _: [], "a figure typed by hand"),
        (citing.Evidence, "_stale", lambda *_: [], "a stale benchmark"),
        (citing.Evidence, "objections", lambda *_: [], "a dirty record"),
        (Ledger, "read", lambda *_: iter(()), "a good claim refused"),
        (Audit, "floor", lambda *_: None, "a lost claim"),
        (Audit, "message", lambda *_: None, "a message's figure"),
        (Audit, "_block", lambda *_: None, "an edited table"),
        (Audit, "_figures", lambda *_, **__: None, "in history a digit"),
        (ledger, "_decode", lambda line: Record(**json.loads(line)), "an edited byte"),
    ],
)
def test_a_blind_audit_notices(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str, blind: object, missed: str
) -> None:
    monkeypatch.setattr(module, name, blind)
    planted = [v for v in audit_planted.VIOLATIONS if v.what == missed]
    assert any(missed in what for what in audit_planted.rehearse(planted))


# ---- figures against their records ----


@pytest.mark.parametrize(
    ("metric", "scale", "decimals", "shown"),
    [
        ({"value": 41234567.0, "unit": "ops/s"}, "M", 1, "41.2 Mops/s"),
        ({"value": 0.00125, "unit": "s"}, "m", 2, "1.25 ms"),
        ({"value": -39.94, "unit": "µs/op"}, None, 1, "-39.9 µs/op"),
        ({"value": 0.0173, "unit": "share"}, "%", 1, "1.7 %"),
        ({"value": 0.25, "unit": "%"}, None, 1, "0.2 %"),
        ({"estimate": 1.0004, "low": 0.99, "high": 1.01, "unit": "ratio"}, "%", 0, "0 % [−1–1]"),
        (
            {"estimate": 0.876, "low": 0.8, "high": 0.9, "unit": "ratio"},
            None,
            2,
            "0.88 [0.80–0.90]",
        ),
    ],
)
def test_what_is_cited_is_accepted(
    site: Site, metric: dict[str, object], scale: str | None, decimals: int, shown: str
) -> None:
    body = {"metrics": {"m": metric}, "verdict": "GO"}
    record = site.ledger.append("verdict", body)
    assert claims.figure(metric, scale, decimals) == shown
    marker = f"<!--c:{record.id}/m{f'/{scale}' if scale else ''}-->"
    (claim,) = scanner.scan(shown + marker).claims
    assert citing.differences(claim, record) == []


def test_an_undecided_ratio_says_so(site: Site) -> None:
    body = dict(site.ledger.get(site.verdict).body) | {"verdict": "UNDECIDED"}
    id = site.ledger.append("verdict", body).id
    figure = f"0.88 [0.85–0.90]<!--c:{id}/cost-->"
    assert "UNDECIDED" in problems(site, figure)
    assert problems(site, f"undecided: {figure}") == ""


# ---- age ----


def test_some_source_commits_are_allowed_and_no_more(site: Site) -> None:
    commit(site, "docs")
    assert problems(site) == ""
    commit(site, "one", src_a="int b;\n")
    commit(site, "two", src_a="int c;\n")
    result = audited(site, stale_after=2)
    assert (result.problems, result.evidence.ages[site.sample]) == ([], 2)
    assert "2 commits have changed" in problems(site, stale_after=1)
    site.edit("src/a.c", "int c", "int d")
    assert "3 commits have changed" in problems(site, stale_after=2)


def test_history_may_be_old(site: Site) -> None:
    history = {site.root / "old.md"}

    def of(name: str) -> list[str]:
        result = Audit.of(site.root, site.ledger, 0, history)
        result.document(site.root / name)
        assert result.dated == (result.seen if name == "old.md" else 0)
        return result.problems

    site.edit("src/a.c", "a", "b")
    site.edit("bench/a.c", "a", "b")
    assert any("is stale" in p for p in of("doc.md"))
    assert of("old.md") == []


def test_a_table_of_history_says_when(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (site.root / "old.md").read_text()
    record = site.ledger.get(site.verdict)
    day, at = record.time[:10], record.body["source"]["commit"][:10]
    assert f"| {at}, {day} |" in text
    for word in (day, at):
        mute = text.replace(word, "")
        (table,) = blocks.find(mute)
        (site.root / "old.md").write_text(mute)
        monkeypatch.setattr(blocks, "render", lambda *_, made=table.text: made)
        result = Audit.of(site.root, site.ledger, 0, {site.root / "old.md"})
        result.document(site.root / "old.md")
        assert len(result.problems) == 1
        assert "does not say when" in result.problems[0]


def test_an_amended_message_keeps_its_evidence(site: Site) -> None:
    source = provenance.source(site.root) | {"commit": "0" * 40}
    id = recorded(site, source=source)
    assert problems(site, f"1.0 s<!--c:{id}/rate-->") == ""
    site.say(id, recorded(site, source={**source, "tree": "0" * 40}))
    assert "not in the history" in problems(site)


def test_a_stated_benchmark_is_stale_only_by_its_own_change(site: Site) -> None:
    fifo = SUITE.command("batch_fifo")
    commit(site, "batch", bench_batch="int batch;\n")
    works = {
        fifo.name: {"definition": provenance.definition(fifo, site.root)},
        "a user's command": {"definition": None},
    }
    id = recorded(site, benchmarks=[{"works": works}])
    ours = {"build/bench/bench_batch 1000": {"definition": None}}
    hidden = recorded(site, benchmarks=[{"works": works | ours}])
    site.edit("bench/a.c", "a", "b")
    assert problems(site, f"1.0 s<!--c:{id}/rate-->") == ""
    site.edit("bench/batch.c", "batch", "other")
    assert "batch_fifo has changed" in problems(site)
    site.say(id, hidden)
    assert "bench/ has changed" in problems(site)


@pytest.mark.parametrize(
    ("definition", "said"),
    [(programs.digest(programs.find(["sort"])[0]), ""), (None, ""), ("0", "sort has changed")],
)
def test_a_program_is_stale_by_its_own_change(site: Site, definition: object, said: str) -> None:
    id = recorded(site, benchmarks=[{"works": {"sort": {"definition": definition}}}])
    found = problems(site, f"1.0 s<!--c:{id}/rate-->")
    assert said in found
    assert bool(found) is bool(said)


def test_a_matrix_is_stale_by_its_own_change(site: Site) -> None:
    ((title, digest),) = matrix_plan.shipped().items()
    source = provenance.source(site.root)
    for called, definition, stale in (
        (title, digest, False),
        (title, "0", True),
        ("a user's own", "0", False),
    ):
        body = {"ok": True, "source": source, "title": called, "definition": definition}
        id = site.ledger.append("matrix", body).id
        evidence = citing.Evidence(site.root, verify(site.ledger).records, 0)
        assert ["is stale" in why for why in evidence.objections(id)] == [True] * stale
        assert evidence.objections(id, fresh=False) == []


def test_a_sample_has_the_source_of_its_setting(site: Site) -> None:
    source = provenance.source(site.root)
    for dirty in (False, True):
        setting = site.ledger.append("setting", {"source": {**source, "dirty": dirty}})
        metrics = {"a/b.c wall": {"value": 0.125, "unit": "share"}}
        body = {"ok": True, "setting": setting.id, "source": source["commit"], "metrics": metrics}
        id = site.ledger.append("sample", body).id
        found = problems(site, f"12.5 %<!--c:{id}/a/b.c wall/%-->")
        assert ("(dirty)" in found) is dirty
        assert bool(found) is dirty


# ---- generated tables ----


def test_a_table_is_made_from_its_verdicts_and_held_to_them(site: Site) -> None:
    path = site.root / "doc.md"
    marks = f"<!--claims:begin verdict={site.verdict}-->\n<!--claims:end-->\n"
    assert "not what its source gives" in problems(site, marks)
    audit.write(site.root, [path], site.ledger)
    text = path.read_text()
    assert "| less? | cost | 0.876 | [0.851–0.902] | GO |" in text
    assert (audited(site).problems, audited(site).seen) == ([], 1)


def test_marks_that_make_no_table_are_refused(site: Site) -> None:
    assert "makes no block" in problems(site, "<!--claims:begin verdict=0-->\n| 7 ns |\n")
    for source in (f"verdict={site.sample}", "verdict=0", "other"):
        found = problems(site, f"<!--claims:begin {source}-->\n<!--claims:end-->\n")
        assert "cannot be made again" in found


# ---- commit messages ----


def test_messages_are_held_to_the_same_rules(site: Site) -> None:
    def of(since: str, **excused: str) -> list[str]:
        result = Audit.of(site.root, site.ledger, 0)
        for id, text in audit.messages(site.root, Settings(0, 0, since, excused)):
            result.message(id, text)
        return result.problems

    start = commit(site, "front: 99 % faster, before the rules")
    commit(site, f"front: cost 0.88 [0.85–0.90] [c:{site.verdict}/cost]")
    commit(site, "docs: the table's limit\n\n[noclaim: a limit] within 5 % of it")
    commit(site, "later, when the source is another", src_a="int z;\n")
    assert of(start) == []
    bad = commit(site, "front: 12 % faster")
    assert [p for p in of(start) if "unbacked" in p]
    assert of(start, **{bad: "cannot be mended"}) == []
    standing.git(site.root, "tag", "v1.0")
    assert of(start) == []
    with pytest.raises(LabError, match="cannot list the commits"):
        of("f" * 40)


# ---- what is not a whole checkout ----


@pytest.fixture
def shallow(site: Site, tmp_path: Path) -> Site:
    """A clone that has only the last commit, without the one that was measured."""
    commit(site, "later")
    path = tmp_path / "clone"
    standing.git(site.root, "clone", "-q", "--depth", "1", f"file://{site.root}", str(path))
    return replace(site, root=path)


def test_a_shallow_clone_says_what_it_could_not_check(shallow: Site) -> None:
    result = audited(shallow)
    result.incomplete()
    assert result.problems == []
    (note,) = (note for note in result.notes if "history is incomplete" in note)
    assert "of 2 cited records" in note
    found = audit.messages(shallow.root, Settings(0, 0, "f" * 40, {}), shallow=True)
    assert [text for _, text in found] == ["later"]


def test_a_shallow_clone_refuses_what_is_dirty_edited_or_of_another_benchmark(
    shallow: Site,
) -> None:
    fifo = SUITE.command("batch_fifo")
    (shallow.root / "bench" / "batch.c").write_text("int batch;\n")
    works = {fifo.name: {"definition": provenance.definition(fifo, shallow.root)}}
    here = shallow.ledger
    body = {**here.get(shallow.sample).body, "benchmarks": [{"works": works}]}
    id = here.append("sample", body).id
    shallow.say(shallow.sample, id)
    assert problems(shallow) == ""
    shallow.edit("bench/batch.c", "batch", "other")
    assert "batch_fifo has changed" in problems(shallow)
    shallow.say(id, shallow.dirty)
    assert "(dirty)" in problems(shallow)
    shallow.edit(audit_planted.LEDGER, "41234500.0", "41234600.0")
    assert "was changed" in problems(shallow)


@pytest.fixture
def auditing(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Done]:
    """Runs the command on a small project, without its rehearsal on planted violations."""
    monkeypatch.setattr(audit_planted, "rehearse", list)

    def run(site: Site, *arguments: str) -> Done:
        monkeypatch.setattr(project, "root", lambda: site.root)
        return stand.call("audit", *arguments, LAB_LEDGER=str(site.root / "evidence"))

    return run


def test_the_command_in_a_shallow_clone(shallow: Site, auditing: Callable[..., Done]) -> None:
    text = f'floor = 4\nstale-after = 0\nmessages-from = "{"f" * 40}"\n'
    (shallow.root / "evidence" / "audit.toml").write_text(text)
    done = ran(auditing(shallow))
    assert "note: the history is incomplete" in done.stdout
    refused(auditing(shallow, "--release"), "needs the whole history")


def test_an_archive_is_no_checkout_even_inside_one(site: Site) -> None:
    assert audit.is_checkout(site.root)
    inside = site.root / "archive"
    inside.mkdir()
    assert not audit.is_checkout(inside)
    with pytest.raises(LabError, match="no git checkout: name the files"):
        audit.documents(inside)
    shutil.rmtree(site.root / ".git")
    with pytest.raises(LabError, match="no git checkout"):
        audit.documents(site.root)


# ---- settings and the command ----


def test_settings_that_lack_something_are_refused(tmp_path: Path) -> None:
    (tmp_path / "evidence").mkdir()
    whole = 'floor = 1\nstale-after = 2\nmessages-from = ""\n'
    wrong = (whole + "excused = 1", whole.replace("1", "[]"), whole.replace("2", '"x"'))
    for text in ("", "floor = 1\nstale-after = 2", "floor = ", *wrong):
        (tmp_path / "evidence" / "audit.toml").write_text(text)
        with pytest.raises(LabError, match=r"audit\.toml"):
            Settings.load(tmp_path)


def test_history_names_documents_that_are_there(tmp_path: Path) -> None:
    (tmp_path / "evidence").mkdir()
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "1.md").touch()
    (tmp_path / "docs" / "1.txt").touch()

    def dated(history: str) -> frozenset[Path]:
        text = f'floor = 0\nstale-after = 0\nmessages-from = ""\n{history}'
        (tmp_path / "evidence" / "audit.toml").write_text(text)
        return Settings.load(tmp_path).dated(tmp_path)

    assert dated("") == frozenset()
    assert dated('history = ["docs/*.md"]') == {tmp_path / "docs" / "1.md"}
    for globs, why in (
        ('["docs/*.md", "doc/*.md"]', "'doc/.*' matches no document"),
        ('["docs/*.txt"]', "matches no document"),
        ('["/etc/*.md"]', "'/etc/"),
        ('[""]', "''"),
        ('"docs/*.md"', "a list of names"),
        ("[1]", "a list of names"),
    ):
        with pytest.raises(LabError, match=why):
            dated(f"history = {globs}")


@pytest.mark.parametrize("arguments", [(), ("--release",)])
def test_the_command_lets_history_be_old(
    site: Site, auditing: Callable[..., Done], arguments: tuple[str, ...]
) -> None:
    (site.root / "README.md").write_text("hello")
    (site.root / "doc.md").unlink()
    settings = 'floor = 4\nstale-after = 0\nmessages-from = "HEAD"\nhistory = ["old.md"]\n'
    (site.root / "evidence" / "audit.toml").write_text(settings)
    commit(site, "later", src_a="int later;\n")
    done = ran(auditing(site, *arguments))
    assert "4 of all are history" in done.stdout

    (site.root / "README.md").write_text((site.root / "old.md").read_text())
    done = ran(auditing(site, *arguments), 1)
    stale = [line for line in done.stdout.splitlines() if "is stale" in line]
    assert stale
    assert all(line.startswith("problem: README.md") for line in stale)


@pytest.mark.parametrize(("text", "status"), [("It is small.", 0), ("It does 41.2 M ops/s.", 1)])
def test_the_command_refuses_a_typed_figure(
    stand: Stand, tmp_path: Path, text: str, status: int
) -> None:
    (tmp_path / "doc.md").write_text(text)
    done = ran(stand.call("audit", tmp_path / "doc.md"), status)
    assert "planted violations refused" in done.stdout
    assert ("unbacked" in done.stdout) == (status == 1)


def test_what_is_derived_from_what_is_not_ok_is_not_cited(site: Site) -> None:
    bad = site.ledger.append("setting", {"ok": False}).id
    body = verify(site.ledger).records[site.verdict].body
    id = site.ledger.append("verdict", {**body, "inputs": [bad]}).id
    evidence = citing.Evidence(site.root, verify(site.ledger).records, 0)
    assert evidence.objections(site.verdict) == []
    assert evidence.objections(id) == [
        f"record {id} is derived from records that are not ok: ['{bad}']"
    ]
