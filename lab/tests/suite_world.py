"""A comparison over benchmarks that runs none: each sample has the figures planted for its cell."""

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from hakmem.paired import suite_record, suite_run
from hakmem.paired.blocks import FLOOR, Trial
from hakmem.paired.suite_run import Request
from hakmem.process.sample import Sample
from hakmem.suite import LATENCIES
from rich.console import Console
from standing import Stand

# Seconds, and peaks in KiB, of hakmem (A), the system's allocator (B) and a third (C): B is leaner
# than hakmem, C is faster.
TIMES = {"A": 1.0, "B": 2.0, "C": 0.8, FLOOR: 0.2}
PEAKS = {"A": 2000, "B": 1000, "C": 4000, FLOOR: 900}


class World:
    """A sampler that returns planted figures, and the trials that it was asked for."""

    def __init__(self, own: Stand, folder: Path) -> None:
        self.own, self.ledger, self.folder = own, own.ledger, folder
        self.trials: list[Trial] = []
        self.fails: Callable[[Trial], str | None] = lambda trial: None

    def sampler(self, trial: Trial) -> Sample:
        self.trials.append(trial)
        seconds = TIMES[trial.letter]
        result = {"bench": "x", "ops": 10**9, "seconds": seconds, "user_s": seconds, "sys_s": 0.0}
        of_calls = {name: 10.5 if name.endswith("p50") else 10 for name in LATENCIES}
        result |= {f"{name}_ns": ns * seconds for name, ns in of_calls.items()}
        result |= {"peak_kb": 1000, "after_kb": 200 * seconds, "after_lazy_kb": 100 * seconds}
        return Sample(
            *(trial.track.name, trial.round, trial.position, trial.letter),
            argv=("bench", "1"),
            padding=trial.padding,
            wall_s=seconds,
            max_rss_kb=PEAKS[trial.letter],
            result=result,
            output=f'"seconds": {seconds}',
            error=self.fails(trial),
        )

    def request(self, *names: str, **more: Any) -> Request:
        asked = Request(
            names=names,
            library="hakmem",
            rivals=["system", str(self.folder / "rival.so")],
            most=8,
            seconds=0.5,
            seed=5,
            argv=["hakmem", "compare", *names],
        )
        return replace(asked, **more)

    def run(self, asked: Request) -> tuple[bool, str]:
        out = io.StringIO()
        finished = suite_run.run(asked, Console(file=out, width=200), self.sampler)
        return finished.good, " ".join(out.getvalue().split())

    def whole(self) -> dict[str, Any]:
        """The body of the ledger's only suite, with its rows and metrics."""
        (record,) = self.own.records("suite")
        return suite_record.whole(record, {r.id: r for r in self.ledger.records()})
