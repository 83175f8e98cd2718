"""The command lines of paired measurements: `hakmem ab`, `hakmem compare`, `hakmem baseline`."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from hakmem import complete, project, terminal
from hakmem.cli import of_float
from hakmem.errors import LabError
from hakmem.ledger.store import Ledger, host_name
from hakmem.paired import ab, baseline, cells, compare, suite_run
from hakmem.paired.blocks import Outcome
from hakmem.paired.protocol import LOOKS, Aim, Verdict
from hakmem.paired.readings import Better
from hakmem.process import children
from hakmem.process.argv import again, own_argv, without_seed
from hakmem.process.order import fresh

Command = Annotated[
    list[str] | None, typer.Argument(help="The command to measure, after --; or use --bench.")
]
Bench = Annotated[
    str | None, complete.of_benchmark("--bench", help="Benchmark to run instead of a command.")
]
Rivals = Annotated[
    list[str] | None,
    complete.of_library(
        "--rival", help="Only this one; repeatable. Default: system and all peers found."
    ),
]
Metric = Annotated[
    str | None,
    typer.Option(
        help="cpu, cycles, instructions, wall, user, rss, idle, left or regex:PATTERN; "
        "without it CPU time, of a benchmark per operation; in a table each row's own.",
        autocompletion=complete.metrics,
    ),
]
BetterIs = Annotated[
    Better, complete.one_of(Better, "--better", help="Which way a regex's figure is better.")
]
Most = Annotated[
    int, typer.Option("--max-blocks", min=LOOKS[0], max=LOOKS[-1], help="Blocks at most.")
]
Seconds = Annotated[
    float,
    of_float(
        "--min-seconds",
        min=0,
        help="Timed part of each cell in a block, in short samples; 0: two samples.",
    ),
]
Seed = Annotated[int | None, typer.Option(help="Of order and padding; default: random.")]
Record = Annotated[bool, typer.Option("--record/--no-record", help="Keep it in the ledger.")]
On = Annotated[
    str | None,
    typer.Option(help="dask://HOST:PORT: on every host of that cluster, each by itself."),
]
Pass = Annotated[
    list[str] | None, typer.Option("--pass", help="Variable of yours that the command needs.")
]


def require_ledger(record: bool) -> None:
    """LabError, before anything is measured, where a record could not be kept afterwards."""
    places = (Ledger.default().root / "ledger" / "x").parents
    folder = next(place for place in places if place.exists())
    if record and not (folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)):
        raise LabError(f"cannot write into {folder}; --no-record measures all the same")
    if record and (folder / f"{host_name()}.jsonl").is_file():
        with Ledger.default().together():
            pass  # reads the file: an error in it is raised now


def given_to(
    command: Sequence[str] | None, passed: list[str] | None = None, on: str | None = None
) -> list[str]:
    """The variables that --pass names. LabError where one would not reach the user's own command,
    or where standard input has data for the command, because nothing measured can read it. With
    `on` the hosts of a cluster check their own variables."""
    if command and children.input_waits():
        raise LabError(
            "there is something on standard input, and what is measured has nothing to read: name "
            f"the file as an argument, or -- sh -c '{command[0]} … <FILE'; where it is not meant "
            "for it, add </dev/null"
        )
    for name in passed or []:
        if not command:
            raise LabError(f"--pass {name} is for a command of yours: leave it out")
        if "=" in name or not (on or name in os.environ):
            raise LabError(f"--pass {name}: takes the name alone, of a variable that is set here")
    return passed or []


def end(*outcomes: Outcome) -> None:
    """Exits with status 1 where any cell failed."""
    if any(outcome.failures for outcome in outcomes):
        raise typer.Exit(1)


def end_of_table(outcomes: Sequence[Outcome]) -> None:
    """Exits with 1 where a host compared hakmem with no rival; a failed rival is no failure."""
    if not all(outcome.decisions for outcome in outcomes):
        raise typer.Exit(1)


NO_GO, UNDECIDED = 3, 4  # exit statuses of `ab`


def end_with(verdicts: Iterable[Verdict]) -> None:
    """Exits with the status of the worst of all verdicts, so that a script can gate on them."""
    found = set(verdicts)
    if "NO-GO" in found:
        raise typer.Exit(NO_GO)
    if "UNDECIDED" in found:
        raise typer.Exit(UNDECIDED)


def ab_command(
    command: Command = None,
    a: Annotated[
        str, complete.of_library("--a", help="The cell compared with, such as 'lib=old.so X=1'.")
    ] = "",
    b: Annotated[
        list[str] | None, complete.of_library("--b", help="A cell that is judged; may be repeated.")
    ] = None,
    bench_name: Bench = None,
    guard: Annotated[
        list[str] | None,
        complete.of_benchmark(help="Benchmark that must not get slower; repeatable."),
    ] = None,
    aim: Annotated[Aim, complete.one_of(Aim, help="What B must be.")] = "improvement",
    aa: Annotated[
        bool, typer.Option("--aa", help="Compare A with a copy of itself: the noise floor.")
    ] = False,
    plant: Annotated[
        float, of_float(min=0, max=1, help="With --aa: share of work that copy b does unsaid.")
    ] = 0.0,
    metric: Metric = None,
    better: BetterIs = "lower",
    floor: Annotated[
        str | None,
        typer.Option(help="Measure it in the same blocks and subtract: null, empty, benchfast."),
    ] = None,
    max_blocks: Most = LOOKS[-1],
    min_blocks: Annotated[
        int,
        typer.Option(
            min=LOOKS[0], max=LOOKS[-1], help="No verdict before so many: for a sharper figure."
        ),
    ] = LOOKS[0],
    min_seconds: Seconds = 1.0,
    margin: Annotated[
        float | None,
        of_float(min=0.01, max=0.5, help="δ as a share; default: from A/As, 0.01 to 0.02."),
    ] = None,
    seed: Seed = None,
    record: Record = True,
    passed: Pass = None,
    on: On = None,
) -> None:
    """Decide whether B is better than A (or no worse), by interleaved blocks, and record it.

    A cell is a library and an environment: '' is hakmem as built, 'mimalloc' a peer,
    'HAKMEM_TINY_PROFILE=full' hakmem with a setting, 'lib=old.so name=before X=1' all of it.

    Ends with 0 for GO, 3 for NO-GO, 4 for UNDECIDED, over all of --b the worst of these; with 1
    where something could not be measured, with 2 where it was not asked for rightly.
    """
    if aa and b:
        raise LabError("--aa compares A with a copy of itself: leave --b out")
    if plant and not aa:
        raise LabError("--plant is for --aa: it shows what a comparison of copies would find")
    seed = fresh(seed)
    request = ab.Request(
        cells=[cells.parse(text) for text in (a, *(b or []))],
        bench=bench_name,
        command=command,
        guards=guard or [],
        aim="neutral" if aa and not plant else aim,
        metric=metric,
        better=better,
        floor=floor,
        most=max_blocks,
        # Copies that stopped once B looks no slower would mostly stop on one side.
        first=max_blocks if aa and not plant else min_blocks,
        seconds=min_seconds,
        seed=seed,
        margin=0.01 if aa else margin,
        record=record,
        argv=again(seed),
        passed=given_to(command, passed, on),
        twins=aa,
        plant=plant,
    )
    require_ledger(record)
    outcomes = ab.run(request, terminal.new_console(), on)
    end(*outcomes)
    return end_with(d.verdict for outcome in outcomes for d in outcome.decisions.values())


def compare_command(
    command: Annotated[list[str] | None, typer.Argument(help="Your program, after --.")] = None,
    bench_name: Annotated[
        list[str] | None,
        complete.of_benchmark(
            "--bench", help="Instead of a program: a benchmark or pattern; repeatable."
        ),
    ] = None,
    suite: Annotated[
        bool, typer.Option("--suite", help="All benchmarks but the long ones, which --bench adds.")
    ] = False,
    programs: Annotated[
        bool,
        typer.Option("--programs", help="Real programs, those named or all; fetched if missing."),
    ] = False,
    lib: Annotated[str, complete.of_library(help="The cell that is compared.")] = "hakmem",
    rival: Rivals = None,
    metric: Metric = None,
    better: BetterIs = "lower",
    max_blocks: Annotated[
        int | None,
        typer.Option(
            min=LOOKS[0], max=LOOKS[-1], help="Blocks at most (default: 20; of benchmarks 30)."
        ),
    ] = None,
    min_seconds: Annotated[
        float | None, of_float(min=0, help="As for ab (default: 1; of benchmarks 0.2).")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with benchmarks that are not recorded yet.")
    ] = False,
    page: Annotated[
        Path | None, typer.Option(help="Write the table as an HTML page too, like `hakmem report`.")
    ] = None,
    seed: Seed = None,
    record: Record = True,
    passed: Pass = None,
    on: On = None,
) -> None:
    """Try hakmem on your own program, against the system's allocator and every peer found.

    Runs are interleaved; a rival that is decided is not run again. Example:
    hakmem compare -- python3 my_job.py

    The same over benchmarks, to a recorded table: hakmem compare --bench 'larson_*', or --suite;
    over real programs with inputs of ours: hakmem compare --programs jq g++, or all of them.

    Ends with 0 where hakmem was measured, whatever came out: a rival that fails is named, and left
    out. With 1 where hakmem or a row could not be measured.
    """
    if bench_name or suite or programs:
        if programs and (bench_name or suite):
            raise LabError("--programs and benchmarks are two tables: make one after the other")
        if on:
            raise LabError("--on is for one comparison: name a command, or take `hakmem ab`")
        given_to(None, passed)
        names = [*(bench_name or []), *(command or [])]
        late = next((name for name in names if name.startswith("-")), None)
        if late:
            raise LabError(f"options stand before names: put {late} in front of {names[0]}")
        asked = suite_run.Request(
            names=names,
            everything=suite,
            programs=programs,
            library=lib,
            rivals=rival or [],
            metric=metric,
            better=better,
            most=max_blocks or LOOKS[2 if programs else 3],
            seconds=0.2 if min_seconds is None else min_seconds,
            seed=seed,
            record=record,
            resume=resume,
            argv=without_seed(own_argv()),
        )
        return tables(asked, page)
    if resume or page:
        option = "--resume" if resume else "--page"
        raise LabError(f"{option} is for tables: --bench NAME, --suite or --programs")
    if not command:
        raise LabError(
            "which program? hakmem compare -- COMMAND …, or --bench NAME, --suite or --programs"
        )
    seed = fresh(seed)
    request = ab.Request(
        cells=[cells.parse(lib), *compare.rivals(rival or [])],
        command=command,
        metric=metric,
        better=better,
        most=max_blocks or LOOKS[2],
        seconds=1.0 if min_seconds is None else min_seconds,
        seed=seed,
        record=record,
        argv=again(seed),
        passed=given_to(command, passed, on),
    )
    require_ledger(record)
    return end_of_table(compare.run(request, terminal.new_console(), on))


def tables(asked: suite_run.Request, page: Path | None) -> None:
    """Runs a comparison of many rows, and writes a page if asked; exits with 1 unless all is
    good."""
    target = project.place(page, page, "--page") if page else None
    require_ledger(asked.record)
    finished = suite_run.run(asked, terminal.new_console())
    if target:
        from hakmem.report import cli as report  # imported late: report is built on paired

        report.write_run(target, finished.record, finished.whole, asked.record)
        print(f"written: {target}")
    if not finished.good:
        raise typer.Exit(1)


def baseline_command(
    numbers: Annotated[
        list[int] | None,
        typer.Argument(
            metavar="[OPS [SLOTS [SEED]]]",
            help="One random_mixed of your own instead of the suite's: its operations "
            "(40 million), its slots (8192), the seed of its random stream (1234567).",
        ),
    ] = None,
    span: Annotated[
        str | None, typer.Option("--range", help="MIN-MAX, sizes in bytes; default: 16-1040.")
    ] = None,
    runs: Annotated[int, typer.Option(min=3, max=60, help="Runs of each, at least.")] = 4,
    seed: Seed = None,
    record: Record = True,
    on: On = None,
) -> None:
    """What this host gives today: random_mixed under hakmem and the C library, and its spread.

    Each run is printed when it is measured, at the end the ratio with its interval.
    """
    seed = fresh(seed)
    mix = baseline.mix_of(numbers or [], span)
    require_ledger(record)
    end(*baseline.run(mix, runs, seed, record, again(seed), terminal.new_console(), on))
