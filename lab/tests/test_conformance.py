"""`hakmem conformance`: how a test program's end is judged, bad allocators are found, the page."""

import io
import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hakmem import project
from hakmem.audit import blocks
from hakmem.audit.check import Audit
from hakmem.audit.citing import Evidence
from hakmem.conformance import cases, cli, trial
from hakmem.conformance.cases import Case
from hakmem.conformance.trial import Result
from hakmem.errors import LabError
from hakmem.ledger.store import Ledger
from hakmem.paired.cells import Cell
from hakmem.process import children, library, provenance
from hakmem.process.library import Library
from rich.console import Console
from standing import Stand, ended, need_built, ran, refused, script, until

ROOT = Path(__file__).parents[2]
BUILT = project.root() / "build" / "tests"
NOWHERE = Ledger(Path("/nowhere"))
ON_SYSTEM = ("conformance", "--allocator", "system")
SERVED = 'echo "malloc is in $FILE"\n'


def scripted(folder: Path, name: str, text: str) -> Case:
    """A case whose program is a shell script with FILE set to the C library's path."""
    program = script(folder / name, f"FILE={provenance.c_library()}\n{text}")
    return Case(name, f"{name} is promised.", program, program)


def tried(folder: Path, text: str, timeout_s: float = 20) -> Result:
    system = Cell("system", library.system())
    return trial.run(scripted(folder, "case", text), system, False, timeout_s)


@pytest.mark.parametrize(
    ("text", "state", "reason"),
    [
        ("exit 0", "kept", ""),
        ("echo 'no such tool' >&2; exit 77", "not checked", "no such tool"),
        ("echo noise >&2; echo '3 is not 4' >&2; exit 1", "broken", "3 is not 4"),
        ("exit 5", "broken", "status 5: no word"),
        ("kill -SEGV $$", "broken", "ended by SIGSEGV"),
        ("kill -s 40 $$", "broken", "ended by signal 40"),
        ("echo 'heap broken' >&2; kill -ABRT $$", "broken", "ended by SIGABRT: heap broken"),
    ],
)
def test_how_a_program_ends_is_what_is_said(
    tmp_path: Path, text: str, state: str, reason: str
) -> None:
    result = tried(tmp_path, SERVED + text)
    assert (result.state, result.reason) == (state, reason)


def test_a_hang_becomes_a_time_out_and_nothing_outlives_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orphan, reap = tmp_path / "orphan", children._reap

    def once_it_hangs(*arguments: Any) -> Any:
        assert until(lambda: orphan.exists() and orphan.read_text())
        return reap(*arguments)

    monkeypatch.setattr(children, "_reap", once_it_hangs)
    text = f"{SERVED}sleep 600 & echo $! > {orphan}; wait"
    result = tried(tmp_path, text, timeout_s=2)
    assert (result.state, result.reason) == ("broken", "time-out after 2 s")
    assert until(lambda: ended(int(orphan.read_text())))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("exit 0", "did not say where its malloc is"),
        ("echo 'malloc is in /bin/sh'", "malloc was in /bin/sh"),
        ("echo 'malloc is in /bin/sh'; exit 1", "malloc was in /bin/sh"),
        ("echo 'malloc is in another file' >&2; exit 78", "another file"),
    ],
)
def test_nothing_is_concluded_on_another_allocator(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(LabError, match=said):
        tried(tmp_path, text)


def call(
    own: Stand, folder: Path, scripts: Mapping[str, str], *arguments: object
) -> subprocess.CompletedProcess[str]:
    """Runs the command with these scripts as its only cases."""
    made = [scripted(folder, name, SERVED + text) for name, text in scripts.items()]
    with mock.patch.object(cases, "all_cases", return_value=made):
        return own.call(*arguments)


def test_the_table_has_marks_and_the_reasons_follow(own: Stand, tmp_path: Path) -> None:
    scripts = {"good": "exit 0", "bad": "echo '3 is not 4' >&2; exit 1", "far": "exit 77"}
    # A broken promise of the system's allocator does not change the exit status.
    out = ran(call(own, tmp_path, scripts, *ON_SYSTEM, "--fast")).stdout
    rows = {words[1]: words[3] for line in out.splitlines() if len(words := line.split()) > 4}
    assert (rows["good"], rows["bad"], rows["far"]) == ("✓", "✗", "–")
    assert "✗ system, bad: 3 is not 4" in out
    assert "– system, far: it did not say why" in out
    assert "1/2" in out
    record = own.records()[-1]
    assert record.kind == "conformance"
    assert record.body["standings"]["system, bad"]["reason"] == "3 is not 4"
    assert record.body["metrics"]["system kept"] == {"value": 1, "unit": "promises"}
    assert set(record.body["cases"]) == set(scripts)
    assert "recorded: " + record.id in out


def test_a_library_that_is_built_again_meanwhile_is_not_recorded(
    own: Stand, rival: Path, tmp_path: Path
) -> None:
    library = shutil.copy(rival, tmp_path)
    text = f"echo 'malloc is in {library}'; echo another build >>{library}"
    with mock.patch.object(cases, "all_cases", return_value=[scripted(tmp_path, "good", text)]):
        done = own.call("conformance", "--allocator", library)
    refused(done, "rival.so was changed during the measurement", status=1)
    assert not own.records()


@pytest.mark.parametrize(("width", "named"), [(200, True), (60, False)])
def test_a_narrow_console_shows_numbers_and_says_whose(width: int, named: bool) -> None:
    names = [f"an allocator, number {i}" for i in range(1, 7)]
    results = [Result("a_case_of_some_length", name, "kept", "", 0.0) for name in names]
    text = io.StringIO()
    cli.show(results, Console(file=text, width=width))
    assert "a_case_of_some_length" in text.getvalue()
    assert all(name in text.getvalue() for name in names)
    assert (f"  6 {names[5]}: 1/1" in text.getvalue()) is not named


def test_the_record_can_be_repeated_and_a_change_contradicts(own: Stand, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    scripts = {"moody": f"test -e {flag} && exit 1; exit 0"}
    call(own, tmp_path, scripts, *ON_SYSTEM)
    (record,) = own.records()
    flag.touch()
    with mock.patch("hakmem.rerun.source.is_present", return_value=True):
        done = ran(call(own, tmp_path, scripts, "rerun", record.id), 1)
    assert "contradicts" in done.stdout


def test_json_is_the_body_and_the_table_goes_elsewhere(own: Stand, tmp_path: Path) -> None:
    done = call(own, tmp_path, {"good": "exit 0"}, *ON_SYSTEM, "--json", "--no-record")
    assert json.loads(done.stdout)["standings"]["system, good"]["verdict"] == "kept"
    assert not own.evidence.exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--case", "none"), "unknown case: none; known: good"),
        (("--allocator", "system", "--allocator", "system"), "named twice: system"),
        (("--allocator", "x=/no/such.so"), "library not found: /no/such.so"),
    ],
)
def test_what_cannot_be_tried_is_said(
    own: Stand, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    refused(call(own, tmp_path, {"good": "exit 0"}, "conformance", *arguments), said)


def test_all_profiles_are_those_that_the_library_says() -> None:
    need_built(project.default_library())
    ours = Library("hakmem", project.default_library(), "0", "hakmem")
    found = {one.name: one.environment for one in cli.in_profiles(ours, ["all"])}
    assert {"hakmem balanced", "hakmem speed", "hakmem secure"} <= found.keys()
    assert found["hakmem lean"] == {"HAKMEM_PROFILE": "lean"}
    with pytest.raises(LabError, match="unknown profile: fast; known: balanced, speed"):
        cli.in_profiles(ours, ["fast"])


# ---- bad allocators, found out by the real programs ----


@pytest.mark.parametrize(
    ("lie", "case", "reason"),
    [
        ("", "errno_kept", ""),
        ("errno", "errno_kept", "set errno to EINVAL"),
        ("misaligned", "sizes", "is not aligned to 16"),
        ("boastful-size", "sizes", ""),
        ("dirty-calloc", "calloc_zero", "is not zero"),
        ("overflow", "overflow", "gave a block"),
        ("any-alignment", "errno_alignment", "not EINVAL"),
        ("forgetful-realloc", "realloc_content", "lost content"),
        ("leak", "threads_short", "resident"),
        ("crash", "realloc_content", "ended by SIGSEGV"),
        ("hang", "realloc_content", "time-out after 3 s"),
    ],
)
def test_a_bad_allocator_is_found_out(lie: str, case: str, reason: str) -> None:
    liar = BUILT / "world" / "libworld_liar.so"
    program = BUILT / "conformance" / case
    need_built(liar, program)
    chosen = next(one for one in cases.all_cases() if one.name == case)
    bad = Cell("liar", Library("liar", liar, "0", "given"), {"WORLD_LIE": lie})
    result = trial.run(chosen, bad, fast=True, timeout_s=3 if lie == "hang" else 60)
    assert result.state == ("broken" if lie else "kept")
    assert reason in result.reason


# ---- the programs and the page ----


def test_each_promise_is_one_sentence_and_each_program_proves_its_malloc() -> None:
    found = cases.all_cases()
    assert len(found) >= 35
    for case in found:
        assert case.promise.endswith(".")
        assert "begin(argc, argv)" in case.source.read_text(encoding="utf-8")


def test_a_stale_page_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "conformance.md"
    page.write_text("# x\n\n<!--promises:begin-->\nold\n<!--promises:end-->\n\nmore\n")
    with pytest.raises(LabError, match=r"conformance\.md:4: not what its sources say"):
        cases.check(page, NOWHERE)
    page.write_text(cases.markdown(page.read_text(encoding="utf-8"), NOWHERE), encoding="utf-8")
    assert cases.check(page, NOWHERE).endswith("promises")
    assert page.read_text(encoding="utf-8").endswith("\n\nmore\n")
    page.write_text("no markers", encoding="utf-8")
    with pytest.raises(LabError, match="the page has no <!--"):
        cases.check(page, NOWHERE)


# ---- misuse ----


@pytest.mark.parametrize(
    ("status", "said", "state", "reason"),
    [
        (0, "", "broken", "it got away with it"),
        (7, "", "kept", "it got nowhere"),
        (-6, "heap broken\nmore\n", "kept", "SIGABRT: heap broken"),
        (-11, "", "kept", ""),
        (-9, "", "broken", "status -9"),
        (1, "", "broken", "status 1"),
        (None, "", "broken", "time-out after 5 s"),
    ],
)
def test_misuse_must_be_ended_or_get_nowhere(
    status: int | None, said: str, state: str, reason: str
) -> None:
    assert trial.judge_misuse(status, said, 5.0) == (state, reason)


def test_each_misuse_says_in_a_sentence_what_it_does() -> None:
    found = cases.misuses()
    assert len(found) > 50
    assert all(len(case.promise) > 20 and case.promise.endswith(".") for case in found)


def test_both_pages_are_printed_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    for page, corruption in (("conformance.md", False), ("security.md", True)):
        cli.command(corruption=corruption, as_markdown=True)
        assert capsys.readouterr().out.rstrip() == (ROOT / "docs" / page).read_text().rstrip()


def test_the_audit_holds_the_table_of_misuse_to_the_record_that_it_names() -> None:
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    records = {record.id: record for record in Ledger(ROOT / "evidence").records()}

    def misuses(text: str) -> blocks.Block:
        found = blocks.find(text)
        (block,) = (b for b in found if [records[id].kind for id in b.ids] == ["conformance"])
        return block

    block = misuses(page)
    assert blocks.render(block, ROOT, records) == block.text
    wrong = page.replace("| ✓ |", "| ✗ |", 1)
    audit = Audit(ROOT, Evidence(ROOT, records, 0))
    for text in (page, wrong):
        audit._block("security.md", ROOT / "docs", misuses(text), True)
        assert len(audit.problems) == (text is wrong), audit.problems
