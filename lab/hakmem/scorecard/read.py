"""What the ledger says of each target: the last record that may be cited, and its figure.

The last record is that of the newest source and, of one source, the newest: an old commit that is
measured again stays old. Only records count that the audit would let a document cite. If all that
match are stale, the last of them is shown, as stale. A benchmark, a program, a soak or a matrix
that hakmem itself failed is a missed target, and so is the mean it belongs to, until a later
record.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import Any, Literal

from hakmem.audit.citing import Evidence
from hakmem.ledger import claims
from hakmem.ledger.store import Record
from hakmem.paired import suite_record
from hakmem.process.host import other_machine
from hakmem.process.settings import tuning
from hakmem.scorecard.targets import AGAINST, ALONE, MARGIN, NOISE, OVERALL, SAME, VARIATION, Target

# ---- when a target is met, missed or undecided ----

# Met where the whole interval is within the bound, missed where all of it is beyond, undecided
# between them. A figure without an interval decides only where its target says that it needs none.
State = Literal["met", "missed", "undecided", "stale", "not measured"]
STATES: tuple[State, ...] = ("met", "missed", "undecided", "stale", "not measured")

OF_VERDICT: Mapping[str, State] = {"GO": "met", "NO-GO": "missed"}


@dataclass(frozen=True)
class Figure:
    """A recorded value; `low` and `high` are its interval, None where it has none."""

    value: float
    low: float | None = None
    high: float | None = None

    @property
    def ends(self) -> tuple[float, float] | None:
        return None if self.low is None or self.high is None else (self.low, self.high)


@dataclass(frozen=True)
class Bound:
    """The allowed value, at most or at least; up to `tie` beyond it a figure counts as equal."""

    side: Literal["at most", "at least"]
    value: float
    tie: float = 0.0

    @property
    def limit(self) -> float:
        return self.value + self.tie if self.side == "at most" else self.value - self.tie

    def excess(self, figure: Figure) -> tuple[float, float]:
        """How far the figure's good and bad ends are beyond the limit; negative is within it."""
        low, high = figure.ends or (figure.value, figure.value)
        if self.side == "at most":
            return low - self.limit, high - self.limit
        return self.limit - high, self.limit - low


def judge(figure: Figure, bound: Bound, plain: bool = False) -> State:
    """The state of a figure. `plain`: the target needs no interval."""
    if not plain and figure.ends is None:
        return "undecided"
    good, bad = bound.excess(figure)
    if bad <= 0:
        return "met"
    return "missed" if good > 0 else "undecided"


def decide(
    figures: Mapping[str, Figure], bound: Bound, plain: bool = False
) -> tuple[State, str | None]:
    """The state over all rivals, and the rival that decides it.

    One figure beyond the bound is enough to miss the target; to meet it, all must be within.
    """
    if not figures:
        return "not measured", None
    states = {name: judge(figure, bound, plain) for name, figure in figures.items()}
    state: State = next(s for s in ("missed", "undecided", "met") if s in states.values())
    end = 0 if state == "missed" else 1
    among = [name for name, found in states.items() if found == state]
    return state, max(among, key=lambda name: bound.excess(figures[name])[end])


HAKMEM, SYSTEM = "hakmem", "system"
REPEATED = 10  # A/A runs that are counted together
LEFT_OUT = 1  # rows of a mean that a needed rival may have failed


@dataclass(frozen=True)
class Row:
    """One line: a target, on one benchmark if it is of single ones. `against` decided it."""

    target: Target
    subject: str
    state: State
    figure: Figure | None = None
    bound: Bound | None = None
    against: str | None = None
    record: Record | None = None
    remark: str = ""


def rows(targets: Sequence[Target], evidence: Evidence) -> list[Row]:
    """A line per target, in their order; of one on single benchmarks, a line per benchmark."""
    ledger = _Records(evidence)
    found: list[Row] = []
    for target in targets:
        if target.together:
            found.append(_together(target, [r for r in found if r.target.id in target.together]))
        elif target.kind == "suite" and target.metric not in OVERALL:
            found += [_of_suite(target, name, ledger) for name in target.benchmarks]
        else:
            found.append(_of_record(target, ledger))
    return found


Wanted = Callable[[Record], bool]


@dataclass
class _Records:
    evidence: Evidence

    @cached_property
    def _by_kind(self) -> dict[str, list[Record]]:
        found: dict[str, list[Record]] = {}
        for record in self.evidence.records.values():
            if record.kind == "suite":
                body = suite_record.whole(record, self.evidence.records)
                if body is None:
                    continue
                record = replace(record, body=body)
            found.setdefault(record.kind, []).append(record)
        return found

    def rank(self, record: Record) -> tuple[float, tuple[str, int]]:
        """The key to sort by: the highest is the last record."""
        return -self.evidence.age(record), record.when

    def matching(self, target: Target, wanted: Wanted) -> list[Record]:
        """The fitting records, the last first."""
        found = (r for r in self._by_kind.get(target.kind, ()) if _fits(r, target) and wanted(r))
        return sorted(found, key=self.rank, reverse=True)

    def last(self, target: Target, wanted: Wanted) -> tuple[Record | None, bool]:
        """The last record that counts, else the last of which nothing is wrong but that it is
        stale; and whether it is stale."""
        there = self.matching(target, wanted)
        counts = next((r for r in there if not self.evidence.objections(r.id)), None)
        if counts:
            return counts, False
        stale = (r for r in there if not self.evidence.objections(r.id, fresh=False))
        return next(stale, None), True

    def failed(self, target: Target, wanted: Wanted) -> Record | None:
        """The last record of which nothing is wrong but that it is not ok."""
        there = self.matching(target, wanted)
        only = ((r, self.evidence.objections(r.id, fresh=False)) for r in there)
        return next((r for r, why in only if why == [f"record {r.id} is not ok"]), None)


def _fits(record: Record, target: Target) -> bool:
    """Whether the record is about the target."""
    body = record.body
    if target.kind == "suite" and not _natural(body, target):
        return False
    # Programs are a suite of their own, for which a target's `where` must ask.
    if target.kind == "suite" and bool(body.get("programs")) is not ("programs" in target.where):
        return False
    if target.kind == "suite" and target.metric in OVERALL and not _is_whole(body, target):
        return False
    told = tuning(body.get("settings_of_user") or {}) if target.kind != "suite" else {}
    if told and not any(path.startswith("settings_of_user") for path in target.where):
        return False
    if not all(at(body, path) == wanted for path, wanted in target.where.items()):
        return False
    # A failure of hakmem counts, however little the record has of what `least` asks for.
    return bool(body.get("failures")) or all(
        _number(at(body, path)) >= n for path, n in target.least.items()
    )


def _natural(body: Mapping[str, Any], target: Target) -> bool:
    """Whether the suite is of hakmem as built, with nothing beside it, each row in its default
    metric, and with no settings unless the target asks for some."""
    chosen = any(str(word).startswith("--metric") for word in body.get("argv", ()))
    told = body.get("settings") and not any(path.startswith("settings") for path in target.where)
    accompanied = any("beside" in side for side in body.get("libraries", {}).values())
    ours = body.get("of") == HAKMEM and at(body, f"libraries.{HAKMEM}.origin") == HAKMEM
    return ours and not (chosen or told or accompanied)


def _is_whole(body: Mapping[str, Any], target: Target) -> bool:
    """Whether a mean is over the rows that the target names, against the rivals that it needs: over
    few favourable rows, or against one weak rival, it would be another mean. Rows that hakmem
    failed count as there."""
    rows = {
        row["benchmark"]: (row["figures"].keys() - {row["subject"]}) & body["libraries"].keys()
        for row in body.get("rows") or ()
    }
    rivals = set().union(*rows.values())
    rows |= dict.fromkeys(body.get("failures") or (), rivals)
    if not rows.keys() >= set(target.benchmarks):
        return False
    named = [rows[name] for name in target.benchmarks or rows]
    only = not target.rivals or rivals == set(target.rivals)
    return only and all(
        rival in rivals and sum(rival not in able for able in named) <= LEFT_OUT
        for rival in (*target.needs, *target.rivals)
    )


def at(body: object, path: str) -> Any:
    """The value at the path `a.b.0.c` in a record's body; None where there is nothing."""
    for step in path.split("."):
        if isinstance(body, Mapping):
            body = body.get(step)
        elif isinstance(body, list | tuple) and step.isdecimal() and int(step) < len(body):
            body = body[int(step)]
        else:
            return None
    return body


def _number(found: object) -> float:
    number = isinstance(found, int | float) and not isinstance(found, bool)
    return float(found) if number else math.nan  # type: ignore[arg-type]


# ---- one record, one figure ----


def _of_record(target: Target, ledger: _Records) -> Row:
    if target.metric == SAME:
        return _repeated(target, ledger)
    own = {NOISE: _noise, VARIATION: _of_all_rivals}.get(target.metric)
    read = own or (_verdict if target.side == "is" else _metric)
    record, stale = ledger.last(target, lambda r: read(target, r) is not None)
    missed = _failed(target, target.benchmarks, ledger, record)
    if missed:
        return missed
    if record is None:
        return Row(target, "", "not measured", bound=_stated(target))
    row = read(target, record)
    assert row is not None
    return replace(row, state="stale") if stale else row


def _stated(target: Target) -> Bound | None:
    return _bound(target, target.bound)


def _bound(target: Target, value: object) -> Bound | None:
    if target.side == "is" or not isinstance(value, float):
        return None
    return Bound(target.side, value, target.tie)


def _of_all_rivals(target: Target, record: Record) -> Row | None:
    """The row of a metric against each rival: one beyond the bound is enough to miss it."""
    head = f"{target.metric} against "
    entries = (at(record.body, "metrics") or {}).items()
    named = {name.removeprefix(head): _figure(m) for name, m in entries if name.startswith(head)}
    figures = {rival: figure for rival, figure in named.items() if figure is not None}
    bound = _stated(target)
    if not figures or bound is None:
        return None
    state, against = decide(figures, bound, target.plain)
    assert against is not None
    return Row(target, "", state, figures[against], bound, against, record)


def _verdict(target: Target, record: Record) -> Row | None:
    word = record.body.get("verdict")
    if word is None:
        return None
    state = OF_VERDICT.get(str(word), "undecided")
    return Row(target, "", state, record=record, remark=str(record.body.get("why") or word))


def _metric(target: Target, record: Record) -> Row | None:
    entry = at(record.body, "metrics") or {}
    figure = _figure(entry.get(target.metric))
    bound = _stated(target)
    if figure is None:
        return None
    if target.per is not None:
        per = _figure(entry.get(target.per))
        if per is None or per.value <= 0:
            return None
        figure = Figure(figure.value / per.value)
    if bound is None:
        margin = _number(entry[target.metric].get(MARGIN))
        bound = _bound(target, margin if target.side == "at most" else -margin)
        if bound is None or math.isnan(margin):
            return None
    return Row(target, "", judge(figure, bound, target.plain), figure, bound, record=record)


def _figure(metric: Mapping[str, Any] | None) -> Figure | None:
    """A recorded metric's value with its interval; a mere range of runs is no interval."""
    if metric is None:
        return None
    ends = None if claims.is_range(metric) else claims.ends(metric)
    return Figure(claims.value(metric), *(ends or ()))


def _together(target: Target, parts: Sequence[Row]) -> Row:
    """The geometric mean over all rows of several suites, each row with the same weight.

    Each suite is a run of its own, so the errors of their means are independent: the widths of the
    intervals to either side, in logarithms, add up as squares. Suites of different machines have no
    common mean: from one machine to another ratios differ by more than those intervals say.
    """
    bound = _stated(target)
    assert bound is not None
    logs, weights, ids = [], [], []
    hosts: list[Mapping[str, object]] = []
    for part in parts:
        if part.record is None or part.figure is None or part.figure.ends is None:
            return replace(part, target=target, bound=bound, figure=None)
        hosts.append(at(part.record.body, "host") or {})
        if other := other_machine(hosts[-1], hosts[0]):
            said = f"{part.record.id} is of another machine: {other}"
            return Row(target, "", "not measured", bound=bound, remark=said)
        logs.append([math.log(end) for end in (part.figure.value, *part.figure.ends)])
        weights.append(_number(at(part.record.body, f"metrics.{part.target.metric}.rows")))
        ids.append(part.record.id)
    shares = [weight / sum(weights) for weight in weights]
    mean = sum(share * value for share, (value, _, _) in zip(shares, logs, strict=True))
    below, above = (
        math.hypot(*(share * (log[end] - log[0]) for share, log in zip(shares, logs, strict=True)))
        for end in (1, 2)
    )
    figure = Figure(*(math.exp(log) for log in (mean, mean - below, mean + above)))
    state: State = "stale" if any(p.state == "stale" for p in parts) else judge(figure, bound)
    said = f"with {', '.join(ids[1:])}"
    return Row(target, "", state, figure, bound, record=parts[0].record, remark=said)


# ---- A/A ----


def _noise(target: Target, record: Record) -> Row | None:
    """The row of half the width of the interval between two copies of the same binary."""
    figure, bound = _only(record), _stated(target)
    if figure is None or figure.ends is None or bound is None:
        return None
    half = Figure((figure.ends[1] - figure.ends[0]) / 2)
    return Row(target, "", judge(half, bound, target.plain), half, bound, record=record)


def _only(record: Record) -> Figure | None:
    return _figure(next(iter((at(record.body, "metrics") or {}).values()), None))


def _repeated(target: Target, ledger: _Records) -> Row:
    """The row of how many of the newest A/A runs have 1 in the interval: no difference was seen."""
    there = ledger.matching(target, lambda r: not ledger.evidence.objections(r.id))
    there.sort(key=attrgetter("when"), reverse=True)
    known = [(r, f.ends) for r in there if (f := _only(r)) is not None and f.ends is not None]
    counted, bound = known[:REPEATED], _stated(target)
    if len(counted) < REPEATED or bound is None:
        said = f"{len(counted)} of {REPEATED} runs are there"
        return Row(target, "", "not measured", bound=bound, remark=said)
    figure = Figure(sum(low <= 1 <= high for _, (low, high) in counted))
    state = judge(figure, bound, target.plain)
    (newest, _), *_, (oldest, _) = counted
    said = f"of the last {REPEATED}, back to {oldest.id}"
    return Row(target, "", state, figure, bound, record=newest, remark=said)


# ---- the suite ----


def _of_suite(target: Target, name: str, ledger: _Records) -> Row:
    bound = _stated(target)
    assert bound is not None

    def tells(record: Record) -> bool:
        """Whether all rivals that must be there were measured; else it can only be a miss."""
        state, _ = decide(_figures(target, name, record), bound, target.plain)
        asked = record.body["libraries"].keys() >= set(target.needs)
        return state == "missed" or (asked and state != "not measured")

    record, stale = ledger.last(target, tells)
    if record is None or stale:
        record, stale = ledger.last(target, lambda r: bool(_figures(target, name, r)))
    missed = _failed(target, [name], ledger, record)
    if missed:
        return replace(missed, subject=name)
    if record is None:
        return Row(target, name, "not measured", bound=bound)
    figures = _figures(target, name, record)
    state, against = decide(figures, bound, target.plain)
    absent = _absent(target, name, record, figures)
    needed = [rival for rival in absent if rival in target.needs]
    if needed and state == "met":
        state = "undecided"
    said = f"not measured: {', '.join(absent)}" if absent else ""
    assert against is not None
    beside = against if target.metric in AGAINST else None
    state = "stale" if stale else state
    return Row(target, name, state, figures[against], bound, beside, record, said)


def _failed(
    target: Target, names: Sequence[str], ledger: _Records, cited: Record | None
) -> Row | None:
    """A miss, where hakmem failed one of these rows (none named: any) after the `cited` record."""

    def whys(record: Record) -> list[str]:
        found = (record.body.get("failures") or {}).items()
        return [why for name, why in found if not names or name in names]

    record = ledger.failed(target, lambda r: bool(whys(r)))
    if record is None or (cited and ledger.rank(cited) > ledger.rank(record)):
        return None
    said = f"hakmem failed: {'; '.join(whys(record))}"
    return Row(target, "", "missed", bound=_stated(target), record=record, remark=said)


def _figures(target: Target, name: str, record: Record) -> dict[str, Figure]:
    """The figures by rival; a figure that is against no rival is alone."""
    row = _row(record, name)
    if row is None:
        return {}
    if target.metric in ALONE:
        value, name = _number(row["figures"][row["subject"]]["value"]), HAKMEM
        if target.metric == "above system":
            value, name = value - _number(at(row, "figures.system.value")), SYSTEM
        return {name: Figure(value)} if math.isfinite(value) else {}
    chosen = [rival for rival in row["figures"] if not target.rivals or rival in target.rivals]
    kind = suite_record.TIME if target.metric == "against" else target.metric
    metrics = record.body["metrics"]
    found = {r: _figure(metrics.get(suite_record.metric_name(name, kind, r))) for r in chosen}
    return {rival: figure for rival, figure in found.items() if figure is not None}


def _row(record: Record, name: str) -> Mapping[str, Any] | None:
    found: Iterable[Any] = record.body.get("rows") or ()
    return next((row for row in found if row.get("benchmark") == name), None)


def _absent(target: Target, name: str, record: Record, figures: Mapping[str, Figure]) -> list[str]:
    """The rivals that should have been measured: named by the target, or left out in the run."""
    if target.metric not in AGAINST:
        return []
    row = _row(record, name)
    there = suite_record.rivals_of(row) if row else ()
    asked = [*target.needs, *(target.rivals or there)]
    known = figures.keys() & record.body["libraries"].keys()  # a cell may have any name
    return [rival for rival in dict.fromkeys(asked) if rival not in known]
