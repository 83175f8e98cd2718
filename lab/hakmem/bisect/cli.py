"""The command line of `hakmem bisect`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from hakmem import complete, project, terminal
from hakmem.bisect import commits as bisect_range, posterior, record as bisect_record, view
from hakmem.bisect.course import Aim, Course, Request
from hakmem.bisect.search import Finding
from hakmem.builds import Builds
from hakmem.errors import LabError
from hakmem.paired import readings, work
from hakmem.paired.cli import (
    Bench,
    BetterIs,
    Metric,
    Most,
    Pass,
    Record,
    Seconds,
    Seed,
    given_to,
    require_ledger,
)
from hakmem.paired.protocol import LOOKS
from hakmem.process.argv import again
from hakmem.process.lock import host_lock
from hakmem.process.order import fresh


def command(
    good: Annotated[str, typer.Argument(help="The commit compared with; an ancestor of BAD.")],
    bad: Annotated[str, typer.Argument(help="The commit that is different.")],
    own: Annotated[
        list[str] | None, typer.Argument(metavar="COMMAND", help="What to run, after --.")
    ] = None,
    bench_name: Bench = None,
    metric: Metric = None,
    better: BetterIs = "lower",
    aim: Annotated[
        Aim, complete.one_of(Aim, help="Which change of the metric is looked for.")
    ] = "any",
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
        int, typer.Option(min=posterior.FEWEST, max=LOOKS[-1], help="Blocks of one probe.")
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
        passed=given_to(own, passed),
    )
    if run(request, terminal.new_console()).answer == "open":
        raise typer.Exit(1)


def run(request: Request, console: Console) -> Finding:
    """Bisects, prints and records."""
    check(request)
    require_ledger(request.record)
    root = request.repository or project.root()
    commits = bisect_range.between(root, request.good, request.bad)
    bench = None if request.repository else request.bench
    reading = readings.choose(request.metric, bench, request.better)
    command = None if request.repository is None else ["sh", "-c", request.build or "true"]
    with host_lock(), Builds(root, command, project.build_dir() / "commits") as builds:
        course = Course(request, commits, builds, reading, console)
        announce(course)
        finding = course.go()
        record = bisect_record.save(course, finding) if request.record else None
    view.print_finding(console, commits, course.search, finding, reading.sign)
    kept = f"recorded: {record.id}" if record else "not recorded"
    blocks = sum(one.decision.blocks for one in course.compared)
    console.print(f"{len(course.compared)} comparisons, {blocks} blocks; {kept}")
    return finding


def check(request: Request) -> None:
    """LabError where the request does not say what to run, or it is not there."""
    if request.repository is None:
        if request.build:
            raise LabError("--build is for another repository: name it with --repo")
        if bool(request.bench) == bool(request.command):
            raise LabError("what shall run? --bench NAME, or -- command …")
        if request.bench:
            work.benchmark(request.bench)
        else:
            work.own(request.command)
    elif request.bench or not request.command:
        raise LabError("another repository has its own program: -- command …, run in its worktree")


def announce(course: Course) -> None:
    request, commits = course.request, course.commits
    what = request.bench or " ".join(request.command)
    course.console.print(Text(f"{what}: {course.reading.words}", style="bold"))
    for name, commit in (("good", commits[0]), ("bad", commits[-1])):
        terminal.say(course.console, f"  {name:<5}{commit}")
    way = (
        "each commit's library under the programs that are here now: only the allocator differs"
        if request.repository is None
        else "the program of each commit, built and run in a worktree of its own"
    )
    course.console.print(f"{len(commits) - 1} commits; {way}")
    course.console.print(
        f"aim: {request.aim}; {request.most} blocks at most for the ends and the test, "
        f"{request.blocks} for each of at most {request.probes} probes, seed {request.seed}",
    )
