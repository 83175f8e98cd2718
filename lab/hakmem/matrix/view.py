"""A matrix in the terminal."""

from rich.console import Console
from rich.text import Text

from hakmem import terminal, words
from hakmem.matrix.plan import Clock, Matrix
from hakmem.matrix.rules import OF_CLOCK, RULES, Conclusion, Judgement, Result
from hakmem.paired.session import duration


def print_plan(console: Console, matrix: Matrix, seconds: float) -> None:
    console.print(matrix.title, markup=False)
    for stage in matrix.stages:
        who = "those still in" if stage.modes is None else ", ".join(stage.modes)
        keep = f"; at most {stage.keep} go on" if stage.keep else ""
        pairs = f" and {stage.rounds} rounds of pairs of {stage.pair_s:g} s" if stage.rounds else ""
        said = f"  stage {stage.name}: {who}: {duration(stage.seconds)}{pairs}{keep}"
        console.print(said, markup=False)
    console.print(f"about {duration(seconds)} if as many go on as there is room for")
    say_rehearsal(console, matrix)


def say_rehearsal(console: Console, matrix: Matrix) -> None:
    if matrix.scale < 1:
        console.print(
            f"[bold yellow]A rehearsal:[/] all lengths × {matrix.scale:g}; its verdict is no "
            "evidence for the full length"
        )


def print_stage(console: Console, result: Result, matrix: Matrix) -> None:
    """A row for each mode: its soak's throughput, its state under every rule, why it is out."""
    seen = {judgement.rule for found in result.judged.values() for judgement in found}
    rules = [rule for rule in RULES if rule in seen]
    title = Text(f"stage {result.stage.name}, {duration(result.stage.seconds)}")
    speed = ">M ops/s" + "\nby CPU" * (matrix.clock == "cpu")
    titles = ("mode", speed, ">its CV", *rules, "")
    table = terminal.table(*titles, title=title, title_justify="left")
    for name, found in result.judged.items():
        by_rule = {judgement.rule: judgement for judgement in found}
        cells = [_cell(by_rule.get(rule)) for rule in rules]
        out = result.left_out.get(name, "")
        table.add_row(
            Text(name), *_speed(result, name, matrix.clock), *cells, Text(out, style="dim")
        )
    console.print(table)
    broken = [j.rule for j in result.judged.get(matrix.baseline, ()) if j.state == "broken"]
    if broken:
        console.print(
            f"[yellow]The baseline itself broke {', '.join(broken)}:[/] the host or the rule is to "
            "blame as well; the rule holds all the same"
        )


def _speed(result: Result, name: str, clock: Clock) -> tuple[str, str]:
    """Mean and CV of the soak's epochs: a description, for only the pairs compare modes."""
    analysis = result.evidence[name].analysis
    seen = analysis and analysis.distributions.get(OF_CLOCK[clock])
    return (words.number(seen.mean / 1e6), f"{100 * seen.cv:.1f} %") if seen else ("–", "–")


def _cell(judgement: Judgement | None) -> Text:
    if judgement is None:
        return Text("")
    look = words.LOOKS[judgement.state]
    return Text(f"{look.sign} {judgement.words}", style=look.style)


def print_conclusion(console: Console, matrix: Matrix, conclusion: Conclusion) -> None:
    for name, (verdict, why) in conclusion.modes.items():
        console.print(Text(f"{name}: "), terminal.state(verdict), f"({why})")
    say_rehearsal(console, matrix)
    console.print(terminal.state(conclusion.verdict), conclusion.why)
