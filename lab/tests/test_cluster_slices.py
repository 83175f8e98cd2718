"""A comparison in slices has the result of one in one piece; lost and busy hosts are reported."""

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from hakmem.cluster import client as cluster, slices
from hakmem.cluster.client import Part
from hakmem.cluster.slices import Job, Journal, Pause, Places, Refused, Request, Slice
from hakmem.errors import LabError
from hakmem.paired import blocks
from hakmem.paired.blocks import Outcome, Trial
from hakmem.paired.session import Conducted, Ready
from hakmem.process.lock import host_lock
from hakmem.process.sample import Sample
from test_ab import plan


def job(**more: object) -> Job:
    made = Job(plan(guards=1), 1.0, ["hakmem"], False, False, None, Places(), Path.cwd(), {})
    return replace(made, **more)


def planted(trial: Trial) -> Sample:
    """A cost that depends on the trial only, not on the order of calls; B is 2 % cheaper."""
    noise = 1 + 0.01 * ((trial.padding % 101) / 101)
    cost = noise * (0.98 if trial.letter == "B" else 1.0)
    return Sample(trial.track.name, trial.round, trial.position, trial.letter, user_s=cost)


def sliced(ready: Ready, seconds: Sequence[float]) -> list[Sample]:
    """Takes a comparison in slices, each of one of `seconds`; returns all samples."""
    taken: list[Sample] = []
    for number in range(100):
        journal = Journal(taken, planted, seconds[number % len(seconds)])
        with suppress(Pause):
            blocks.run(ready.plan, journal)
        taken += journal.fresh
        if slices.outcome_of(ready, taken):
            break
    return taken


@pytest.mark.parametrize("seconds", [(0.0,), (0.0, 60.0), (60.0,)])
def test_slices_add_up_to_the_comparison_as_it_is_in_one_piece(seconds: Sequence[float]) -> None:
    ready = Ready(plan(guards=1), {}, 1.0)
    taken = sliced(ready, seconds)
    outcome, whole = slices.outcome_of(ready, taken), blocks.run(plan(guards=1), planted)
    assert outcome == whole
    assert outcome.decisions["B"].verdict == "GO"
    assert slices.outcome_of(ready, taken[:-8]) is None


def test_a_slice_ends_between_rounds_and_takes_at_least_one() -> None:
    journal = Journal([], planted, 0.0)
    with pytest.raises(Pause):
        blocks.run(plan(guards=1), journal)
    assert [sample.round for sample in journal.fresh] == [0] * 8


@pytest.mark.parametrize(("failed", "said"), [("A", "–"), ("B", "failed")])
def test_only_what_failed_on_a_host_is_said_to_have(failed: str, said: str) -> None:
    done = Conducted(job().plan, Outcome(failures={failed: "it died"}), {}, 1.0)
    there = [SimpleNamespace(host="one", done=done), SimpleNamespace(host="two", done=None)]
    table = cluster.table(there, SimpleNamespace(job=job()))
    assert [cell.plain for cell in table.columns[1].cells] == [said, "failed"]


def test_samples_of_another_comparison_do_not_continue_this_one() -> None:
    ready = Ready(plan(guards=1), {}, 1.0)
    taken = sliced(ready, (0.0,))
    with pytest.raises(LabError, match="not of this comparison"):
        slices.outcome_of(ready, taken[1:])


def test_a_host_that_is_lost_keeps_its_blocks_and_has_no_verdict(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ready = Ready(plan(guards=1), {}, 1.0)
    part = Part("one", job(), {}, ready=ready, samples=sliced(ready, (0.0,))[:24], noise=[{}])
    monkeypatch.setattr(cluster, "PATIENCE_S", 0.0)
    part.step(None, None)
    assert part.error == "its worker did not return within 0 s"
    outcome = part.done.outcome
    assert [block.round for block in outcome.blocks] == [0, 0, 1, 1, 2, 2]
    assert (outcome.decisions, outcome.failures) == ({}, {"B": part.error})


class Unlucky:
    """A Dask client whose tasks never finish, or behave as `future` says."""

    def __init__(self, **future: object) -> None:
        self.submitted = 0
        self.future = SimpleNamespace(**{"done": lambda: False, "cancel": lambda: None, **future})

    def submit(self, *arguments: object, **more: object) -> object:
        self.submitted += 1
        assert more["workers"] == ["a"]
        assert more["resources"] == {"bench": 1}
        assert more["pure"] is False
        return self.future


def test_a_slice_that_kills_its_worker_again_and_again_is_given_up() -> None:
    part, client = Part("one", job(), {}), Unlucky()
    for _ in range(20):
        part.step(client, "a")  # a slice is submitted
        part.step(client, None)  # its worker is gone
    assert part.error == "its worker died, 3 times in the same slice"
    assert client.submitted == cluster.TRIES
    assert part.done is None


def test_what_came_back_is_judged_at_once_and_nothing_is_handed_out_after_the_last_slice() -> None:
    cloudpickle = pytest.importorskip("cloudpickle")
    ready = Ready(plan(guards=1), {}, 1.0)
    answer = cloudpickle.dumps(Slice(ready, None, sliced(ready, (0.0,)), {}, 1.0))
    client = Unlucky(done=lambda: True, result=lambda timeout: answer)
    part = Part("one", job(), {})
    for _ in range(3):
        part.step(client, "a")
    assert client.submitted == 1
    assert part.outcome.decisions["B"].verdict == "GO"


def request(**more: object) -> Request:
    return replace(Request(job(), {}, None, None, [], 0.0), **more)


@pytest.fixture
def own_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_LOCK_FILE", str(tmp_path / "lock"))


@pytest.mark.usefixtures("own_lock")
def test_a_host_where_somebody_measures_is_busy() -> None:
    with host_lock():
        busy = slices.answer(request())
    assert busy.for_now
    assert f"another benchmark runs on this host (process {os.getpid()})" in busy.why


@pytest.mark.usefixtures("own_lock")
def test_each_slice_looks_at_the_files_again(tmp_path: Path) -> None:
    file = tmp_path / "library.so"
    file.write_text("rebuilt meanwhile")
    refused = slices.answer(request(files={str(file): "0" * 64}))
    assert isinstance(refused, Refused)
    assert not refused.for_now
    assert f"{file} is another file (sha256 " in refused.why


def test_a_host_that_changed_in_the_middle_is_not_the_same_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = {"kernel": "6.1", "load before": "0.1"}
    facts = dict(before)
    monkeypatch.setattr(slices.host, "facts", lambda: facts)
    facts["load before"] = "9.9"
    slices._require_same_host(before)
    facts["kernel"] = "6.2"
    with pytest.raises(LabError, match="the host changed in the middle: kernel was"):
        slices._require_same_host(before)


def test_files_are_the_same_ones_at_the_places_of_another_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = Places(Path("/theirs"), Path("/theirs/build"))
    monkeypatch.setenv("LAB_BUILD_DIR", str(tmp_path))
    assert theirs.here(Path("/theirs/build/x.so")) == tmp_path / "x.so"
    assert theirs.here(Path("/theirs/a/b")) == Places().root / "a/b"
    assert theirs.here(Path("/usr/lib/x.so")) == Path("/usr/lib/x.so")
