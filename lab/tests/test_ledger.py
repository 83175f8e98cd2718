"""The ledger loses and changes no record: not with two writers, after a kill, on a full disk."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hakmem.errors import LabError
from hakmem.ledger import claims, cli as ledger_index
from hakmem.ledger.store import Ledger
from hakmem.ledger.verify import verify
from standing import PATIENCE_S, Stand, commit, refused

WRITER = """
import sys
from pathlib import Path
from hakmem.ledger.store import Ledger
folder, count, size = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
for number in range(count):
    record = Ledger(folder).append("sample", {"n": number, "fill": "x" * size}, {"out": b"raw"})
    print(record.id, flush=True)
"""


@pytest.fixture(autouse=True)
def host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_LEDGER_HOST", "one")


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "led")  # the same ledger as that of `own`


def file_of(ledger: Ledger) -> Path:
    return ledger.root / "ledger" / "one.jsonl"


def writer(ledger: Ledger, count: int, size: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(ledger.root), str(count), str(size)],
        stdout=subprocess.PIPE,
        text=True,
    )


def test_what_was_added_is_read_back(ledger: Ledger) -> None:
    first = ledger.append("sample", {"metrics": {"µ": {"value": 1.5, "unit": "ns/op"}}, "t": (1,)})
    second = ledger.append("verdict", {"inputs": [first.id]}, {"stdout": b"\x00all\n"})
    assert list(ledger.records()) == [first, second]
    assert ledger.get(first.id).body == {
        "metrics": {"µ": {"value": 1.5, "unit": "ns/op"}},
        "t": [1],
    }
    assert (second.seq, second.prev, second.kind) == (2, first.hash, "verdict")
    assert second.hash.startswith(second.id)
    assert ledger.raw_path(second.raw["stdout"]).read_bytes() == b"\x00all\n"
    with pytest.raises(LabError, match="no record abc"):
        ledger.get("abc")


def test_each_host_has_its_own_file(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger.append("sample", {"n": 1})
    monkeypatch.setenv("LAB_LEDGER_HOST", "../two words")
    ledger.append("sample", {"n": 1})
    assert [path.name for path in ledger.files()] == ["one.jsonl", "two-words.jsonl"]
    assert len({record.id for record in ledger.records()}) == 2
    assert verify(ledger).problems == []


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), b"bytes", object()])
def test_what_is_no_json_is_refused(ledger: Ledger, bad: object) -> None:
    with pytest.raises(LabError, match="cannot be recorded as JSON"):
        ledger.append("sample", {"value": bad}, {"out": b"never stored"})
    assert not ledger.root.exists()


def test_two_writers_at_once_lose_nothing(ledger: Ledger) -> None:
    writers = [writer(ledger, 100, size) for size in (10, 20_000)]
    said = {id for process in writers for id in process.communicate(timeout=PATIENCE_S)[0].split()}
    assert len(said) == 200
    assert {record.id for record in ledger.records()} == said
    assert [record.seq for record in ledger.records()] == list(range(1, 201))
    assert verify(ledger).problems == []


def test_a_killed_writer_loses_nothing_it_said_it_had_written(ledger: Ledger) -> None:
    said: list[str] = []
    for turn in range(6):
        process = writer(ledger, 1_000_000, 300_000)
        said.append(process.stdout.readline().strip())
        time.sleep(0.003 * turn)
        process.send_signal(signal.SIGKILL)
        # The kill may cut the last printed id short: its record exists, but the id is useless.
        rest = process.communicate(timeout=PATIENCE_S)[0]
        said += [line.strip() for line in rest.splitlines(keepends=True) if line.endswith("\n")]
    last = ledger.append("sample", {"after": "the kills"})
    assert len(said) >= 6
    assert {*said, last.id} <= {record.id for record in ledger.records()}
    assert verify(ledger).problems == []


@pytest.mark.parametrize("cut", [1, 40, 200])
def test_a_torn_last_line_is_moved_aside(
    ledger: Ledger, own: Stand, cut: int, capfd: pytest.CaptureFixture[str]
) -> None:
    kept, _ = (ledger.append("sample", {"n": n}) for n in (1, 2))
    data = file_of(ledger).read_bytes()
    start = data.index(b"\n") + 1
    file_of(ledger).write_bytes(data[: start + cut])

    listed = own.call("ledger", "list")
    assert (listed.returncode, listed.stderr.count("\n")) == (0, 1)
    assert "the last line is torn" in listed.stderr
    assert [record.id for record in ledger.records()] == [kept.id]
    capfd.readouterr()
    assert any("torn" in problem for problem in verify(ledger).problems)

    after = ledger.append("sample", {"n": 3})
    assert "one.jsonl.torn" in capfd.readouterr().err
    assert [record.id for record in ledger.records()] == [kept.id, after.id]
    assert (ledger.root / "ledger" / "one.jsonl.torn").read_bytes() == data[start:][:cut] + b"\n"
    assert verify(ledger).problems == []


def test_a_last_line_that_lacks_only_its_end_is_kept(ledger: Ledger) -> None:
    records = [ledger.append("sample", {"n": n}) for n in range(2)]
    file_of(ledger).write_bytes(file_of(ledger).read_bytes().removesuffix(b"\n"))
    ledger.recover()
    assert list(ledger.records()) == records
    assert verify(ledger).problems == []


def test_every_edited_byte_is_found(ledger: Ledger) -> None:
    for n in range(3):
        ledger.append("sample", {"n": n, "value": 41.25})
    data = file_of(ledger).read_bytes()
    for at in range(0, len(data), 5):
        file_of(ledger).write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        assert verify(ledger).problems, at
    file_of(ledger).write_bytes(data)
    assert verify(ledger).problems == []


@pytest.mark.parametrize("which", [0, 1])
def test_a_missing_line_breaks_the_chain(ledger: Ledger, which: int) -> None:
    for n in range(3):
        ledger.append("sample", {"n": n})
    lines = file_of(ledger).read_bytes().splitlines(keepends=True)
    del lines[which]
    file_of(ledger).write_bytes(b"".join(lines))
    assert any("chain is broken" in problem for problem in verify(ledger).problems)


def test_a_missing_last_line_is_missing_against_git(ledger: Ledger) -> None:
    for n in range(2):
        ledger.append("sample", {"n": n})
    commit(ledger.root.parent)
    first = file_of(ledger).read_bytes().splitlines(keepends=True)[0]
    file_of(ledger).write_bytes(first)
    assert any("not what was committed" in problem for problem in verify(ledger).problems)
    file_of(ledger).unlink()
    assert any("not what was committed" in problem for problem in verify(ledger).problems)


def test_a_rewritten_ledger_with_a_whole_chain_is_found(ledger: Ledger) -> None:
    ledger.append("sample", {"n": 1})
    commit(ledger.root.parent)
    ledger.append("sample", {"n": 2})
    assert verify(ledger).problems == []

    file_of(ledger).unlink()
    ledger.append("sample", {"n": 3})
    assert any("not what was committed" in problem for problem in verify(ledger).problems)
    commit(ledger.root.parent)
    assert any("took lines away" in problem for problem in verify(ledger).problems)


@pytest.mark.parametrize("spoil", [Path.unlink, lambda path: path.write_bytes(b"other")])
def test_raw_output_that_changed_is_found(ledger: Ledger, spoil: Callable[[Path], object]) -> None:
    record = ledger.append("sample", {}, {"out": b"what it said"})
    spoil(ledger.raw_path(record.raw["out"]))
    assert any("raw output" in problem for problem in verify(ledger).problems)


def test_a_full_disk_is_one_message_and_no_half(ledger: Ledger) -> None:
    file_of(ledger).parent.mkdir(parents=True)
    file_of(ledger).symlink_to("/dev/full")
    with pytest.raises(LabError, match=r"nothing was recorded.*No space left"):
        ledger.append("sample", {"n": 1})


def test_the_index_answers_and_follows_the_ledger(ledger: Ledger) -> None:
    metrics = {"speed": {"value": 2.5, "unit": "ns/op"}}
    plain = ledger.append("sample", {"ok": True, "source": {"commit": "c1"}, "metrics": metrics})
    ask = ledger_index.query
    assert [row[0] for row in ask(ledger, ["source.commit=c1", "ok=true"])[1]] == [plain.id]
    assert ask(ledger, ["ok=false"])[1] == []
    ratio = {"cost": {"estimate": 0.9, "low": 0.8, "high": 1.0, "unit": "ratio"}}
    verdict = ledger.append("verdict", {"ok": True, "metrics": ratio})
    sql = "select record, value, low from metrics order by value"
    assert ask(ledger, [sql])[1] == [(verdict.id, 0.9, 0.8), (plain.id, 2.5, None)]
    for bad in ("select nothing", "with x as (select 1) delete from records", "no filter"):
        with pytest.raises(LabError):
            ask(ledger, [bad])
    assert len(ask(ledger, ["select id from records"])[1]) == 2


@pytest.mark.parametrize(
    ("metric", "said"),
    [
        ({"value": 41.2e6, "low": 4e7, "high": 4.2e7, "unit": "ops/s"}, ("41.2 M ops/s", "40–42")),
        ({"value": 3 << 20, "unit": "B"}, ("3 MiB", "")),
        ({"value": 0.125, "unit": "share"}, ("12.5 %", "")),
        ({"estimate": 0.9, "low": 0.85, "high": 0.95, "unit": "ratio"}, ("0.90", "0.85–0.95")),
        ({"value": 7.3e-5, "unit": "misses/op"}, ("7.3e-05 misses/op", "")),
    ],
)
def test_a_figure_for_people_has_its_ends_in_its_own_unit(
    metric: dict[str, object], said: tuple[str, str]
) -> None:
    assert claims.for_people(metric) == said


def test_the_figures_of_a_record_are_listed_one_to_a_line(ledger: Ledger, own: Stand) -> None:
    metrics = {f"bench_{n} cost": {"value": float(n), "unit": "s"} for n in range(200)}
    id = ledger.append("baseline", {"metrics": metrics, "ok": True}).id
    lines = own.call("ledger", "cite", id).stdout.splitlines()
    assert len(lines) == 202
    assert ["bench_7", "cost", "7", "s"] in map(str.split, lines)
    assert lines[-1].startswith("200 of 200 metrics; ")
    some = own.call("ledger", "cite", id, "_19").stdout.splitlines()
    assert [line.split()[0] for line in some[1:3]] == ["bench_19", "bench_190"]
    assert some[-1].startswith("11 of 200 metrics; ")
    for arguments, word in (((id, "x"), "'x'"), ((f"{id}/bench_1 cots",), "similar: bench_1 cost")):
        done = own.call("ledger", "cite", *arguments)
        refused(done, word)
        assert len(done.stderr) < 250


def test_the_command_shows_and_verifies(ledger: Ledger, own: Stand) -> None:
    ratio = {"estimate": 0.876, "low": 0.851, "high": 0.902, "unit": "ratio"}
    metrics = {"time": ratio, "guard a": {**ratio, "estimate": 0.861}}
    body = {"question": "is it less?", "verdict": "GO", "metrics": metrics, "ok": True}
    record = ledger.append("verdict", body)
    listed = own.call("ledger", "list")
    assert record.id in listed.stdout
    assert "GO 0.876: is it less?" in listed.stdout
    assert json.loads(own.call("ledger", "show", record.id).stdout)["body"] == body
    cited = own.call("ledger", "cite", f"{record.id}/time/%", "--decimals", "1")
    assert cited.stdout == f"−12.4 % [−14.9–−9.8]<!--c:{record.id}/time/%-->\n"

    good = own.call("ledger", "verify")
    assert (good.returncode, "all as written" in good.stdout) == (0, True)
    file_of(ledger).write_bytes(file_of(ledger).read_bytes().replace(b"0.876", b"0.875"))
    bad = own.call("ledger", "verify")
    assert (bad.returncode, "was changed" in bad.stdout) == (1, True)
    refused(own.call("ledger", "show", record.id))
