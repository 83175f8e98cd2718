"""The course of one bisection: the ends, the probes between them, the test of the suspect.

The ends are compared first; where they differ, commits between them are probed against the good
end until one is sure enough, and that one is compared with the commit before it. Only this last
comparison, which chose nothing, decides whether a commit is named.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from rich.console import Console

from hakmem import terminal
from hakmem.bisect import view
from hakmem.bisect.commits import Commit
from hakmem.bisect.search import SURE, Finding, Search, Suspect
from hakmem.builds import BuildFailed, Builds, Built
from hakmem.errors import LabError
from hakmem.paired import protocol, recording, session, work
from hakmem.paired.blocks import BASE, Plan, Track
from hakmem.paired.cells import Cell
from hakmem.paired.protocol import Decision
from hakmem.paired.readings import Reading
from hakmem.paired.session import Conducted
from hakmem.paired.work import Work
from hakmem.process import library

OTHER = "B"
TREE = "{tree}"
# The change that is looked for; a gain is above 0 where the later commit is better.
Aim = Literal["any", "worse", "better"]


@dataclass(frozen=True, kw_only=True)
class Request(session.Asked):
    """What the user asked for. `repository` None: hakmem's own, whose library is preloaded.

    `most`: blocks of the first and of the last comparison; `blocks`: those of a probe.
    """

    good: str
    bad: str
    repository: Path | None
    build: str | None
    bench: str | None
    command: Sequence[str]
    aim: Aim
    blocks: int
    probes: int


@dataclass(frozen=True)
class Compared:
    """One paired comparison of a commit with an earlier one, by their numbers."""

    role: Literal["ends", "probe", "confirmation"]
    base: int
    commit: int
    done: Conducted
    facts: recording.Facts | None

    @property
    def decision(self) -> Decision:
        return self.done.outcome.decisions[OTHER]

    @property
    def target(self) -> Track:
        return self.done.plan.tracks[0]

    @property
    def gains(self) -> list[float]:
        return self.done.outcome.gains(self.target.name, OTHER)


class Unusable(Exception):
    """The commit of that number does not build, or its program does not run."""

    def __init__(self, commit: int, why: str) -> None:
        super().__init__(why)
        self.commit = commit


@dataclass
class Course:
    """One bisection while it runs; `compared` and `search` go into its record."""

    request: Request
    commits: Sequence[Commit]
    builds: Builds
    reading: Reading
    console: Console
    search: Search = field(init=False)
    compared: list[Compared] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.search = Search(len(self.commits) - 1, self.request.blocks)

    # ---- the three stages ----

    def go(self) -> Finding:
        return self._between_ends() or self._probe() or self._confirm()

    def _between_ends(self) -> Finding | None:
        """A finding where the ends already give one; None: they differ."""
        last = self.search.count
        try:
            ends = self._compare("ends", 0, last, self.request.most)
        except Unusable as error:
            raise LabError(f"{self._end(error.commit)} cannot be measured: {error}") from None
        self.search.tell(last, ends.gains)
        gain, said = ends.decision.target, difference(ends)
        what = f"{self.commits[last].short} and {self.commits[0].short} differ by"
        if protocol.near(gain):
            return Finding("none", "NO-GO", f"no commit changed it: {what} less than 1 %")
        if ends.decision.verdict == "UNDECIDED":
            why = f"the ends cannot be told apart: {what} {said}, {protocol.known(gain)}"
            return Finding("open", "UNDECIDED", f"{why}; more blocks or longer samples narrow it")
        found = "better" if gain.estimate > 0 else "worse"
        if self.request.aim not in ("any", found):
            why = f"the bad end is {found}, not {self.request.aim}: {said}; --aim any looks for it"
            return Finding("none", "NO-GO", why)
        return None

    def _probe(self) -> Finding | None:
        """Probes, and returns None once a commit is sure enough; a finding if none gets there."""
        probes = 0
        while probes < self.request.probes:
            now = self.search.posterior()
            view.print_standing(self.console, self.commits, now)
            commit = self.search.next(now)
            if commit is None:
                break
            try:
                probe = self._compare("probe", 0, commit, self.request.blocks)
            except Unusable as error:
                self._skip(error)
                continue
            probes += 1
            self.search.tell(commit, probe.gains)
        now = self.search.posterior()
        if self.search.found(now):
            return None
        if now.chances[0] >= SURE:
            why = "the ends seemed to differ, but no commit between them shows where: nothing is"
            return Finding("open", "UNDECIDED", f"{why} claimed")
        best = max(self.search.suspects(now), key=lambda suspect: suspect.chance)
        name = self._named(best.commits)
        why = f"after {probes} probes no commit is sure: the likeliest is {name} at"
        return Finding("open", "UNDECIDED", f"{why} {100 * best.chance:.0f} %", best)

    def _confirm(self) -> Finding:
        """Compares the suspect with the last commit before it that can be run, by fresh blocks."""
        while True:
            suspect = self.search.found(self.search.posterior())
            assert suspect is not None
            last = suspect.commits[-1]
            try:
                test = self._compare("confirmation", suspect.before, last, self.request.most)
                break
            except Unusable as error:
                if error.commit == last:
                    raise LabError(f"{self._named((last,))} ran before: {error}") from None
                self._skip(error)
        return self._judged(suspect, test, self.search.posterior().change)

    def _judged(self, suspect: Suspect, test: Compared, expected: float) -> Finding:
        """The finding. `expected` is the gain that was searched for: a commit that shows less than
        half of it is not named, because any other build differs a little too."""
        name, said = self._named(suspect.commits), difference(test)
        before = f"{self.commits[suspect.before].short}, the commit before"
        if test.decision.verdict == "UNDECIDED" and not protocol.same(test.decision):
            why = f"{name} is the suspect, but against {before} it is open: {said}"
            return Finding("open", "UNDECIDED", why, suspect)
        if test.decision.verdict != ("GO" if expected > 0 else "NO-GO"):
            why = f"{name} was the suspect, but against {before} it does not show it: {said}"
            return Finding("open", "NO-GO", why, suspect)
        found = test.decision.target
        most = found.high if expected > 0 else -found.low
        if most < abs(expected) / 2:
            why = f"{name} is the suspect, but against {before} it shows too little of it: {said}"
            return Finding("open", "UNDECIDED", why, suspect)
        if len(suspect.commits) == 1:
            return Finding("commit", "GO", f"{name} changed it: {said} against {before}", suspect)
        why = f"one of {name} changed it: {said} against {before}; between them none can be run"
        return Finding("range", "GO", why, suspect)

    # ---- one comparison ----

    def _compare(
        self, role: Literal["ends", "probe", "confirmation"], base: int, commit: int, most: int
    ) -> Compared:
        """Builds both and takes the blocks. Unusable where one of the two cannot be measured."""
        sides = [self._side(number) for number in (base, commit)]
        cells = {at: cell for at, (cell, _) in zip((BASE, OTHER), sides, strict=True)}
        works = {at: job for at, (_, job) in zip((BASE, OTHER), sides, strict=True)}
        name = self.request.bench or Path(self.request.command[0]).name
        track = Track(name, "target", self.reading, works)
        seed = self.request.seed + len(self.compared)
        plan = Plan(cells, [track], seed, most)
        facts = recording.Facts.of(cells, self.request.argv) if self.request.record else None
        ready = session.prepare(plan, self.request.seconds, self.console)
        self._require(ready.failures, base, commit)
        what = f"{role}: {cells[OTHER].name} against {cells[BASE].name}"
        self.console.print(f"{what}, {session.expected_time(ready)}")
        done = session.measure(ready, self.console, session.sampler(ready.plan))
        self._require(done.outcome.failures, base, commit)
        result = Compared(role, base, commit, done, facts)
        self.compared.append(result)
        self.console.print(f"  {difference(result)}")
        return result

    def _require(self, failures: Mapping[str, str], base: int, commit: int) -> None:
        for letter, number in ((BASE, base), (OTHER, commit)):
            if letter in failures:
                raise Unusable(number, f"it does not run: {failures[letter]}")

    def _side(self, number: int) -> tuple[Cell, Work]:
        """The commit, built: its library under the programs of now, or its own program."""
        commit, request = self.commits[number], self.request
        try:
            with self.console.status(f"building {commit.short}"):
                built = self.builds.at(commit.hash)
        except BuildFailed as error:
            raise Unusable(number, str(error)) from None
        if request.repository is not None:
            return Cell(commit.short, library.system()), in_tree(request, commit, built)
        try:
            lib = library.hakmem(built.library)
        except LabError as error:
            raise Unusable(number, str(error)) from None
        cell = Cell(commit.short, replace(lib, name=f"hakmem {commit.short}"))
        if request.bench:
            return cell, work.benchmark(request.bench)
        return cell, work.own(request.command, request.passed)

    def _skip(self, error: Unusable) -> None:
        if error.commit in (0, self.search.count):
            raise LabError(f"{self._end(error.commit)} cannot be measured any more: {error}")
        self.search.skip(error.commit, str(error))
        terminal.say(self.console, f"skipped: {self.commits[error.commit]}: {error}", "yellow")

    def _end(self, number: int) -> str:
        return f"the {'bad' if number else 'good'} end, {self.commits[number]},"

    def _named(self, numbers: Sequence[int]) -> str:
        return ", ".join(str(self.commits[number]) for number in numbers)


def in_tree(request: Request, commit: Commit, built: Built) -> Work:
    """The command, run in the commit's worktree, which it may also name by TREE."""
    tree = str(built.bench)
    argv = ("env", "-C", tree, *(word.replace(TREE, tree) for word in request.command))
    name = f"{Path(request.command[0]).name} of {commit.short}"
    return Work(name, argv, passed=tuple(request.passed), timeout_s=3600.0)


def difference(compared: Compared) -> str:
    """The change of the metric from the base to the commit, in per cent, with its interval."""
    ratio = recording.ratio(compared.target, compared.decision.target)
    ends = " … ".join(f"{100 * (end - 1):+.1f}" for end in (ratio.low, ratio.high))
    kind = " range" * (ratio.kind == "range")
    words = f"{100 * (ratio.estimate - 1):+.1f} % [{ends}]{kind} {compared.target.reading.words}"
    return words.replace("-", "−")
