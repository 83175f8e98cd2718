"""`--on`, many hosts: a real scheduler and two workers on loopback that act as different hosts."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
from hakmem.cluster import client as cluster
from hakmem.cluster.client import Cluster, Part
from hakmem.cluster.slices import Places, Probe, Slice
from hakmem.errors import LabError
from hakmem.ledger.store import Ledger
from hakmem.ledger.verify import verify
from hakmem.paired.blocks import Outcome
from hakmem.paired.protocol import KIND
from standing import PATIENCE_S, Stand, compile_c, ended, ran, refused, until

HOSTS = ("one", "two")

# Notes its process number, waits while its host has a .hold file, and notes an overlap if another
# process runs on the same host.
SCRIPT = """
exec 9> $NOTES/$LAB_LEDGER_HOST.lock
flock -n 9 || echo overlap >> $NOTES/overlaps
echo $$ >> $NOTES/$LAB_LEDGER_HOST.began
while test -e $NOTES/$LAB_LEDGER_HOST.hold; do sleep 0.05; done
echo cost=${COST:-100}
"""


class Farm:
    """A scheduler and its workers; stop() kills every process that was started."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder, self.environment = folder, environment
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        self._all: list[subprocess.Popen[bytes]] = []
        place = folder / "scheduler.json"
        self._start("scheduler", "--host", "127.0.0.1", "--port", "0", "--scheduler-file", place)
        assert until(lambda: place.exists() and place.read_text().endswith("}"))
        self.address = json.loads(place.read_text())["address"]
        self.on = self.address.replace("tcp://", "dask://")

    def _start(self, what: str, *arguments: object, **more: str) -> subprocess.Popen[bytes]:
        argv = [sys.executable, "-m", f"distributed.cli.dask_{what}", "--no-dashboard"]
        with (self.folder / "log").open("ab") as log:
            self._all.append(
                subprocess.Popen(
                    [*argv, *map(str, arguments)],
                    env={**self.environment, **more},
                    cwd=self.folder,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            )
        return self._all[-1]

    def worker(self, host: str) -> None:
        own = ("--nthreads", 1, "--resources", "bench=1", "--no-nanny", "--host", "127.0.0.1")
        self.workers[host] = self._start(
            "worker",
            self.address,
            *own,
            LAB_LEDGER_HOST=host,
            LAB_LOCK_FILE=str(self.folder / f"{host}.lock"),
        )

    def stop(self) -> None:
        for process in reversed(self._all):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture(scope="module")
def farm(stand: Stand, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Farm]:
    distributed = pytest.importorskip("distributed")
    folder = tmp_path_factory.mktemp("farm")
    made = None
    try:
        made = Farm(folder, stand.environment)
        for host in HOSTS:
            made.worker(host)
        with distributed.Client(made.address, timeout=PATIENCE_S, set_as_default=False) as client:
            client.wait_for_workers(len(HOSTS), timeout=PATIENCE_S)
        yield made
    finally:
        if made is not None:
            made.stop()


class Notes:
    """The script's notes: which processes began on each host; hold() is the file that delays it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def began(self, host: str) -> list[int]:
        file = self.folder / f"{host}.began"
        return [int(line) for line in file.read_text().split()] if file.exists() else []

    def hold(self, host: str) -> Path:
        return self.folder / f"{host}.hold"


@pytest.fixture
def notes(tmp_path: Path) -> Notes:
    return Notes(tmp_path / "notes")


def asked(farm: Farm, *sides: object) -> list[object]:
    metric = ("--metric", "regex:cost=([0-9.]+)", "--max-blocks", 8, "--seed", 5)
    sides = (*sides, "--min-seconds", 0)
    passed = ("--pass", "NOTES", "--pass", "LAB_LEDGER_HOST")
    return ["--on", farm.on, *sides, *metric, *passed, "--", "sh", "-c", SCRIPT]


@pytest.fixture
def lab(own: Stand, notes: Notes, monkeypatch: pytest.MonkeyPatch) -> Stand:
    """The user's build, with NOTES set for the script, and a patient timeout."""
    monkeypatch.setattr(cluster, "ANSWER_S", PATIENCE_S)
    return own.under(NOTES=notes.folder)


# ---- on a real cluster ----


def test_a_worker_that_is_killed_costs_nothing_that_came_back(
    farm: Farm, lab: Stand, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two hosts measure at once; one's worker dies in a block: no finished sample is redone."""
    monkeypatch.setattr(cluster, "SLICE_S", 0.0)
    first_back = threading.Event()
    add = Part.add

    def held(part: Part, slice: Slice) -> None:
        if part.host == "one" and not first_back.is_set():
            notes.hold("one").touch()
            first_back.set()
            monkeypatch.setattr(cluster, "SLICE_S", PATIENCE_S)
        add(part, slice)

    monkeypatch.setattr(Part, "add", held)
    killed: list[bool] = []

    def kill() -> None:
        if first_back.wait(PATIENCE_S) and until(lambda: not ended(notes.began("one")[-1])):
            farm.workers["one"].kill()
            killed.append(until(lambda: ended(notes.began("one")[-1])))
        notes.hold("one").unlink()
        farm.worker("one")

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        done = ran(lab.call("ab", *asked(farm, "--b", "COST=105 name=[/dear]")), 3)
    finally:
        first_back.set()
        killer.join()
    assert killed == [True]
    assert done.stdout.count("NO-GO +5.0 %") == len(HOSTS)
    # Two trial runs, all samples once, and on one the killed process: nothing was measured again.
    taken = 8 * 4
    assert len(notes.began("two")) == 2 + taken
    assert len(notes.began("one")) == 2 + taken + 1
    assert not (notes.folder / "overlaps").exists()
    records = lab.records()
    for host in HOSTS:
        mine = [record for record in records if record.host == host]
        kinds = Counter(record.kind for record in mine)
        assert kinds == {"setting": 1, "verdict": 1}
        assert len(lab.samples(mine[0])) == taken
        verdict = mine[-1]
        assert verdict.body["verdict"] == "NO-GO"
        assert set(verdict.body["inputs"]) < {record.id for record in mine}
        if host == "one":
            noise = mine[0].body["noise"]["slices"]
            assert [part["seconds"] > 0 for part in noise] == [True, True]
    verified = verify(lab.ledger)
    assert (verified.files, verified.problems) == (2, [])


def test_two_users_of_a_cluster_never_measure_on_a_host_at_once(
    farm: Farm, lab: Stand, notes: Notes
) -> None:
    one = subprocess.Popen(
        lab.command("compare", *asked(farm, "--rival", "system")),
        env=lab.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        two = lab.call("ab", *asked(farm, "--aa"))
        said, _ = one.communicate(timeout=PATIENCE_S)
    finally:
        one.kill()
        one.wait()
    assert (one.returncode, two.returncode) == (0, 0), said + two.stdout + two.stderr
    assert said.count("= same") >= len(HOSTS)
    assert not (notes.folder / "overlaps").exists()
    records = lab.records()
    found = Counter((r.host, r.kind) for r in records if r.kind in ("verdict", "A/A"))
    assert found == {(host, kind): 1 for host in HOSTS for kind in ("verdict", "A/A")}
    twins = next(r.body for r in records if r.kind == "A/A")
    assert twins["binary"][0]["sha256"] == twins["binary"][1]["sha256"]
    assert twins["binary"][0]["path"] != twins["binary"][1]["path"]
    assert verify(lab.ledger).problems == []


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGKILL])
def test_a_user_who_leaves_cancels_what_is_out_and_leaves_no_process(
    farm: Farm, lab: Stand, notes: Notes, by: signal.Signals
) -> None:
    for host in HOSTS:
        notes.hold(host).touch()
    done = lab.interrupted(
        lambda: all(notes.began(host) for host in HOSTS),
        *("ab", *asked(farm, "--b", "COST=105")),
        number=by,
    )
    if by == signal.SIGINT:
        said = "hakmem: interrupted: no host ended; nothing else was recorded\n"
        assert (done.returncode, done.stderr) == (130, said)
    assert until(lambda: all(ended(notes.began(host)[-1]) for host in HOSTS))
    assert not lab.evidence.exists()


def test_other_files_on_a_host_are_refused_before_anything_is_measured(
    farm: Farm, stand: Stand, lab: Stand, notes: Notes, tmp_path: Path
) -> None:
    """The user's library has other contents than the workers', and one file is missing there."""
    mine = tmp_path / "build"
    shutil.copytree(stand.folder, mine)
    compile_c("stub_library.c", mine / "libhakmem.so", "-shared", "-fPIC", "-DOTHER", "-O0")
    shutil.copy(stand.silent, mine / "extra.so")
    words = asked(farm, "--b", f"lib={mine}/extra.so")
    done = ran(lab.call("ab", *words, LAB_BUILD_DIR=str(mine)), 2)
    for host in HOSTS:
        assert f"{host}: {stand.library} is another file (sha256 " in done.stderr
        assert f"{host}: {stand.folder}/extra.so is not there" in done.stderr
        assert not notes.began(host)
    assert done.stderr.count("\n") == 1
    assert not lab.evidence.exists()


def test_what_pass_names_is_set_here_or_on_the_host(farm: Farm, lab: Stand, notes: Notes) -> None:
    done = ran(lab.call("ab", "--pass", "LAB_NONE", *asked(farm, "--b", "COST=105")), 1)
    for host in HOSTS:
        assert f"{host}: --pass LAB_NONE: it is set neither here nor" in done.stderr
        assert not notes.began(host)


def test_each_host_has_its_own_baseline(farm: Farm, lab: Stand) -> None:
    done = ran(lab.call("baseline", "--on", farm.on, "--runs", 3))
    assert {r.host for r in lab.records("baseline")} == set(HOSTS)
    assert done.stdout.count("M ops/s\n") == len(HOSTS)


# ---- messages ----


@pytest.mark.parametrize(
    ("on", "message"),
    [
        ("dask://127.0.0.1:1", "no Dask scheduler answers at dask://127.0.0.1:1"),
        ("tcp://127.0.0.1:1", "--on takes dask://HOST:PORT, not tcp://127.0.0.1:1"),
    ],
)
def test_no_scheduler_is_one_clear_line(
    stand: Stand, monkeypatch: pytest.MonkeyPatch, on: str, message: str
) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(cluster, "ANSWER_S", 0.5)
    refused(stand.call("ab", "--on", on, "--b", "X=1", "--bench", "prodcons"), message)


def test_without_distributed_it_says_what_to_install(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    done = stand.call("ab", "--on", "dask://x:1", "--b", "X=1", "--bench", "prodcons")
    refused(done, "pip install -e './lab[cluster]'")


HERE = {"cpu": "a", "architecture": "b", "kernel": "c", "libc": "d"}
GOOD = Probe("one", HERE, "this", [])
HOLDS = {"resources": {"bench": 1}}
UNFIT = [
    ({}, {}, "the cluster has no worker: start one on each host"),
    ({"a": {}}, {"a": GOOD}, "the worker a was started without --resources bench=1"),
    ({"a": HOLDS}, {"a": ImportError()}, "the worker a has no such laboratory"),
    (
        {"a": HOLDS},
        {"a": Probe("one", HERE, "other", [])},
        "one: its laboratory is another version",
    ),
    ({"a": HOLDS, "b": HOLDS}, {"a": GOOD, "b": GOOD}, "one: two workers"),
    ({"a": HOLDS}, {"a": Probe("one", HERE, "this", ["x is not there"])}, "one: x is not there"),
]


@pytest.fixture
def this_laboratory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "laboratory", lambda: "this")


def cluster_of(workers: object, said: object) -> Cluster:
    client = SimpleNamespace(
        scheduler_info=lambda n_workers: {"workers": workers}, run=lambda *arguments, **more: said
    )
    return Cluster(client, SimpleNamespace(places=Places()), {})


@pytest.mark.usefixtures("this_laboratory")
@pytest.mark.parametrize(("workers", "said", "message"), UNFIT)
def test_a_worker_that_cannot_measure_is_refused(
    workers: object, said: object, message: str
) -> None:
    with pytest.raises(LabError, match=message):
        cluster_of(workers, said).require_hosts()


def test_a_scheduler_that_went_away_is_said() -> None:
    made = cluster_of({}, {})
    made.client.scheduler_info = lambda n_workers: {}
    with pytest.raises(LabError, match="the scheduler is gone"):
        made.present()


@pytest.mark.usefixtures("this_laboratory")
def test_a_worker_that_can_measure_is_known_by_its_host() -> None:
    made = cluster_of({"a": HOLDS}, {"a": GOOD})
    assert made.require_hosts() == {"one": HERE}
    assert made.present() == {"one": "a"}


def test_each_host_has_the_margin_of_its_own_noise(
    own: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_LEDGER", str(own.evidence))
    monkeypatch.setenv("LAB_BUILD_DIR", str(own.folder))
    found = {"value": 1.0, "low": 0.985, "high": 1.015, "unit": "ratio", "kind": KIND}
    bench = {"name": "prodcons", "metric": "user", "floor": None}
    noisy = {"benchmarks": [bench], "metrics": {"prodcons": found}, "host": HERE}
    Ledger(own.evidence, "two").append("A/A", noisy)
    asked: list[cluster.Comparison] = []

    def run(address: str, comparison: cluster.Comparison, console: object) -> list[Outcome]:
        asked.append(comparison)
        return []

    monkeypatch.setattr(cluster, "run", run)
    sides = ("--on", "dask://x:1", "--metric", "user", "--b", "X=1", "--bench", "prodcons")
    ran(own.call("ab", *sides))
    ran(own.call("ab", *sides, "--margin", 0.02))
    assert [asked[0].on(host, HERE).plan.margin for host in HOSTS] == [
        0.01,
        pytest.approx(0.015, rel=0.02),
    ]
    # A machine with the same name but another processor gets no margin from this noise.
    assert asked[0].on("two", {**HERE, "cpu": "e"}).plan.margin == 0.01
    assert [asked[1].on(host, HERE).plan.margin for host in HOSTS] == [0.02, 0.02]
