"""The command `hakmem conformance`: every allocator held to the same promises."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hakmem import config, peers, project, terminal, words
from hakmem.cli import of_float
from hakmem.conformance import cases as case_module, trial
from hakmem.conformance.cases import Case
from hakmem.conformance.trial import Result
from hakmem.errors import LabError
from hakmem.ledger.store import Ledger, Record
from hakmem.paired import cells
from hakmem.paired.cells import Cell
from hakmem.paired.cli import Record as Keep, require_ledger
from hakmem.paired.recording import Facts
from hakmem.process import library
from hakmem.process.argv import own_argv
from hakmem.process.library import Library
from hakmem.process.provenance import NoiseMeter
from hakmem.process.settings import without_settings
from hakmem.terminal import progress_bar

PAGE = Path("docs") / "conformance.md"
SECURITY = Path("docs") / "security.md"
FAST_S, FULL_S = 120.0, 900.0
MISUSE_S = 5.0  # seconds: a program with a corrupted heap may loop


def command(
    allocator: Annotated[
        list[str] | None,
        typer.Option(
            "--allocator",
            help="NAME, PATH or NAME=PATH; default: the C library, hakmem, and every peer here.",
        ),
    ] = None,
    case: Annotated[list[str] | None, typer.Option("--case", help="Only these cases.")] = None,
    corruption: Annotated[
        bool,
        typer.Option(
            "--corruption",
            help="The programs of tests/world/corrupt instead: which misuse is found.",
        ),
    ] = False,
    fast: Annotated[bool, typer.Option("--fast", help="Fewer repetitions of everything.")] = False,
    profile: Annotated[
        list[str] | None,
        typer.Option("--profile", help="hakmem in this profile; `all` for each of them."),
    ] = None,
    timeout: Annotated[
        float | None,
        of_float(min=0.1, help="Seconds for a case (default: 900, fast 120, corruption 5)."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the record's body.")] = False,
    as_markdown: Annotated[
        bool,
        typer.Option(
            "--markdown",
            help="Print the page with its table: docs/conformance.md, or docs/security.md.",
        ),
    ] = False,
    check: Annotated[
        Path | None, typer.Option(help="Fail if this page is not what --markdown prints.")
    ] = None,
    record: Keep = True,
) -> None:
    """Hold allocators to the promises of tests/conformance: kept, broken and why, or not checked.

    Exit status 1 only if hakmem breaks one; of misuse it need not find all.
    """
    if check:
        print(case_module.check(check, Ledger.default()))
        return
    if as_markdown:
        page = project.source_dir() / (SECURITY if corruption else PAGE)
        print(case_module.markdown(page.read_text(encoding="utf-8"), Ledger.default()).rstrip())
        return
    require_ledger(record)
    chosen = case_module.chosen(case or [], corruption)
    contenders = _contenders(allocator or [], profile or [])
    if corruption and not profile:
        contenders = [one for found in contenders for one in _guarded(found)]
    console = terminal.new_console(stderr=as_json)
    sides = {one.name: one for one in contenders}
    facts, noise = Facts.of(sides, own_argv()), NoiseMeter()
    most_s = MISUSE_S if corruption else FAST_S if fast else FULL_S
    results = _run(chosen, contenders, fast, timeout or most_s, console)
    facts.require_unchanged(sides)
    show(results, console)
    body = {**_body(chosen, sides, results, fast, facts), "noise": noise.stop()}
    if record:
        console.print(f"recorded: {_save(body, results).id}")
    if as_json:
        print(json.dumps(body, indent=1))
    if _breaks(contenders, results) and not corruption:
        raise typer.Exit(1)


# ---- the allocators that are tried ----


def _contenders(names: Sequence[str], profiles: Sequence[str]) -> list[Cell]:
    chosen = [_find(name) for name in names] or [
        library.system(),
        library.hakmem(),
        *peers.found()[1:],
    ]
    found: list[Cell] = []
    for one in chosen:
        found += in_profiles(one, profiles) if one.origin == "hakmem" else [Cell(one.name, one)]
    labels = [contender.name for contender in found]
    if twice := {label for label in labels if labels.count(label) > 1}:
        raise LabError(f"named twice: {', '.join(sorted(twice))}; NAME=PATH tells them apart")
    return found


def _find(text: str) -> Library:
    name, equals, path = text.partition("=")
    if not equals:
        return cells.find(text)
    found = cells.from_file(project.require_file(Path(path), "library"))
    recipe = peers.recipes().get(name)  # the same variables as for our build of the peer
    return replace(found, name=name, env=recipe.env if recipe else {})


def in_profiles(ours: Library, profiles: Sequence[str]) -> Iterable[Cell]:
    """hakmem as it is, or once for each profile named. LabError: unknown profile."""
    if not profiles:
        return [Cell(ours.name, ours)]
    assert ours.path is not None
    listing = config.ask(ours.path, without_settings(os.environ))
    known = [profile.name for profile in listing.profiles]
    names = known if "all" in profiles else profiles
    if unknown := [name for name in names if name not in known]:
        raise LabError(f"unknown profile: {', '.join(unknown)}; known: {', '.join(known)}, all")
    return [Cell(f"{ours.name} {name}", ours, {"HAKMEM_PROFILE": name}) for name in names]


def _guarded(found: Cell) -> list[Cell]:
    """hakmem as it is, secure, and with every allocation sampled; a rival as it is."""
    if not found.is_hakmem:
        return [found]
    settings: dict[str, dict[str, str]] = {
        "secure": {"HAKMEM_PROFILE": "secure"},
        "sampled": {"HAKMEM_GUARD_SAMPLE": "1"},
    }
    return [
        found,
        *(Cell(f"{found.name} {name}", found.library, s) for name, s in settings.items()),
    ]


# ---- the trials ----


def _run(
    chosen: Sequence[Case],
    contenders: Sequence[Cell],
    fast: bool,
    timeout_s: float,
    console: Console,
) -> list[Result]:
    results = []
    with progress_bar(console) as progress:
        task = progress.add_task("", total=len(chosen) * len(contenders))
        for contender in contenders:
            for case in chosen:
                progress.update(task, description=f"{contender.name}: {case.name}")
                results.append(trial.run(case, contender, fast, timeout_s))
                progress.advance(task)
    return results


def _breaks(contenders: Iterable[Cell], results: Sequence[Result]) -> int:
    """How many promises hakmem breaks, over all settings in which it was tried."""
    ours = {contender.name for contender in contenders if contender.is_hakmem}
    return sum(result.state == "broken" and result.allocator in ours for result in results)


# ---- the record ----


def _body(
    chosen: Sequence[Case],
    sides: Mapping[str, Cell],
    results: Sequence[Result],
    fast: bool,
    facts: Facts,
) -> dict[str, object]:
    broken = _breaks(sides.values(), results)
    return {
        **facts.stated(),
        "what": f"{len(chosen)} promises, {len(sides)} allocators: hakmem breaks {broken}",
        "fast": fast,
        "corruption": all(case.is_misuse for case in chosen),
        "cases": {
            case.name: {"promise": case.promise, "definition": case.definition} for case in chosen
        },
        "binary": [
            {**facts.binaries[name], "settings": dict(one.environment)}
            for name, one in sides.items()
        ],
        "standings": {
            f"{result.allocator}, {result.case}": {"verdict": result.state, **result.to_dict()}
            for result in results
        },
        "metrics": {
            f"{name} {what}": {"value": value, "unit": "promises"}
            for name, both in tally(results).items()
            for what, value in zip(("kept", "checked"), both, strict=True)
        },
    }


def _save(body: dict[str, object], results: Sequence[Result]) -> Record:
    raw = "".join(
        f"== {result.allocator}, {result.case}\n{result.output}\n"
        for result in results
        if result.output
    )
    return Ledger.default().append("conformance", body, {"stderr.txt": raw.encode()})


def tally(results: Sequence[Result]) -> dict[str, tuple[int, int]]:
    """For each allocator how many promises it keeps, and how many could be checked."""
    states: dict[str, list[str]] = {}
    for result in results:
        states.setdefault(result.allocator, []).append(result.state)
    return {name: (s.count("kept"), len(s) - s.count("not checked")) for name, s in states.items()}


def table(results: Sequence[Result], numbered: bool = False) -> Table:
    """A row for each promise, a column for each allocator: its name and sum, or a number."""
    cases = dict.fromkeys(result.case for result in results)
    states = {(result.case, result.allocator): result.state for result in results}
    made = Table(show_footer=not numbered, pad_edge=not numbered, padding=(0, 0 if numbered else 1))
    made.add_column("promise", footer="kept, of those checked", no_wrap=True)
    told = tally(results)
    for number, (allocator, (kept, checked)) in enumerate(told.items(), 1):
        heading, sums = str(number) if numbered else allocator, f"{kept}/{checked}"
        made.add_column(Text(heading), footer=sums, justify="center", no_wrap=True)
    for case in cases:
        row = (states[case, allocator] for allocator in told)
        made.add_row(case, *(terminal.state(state, words.mark(state)) for state in row))
    return made


def show(results: Sequence[Result], console: Console) -> None:
    """Prints the table, with numbers for names where the console is too narrow for them."""

    def forms() -> Iterator[tuple[Table, Text | None]]:
        yield table(results), None
        sums = (f"{name}: {kept}/{checked}" for name, (kept, checked) in tally(results).items())
        named = "\n".join(f"{number:>3} {said}" for number, said in enumerate(sums, 1))
        yield table(results, numbered=True), Text(named)

    console.print(terminal.Fitting(forms))
    for state in ("broken", "not checked"):
        for result in results:
            if result.state == state:
                line = terminal.state(state, words.mark(state))
                line.append(f" {result.allocator}, {result.case}: ", style="bold")
                console.print(line.append(result.reason, style="not bold"), soft_wrap=True)
    ours = "✓ kept   ✗ broken   – not checked here"
    console.print(Text(ours, style="dim"))
