"""`hakmem compare --bench`: the table made from a record for a document, and its page."""

import io
from pathlib import Path

import pytest
from hakmem.audit import blocks, citing, scanner
from hakmem.errors import LabError
from hakmem.ledger.store import Record
from hakmem.paired import suite_run, suite_table, tables
from hakmem.paired.suite_run import Request
from hakmem.report import cli as report_cli
from rich.console import Console
from suite_world import World


@pytest.fixture
def recorded(world: World) -> Record:
    world.run(world.request("batch_lifo", "random_mixed_256"))
    return world.own.records("suite")[0]


def test_the_table_in_a_document_is_made_from_the_record(recorded: Record, world: World) -> None:
    records = {r.id: r for r in world.ledger.records()}
    text = f"<!--claims:begin verdict={recorded.id}-->\n<!--claims:end-->\n"
    made = blocks.rewrite(text, Path(), records)
    assert (
        "| batch_lifo | 1.00 ns CPU/op | 0.80 rival.so | ▼ 1.25 [1.25–1.25] | 1.25 [1.25–1.25] "
        "| ▲ 0.50 [0.50–0.50] | 1.95 | 0.98 system | ▼ 2.00 [2.00–2.00] | 2.00 [2.00–2.00] |\n"
    ) in made
    assert "against the best rival 2 ▼; in peak memory against the leanest 2 ▼." in made
    assert "hakmem needs 1.25 [1.25–1.25] of its time (2)" in made
    assert "= : no difference was found, and the whole interval is within 5 % of 1." in made
    host = records[recorded.id].body["host"]
    assert f" on {host['cpu']} at commit cccccccccc" in made
    assert "Rivals: rival.so not known, system glibc" in made
    (block,) = blocks.find(made)
    assert block.rows == 2
    assert blocks.rewrite(made, Path(), records) == made
    assert scanner.scan(blocks.without(made)[0]).unbacked == []
    with pytest.raises(LabError, match="was measured by another method"):
        blocks.rewrite(text, Path(), {recorded.id: recorded})


def test_a_table_of_a_setting_and_one_rival_is_headed_by_their_names(world: World) -> None:
    world.fails = lambda trial: "planted" if trial.track.name == "aligned" else None
    secure = "lib=hakmem HAKMEM_PROFILE=secure name=secure"
    world.run(
        world.request("batch_lifo", "latency_1", "aligned", library=secure, rivals=["hakmem"])
    )
    made = suite_table.markdown(world.whole(), "2026-01-01")
    head, _, row, *_ = made.splitlines()
    assert head == (
        "| benchmark | secure | hakmem | ÷ hakmem | ÷ oracle | ÷ system "
        "| peak MiB | hakmem | ÷ hakmem | ÷ oracle |"
    )
    assert row == (
        "| batch_lifo | 1.00 ns CPU/op | 2.00 | ▲ 0.50 [0.50–0.50] | 0.50 [0.50–0.50] | – "
        "| 1.95 | 0.98 | ▼ 2.00 [2.00–2.00] | 2.00 [2.00–2.00] |"
    )
    assert "secure over 3 rows: against hakmem 2 ▲; in peak memory against hakmem 2 ▼." in made
    # The latency of single calls does not enter the mean of times.
    assert "secure needs 0.50 [0.50–0.50] of its time (1)" in made
    assert "Failed and left out: aligned: secure (" in made
    assert "Rivals: hakmem " in made
    assert "in each cell **secure** · hakmem.\n" in made
    figures = ["10.5** · 21.0" if "p50" in c[0] else "10.0** · 20.0" for c in suite_table.LATENCIES]
    assert f"| latency_1 |{''.join(f' **{cell} |' for cell in figures)}\n" in made
    narrow = tables.rows_table(world.whole(), 100).columns
    heads = ["benchmark", "secure", "hakmem", "÷ hakmem", "memory ÷ hakmem"]
    assert [str(column.header) for column in narrow] == heads


def test_a_suite_is_cited_like_a_verdict(recorded: Record) -> None:
    text = f"1.25 [1.25–1.25]<!--c:{recorded.id}/time against the oracle-->"
    (claim,) = scanner.scan(text).claims
    assert citing.differences(claim, recorded) == []
    (claim,) = scanner.scan(text.replace("1.25 [", "1.24 [")).claims
    assert citing.differences(claim, recorded) != []


# ---- its page ----


def page_of(asked: Request, world: World) -> str:
    finished = suite_run.run(asked, Console(file=io.StringIO()), world.sampler)
    report_cli.write_run(world.folder / "page", finished.record, finished.whole, asked.record)
    return (world.folder / "page").read_text()


def test_the_page_of_what_is_not_recorded_says_so_and_how_to_repeat_it(world: World) -> None:
    page = page_of(world.request("batch_lifo", record=False), world)
    assert "Not recorded: nothing is to be claimed from it" in page
    assert "hakmem compare --seed 5 batch_lifo</code>" in page
    assert "hakmem rerun" not in page
    assert 'class="badge loss">▼ loss<' in page
    assert "against rival.so" in page
    assert "badge win" not in page
    assert list(world.ledger.records()) == []
    recorded = page_of(world.request("batch_lifo"), world)
    (record,) = world.own.records("suite")
    assert f"hakmem rerun {record.id}" in recorded
    assert "Not recorded" not in recorded


def test_what_failed_is_on_the_page_in_full_and_no_gap(world: World) -> None:
    world.fails = lambda trial: "a planted <fault>" if trial.letter == "C" else None
    page = page_of(world.request("huge", "batch_lifo", record=False), world)
    assert "huge, hakmem: " in page
    assert "status 9: planted failure" in page
    assert 'class="badge error">✗ error<' in page
    assert "batch_lifo, rival.so: batch_lifo: a planted &lt;fault&gt;" in page
    assert '<span class="failed">✗ failed</span>' in page
    assert "against system" in page


def test_a_page_of_a_setting_is_headed_by_its_name(world: World) -> None:
    secure = "lib=hakmem HAKMEM_PROFILE=secure name=secure"
    typed = ["hakmem", "compare", "--lib", secure]
    asked = world.request("batch_lifo", library=secure, rivals=["hakmem"], argv=typed)
    page = page_of(asked, world)
    assert "<h2>secure against its rivals" in page
    assert '<th scope="col" class="r own">secure</th><th scope="col" class="r">hakmem</th>' in page
    assert "<h3>secure ÷ the oracle</h3>" in page
    assert "secure needs less" in page
    assert "hakmem needs less" not in page
    assert "Measured with HAKMEM_PROFILE=secure." in page
