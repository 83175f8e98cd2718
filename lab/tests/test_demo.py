"""`hakmem demo` on stand-ins for the benchmarks: its plan, its page, its end."""

from pathlib import Path

from hakmem import demo
from hakmem.paired import protocol, suite_run
from hakmem.suite import SUITE
from standing import Stand, ran, script


def test_its_plan_can_decide_against_nine_rivals_where_all_neighbours_are_correlated() -> None:
    asked = demo.request(None, [], 80, 1, ["hakmem", "demo"])
    assert [figure.name for figure in suite_run.chosen(asked.names)] == [
        figure.name for figure in SUITE.figures if figure.name in demo.ROWS
    ]
    assert not asked.record
    for rivals in range(1, 10):
        protocol.require_decidable(rivals, asked.most)
        assert protocol.least_blocks(rivals) <= suite_run.FIRST // 2


def test_it_shows_programs_with_proof_rows_and_a_page(own: Stand, tmp_path: Path) -> None:
    arguments = ("demo", "--rival", "system", "--budget", 5, "--seed", 1, "--out", tmp_path / "out")
    done = ran(own.run(*arguments))
    assert "served malloc in" in done.stdout
    assert "hakmem against system" in done.stdout
    assert f"the report: {tmp_path}/out/report.html" in done.stdout.replace("\n", "")
    page = (tmp_path / "out" / "report.html").read_text()
    assert all(f"<b>{name}</b>" in page for name in demo.ROWS)
    assert "demo --seed 1 --rival system --budget 5" in page
    assert not own.evidence.exists()


def test_a_row_that_failed_ends_it_with_1_and_is_on_the_page(own: Stand, tmp_path: Path) -> None:
    planted = own.elsewhere(tmp_path / "build", benches=True)
    script(planted.folder / "bench" / "bench_thread_churn", "echo planted failure >&2\nexit 9")
    arguments = ("demo", "--rival", "system", "--budget", 5, "--out", tmp_path / "out")
    done = ran(planted.run(*arguments), 1)
    assert "planted failure" in done.stdout
    page = (tmp_path / "out" / "report.html").read_text()
    assert "thread_churn, hakmem: " in page
    assert "<b>larson_1</b>" in page
