"""The scorecard judges targets by records: met, missed, undecided, stale."""

import math
from collections.abc import Mapping
from typing import Any

import pytest
from hakmem.errors import LabError
from hakmem.ledger.store import Ledger
from hakmem.paired import suite_record
from hakmem.process import provenance
from hakmem.scorecard import page as scorecard
from hakmem.scorecard.read import Bound, Figure, decide, judge
from scorecards import BENCH, OF_HAKMEM, TARGETS, Site, ratio, soak, states, suite

AT_MOST_1 = Bound("at most", 1)


def of_all(site: Site, metric: str, more: str = "") -> None:
    """Adds a target `all` on a whole suite."""
    (site.root / "evidence/targets.toml").write_text(
        f'{TARGETS}[[target]]\nid = "all"\narea = "All"\nwhat = "w"\nfrom = "f"\nkind = "suite"\n'
        f'metric = "{metric}"\nat_most = 1\n{more}'
    )


# ---- states ----


@pytest.mark.parametrize(
    ("low", "high", "state"),
    [
        (0.8, 0.99, "met"),
        (0.8, 1.0, "met"),
        (0.8, 1.01, "undecided"),
        (1.0, 1.2, "undecided"),
        (1.01, 1.2, "missed"),
    ],
)
def test_the_ends_of_the_interval_decide(low: float, high: float, state: str) -> None:
    assert judge(Figure((low + high) / 2, low, high), AT_MOST_1) == state
    mirrored = Figure(-(low + high) / 2, -high, -low)
    assert judge(mirrored, Bound("at least", -1)) == state


def test_a_tie_moves_the_limit_on_either_side() -> None:
    assert judge(Figure(1.005, 1.001, 1.009), Bound("at most", 1, tie=0.01)) == "met"
    assert judge(Figure(1.005, 1.001, 1.011), Bound("at most", 1, tie=0.01)) == "undecided"
    assert judge(Figure(1.1, 1.02, 1.2), Bound("at most", 1, tie=0.01)) == "missed"
    assert judge(Figure(0.995, 0.991, 0.999), Bound("at least", 1, tie=0.01)) == "met"


def test_without_an_interval_only_a_plain_target_decides() -> None:
    assert judge(Figure(0.5), AT_MOST_1) == "undecided"
    assert judge(Figure(0.5, low=0.4), AT_MOST_1) == "undecided"
    assert judge(Figure(1.0), AT_MOST_1, plain=True) == "met"
    assert judge(Figure(1.1), AT_MOST_1, plain=True) == "missed"


def test_one_rival_that_is_better_is_enough_to_miss() -> None:
    good, open_, bad, worse = (
        Figure(0.7, 0.6, 0.8),
        Figure(1.0, 0.9, 1.1),
        Figure(1.2, 1.1, 1.5),
        Figure(1.25, 1.2, 1.3),
    )
    assert decide({}, AT_MOST_1) == ("not measured", None)
    assert decide({"a": good, "b": Figure(0.8, 0.7, 0.9)}, AT_MOST_1) == ("met", "b")
    assert decide({"a": good, "b": open_}, AT_MOST_1) == ("undecided", "b")
    # It names the rival whose better end is farthest beyond the bound, not whose worse end is.
    assert decide({"a": bad, "b": worse, "c": open_, "d": good}, AT_MOST_1) == ("missed", "b")


# ---- records ----


def test_an_empty_ledger_has_measured_nothing(site: Site) -> None:
    assert set(states(site).values()) == {"not measured"}
    page = scorecard.block(list(site.rows().values()))
    assert "**8 targets: 8 not measured**" in page
    assert "jsonl" not in page


def test_the_suite_is_met_by_all_rivals_and_missed_by_one(site: Site) -> None:
    site.add("suite", suite({"a": 0.8, "b": 0.9}))
    assert (states(site)["time"], site.rows()["time"].against) == ("met", "b")
    assert states(site)["memory"] == "met"
    site.add("suite", suite({"a": 1.2, "b": 0.9, "c": 1.0}))
    assert (states(site)["time"], site.rows()["time"].against) == ("missed", "a")
    site.add("suite", suite({"a": 0.8, "b": 0.9, "c": 1.0}, memory=1.3))
    assert (states(site)["time"], site.rows()["time"].against) == ("undecided", "c")
    assert (states(site)["memory"], site.rows()["memory"].against) == ("missed", "b")


def test_a_needed_rival_that_was_not_measured_keeps_it_open(site: Site) -> None:
    site.add("suite", suite({"a": 0.8}))
    row = site.rows()["time"]
    assert (row.state, row.remark) == ("undecided", "not measured: b")
    assert states(site)["memory"] == "not measured"
    site.add("suite", suite({"a": 1.2}))
    assert states(site)["time"] == "missed"


def test_an_earlier_form_of_a_suite_is_not_read(site: Site) -> None:
    old = site.ledger.append("verdict", {"suite": BENCH})
    body = {k: v for k, v in suite({"a": 0.8, "b": 0.8}).items() if k != "part"}
    site.ledger.append("suite", {"ok": True, "source": site.source, **body, "inputs": [old.id]})
    assert states(site)["time"] == "not measured"


def test_the_mean_against_the_oracle_is_a_target_of_its_own(site: Site) -> None:
    of_all(site, "time against the oracle")
    site.add("suite", suite({"a": 0.8}, oracle=0.9))
    row = site.rows()["all"]
    assert row.state == "met"
    assert (row.figure.value, row.figure.low) == pytest.approx((0.9, 0.88), rel=1e-3)
    of_all(site, "time against the oracle", 'except = ["larson_1"]\n')
    with pytest.raises(LabError, match="belong to figures of single benchmarks"):
        site.rows()


def test_means_of_two_suites_are_one_over_all_of_their_rows(site: Site) -> None:
    more = 'id = "{}"\narea = "All"\nwhat = "w"\nfrom = "f"\nkind = "suite"\nat_most = 1\n'
    second = more.format("programs") + "where = { programs = true }\n"
    both = more.format("both") + 'together = ["all", "programs"]\n'
    same = 'metric = "time against the oracle"\n'
    of_all(site, "time against the oracle", f"[[target]]\n{second}{same}[[target]]\n{both}{same}")
    alone = site.add("suite", suite({"a": 0.8}, oracle=0.9))
    assert states(site)["both"] == "not measured"
    other = site.add("suite", suite({"a": 0.8}, oracle=1.1, programs=True))
    rows = site.rows()
    of_one, of_two, row = rows["all"].figure, rows["programs"].figure, rows["both"]
    # Both have one row, hence equal weight; squares of independent errors add up.
    above = math.hypot(*(math.log(part.high / part.value) / 2 for part in (of_one, of_two)))
    assert row.figure.value == pytest.approx(math.sqrt(0.9 * 1.1), rel=1e-3)
    assert row.figure.high == pytest.approx(row.figure.value * math.exp(above))
    assert row.figure.low < row.figure.value
    assert (row.state, row.record.id, row.remark) == ("undecided", alone.id, f"with {other.id}")
    body = suite({"a": 0.8}, oracle=0.9, programs=True, failures={"redis": "it died"}, ok=False)
    site.add("suite", body)
    assert (site.rows()["both"].state, site.rows()["both"].figure) == ("missed", None)
    site.add("suite", suite({"a": 0.8}, oracle=0.9, programs=True))
    assert states(site)["both"] == "met"
    elsewhere = {**suite({"a": 0.8}, oracle=0.9, programs=True), "host": {"cpu": "another"}}
    site.add("suite", elsewhere)
    assert states(site)["programs"] == "met"
    assert site.rows()["both"].state == "not measured"
    assert "of another machine: cpu another" in site.rows()["both"].remark
    site.add("suite", suite({"a": 0.8}, oracle=0.9, programs=True))
    assert states(site)["both"] == "met"
    site.age()
    assert states(site)["both"] == states(site)["all"]
    of_all(site, "time against the oracle", 'together = ["time"]\n')
    with pytest.raises(LabError, match="earlier targets that are means of a suite"):
        site.rows()


@pytest.mark.parametrize(
    ("more", "read", "state"),
    [
        (f'benchmarks = ["{BENCH}"]', "wall time", "met"),
        (f'benchmarks = ["{BENCH}", "larson_1"]', "wall time", "not measured"),
        ('needs = ["a", "b"]', "wall time", "met"),
        ('needs = ["a", "b", "c"]', "wall time", "not measured"),
        ('rivals = ["a", "b"]', "wall time", "met"),
        ('rivals = ["a"]', "wall time", "not measured"),
        ("", "free p9999 of single calls", "not measured"),
    ],
)
def test_a_mean_is_over_the_rows_and_rivals_that_its_target_names_and_of_no_tail(
    site: Site, more: str, read: str, state: str
) -> None:
    of_all(site, "time against the oracle", f"{more}\n")
    body = suite({"a": 0.8, "b": 0.8}, oracle=0.9)
    body["part"]["reading"] = read
    site.add("suite", body)
    assert states(site)["all"] == state


def test_a_rival_that_failed_in_every_row_was_not_measured(site: Site) -> None:
    of_all(site, "time against the oracle", 'needs = ["a", "b"]\n')
    body = suite({"a": 0.8, "b": 0.8}, oracle=0.9)
    body["part"]["left_out"] = {"b": "it died"}
    del body["part"]["figures"]["b"]
    site.add("suite", body)
    assert states(site)["all"] == "not measured"


def test_a_name_alone_makes_no_rival(site: Site) -> None:
    libraries = {"hakmem": {"origin": "hakmem"}, "a": {"origin": "given"}, "system": {}}
    site.add("suite", suite({"a": 0.8, "b": 0.9}, libraries=libraries))
    row = site.rows()["time"]
    assert (row.state, row.remark) == ("undecided", "not measured: b")


def test_a_range_is_no_interval(site: Site) -> None:
    body = suite({"a": 0.8, "b": 0.8})
    body["part"]["ratios"]["time"]["a"][3] = suite_record.KINDS.index("range")
    site.add("suite", body)
    row = site.rows()["time"]
    assert row.state == "undecided"
    assert row.figure == Figure(0.8)


@pytest.mark.parametrize(
    "change",
    [
        {"argv": ["compare", "--metric=rss"]},
        {"libraries": {"old": {"origin": "hakmem"}}},
        {"libraries": {"hakmem": {"origin": "given"}}},
        {"libraries": {"hakmem": {"origin": "hakmem"}, "hakmem-checked": {"beside": {}}}},
    ],
)
def test_another_metric_or_library_is_another_question(site: Site, change: Any) -> None:
    site.add("suite", suite({"a": 0.5, "b": 0.5}, **change))
    assert states(site)["time"] == "not measured"


def test_a_suite_under_settings_is_no_word_on_the_defaults(site: Site) -> None:
    def under(**settings: str) -> Mapping[str, Any]:
        setting = site.ledger.append("setting", {**OF_HAKMEM, "settings_of_user": settings})
        body = suite({"a": 0.5, "b": 0.5})
        return {**body, "part": {**body["part"], "setting": setting.id}}

    secure = site.add("suite", under(HAKMEM_PROFILE="secure"))
    assert states(site)["time"] == "not measured"
    path = site.root / "evidence/targets.toml"
    path.write_text(
        TARGETS.replace('needs = ["a", "b"]', 'where = { "settings.HAKMEM_PROFILE" = "secure" }')
    )
    row = site.rows()["time"]
    assert (row.state, row.record and row.record.id) == ("met", secure.id)
    path.write_text(TARGETS)
    cell = "lib=hakmem HAKMEM_PROFILE=secure name=secure"
    for argv in (["compare", "--lib", cell], ["compare", f"--lib={cell}"]):
        site.add("suite", suite({"a": 0.5, "b": 0.5}, argv=argv))
        assert states(site)["time"] == "not measured"
    other = site.ledger.append("setting", {**OF_HAKMEM, "binaries": {"A": {"name": "a"}}})
    body = suite({"a": 0.5, "b": 0.5})
    site.add("suite", {**body, "part": {**body["part"], "setting": other.id}})
    assert states(site)["time"] == "not measured"
    site.add("suite", under(HAKMEM_BENCH_DIR="build/bench"))
    assert states(site)["time"] == "met"


def test_a_benchmark_that_hakmem_failed_is_missed(site: Site) -> None:
    site.add("suite", suite({"a": 0.8, "b": 0.9}))
    failed = {"failures": {BENCH: "killed by SIGSEGV"}, "ok": False}
    record = site.add("suite", suite({"a": 0.8}, bench="another", **failed))
    row = site.rows()["time"]
    assert (row.state, row.record and row.record.id) == ("missed", record.id)
    assert "SIGSEGV" in row.remark
    site.add("suite", suite({"a": 0.8, "b": 0.9}))
    assert states(site)["time"] == "met"


@pytest.mark.parametrize(
    ("kind", "target", "of"),
    [
        ("soak", "drift", {"binary": {"origin": "hakmem"}, "environment": {}}),
        ("matrix", "matrix", {"verdict": "UNDECIDED", "why": "the baseline itself failed"}),
        ("hotpath", "hit", {}),
    ],
)
def test_a_soak_matrix_or_hot_path_that_hakmem_failed_is_a_miss_until_it_does_not(
    site: Site, kind: str, target: str, of: dict[str, Any]
) -> None:
    site.add(kind, {**of, "failures": {"x": "killed by SIGSEGV"}, "ok": False})
    row = site.rows()[target]
    assert (row.state, row.remark) == ("missed", "hakmem failed: killed by SIGSEGV")
    drift = {"value": 0.0, "low": -1.0, "high": 1.0, "unit": "B", "margin": 2.0}
    metrics = {
        "rss_drift": drift,
        "malloc hit path instructions": {"value": 16, "unit": "instructions"},
    }
    site.add(kind, {**of, "metrics": metrics, "analysis": {"run_s": 300}, "verdict": "GO"})
    assert states(site)[target] == "met"


def test_a_mean_is_missed_where_hakmem_failed_one_of_its_rows(site: Site) -> None:
    def run(**more: Any) -> str:
        return site.add("suite", suite({"a": 0.8, "b": 0.8}, oracle=0.9, **more)).id

    run()
    failed = run(failures={"redis": "redis: killed by SIGSEGV"}, ok=False)
    few = 'least = { "metrics.time against the oracle.rows" = 2 }\n'
    for more, state in (
        ("", "missed"),
        (f'benchmarks = ["{BENCH}", "redis"]\nneeds = ["a", "b"]\n{few}', "missed"),
        (f'benchmarks = ["{BENCH}", "redis"]\nneeds = ["a", "c"]\n', "not measured"),
        (f'benchmarks = ["{BENCH}"]\n', "met"),
    ):
        of_all(site, "time against the oracle", more)
        assert states(site)["all"] == state, more
    of_all(site, "time against the oracle")
    row = site.rows()["all"]
    assert row.remark == "hakmem failed: redis: killed by SIGSEGV"
    assert (row.record and row.record.id, row.subject) == (failed, "")
    run()
    assert states(site)["all"] == "met"


def test_a_run_without_the_rivals_that_are_needed_lifts_no_miss(site: Site) -> None:
    missed = site.add("suite", suite({"a": 1.2, "b": 0.9}))
    site.add("suite", suite({"b": 0.9}))
    row = site.rows()["time"]
    assert (row.state, row.record and row.record.id) == ("missed", missed.id)
    # A run in which a rival failed had asked for it, so it counts.
    body = suite({"a": 1.2, "b": 0.9})
    body["part"]["left_out"] = {"a": "it died"}
    del body["part"]["figures"]["a"]
    site.add("suite", body)
    assert states(site)["time"] == "undecided"
    site.add("suite", suite({"a": 0.8, "b": 0.9}))
    assert states(site)["time"] == "met"
    site.add("suite", suite({"a": 1.2}))
    assert states(site)["time"] == "missed", "one rival is enough for that"


def test_an_old_commit_measured_again_is_not_the_last_word(site: Site) -> None:
    (site.root / "evidence/audit.toml").write_text(
        'floor = 0\nstale-after = 5\nmessages-from = ""\n'
    )
    old = site.source
    site.age()
    site.source = provenance.source(site.root)
    now = [site.add("suite", suite({"a": 0.8, "b": 0.9})), site.add("soak", soak())]
    site.source = old
    site.add("suite", suite({"a": 1.2, "b": 0.9}))
    site.add("suite", suite({"a": 0.8}, bench="another", failures={BENCH: "dead"}, ok=False))
    site.add("soak", soak(low=2, high=3))
    found = [site.rows()[id] for id in ("time", "drift")]
    assert [(row.state, row.record and row.record.id) for row in found] == [
        ("met", record.id) for record in now
    ]


@pytest.mark.parametrize(
    "change", [{"ok": False}, {"source": {"dirty": True}}, {"inputs": ["0" * 12]}]
)
def test_what_may_not_be_cited_does_not_count(site: Site, change: Any) -> None:
    if "source" in change:
        change = {"source": {**site.source, **change["source"]}}
    site.add("soak", soak(low=2, high=3, **change))
    assert states(site)["drift"] == "not measured"
    good = site.add("soak", soak())
    site.add("soak", soak(low=2, high=3, **change))
    row = site.rows()["drift"]
    assert (row.state, row.record) == ("met", good)


def test_stale_is_shown_as_stale_and_never_as_met(site: Site) -> None:
    site.add("soak", soak())
    site.add("suite", suite({"a": 1.2, "b": 0.9}))
    site.add("matrix", {"verdict": "GO"})
    site.age()
    found = states(site)
    assert [found[id] for id in ("drift", "time", "matrix")] == ["stale"] * 3
    site.source = provenance.source(site.root)
    site.add("soak", soak(low=0.5, high=2))
    assert states(site)["drift"] == "undecided"


def test_a_changed_benchmark_makes_stale(site: Site) -> None:
    site.add("soak", soak())
    (site.root / "bench/a.c").write_text("int b;\n")
    assert states(site)["drift"] == "stale"


@pytest.mark.parametrize(
    ("low", "high", "state"), [(-0.5, 0.9, "met"), (0.5, 1.5, "undecided"), (1.1, 2, "missed")]
)
def test_a_drift_is_held_to_its_own_margin(site: Site, low: float, high: float, state: str) -> None:
    site.add("soak", soak(low, high))
    row = site.rows()["drift"]
    assert (row.state, scorecard.bound(row)) == (state, "≤ 1 MiB")


def test_where_and_least_choose_the_records(site: Site) -> None:
    site.add("soak", soak(environment={"HAKMEM_PROFILE": "lean"}))
    site.add("soak", soak(analysis={"run_s": 10.0}))
    site.add("soak", soak(binary={"origin": "given"}))
    assert states(site)["drift"] == "not measured"
    assert states(site)["tail"] == "met"


def test_a_figure_can_be_a_share_of_another(site: Site) -> None:
    body = soak()
    site.add("soak", body)
    assert scorecard.last(site.rows()["tail"]) == "95 %"
    body["metrics"]["throughput_p5"]["value"] = 89.0
    site.add("soak", body)
    assert states(site)["tail"] == "missed"
    del body["metrics"]["throughput"]
    site.ledger = Ledger(site.root / "other")
    site.add("soak", body)
    assert states(site)["tail"] == "not measured"


@pytest.mark.parametrize(
    ("word", "state"), [("GO", "met"), ("NO-GO", "missed"), ("UNDECIDED", "undecided")]
)
def test_a_verdict_has_the_same_three_states(site: Site, word: str, state: str) -> None:
    site.add("matrix", {"verdict": word, "why": "so it is"})
    row = site.rows()["matrix"]
    assert (row.state, row.remark) == (state, "so it is")


def test_the_noise_floor_is_half_the_interval(site: Site) -> None:
    site.add("A/A", {"metrics": {"x": {"estimate": 1.0, "low": 0.96, "high": 1.04}}})
    assert states(site)["noise"] == "missed"
    site.add("A/A", {"metrics": {"x": {"estimate": 1.0, "low": 0.98, "high": 1.02}}})
    assert states(site)["noise"] == "met"


@pytest.mark.parametrize(
    ("kind", "settings", "state"),
    [
        ("95 % CI over all looks", {}, "met"),
        ("95 % CI over all looks", {"HAKMEM_BENCH_X": "1"}, "met"),
        ("range of 3 exact counts", {}, "not measured"),
        ("95 % CI over all looks", {"HAKMEM_PROFILE": "speed"}, "not measured"),
    ],
)
def test_a_range_or_a_setting_of_the_shell_is_no_noise(
    site: Site, kind: str, settings: Mapping[str, str], state: str
) -> None:
    metrics = {"b": ratio(1.0, low=0.99, high=1.01, kind=kind)}
    site.add("A/A", {"metrics": metrics, "settings_of_user": settings})
    assert states(site)["noise"] == state


def test_ten_runs_are_counted_together(site: Site) -> None:
    def run(low: float, high: float, **more: Any) -> None:
        metric = {"estimate": (low + high) / 2, "low": low, "high": high}
        site.add("A/A", {"metrics": {"x": metric}, **more})

    for ends in ((0.9, 1.1), (1.05, 1.1), (0.9, 0.95), *[(0.9, 1.1)] * 6):
        run(*ends)
    run(0.9, 1.1, ok=False)
    assert states(site)["same"] == "not measured"
    run(0.9, 1.1)
    assert (states(site)["same"], site.rows()["same"].figure) == ("met", Figure(8))
    run(1.05, 1.1)  # pushes out the oldest of the ten, in which there was no difference
    assert (states(site)["same"], site.rows()["same"].figure) == ("missed", Figure(7))


def test_a_benchmarks_own_figure_and_its_distance_to_the_system(site: Site) -> None:
    path = site.root / "evidence/targets.toml"
    text = TARGETS.replace('metric = "against"', 'metric = "own"', 1)
    path.write_text(text.replace('metric = "memory"', 'metric = "above system"', 1))
    site.add("suite", suite({"b": 1.0}))
    row = site.rows()["time"]
    assert (row.state, row.figure, row.against) == ("undecided", Figure(8.0), None)
    assert states(site)["memory"] == "not measured"
    site.add("suite", suite({"system": 1.0}))
    assert site.rows()["memory"].figure == Figure(-2.0)


def test_a_count_needs_no_interval(site: Site) -> None:
    for count, state in ((18, "met"), (19, "missed")):
        entry = {"value": count, "unit": "instructions"}
        site.add("hotpath", {"metrics": {"malloc hit path instructions": entry}})
        assert states(site)["hit"] == state


def test_variation_is_one_figure_over_all_benchmarks(site: Site) -> None:
    of_all(site, "variation")
    body = suite({"a": 0.8, "b": 0.8})
    body["part"]["ratios"]["variation"] = {
        "a": [0.7, 0.6, 0.8, 0, 20, "win"],
        "b": [1.4, 1.2, 1.6, 0, 20, "loss"],
    }
    site.add("suite", body)
    row = site.rows()["all"]
    assert (row.state, row.against) == ("missed", "b")
    assert row.figure.value == pytest.approx(1.4)
