"""The command line `hakmem matrix`, and the record of a finished one."""

import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from hakmem import project, terminal
from hakmem.cli import of_float
from hakmem.errors import LabError
from hakmem.ledger.store import Ledger
from hakmem.matrix import plan as matrix_plan, run as matrix, view
from hakmem.matrix.plan import Matrix
from hakmem.matrix.rules import Result
from hakmem.matrix.run import PAGE, Finished
from hakmem.paired.cli import Record, require_ledger
from hakmem.report import cli as report
from hakmem.soak import session


def command(
    file: Annotated[str, typer.Argument(help="A TOML file, or one of the lab's own: lean.")],
    scale: Annotated[
        float, of_float(min=1e-6, max=1, help="Shrinks all lengths: a rehearsal.")
    ] = 1.0,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the run (default: out/matrix-NAME).")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Of the order; default: random.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Forget the run in the folder.")] = False,
    plan: Annotated[bool, typer.Option("--plan", help="Only say what would be run.")] = False,
    record: Record = True,
) -> None:
    """Run modes through stages with pass rules, and end in GO, NO-GO or UNDECIDED.

    A run that was interrupted goes on where it stopped when the same command is given again.
    Exit status 0 for GO only. Keys and rules: docs/matrix.md.
    """
    path = matrix_plan.find(file)
    asked = matrix_plan.scaled(matrix_plan.load(path), scale)
    require_ledger(record and not plan)
    console = terminal.new_console()
    view.print_plan(console, asked, matrix.expected_s(asked))
    if plan:
        return
    folder = project.place(out, Path("out") / f"matrix-{path.stem}", folder=True)
    if fresh:
        _forget(folder)
    finished = matrix.run(asked, folder, seed, console)
    view.print_conclusion(console, asked, finished.conclusion)
    made = body(asked, finished)
    if record:
        if finished.state.record is None:
            finished.state.record = save(made, finished, path)
            finished.state.save()
        console.print(f"recorded: {finished.state.record}")
    report.write_matrix(folder / PAGE, made, finished.state.record)
    terminal.say(console, f"written: {folder / PAGE}")
    if finished.conclusion.verdict != "GO":
        raise typer.Exit(1)


def _forget(folder: Path) -> None:
    """Removes the folder of a run; LabError where it holds something else."""
    if folder.is_dir() and not (folder / "state.json").is_file() and any(folder.iterdir()):
        raise LabError(f"{folder} holds no run of a matrix: choose another folder with --out")
    shutil.rmtree(folder, ignore_errors=True)


def save(made: dict[str, Any], finished: Finished, path: Path) -> str:
    state = finished.state
    csvs = sorted(cell["csv"] for cell in state.cells.values() if "csv" in cell)
    raw = {name: (state.folder / name).read_bytes() for name in csvs}
    raw |= {"state.json": state.dump().encode(), path.name: path.read_bytes()}
    return Ledger.default().append("matrix", made, raw).id


def body(asked: Matrix, finished: Finished) -> dict[str, Any]:
    """The record: definition, evidence in figures, every judgement, the verdict."""
    facts, failure = finished.facts, finished.failure
    binaries = {(found["name"], found["path"]): found for found in facts.binaries.values()}
    return {
        "title": asked.title,
        "definition": asked.digest,
        "scale": asked.scale,
        "rehearsal": asked.scale < 1,
        "clock": asked.clock,
        "baseline": asked.baseline,
        "benchmarks": session.benchmarks([str(matrix.program(asked)), *asked.command[1:]]),
        "modes": {name: asdict(mode) for name, mode in asked.modes.items()},
        "stages": [_stage(result) for result in finished.results],
        "standings": {
            name: {"verdict": verdict, "why": why}
            for name, (verdict, why) in finished.conclusion.modes.items()
        },
        "metrics": metrics(finished),
        "verdict": finished.conclusion.verdict,
        "why": finished.conclusion.why,
        "seed": finished.state.seed,
        **facts.stated(),
        **({"failures": {asked.baseline: failure}, "ok": False} if failure else {}),
        "binary": list(binaries.values()),  # each library once, although several modes may have it
    }


def _stage(result: Result) -> dict[str, Any]:
    return {
        "stage": asdict(result.stage),
        "judged": {name: [*map(asdict, found)] for name, found in result.judged.items()},
        "going": list(result.going),
        "left_out": dict(result.left_out),
    }


def metrics(finished: Finished) -> dict[str, dict[str, object]]:
    """By stage and mode: the ratio of throughput with its bounds, and the soak's own figures."""
    found: dict[str, dict[str, object]] = {}
    for result in finished.results:
        for name in result.judged:
            where = f"stage {result.stage.name}/{name}"
            if name in result.ratios:
                found[f"{where}/throughput"] = {
                    **vars(result.ratios[name]),
                    "unit": "ratio",
                    "verdict": finished.conclusion.modes[name][0],
                }
            seen = result.evidence[name].analysis
            if seen is not None:
                of_soak = session.metrics(seen)
                found |= {f"{where}/soak {metric}": entry for metric, entry in of_soak.items()}
    return found
