"""`hakmem matrix` as a user runs it, on a stand-in program with a mode for each violation."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from standing import Stand, flat, ran, refused, until

HEAD = """
title = "A rehearsal <of> the lab"
baseline = "base"
command = ["soak_mixed"]
clock = "{clock}"
"""
MODE = """
[[mode]]
name = "{name}"
environment = {{ HAKMEM_TEST_SOAK = "{planted}" }}
"""
STAGE = """
[[stage]]
name = "{name}"
seconds = 80
modes = {modes}
pairs = {{ rounds = 16, seconds = 0.5 }}
rules = {rules}
"""
ALL = (
    '{ throughput_floor = -0.2, rss = "baseline", drift = ["rss", "throughput"], '
    "cv = 0.05, calls_per_op = 1e-4 }"
)


def written(tmp_path: Path, planted: dict[str, str], *stages: str, clock: str = "wall") -> Path:
    file = tmp_path / "m.toml"
    modes = {"base": "", **planted}
    text = HEAD.format(clock=clock)
    text += "".join(MODE.format(name=name, planted=words) for name, words in modes.items())
    first = STAGE.format(name="1", modes=json.dumps(list(modes)), rules=ALL)
    file.write_text(text + "".join(stages or [first]))
    return file


Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(own: Stand, tmp_path: Path) -> Run:
    """Runs a matrix with its results in tmp_path/run; fails unless it ends with `status`."""

    def matrix(file: Path, *more: object, status: int = 0) -> subprocess.CompletedProcess[str]:
        return ran(own.call("matrix", file, "--out", tmp_path / "run", *more), status)

    return matrix


def test_every_planted_violation_is_found(own: Stand, run: Run, tmp_path: Path) -> None:
    planted = {
        "good": "",
        "crashing": "crash",
        "dying": "crash-pairs",
        "leaking": "leak",
        "fat": "fat",
        "slow": "slow",
        "fading": "fading",
        "shaky": "shaky",
        "calling": "calls",
    }
    done = run(written(tmp_path, planted), "--seed", 1)
    (record,) = own.records()
    body = record.body
    assert (record.kind, body["verdict"], body["rehearsal"]) == ("matrix", "GO", False)
    (only,) = body["stages"]
    broken = {
        name: {j["rule"] for j in found if j["state"] == "broken"}
        for name, found in only["judged"].items()
    }
    assert broken == {
        "base": set(),
        "good": set(),
        "crashing": {"no crash"},
        "dying": {"no crash"},
        "leaking": {"RSS", "RSS drift"},
        "fat": {"RSS"},
        "slow": {"throughput"},
        "fading": {"throughput drift", "CV"},
        "shaky": {"CV"},
        "calling": {"calls"},
    }
    open_rules = [j for j in only["judged"]["good"] if j["state"] != "kept"]
    assert open_rules == []
    assert only["going"] == ["good"]
    assert body["standings"]["good"]["verdict"] == "GO"
    assert body["standings"]["slow"]["verdict"] == "NO-GO"
    ratio = body["metrics"]["stage 1/slow/throughput"]
    assert ratio["low"] < 0.5 * 1.02
    assert ratio["high"] < 0.55
    assert {"m.toml", "state.json", "1-good.csv"} <= record.raw.keys()
    assert "planted crash" in done.stdout


def page_of(tmp_path: Path) -> str:
    return (tmp_path / "run" / "matrix.html").read_text()


def test_it_ends_in_a_page_that_reads_alone(own: Stand, run: Run, tmp_path: Path) -> None:
    file = written(tmp_path, {"good": "", "slow": "slow"})
    run(file, "--no-record")
    assert own.records() == []
    page = page_of(tmp_path)
    for word in ("A rehearsal &lt;of&gt; the lab", "stage 1", "slow", "✗ NO-GO", "RSS drift"):
        assert word in page
    assert "Throughput ÷ the baseline" in page
    assert "not recorded" in page
    run(file)
    assert f"hakmem rerun {own.records()[0].id}" in page_of(tmp_path)


def test_stages_eliminate_and_the_verdict_is_of_them_all(
    own: Stand, run: Run, tmp_path: Path
) -> None:
    planted = {"good": "", "slow": "slow", "leaking": "leak"}
    names = json.dumps(["base", *planted])
    one = STAGE.format(name="1", modes=names, rules="{ throughput_floor = -0.2 }")
    two = STAGE.format(
        name="2", modes='"survivors"', rules='{ throughput_floor = -0.1, drift = ["rss"] }'
    )
    end = STAGE.format(name="end", modes='["leaking"]', rules="{ cv = 0.05 }")
    done = run(written(tmp_path, planted, one, two, end, clock="cpu"))
    (record,) = own.records()
    stages = record.body["stages"]
    assert [set(found["judged"]) for found in stages] == [
        {"base", "good", "slow", "leaking"},
        {"base", "good", "leaking"},
        {"leaking"},
    ]
    assert stages[1]["going"] == ["good"]
    titles = [line.split() for line in done.stdout.splitlines() if line.startswith("mode ")]
    assert [words[1:5] for words in titles] == [["by", "CPU", "its", "CV"]] * 3
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith("slow ")]
    metrics = record.body["metrics"]
    mean = metrics["stage 1/slow/soak throughput_by_cpu_mean"]["value"] / 1e6
    assert [float(rows[0][1]), rows[0][3]] == [pytest.approx(mean, abs=0.006), "%"]


@pytest.mark.parametrize(("limit", "broken"), [("1 GiB", False), ("1 kB", True)])
def test_an_absolute_limit_on_memory_holds_the_baseline_too(
    run: Run, tmp_path: Path, limit: str, broken: bool
) -> None:
    rules = f'{{ rss_below = "{limit}" }}'
    one = STAGE.format(name="1", modes='["base", "good"]', rules=rules)
    done = run(written(tmp_path, {"good": ""}, one), "--no-record", status=broken)
    assert f"limit {limit}" in flat(done.stdout)
    assert "RSS below" in page_of(tmp_path)
    assert ("The baseline itself broke RSS below" in done.stdout) == broken


def test_no_mode_left_is_a_no_go_and_the_rest_is_not_run(
    own: Stand, run: Run, tmp_path: Path
) -> None:
    names = json.dumps(["base", "slow"])
    one = STAGE.format(name="1", modes=names, rules="{ throughput_floor = -0.2 }")
    two = STAGE.format(name="2", modes='"survivors"', rules="{ throughput_floor = -0.1 }")
    done = run(written(tmp_path, {"slow": "slow"}, one, two), status=1)
    assert "NO-GO no mode kept the rules" in done.stdout
    (record,) = own.records()
    assert len(record.body["stages"]) == 1


def test_a_rehearsal_says_so(own: Stand, run: Run, tmp_path: Path) -> None:
    done = run(written(tmp_path, {"good": ""}), "--scale", "0.001")
    assert done.stdout.count("A rehearsal: all lengths × 0.001") == 2
    (record,) = own.records()
    assert record.body["rehearsal"] is True
    assert "A rehearsal: all lengths × 0.001" in page_of(tmp_path)


def test_a_plan_runs_nothing(run: Run, tmp_path: Path) -> None:
    done = run("lean", "--plan")
    assert "stage final: balanced, speed: 60 min" in done.stdout
    assert not (tmp_path / "run").exists()


# ---- resuming ----


def test_a_killed_run_goes_on_where_it_stopped(own: Stand, run: Run, tmp_path: Path) -> None:
    out = tmp_path / "run"
    file = written(tmp_path, {"good": "", "fair": ""})
    state = out / "state.json"
    asked = own.command("matrix", file, "--out", out)
    with subprocess.Popen(asked, env=own.environment, stdout=subprocess.DEVNULL) as child:
        assert until(lambda: state.exists() and "round 2" in state.read_text())
        child.kill()
    before = json.loads(state.read_text())
    assert "stage 1, round 15" not in before["cells"]
    assert own.records() == []
    done = run(file)
    assert f"goes on where it stopped: {len(before['cells'])} cells are done" in done.stdout
    after = json.loads(state.read_text())
    assert {key: after["cells"][key] for key in before["cells"]} == before["cells"]
    assert "stage 1, round 15" in after["cells"]
    assert after["seed"] == before["seed"]
    run(file)
    assert len(own.records()) == 1


def test_ctrl_c_is_one_line_and_leaves_what_is_done(own: Stand, tmp_path: Path) -> None:
    out = tmp_path / "run"
    file = written(tmp_path, {"hanging": "hang"})
    done = own.interrupted((out / "1-hanging.csv").exists, "matrix", file, "--out", out)
    said = f"interrupted: {out} keeps all finished cells, the same command goes on\n"
    refused(done, said, status=130)
    assert own.records() == []


def test_cells_of_another_run_are_refused(run: Run, tmp_path: Path) -> None:
    file = written(tmp_path, {"good": ""})
    run(file, "--no-record")
    file.write_text(file.read_text().replace("-0.2", "-0.3"))
    refused(run(file, "--no-record", status=2), "its cells do not fit")
    run(file, "--no-record", "--fresh")
    (tmp_path / "run" / "state.json").write_text("torn")
    refused(run(file, "--no-record", status=2), "--fresh")


def test_a_changed_csv_is_measured_again(run: Run, tmp_path: Path) -> None:
    file = written(tmp_path, {"good": ""})
    run(file, "--no-record")
    csv = tmp_path / "run" / "1-good.csv"
    csv.write_text(csv.read_text().replace(",20000,", ",90000,"))
    run(file, "--no-record")
    assert ",90000," not in csv.read_text()


def test_a_folder_of_something_else_is_left_alone(run: Run, tmp_path: Path) -> None:
    thesis = tmp_path / "run" / "thesis.tex"
    thesis.parent.mkdir()
    thesis.touch()
    run(written(tmp_path, {"x": ""}), "--fresh", status=2)
    assert thesis.exists()


# ---- runs that prove nothing ----


def test_a_baseline_that_crashes_ends_the_matrix_which_is_on_record(
    own: Stand, run: Run, tmp_path: Path
) -> None:
    file = written(tmp_path, {"good": ""})
    file.write_text(file.read_text().replace('"" }', '"crash" }', 1))
    why = "stage 1: the baseline itself failed: killed by SIGSEGV: planted crash"
    assert f"UNDECIDED {why}" in run(file, status=1).stdout
    (record,) = own.records()
    body = record.body
    assert (body["ok"], body["failures"], body["stages"]) == (False, {"base": why}, [])
    assert (body["verdict"], body["why"]) == ("UNDECIDED", why)
    assert {found["verdict"] for found in body["standings"].values()} == {"UNDECIDED"}
    assert "the baseline itself failed" in page_of(tmp_path)
    state = json.loads((tmp_path / "run" / "state.json").read_text())
    assert state["cells"]["stage 1, round 0"]["order"] == [], "nothing is left to compare with"
    run(file, status=1)
    assert own.records() == [record]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            'name = "good"',
            'name = "good"\nlibrary = "{silent}"',
            "mode good: hakmem was intended, but the process did not say",
        ),
        (
            '"" }',
            '"", HAKMEM_REFUSED = "1" }',
            "mode base is not what it says: HAKMEM_REFUSED=1: no such option",
        ),
    ],
)
def test_what_is_no_evidence_ends_the_matrix(
    own: Stand, tmp_path: Path, old: str, new: str, said: str
) -> None:
    file = written(tmp_path, {"good": ""})
    file.write_text(file.read_text().replace(old, new.replace("{silent}", str(own.silent)), 1))
    refused(own.call("matrix", file, "--out", tmp_path / "run"), said)
    assert own.records() == []


def test_the_users_own_settings_are_not_mixed_in(own: Stand, tmp_path: Path) -> None:
    file = written(tmp_path, {"good": ""})
    done = own.call("matrix", file, "--out", tmp_path / "run", HAKMEM_THP="0")
    refused(done, "hakmem: a mode is what the file says: unset HAKMEM_THP first\n")
