"""`hakmem compare` on a user's program whose printed figure depends on the preloaded stand-in."""

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hakmem.paired import session
from standing import Stand, ended, flat, ran, refused, until

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


def test_short_times_are_told_apart(compare: Compare) -> None:
    done = ran(compare("--no-record", *FIGURE, *program(0.0123, 0.0119, 0.912)))
    figures = {
        line.split()[0]: line.split()[1] for line in done.stdout.splitlines() if " 0." in line
    }
    assert figures == {"hakmem": "0.0123", "system": "0.912", "rival.so": "0.0119"}


def test_more_can_be_better_and_a_name_is_no_markup(compare: Compare) -> None:
    named = ("--lib", "hakmem name=[/h]", "--rival", "system name=[/s]")
    done = compare("--no-record", *FIGURE, *named, "--better", "higher", *program(90, 80))
    assert "of [/h]: more than rival.so; less than" in flat(done.stdout)
    assert "\n[/s]" in done.stdout


def noisy(folder: Path) -> str:
    """Shell text for a figure that alternates between 70 and 130, block by block."""
    count = folder / "runs"
    count.write_text("0")
    return f"$(n=$(cat {count}); echo $((n + 1)) >{count}; echo $((70 + 60 * ((n + 1) / 2 % 2))))"


def test_no_difference_is_the_same_and_noise_is_undecided(compare: Compare, tmp_path: Path) -> None:
    done = ran(compare("--no-record", *FIGURE, *program(100, noisy(tmp_path))))
    assert "= same" in done.stdout
    assert "? open" in done.stdout
    said = "the same (=) as system; undecided after 20 blocks against rival.so"
    assert said in flat(done.stdout)
    said = "= same: no difference was found, and the whole interval is within 1 % of 1\n"
    assert said in done.stdout


def test_what_hakmem_fails_at_last_has_no_verdict_at_all(
    compare: Compare, own: Stand, tmp_path: Path
) -> None:
    """hakmem fails after one verdict was decided, while the other one is still open."""
    (tmp_path / "count").write_text("")
    late = (
        f"$(echo >>{tmp_path}/count; n=$(wc -l <{tmp_path}/count); "
        "[ $n -gt 20 ] && echo broken || echo 90)"
    )
    words = ("--max-blocks", 30, *FIGURE, *program(late, noisy(tmp_path)))
    done = ran(compare(*words), 1)
    assert "✗ hakmem: sh: " in done.stdout
    assert "1 of 2 decided now" in done.stdout
    assert "of hakmem: no verdict" in flat(done.stdout)
    assert own.records("verdict") == []
    (setting,) = own.records("setting")
    assert setting.body["ok"] is False


def test_a_rival_that_cannot_run_it_is_left_out_and_spoils_no_other_verdict(
    compare: Compare, own: Stand
) -> None:
    done = ran(compare(*FIGURE, *program(90, "broken")))
    assert "✗ rival.so: sh:" in done.stdout
    assert "less than system" in done.stdout
    (setting,) = own.records("setting")
    assert setting.body["failures"]
    assert setting.body["ok"] is True
    assert [record.body["verdict"] for record in own.records("verdict")] == ["GO"]


def test_nothing_that_a_program_starts_outlives_its_sample(
    compare: Compare, tmp_path: Path
) -> None:
    left = f"sleep 1000 & echo $! >>{tmp_path}/pids; echo t=1"
    ran(compare("--no-record", "--max-blocks", 8, *FIGURE, "--", "sh", "-c", left))
    pids = [int(line) for line in (tmp_path / "pids").read_text().split()]
    assert len(pids) > 8
    assert until(lambda: all(map(ended, pids)))


def test_a_figure_is_read_off_all_output_and_its_end_is_kept(compare: Compare, own: Stand) -> None:
    """The figure comes first in a long output: it is found, though only the end is kept."""
    said = "echo t=1; echo 'hakmem: a warning' >&2; head -c 100000 /dev/zero | tr '\\0' x; echo end"
    done = ran(compare("--max-blocks", 8, *FIGURE, "--", "sh", "-c", said))
    assert {row["figure"] for row in own.samples()} == {"1"}
    assert done.stdout.count("\nhakmem: a warning\n") == 1
    text = own.output()
    assert text.count("xend") == 3
    assert len(text) < 3 * 20_000


def test_what_the_shell_sets_is_said_and_recorded(compare: Compare, own: Stand) -> None:
    done = ran(compare(*FIGURE, *program(100, "200"), HAKMEM_PROFILE="speed"))
    assert "from your shell in every cell: HAKMEM_PROFILE=speed\n" in done.stdout
    told = [record.body["settings_of_user"] for record in own.records("verdict")]
    assert told == [{"HAKMEM_PROFILE": "speed"}] * 2


def test_a_library_that_is_built_again_meanwhile_has_no_verdict(
    own: Stand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built, measure = own.elsewhere(tmp_path / "build"), session.measure

    def rebuilt(*arguments: Any) -> session.Conducted:
        with built.library.open("ab") as library:
            library.write(b"another build")
        return measure(*arguments)

    monkeypatch.setattr(session, "measure", rebuilt)
    words = ("compare", "--seed", 1, "--max-blocks", 8, "--min-seconds", 0, "--rival", "system")
    done = built.call(*words, *FIGURE, *program(100, "200"))
    refused(done, "libhakmem.so was changed during the measurement", status=1)
    assert not built.records()


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
