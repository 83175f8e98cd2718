"""The targets of the scorecard: evidence/targets.toml, read and checked entry by entry."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from hakmem import project
from hakmem.entry import Entry
from hakmem.errors import LabError
from hakmem.ledger import claims
from hakmem.paired.oracle import ORACLE
from hakmem.paired.suite_record import TITLES
from hakmem.soak.analysis import MARGINS, PERCENTILES, metric_name
from hakmem.suite import LATENCIES, SUITE

FILE = "evidence/targets.toml"
MARGIN = "margin"  # a bound that the recorded figure carries itself

REQUIRED = ("id", "area", "what", "from", "kind", "metric")
BOUNDS = ("at_most", "at_least", "is")
OPTIONAL = ("tie", "per", "unit", "scale", "interval", "why", "where", "least", "benchmarks",
            "except", "rivals", "needs", "together")  # fmt: skip
OF_SUITE = ("benchmarks", "except", "rivals", "needs")

BENCHMARKS = tuple(figure.name for figure in SUITE.figures)
# Metrics of a suite. AGAINST: ratios to each rival, also of single calls. ALONE: a benchmark's own
# figure, and by how much it is above the system's. OVERALL: geometric means over the suite, of the
# variation against each rival, and of each kind against the oracle.
AGAINST = ("against", "memory", *LATENCIES)
ALONE = ("own", "above system")
VARIATION = "variation"
OVERALL = (VARIATION, *(f"{title} against {ORACLE}" for title in TITLES.values()))
NOISE, SAME = "half-width", "no difference"


def _words(names: Sequence[str]) -> str:
    return "|".join(map(re.escape, names))


def _of_soak() -> str:
    rates = ("throughput", "throughput_by_cpu")
    judged = [metric_name(column) for column in MARGINS]
    of_epochs = [
        f"{metric_name(column)}_{name}"
        for column, percentiles in PERCENTILES.items()
        for name in ("mean", "sd", "min", "max", *percentiles)
    ]
    return (
        f"calls_per_op|cpu_share|live|committed|anon|anonhuge|lazyfree|{_words(rates)}|"
        f"(?:{_words(judged)})(?:_drift|_cv|_robust_cv)?|{_words(of_epochs)}"
    )


# Patterns of the metrics that a target may name, by kind of record.
METRICS = {
    "suite": _words([*AGAINST, *ALONE, *OVERALL]),
    "A/A": f"{NOISE}|{SAME}",
    "verdict": rf"(?:guard )?(?:{_words(BENCHMARKS)})|verdict",
    "baseline": rf"(?:{_words(BENCHMARKS)}) \w+(?: variation)?",
    "soak": _of_soak(),
    "matrix": "verdict",
    "hotpath": r"(?:malloc|free) (?:hit path )?instructions|\S.* per (?:operation|run|cycle)",
}


@dataclass(frozen=True)
class Target:
    """One entry. `bound` None: the recorded figure carries its own (MARGIN). A record counts only
    if it has what `where` and `least` (at least) say."""

    id: str
    area: str
    what: str
    kind: str
    metric: str
    side: Literal["at most", "at least", "is"]
    bound: float | str | None
    tie: float = 0.0
    per: str | None = None
    unit: str = "ratio"
    scale: str | None = None
    plain: bool = False
    where: Mapping[str, Any] = field(default_factory=dict)
    least: Mapping[str, float] = field(default_factory=dict)
    benchmarks: Sequence[str] = ()
    rivals: Sequence[str] = ()
    needs: Sequence[str] = ()
    together: Sequence[str] = ()


def load(path: Path) -> list[Target]:
    """All targets of the file, in its order; LabError at the first that is wrong."""
    content = project.toml(path)
    entries = content.pop("target", [])
    tables = isinstance(entries, list) and all(isinstance(entry, dict) for entry in entries)
    if content or not tables or not entries:
        said = f"unknown: {', '.join(content)}" if content else "no target in it"
        raise LabError(f"{path}: {said}; it is a list of [[target]]")
    targets: list[Target] = []
    for number, row in enumerate(entries, start=1):
        where = f"{path}: target {row.get('id') or number}"
        entry = Entry(row, where, (*REQUIRED, *BOUNDS, *OPTIONAL))
        target = _target(entry)
        if any(target.id == other.id for other in targets):
            raise entry.wrong("the id is taken by an earlier target")
        means = {other.id for other in targets if other.metric in OVERALL and not other.together}
        if set(target.together) - means:
            raise entry.wrong("together names earlier targets that are means of a suite")
        targets.append(target)
    return targets


def _target(entry: Entry) -> Target:
    said = {key: entry.text(key) for key in REQUIRED}
    del said["from"]  # who set the target, and where: for readers of the file
    kind, metric = said["kind"], said["metric"]
    if kind not in METRICS:
        raise entry.wrong(f"unknown kind of record: {kind}; known: {', '.join(METRICS)}")
    per = entry.text("per", "") or None
    for name in (metric, per or metric):
        if not re.fullmatch(METRICS[kind], name):
            raise entry.wrong(f"unknown metric: no {kind} record has {name!r}")
    side, bound = _bound(entry)
    return Target(
        **said,
        side=side,
        bound=bound,
        tie=entry.number("tie", 0.0),
        per=per,
        unit=entry.text("unit", "") or "ratio",
        scale=_scale(entry),
        plain=_plain(entry),
        where=entry.table("where"),
        least=entry.table("least"),
        benchmarks=_benchmarks(entry),
        rivals=_names(entry, "rivals"),
        needs=_names(entry, "needs") or _names(entry, "rivals"),
        together=_names(entry, "together"),
    )


def _bound(entry: Entry) -> tuple[Literal["at most", "at least", "is"], Any]:
    given = [key for key in BOUNDS if key in entry]
    if len(given) != 1:
        raise entry.wrong(f"needs one bound: {', '.join(BOUNDS)}")
    key, bound, metric = given[0], entry.content[given[0]], entry.text("metric")
    if (key == "is") != (metric == "verdict") or (key == "is" and bound != "GO"):
        raise entry.wrong('a verdict has the bound is = "GO", and nothing else has')
    if key == "is":
        return "is", bound
    side: Literal["at most", "at least"] = "at most" if key == "at_most" else "at least"
    if bound == MARGIN:
        if not metric.endswith("_drift"):
            raise entry.wrong(f"only a drift has a margin of its own, {metric} has not")
        return side, None
    return side, entry.number(key)


def _scale(entry: Entry) -> str | None:
    scale = entry.text("scale", "") or None
    try:
        claims.scaled(0, entry.text("unit", "") or "ratio", scale)
    except LabError as error:
        raise entry.wrong(str(error)) from None
    return scale


def _plain(entry: Entry) -> bool:
    why = entry.text("why", "")
    if "interval" not in entry:
        return False
    if entry.content["interval"] is not False or not why:
        raise entry.wrong("interval can only be false, with the reason as `why`")
    return True


def _names(entry: Entry, key: str) -> tuple[str, ...]:
    found = entry.names(key)
    if key in entry and not found:
        raise entry.wrong(f"{key} names at least one")
    return found


def _benchmarks(entry: Entry) -> tuple[str, ...]:
    single = entry.text("kind") == "suite"
    if not single or entry.text("metric") in OVERALL:
        others = ("except",) if single else OF_SUITE
        if any(key in entry for key in others):
            raise entry.wrong(f"{', '.join(others)} belong to figures of single benchmarks")
        # The rows that a mean must have; these may be real programs.
        return _names(entry, "benchmarks")
    chosen, left = _names(entry, "benchmarks"), _names(entry, "except")
    unknown = {*chosen, *left} - set(BENCHMARKS)
    if unknown:
        raise entry.wrong(f"unknown benchmark: {', '.join(sorted(unknown))}")
    return tuple(name for name in chosen or BENCHMARKS if name not in left)
