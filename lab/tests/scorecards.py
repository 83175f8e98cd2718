"""A small project with targets and an empty ledger, and the records that fill it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hakmem.ledger.store import Ledger, Record
from hakmem.ledger.verify import verify
from hakmem.process import provenance
from hakmem.scorecard import page as scorecard
from hakmem.scorecard.read import Row
from standing import commit

BENCH = "batch_fifo"

TARGETS = f"""
[[target]]
id = "time"
area = "Time"
what = "no rival needs less"
from = "the purpose"
kind = "suite"
metric = "against"
at_most = 1
tie = 0.01
benchmarks = ["{BENCH}"]
needs = ["a", "b"]

[[target]]
id = "memory"
area = "Memory"
what = "against the leanest"
from = "the purpose"
kind = "suite"
metric = "memory"
at_most = 1.1
benchmarks = ["{BENCH}"]
rivals = ["b"]

[[target]]
id = "drift"
area = "Soak"
what = "memory stays"
from = "the protocol"
kind = "soak"
metric = "rss_drift"
at_most = "margin"
unit = "B"
scale = "Mi"
where = {{ "binary.origin" = "hakmem", environment = {{}} }}
least = {{ "analysis.run_s" = 290 }}

[[target]]
id = "tail"
area = "Soak"
what = "slow epochs"
from = "derived"
kind = "soak"
metric = "throughput_p5"
per = "throughput"
at_least = 0.9
unit = "share"
scale = "%"
interval = false
why = "a percentile"

[[target]]
id = "matrix"
area = "Matrix"
what = "GO"
from = "the design"
kind = "matrix"
metric = "verdict"
is = "GO"

[[target]]
id = "noise"
area = "Lab"
what = "noise"
from = "the protocol"
kind = "A/A"
metric = "half-width"
at_most = 0.03
unit = "share"
scale = "%"
interval = false
why = "it is a width"

[[target]]
id = "same"
area = "Lab"
what = "ten times the same"
from = "the order"
kind = "A/A"
metric = "no difference"
at_least = 8
unit = "runs"
interval = false
why = "a count"

[[target]]
id = "hit"
area = "Code"
what = "instructions"
from = "the design"
kind = "hotpath"
metric = "malloc hit path instructions"
at_most = 18
unit = "instructions"
interval = false
why = "a count"
"""


# The part of a setting record that the scorecard reads.
OF_HAKMEM = {"settings_of_user": {}, "binaries": {"A": {"name": "hakmem"}}}


class Site:
    """A checkout with one commit, TARGETS, and an empty ledger."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.ledger = Ledger(root / "evidence")
        self.source = provenance.source(root)

    def add(self, kind: str, body: Mapping[str, Any]) -> Record:
        """Appends a record; a suite's `part` first, as a comparison with a setting of its own."""
        if kind == "suite":
            body = dict(body)
            setting = {"setting": self.ledger.append("setting", OF_HAKMEM).id}
            part = self.ledger.append("comparison", {"ok": True, **setting, **body.pop("part")})
            body = {"inputs": [part.id], **body}
        return self.ledger.append(kind, {"ok": True, "source": self.source, **body})

    def rows(self) -> dict[str, Row]:
        found = scorecard.rows(self.root, verify(self.ledger).records)
        return {row.target.id: row for row in found}

    def age(self) -> None:
        (self.root / "src/a.c").write_text("int b;\n")
        commit(self.root)


def ratio(value: float, **more: Any) -> dict[str, Any]:
    return {"value": value, "low": value - 0.05, "high": value + 0.05, "unit": "ratio", **more}


def suite(
    time: Mapping[str, float],
    memory: float = 0.9,
    bench: str = BENCH,
    oracle: float | None = None,
    **more: Any,
) -> dict[str, Any]:
    """The body of a suite of one benchmark, its `part`, against the rivals that `time` names."""

    def short(value: float) -> list[Any]:
        return [value, value - 0.05, value + 0.05, 0, 20, "win"]

    figures: dict[str, Any] = {name: {"value": 10.0, "memory_kb": 9} for name in time}
    part = {
        "suite": bench,
        "subject": "hakmem",
        "unit": "ns/op",
        "reading": "wall time",
        "better": "lower",
        "program": None,
        "left_out": {},
        "figures": {**figures, "hakmem": {"value": 8.0, "memory_kb": 9}},
        "ratios": {
            "time": {name: short(value) for name, value in time.items()},
            "memory": {name: short(memory) for name in time},
        },
    }
    if oracle:
        part["ratios"]["time"]["the oracle"] = [oracle, oracle - 0.02, oracle + 0.02, 2, 20, None]
    libraries = {"hakmem": {"origin": "hakmem"}, **{name: {"origin": "given"} for name in time}}
    return {"part": part, "metrics": {}, "libraries": libraries, "argv": ["compare"], **more}


def soak(low: float = 0, high: float = 0.5, **more: Any) -> dict[str, Any]:
    mib = 2**20
    drift = {"value": mib * (low + high) / 2, "low": mib * low, "high": mib * high}
    metrics: dict[str, Any] = {
        "rss_drift": {**drift, "margin": mib, "unit": "B"},
        "throughput": {"value": 100.0, "unit": "ops/s"},
        "throughput_p5": {"value": 95.0, "unit": "ops/s"},
    }
    base = {"metrics": metrics, "binary": {"origin": "hakmem"}, "environment": {}}
    return {**base, "analysis": {"run_s": 300.0}, **more}


def states(site: Site) -> dict[str, str]:
    return {id: row.state for id, row in site.rows().items()}
