"""Whether a record may be cited, and whether a cited figure is the recorded one.

A record may be cited if it verifies, is ok, as are those it is derived from, was measured on a
clean tree and is not stale. It is stale if it was measured

- with another definition of a benchmark: where the record states what it ran (`benchmarks`, a list
  of `works` by name), each `definition` must be what the program, the harness and the arguments
  hash to now, for a real program its command line and inputs; a user's own command has none. Where
  the record does not state it, all of bench/ must be as it was at its commit;
- with another definition of a matrix that comes with the lab;
- on an old source: its commit must be in the history of HEAD (or one with the same tree, so that
  amending a message loses nothing), and at most `stale_after` later commits may have changed the
  library's source (provenance.OF_LIBRARY). Uncommitted changes there count as one more.

Commit messages and documents of history may cite stale records (`fresh=False`), but none whose
commit is not in the history of HEAD.

A shallow clone does not have that history: a record of a commit that it lacks is held to everything
else, and counted in `unplaced`.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from hakmem import git, programs
from hakmem.audit.scanner import Claim
from hakmem.errors import LabError
from hakmem.ledger import claims
from hakmem.ledger.store import Record
from hakmem.matrix import plan as matrix_plan
from hakmem.process import provenance
from hakmem.suite import SUITE, Command

SOURCE, BENCHES = provenance.OF_LIBRARY, ("bench", ":(exclude)*.md")
DIGITS = 3  # of a ratio and its ends
OF_RATIOS = ("verdict", "A/A", "suite", "bisect", "matrix")
PROGRAMS = {command.executable for command in SUITE.commands} | {"soak_mixed"}
NUMERALS = str.maketrans(
    {"−": "-", "+": "", ",": "", "\u202f": "", "\u2009": "", "\xa0": "", " ": ""}
)


@dataclass
class Evidence:
    """The records that verify, and the checkout `root` that they are held against.

    `ages` has, for each record asked for, how many source commits it is behind; `unplaced` has
    those whose commit a shallow clone lacks.
    """

    root: Path
    records: Mapping[str, Record]
    stale_after: int
    ages: dict[str, int] = field(default_factory=dict)
    unplaced: set[str] = field(default_factory=set)
    _judged: dict[tuple[str, bool], list[str]] = field(default_factory=dict, repr=False)
    _age_of: dict[str, int | None] = field(default_factory=dict, repr=False)

    def objections(self, id: str, fresh: bool = True) -> list[str]:
        """Why the record must not be cited; empty if it may. Without `fresh` it may be stale."""
        if (id, fresh) not in self._judged:
            self._judged[id, fresh] = self._judge(id, fresh)
        return self._judged[id, fresh]

    def _judge(self, id: str, fresh: bool) -> list[str]:
        record = self.records.get(id)
        if record is None:
            return [f"no record {id}"]
        body = record.body
        found = [] if body.get("ok") is True else [f"record {id} is not ok"]
        inputs = {i: self.records.get(i) for i in body.get("inputs") or ()}
        missing = [i for i, there in inputs.items() if there is None]
        bad = [i for i, there in inputs.items() if there and there.body.get("ok") is not True]
        for ids, how in ((missing, "there"), (bad, "ok")):
            if ids:
                found.append(f"record {id} is derived from records that are not {how}: {ids}")
        source = self._source(body)
        if not isinstance(source, dict) or source.get("dirty") is not False:
            return [*found, f"record {id} was measured on a tree with uncommitted changes (dirty)"]
        commit = self._commit(source)
        if commit is None and self.shallow:
            self.unplaced.add(id)
        elif commit is None:
            return [*found, f"record {id}: its commit {source.get('commit')} is not in the history"]
        if fresh:
            found += [f"record {id} is stale: {why}" for why in self._stale(record, commit)]
        return found

    def _source(self, body: Mapping[str, Any]) -> object:
        """The record's own source, or that of the setting it was measured in."""
        setting = self.records.get(str(body.get("setting")))
        return setting.body.get("source") if setting else body.get("source")

    @cached_property
    def shallow(self) -> bool:
        return git.is_shallow(self.root)

    @cached_property
    def _history(self) -> dict[str, str]:
        """The commits of HEAD's history, by their own hash and by the hash of their tree."""
        log = git.ask(self.root, "log", "--format=%H %T") or ""
        rows = [line.split() for line in log.splitlines()]
        return {tree: commit for commit, tree in rows} | {commit: commit for commit, _ in rows}

    def _commit(self, source: Mapping[str, Any]) -> str | None:
        by_commit = self._history.get(str(source.get("commit")))
        return by_commit or self._history.get(str(source.get("tree")))

    def _stale(self, record: Record, commit: str | None) -> Iterator[str]:
        yield from self._benchmark_changed(record.body, commit)
        now = matrix_plan.shipped().get(record.title) if record.kind == "matrix" else None
        if now not in (None, record.body.get("definition")):
            yield "the matrix of this title has changed"
        if commit is None:
            return
        age = self._age(commit)
        if age is None:
            yield "git cannot say how old its source is"
            return
        self.ages[record.id] = age
        if age > self.stale_after:
            yield (
                f"{age} commits have changed the source since {commit[:10]}, "
                f"{self.stale_after} are allowed: measure again"
            )

    def age(self, record: Record) -> float:
        """How many source commits it is behind; infinite if its commit is not in the history."""
        source = self._source(record.body)
        commit = self._commit(source) if isinstance(source, Mapping) else None
        age = self._age(commit) if commit else None
        return math.inf if age is None else age

    def _age(self, commit: str) -> int | None:
        """How many commits changed the source after this one, uncommitted changes being one more;
        None: git cannot say. git is asked once per commit."""
        if commit not in self._age_of:
            later = git.ask(self.root, "rev-list", "--count", f"{commit}..HEAD", "--", *SOURCE)
            known = later is not None and self._uncommitted is not None
            self._age_of[commit] = int(later or 0) + bool(self._uncommitted) if known else None
        return self._age_of[commit]

    @cached_property
    def _uncommitted(self) -> str | None:
        return git.ask(self.root, "status", "--porcelain", "--", *SOURCE)

    def _benchmark_changed(self, body: Mapping[str, Any], commit: str | None) -> Iterator[str]:
        works = stated(body)
        if works:
            for name, work in sorted(works.items()):
                if work["definition"] not in (None, definition(name, work, self.root)):
                    yield f"the benchmark {name} has changed"
        elif commit and git.ask(self.root, "diff", "--quiet", commit, "--", *BENCHES) is None:
            yield f"bench/ has changed since {commit[:10]}, and it states no benchmark of its own"


def definition(name: str, work: Mapping[str, Any], root: Path) -> str | None:
    """The present definition: of a benchmark of the suite, of the `executable` that the work
    states, or of a real program; None where there is none."""
    command = next((c for c in SUITE.commands if c.name == name), None)
    if "executable" in work:
        command = Command(name, work["executable"], tuple(work["arguments"]))
    try:
        if command is None:
            return programs.digest(programs.find([name])[0])
        return provenance.definition(command, root)
    except LabError:
        return None


def stated(body: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """What a record ran, by name; a user's command has the definition None. Empty if not stated."""
    works = {name: w for track in body.get("benchmarks", ()) for name, w in track["works"].items()}
    # A record of a user's command that runs one of our benchmarks states no definition of it.
    own = [(n, w.get("arguments")) for n, w in works.items() if w["definition"] is None]
    return {} if any(program in str(own) for program in PROGRAMS) else works


def differences(claim: Claim, record: Record) -> list[str]:
    """How the shown figure differs from the record, and which rules for ratios it breaks."""
    name, scale = claims.address(claim.address, record.body)
    metric = (record.body.get("metrics") or {}).get(name)
    if metric is None:
        return [f"record {record.id} has no metric {name!r}"]
    unit = str(metric.get("unit"))
    try:
        expected = _show(claims.value(metric), unit, scale, claim.number)
        expected_unit = claims.scaled(0, unit, scale)[1]
        interval = claims.ends(metric)
        found = []
        if claim.number.translate(NUMERALS) != expected:
            found.append(
                f"shows {claim.number}, the record says {expected} {expected_unit}".rstrip()
            )
        accepted = (_plain(expected_unit),) if expected_unit else ("", "×", "x", "times")
        if _plain(claim.unit) not in accepted:
            found.append(f"shows the unit {claim.unit!r}, the record's is {expected_unit!r}")
        if claim.low is not None and claim.high is not None:
            ends = (claim.low, claim.high)
            shown = [end.translate(NUMERALS) for end in ends]
            right = [
                _show(value, unit, scale, end)
                for value, end in zip(interval or (), ends, strict=False)
            ]
            if interval is None:
                found.append("shows an interval, the record has none")
            elif shown != right:
                found.append(f"shows the interval {shown}, the record says {right}")
    except LabError as error:
        return [f"metric {name} cannot be shown so: {error}"]
    if unit == "ratio":
        found += _ratio_rules(claim, record, metric, scale)
    return found


def _ratio_rules(
    claim: Claim, record: Record, metric: Mapping[str, Any], scale: str | None
) -> Iterator[str]:
    if record.kind not in OF_RATIOS:
        yield f"a ratio must cite a verdict, {record.id} is a {record.kind}"
    if claims.ends(metric) is None or claims.is_range(metric):
        yield "a ratio must have an interval, this record has none"
    elif claim.low is None:
        yield "a ratio must show its interval"
    shown = (claim.number, claim.low or claim.number, claim.high or claim.number)
    if not scale and any(len(re.sub(r"\D", "", number)) < DIGITS for number in shown):
        yield f"a ratio is shown with {DIGITS} digits, or rounding makes it another one"
    word = str(metric.get("verdict") or record.body.get("verdict")).upper()
    if record.kind != "A/A" and word == "UNDECIDED" and "undecided" not in claim.block.lower():
        yield "the verdict is UNDECIDED, and the paragraph does not say so"


def _show(value: float, unit: str, scale: str | None, like: str) -> str:
    """The recorded value, rounded to as many decimals as `like` has."""
    decimals = len(like.partition(".")[2])
    return claims.rounded(claims.scaled(value, unit, scale)[0], decimals)


def _plain(unit: str) -> str:
    return unit.replace(" ", "").replace("μ", "µ")
