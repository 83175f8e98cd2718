"""A comparison on every host of a Dask cluster: handed out in slices, kept here, judged per host.

Each host runs the whole comparison and has a verdict of its own: blocks of different hosts are
never put together. All samples are kept here, so a worker that dies costs one slice of its host.
"""

import contextlib
import logging
import os
import pickle
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from hakmem import terminal
from hakmem.cluster.slices import (
    Job,
    Places,
    Probe,
    Refused,
    Request,
    Slice,
    blocks_of,
    laboratory,
    measure,
    outcome_of,
    probe,
)
from hakmem.errors import Interrupted, LabError
from hakmem.paired import session, tables
from hakmem.paired.blocks import OnLook, Outcome, Plan, Sampler, nothing
from hakmem.paired.cells import Cell
from hakmem.paired.protocol import Decision
from hakmem.paired.recording import Facts
from hakmem.paired.session import Asked, Conducted, Ready, Standing
from hakmem.process.lock import host_lock
from hakmem.process.sample import Sample
from hakmem.process.settings import settings_of

SCHEME = "dask://"
RESOURCE = {"bench": 1}
START = "dask worker HOST:PORT --nthreads 1 --resources bench=1"

ANSWER_S = 5.0  # seconds for an answer: a scheduler that is there answers at once
SLICE_S = 10.0  # seconds of a slice: what a worker that dies may cost; each slice starts a process
PULSE_S = 0.2
BUSY_S = 1.0
PATIENCE_S = 120.0  # seconds that a host may be without its worker
TRIES = 3  # a slice that lost its worker so often is given up


@dataclass(frozen=True)
class Comparison:
    """What is to be measured, and what its command does with it.

    `finish` records and prints the part of a host, None being this one; `mark` puts a contender's
    result on a host into a few words; `margin` is that of a host by name and facts, None: the
    plan's; `sampler` takes the samples of this host, None: as usual.
    """

    job: Job
    finish: Callable[[Conducted, Facts | None, str | None], None]
    mark: Callable[[Conducted, str], Text]
    margin: Callable[[str, Mapping[str, str]], float] | None = None
    say: Standing | None = None
    sampler: Sampler | None = None

    def on(self, host: str, facts: Mapping[str, str]) -> Job:
        if self.margin is None:
            return self.job
        return replace(self.job, plan=replace(self.job.plan, margin=self.margin(host, facts)))


def run(address: str | None, comparison: Comparison, console: Console) -> list[Outcome]:
    """Measures on all hosts; records and shows each as it ends, then all verdicts in one table.

    Without an address only here. LabError where a host gave no result, after the results of the
    others are recorded.
    """
    tables.print_settings(console)
    if address is None:
        return [_here(comparison, console)]
    ended: list[Part] = []
    try:
        with contextlib.closing(everywhere(address, comparison, console)) as finished:
            for one in finished:
                show(one, comparison, console)
                ended.append(one)
    except KeyboardInterrupt:
        kept = f"{', '.join(one.host for one in ended)} ended before" if ended else "no host ended"
        raise Interrupted(f"interrupted: {kept}; nothing else was recorded") from None
    console.print(table(ended, comparison))
    failed = [f"{one.host}: {one.error}" for one in ended if one.error]
    if failed:
        raise LabError("; ".join(failed), status=1)
    return [one.done.outcome for one in ended if one.done]


def _here(comparison: Comparison, console: Console) -> Outcome:
    job = comparison.job
    with host_lock():
        facts = Facts.of(job.plan.cells, job.argv) if job.facts else None
        done = session.conduct(
            job.plan, job.seconds, console, comparison.sampler, job.drop, comparison.say
        )
        comparison.finish(done, facts, None)
    return done.outcome


def show(one: "Part", comparison: Comparison, console: Console) -> None:
    """Records and prints the result of one host."""
    console.rule(Text(one.host, style="bold"), align="left")
    if one.done is None:
        return
    if one.done.plan.margin != comparison.job.plan.margin:
        console.print(f"margin here: {100 * one.done.plan.margin:.1f} %")
    comparison.finish(one.done, one.facts, one.host)


def table(ended: Sequence["Part"], comparison: Comparison) -> Table:
    """A row for each host, a column for each contender."""
    plan = comparison.job.plan
    made = terminal.table("host", *(plan.cells[letter].name for letter in plan.contenders))
    for one in sorted(ended, key=lambda one: one.host):
        outcome = one.done.outcome if one.done else Outcome(failures=dict.fromkeys(plan.cells, ""))
        marks = [
            comparison.mark(one.done, letter)
            if one.done and letter in outcome.decisions
            else tables.no_verdict(outcome, letter)
            for letter in plan.contenders
        ]
        made.add_row(Text(one.host), *marks)
    return made


def job(plan: Plan, asked: Asked, drop: bool = False, twins: Cell | None = None) -> Job:
    """The job with the user's surroundings: folder, settings, and the `passed` variables."""
    own = {name: os.environ[name] for name in asked.passed if name in os.environ}
    places, environment = Places(), settings_of(os.environ) | own
    how = (asked.seconds, asked.argv, asked.record, drop, twins)
    return Job(plan, *how, places, Path.cwd(), environment)


# ---- one host ----


@dataclass
class Part:
    """The comparison on one host: what has come back so far, and the task that is out."""

    host: str
    job: Job
    files: Mapping[str, str]
    ready: Ready | None = None
    facts: Facts | None = None
    samples: list[Sample] = field(default_factory=list)
    noise: list[Mapping[str, object]] = field(default_factory=list)
    seconds: float = 0.0
    outcome: Outcome | None = None
    error: str | None = None
    state: str = "waits"
    # The task that is out, its worker, and since when the host has had no worker.
    future: Any = None
    worker: str | None = None
    resting_until: float = 0.0
    alone_since: float | None = None
    lost: int = 0

    @property
    def ended(self) -> bool:
        return self.outcome is not None or self.error is not None

    def step(self, client: Any, worker: str | None, on_look: OnLook = nothing) -> None:
        """Takes in and judges what has come back, or hands out the next slice. `worker` is the
        host's, if it has one."""
        if self.future is not None and self.future.done():
            self._collect(on_look)
        elif self.future is not None and self.worker != worker:
            self._let_go("its worker died")
        if self.future is None and not self.ended:
            self._hand_out(client, worker)

    def _hand_out(self, client: Any, worker: str | None) -> None:
        now = time.monotonic()
        if worker is None:
            self.alone_since = self.alone_since or now
            self.state = "waits for its worker to return"
            if now - self.alone_since >= PATIENCE_S:
                self.error = f"its worker did not return within {PATIENCE_S:.0f} s"
            return
        self.alone_since = None
        if now < self.resting_until:
            return
        import cloudpickle

        request = Request(self.job, self.files, self.ready, self.facts, self.samples, SLICE_S)
        self.worker = worker
        self.future = client.submit(
            measure, cloudpickle.dumps(request), workers=[worker], resources=RESOURCE, pure=False
        )
        self.state = "measures"

    def _let_go(self, why: str) -> None:
        self.release()
        self.lost += 1
        if self.lost >= TRIES:
            self.error = f"{why}, {TRIES} times in the same slice"

    def release(self) -> None:
        """Cancels the task that is out: its worker ends what it has started for it."""
        if self.future is not None:
            with contextlib.suppress(Exception):
                self.future.cancel()
        self.future = None

    def _collect(self, on_look: OnLook) -> None:
        future, self.future = self.future, None
        try:
            said = future.result(timeout=ANSWER_S)
        except Exception as error:  # the cluster's: a slice's own failures are answers
            self.future = future
            self._let_go(f"its task was lost ({type(error).__name__})")
            return
        if not said:
            self.error = "the measuring process died: its worker's log says more"
            return
        answer = pickle.loads(said)
        if not isinstance(answer, Refused):
            self.add(answer)
            self.outcome = outcome_of(answer.ready, self.samples, on_look)
        elif answer.for_now:
            self.state = f"waits: {answer.why}"
            self.resting_until = time.monotonic() + BUSY_S
        else:
            self.error = answer.why

    def add(self, part: Slice) -> None:
        self.ready, self.facts = part.ready, part.facts
        self.samples += part.samples
        self.noise.append(part.noise)
        self.seconds += part.seconds
        self.lost = 0

    @cached_property
    def done(self) -> Conducted | None:
        """What the host gave, once it has ended; without decisions where there is an error. None
        where it gave nothing."""
        if self.ready is None or not self.samples:
            return None
        outcome = self.outcome
        if outcome is None:
            failures = dict.fromkeys(self.job.plan.contenders, self.error or "given up")
            outcome = Outcome(blocks_of(self.ready, self.samples), failures=failures)
        noise = self.noise[0] if len(self.noise) == 1 else {"slices": self.noise}
        return Conducted(self.ready.plan, outcome, noise, self.seconds)


# ---- all hosts ----


def everywhere(
    address: str, comparison: Comparison, console: Console
) -> Generator[Part, None, None]:
    """Yields each host's part as it ends; whatever ends this early cancels all tasks out."""
    job, files = comparison.job, comparison.job.files()
    with connected(address) as client:
        cluster = Cluster(client, job, files)
        hosts = cluster.require_hosts()
        parts = [Part(name, comparison.on(name, hosts[name]), files) for name in hosts]
        console.print(f"on {', '.join(p.host for p in parts)}: each by itself")
        try:
            with terminal.progress_bar(console) as progress:
                yield from _conduct(cluster, parts, comparison.say, progress)
        finally:
            for part in parts:
                part.release()


def _conduct(
    cluster: "Cluster", parts: Sequence[Part], say: Standing | None, progress: Progress
) -> Iterator[Part]:
    total = parts[0].job.plan.most * parts[0].job.plan.samples_per_round()
    bars = {part.host: progress.add_task(part.host, total=total) for part in parts}
    looked = dict.fromkeys(bars, 0)
    waiting = list(parts)
    while waiting:
        try:
            present = cluster.present()
        except LabError as gone:
            present = {}
            for part in waiting:
                part.error = str(gone)
        for part in list(waiting):

            def tell(blocks: int, decisions: Mapping[str, Decision], part: Part = part) -> None:
                if blocks > looked[part.host]:
                    looked[part.host] = blocks
                    for line in say(part.job.plan, blocks, decisions) if say else ():
                        progress.console.print(Text(f"{part.host}: {line}", style="dim"))

            if not part.ended:
                part.step(cluster.client, present.get(part.host), tell)
            what = escape(f"{part.host} {part.state}")
            progress.update(bars[part.host], completed=len(part.samples), description=what)
            if part.ended:
                waiting.remove(part)
                progress.remove_task(bars[part.host])
                yield part
        time.sleep(PULSE_S if waiting else 0)


@contextlib.contextmanager
def connected(address: str) -> Iterator[Any]:
    """A client of the scheduler at dask://HOST:PORT; LabError at once where there is none."""
    try:
        from distributed import Client
    except ImportError:
        raise LabError(
            "--on needs Dask's distributed, which is not installed: in the checkout, "
            "pip install -e './lab[cluster]'"
        ) from None
    if not address.startswith(SCHEME) or address == SCHEME:
        raise LabError(f"--on takes {SCHEME}HOST:PORT, not {address}")
    # A lost connection is reported by this program, in one line.
    for name in ("distributed", "distributed.client"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        client = Client(
            address.replace(SCHEME, "tcp://", 1), timeout=ANSWER_S, set_as_default=False
        )
    except (OSError, ValueError) as error:
        raise LabError(
            f"no Dask scheduler answers at {address} ({type(error).__name__}): start one with "
            f"`dask scheduler`, and on each host `{START}`"
        ) from None
    try:
        yield client
    finally:
        with contextlib.suppress(Exception):
            client.close(timeout=ANSWER_S)


class Cluster:
    """The workers of a scheduler, by the host that each says it is on."""

    def __init__(self, client: Any, job: Job, files: Mapping[str, str]) -> None:
        self.client, self._job, self._files = client, job, files
        self._known: dict[str, Probe] = {}

    def present(self) -> dict[str, str]:
        """The worker's address by host, as of now."""
        found = self._probed()
        return {self._known[address].host: address for address in found if address in self._known}

    def require_hosts(self) -> dict[str, Mapping[str, str]]:
        """The hosts, in order, with their facts. LabError where one of them cannot measure the
        comparison."""
        workers = self._probed()
        if not workers:
            raise LabError(f"the cluster has no worker: start one on each host, `{START}`")
        problems = []
        hosts: dict[str, Mapping[str, str]] = {}
        for address in workers:
            if not workers[address].get("resources", {}).get("bench"):
                problems.append(f"the worker {address} was started without --resources bench=1")
            if address not in self._known:
                problems.append(f"the worker {address} has no such laboratory: install it there")
                continue
            seen = self._known[address]
            problems += [f"{seen.host}: {problem}" for problem in seen.problems]
            if seen.laboratory != laboratory():
                problems.append(f"{seen.host}: its laboratory is another version than this one")
            if seen.host in hosts:
                problems.append(f"{seen.host}: two workers, one is enough and all that is honest")
            hosts[seen.host] = seen.facts
        if problems:
            raise LabError(f"nothing was measured: {'; '.join(problems)}")
        return dict(sorted(hosts.items()))

    def _probed(self) -> dict[str, Any]:
        """The scheduler's workers; new ones are probed. LabError where the scheduler is gone."""
        try:
            workers = dict(self.client.scheduler_info(n_workers=-1)["workers"])  # none: closed
            fresh = [address for address in workers if address not in self._known]
            if fresh:
                said = self.client.run(
                    probe, self._files, self._job.places, workers=fresh, on_error="return"
                )
                self._known |= {at: one for at, one in said.items() if isinstance(one, Probe)}
        except (OSError, TimeoutError, ValueError, KeyError):
            raise LabError("the scheduler is gone", status=1) from None
        return workers
