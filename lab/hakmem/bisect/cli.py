"""The command line of `hakmem bisect`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from hakmem.bisect import posterior as bisect_posterior
from hakmem.bisect import run as bisect
from hakmem.bisect.course import Aim, Request
from hakmem.paired.cli import (
    Bench,
    BetterIs,
    Metric,
    Most,
    Pass,
    Record,
    Seconds,
    Seed,
    again,
    fresh,
)
from hakmem.paired.protocol import LOOKS


def command(
    good: Annotated[str, typer.Argument(help="The commit compared with; an ancestor of BAD.")],
    bad: Annotated[str, typer.Argument(help="The commit that is different.")],
    own: Annotated[
        list[str] | None, typer.Argument(metavar="COMMAND", help="What to run, after --.")
    ] = None,
    bench_name: Bench = None,
    metric: Metric = None,
    better: BetterIs = "lower",
    aim: Annotated[Aim, typer.Option(help="Which change of the metric is looked for.")] = "any",
    repo: Annotated[
        Path | None,
        typer.Option(
            help="Another git repository: the command is run in each commit's worktree, "
            "which it may also name by {tree}."
        ),
    ] = None,
    build: Annotated[
        str | None, typer.Option(help="Shell command that builds a worktree of --repo.")
    ] = None,
    max_blocks: Most = LOOKS[-1],
    probe_blocks: Annotated[
        int, typer.Option(min=bisect_posterior.FEWEST, max=LOOKS[-1], help="Blocks of one probe.")
    ] = LOOKS[0],
    max_probes: Annotated[int, typer.Option(min=1, help="Probes at most.")] = 30,
    min_seconds: Seconds = 1.0,
    seed: Seed = None,
    record: Record = True,
    passed: Pass = None,
) -> None:
    """Find the commit that changed a benchmark's or a command's cost, or that none did.

    The library of each commit is preloaded under the programs that are here now. Example:
    hakmem bisect v1.0 HEAD --bench larson_1. Exit status 0 where that is answered.
    """
    seed = fresh(seed)
    request = Request(
        good=good,
        bad=bad,
        repository=repo,
        build=build,
        bench=bench_name,
        command=own or [],
        metric=metric,
        better=better,
        aim=aim,
        most=max_blocks,
        blocks=probe_blocks,
        probes=max_probes,
        seconds=min_seconds,
        seed=seed,
        record=record,
        argv=again(seed),
        passed=passed or [],
    )
    if bisect.run(request, Console()).answer == "open":
        raise typer.Exit(1)
