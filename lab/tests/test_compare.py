"""`hakmem compare`: a user's program under stand-ins, with a figure that depends on the library."""

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from standing import Stand, flat, ran, refused

Compare = Callable[..., subprocess.CompletedProcess[str]]
FIGURE = ("--metric", "regex:t=(.+)")


def program(hakmem: object, rival: object, system: object = 100) -> tuple[str, ...]:
    return (
        "--",
        "sh",
        "-c",
        f"case $LD_PRELOAD in *hakmem*) echo t={hakmem};; *rival*) echo t={rival};; "
        f"*) echo t={system};; esac",
    )


@pytest.fixture
def compare(own: Stand, rival: Path) -> Compare:
    names = ("--rival", "system", "--rival", rival)
    return partial(own.call, "compare", "--seed", 1, "--min-seconds", 0, *names)


def test_win_and_loss_stand_in_one_table(compare: Compare, own: Stand) -> None:
    done = ran(compare(*FIGURE, *program(90, 80)))
    lines = {line.split()[0]: line for line in done.stdout.splitlines() if line.strip()}
    assert "0.900  [0.900–0.900]" in lines["system"]
    assert "▲ less" in lines["system"]
    assert "1.125  [1.125–1.125]" in lines["rival.so"]
    assert "▼ more" in lines["rival.so"]
    assert "of hakmem: less than system; more than rival.so" in flat(done.stdout)
    assert "this takes" in done.stdout
    verdicts = [record.body for record in own.records("verdict")]
    assert {body["cells"][0]["name"]: body["verdict"] for body in verdicts} == {
        "system": "GO",
        "rival.so": "NO-GO",
    }
    assert all(body["cells"][1]["name"] == "hakmem" for body in verdicts)
    ratios = [metric["estimate"] for body in verdicts for metric in body["metrics"].values()]
    assert sorted(ratios) == pytest.approx([0.9, 1.125])


def test_more_can_be_better(compare: Compare) -> None:
    done = compare("--no-record", *FIGURE, "--better", "higher", *program(90, 80))
    assert "of hakmem: more than rival.so; less than system" in flat(done.stdout)


def test_no_difference_is_the_same_and_noise_is_undecided(compare: Compare, tmp_path: Path) -> None:
    """The rival's figure is 70 in one block and 130 in the next."""
    count = f"{tmp_path}/count"
    (tmp_path / "count").write_text("0")
    noisy = f"$(n=$(cat {count}); echo $((n + 1)) >{count}; echo $((70 + 60 * ((n + 1) / 2 % 2))))"
    done = ran(compare("--no-record", *FIGURE, *program(100, noisy)))
    assert "= same" in done.stdout
    assert "? open" in done.stdout
    said = "within 1 % of system; undecided after 12 blocks against rival.so"
    assert said in flat(done.stdout)


def test_a_rival_that_cannot_run_it_is_left_out_and_said(compare: Compare) -> None:
    done = ran(compare("--no-record", *FIGURE, *program(90, "broken")), 1)
    assert "✗ rival.so: sh:" in done.stdout
    assert "less than system" in done.stdout


def test_without_hakmem_there_is_no_comparison(compare: Compare, own: Stand) -> None:
    done = compare(*FIGURE, *program("broken", 100))
    refused(done, "nothing was measured: hakmem: sh:", status=1)
    assert not own.evidence.exists()


def test_without_any_rival_there_is_none_either(compare: Compare) -> None:
    done = compare(*FIGURE, *program(100, "broken", "broken"))
    refused(done, "nothing to compare with", status=1)


def test_times_and_memory_need_no_option(compare: Compare) -> None:
    script = "x = [str(i) for i in range(90000)]"
    done = ran(compare("--no-record", "--max-blocks", 8, "--", sys.executable, "-I", "-c", script))
    assert "CPU time" in done.stdout
    assert "memory is the peak of the largest process" in flat(done.stdout)


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ((), 2, "which program?"),
        (("--", "no-such-program"), 127, "command not found"),
        (("--metric", "idle", "--", "true"), 2, "unknown metric: idle"),
        (("--rival", "nope", "--", "true"), 2, "unknown library: nope"),
    ],
)
def test_mistakes_are_one_clear_line(
    compare: Compare, arguments: tuple[str, ...], status: int, message: str
) -> None:
    refused(compare(*arguments), message, status=status)
