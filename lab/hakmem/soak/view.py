"""A soak in the terminal: while it runs, and what its analysis says."""

import math
from collections.abc import Mapping

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from hakmem import terminal, words
from hakmem.paired.session import duration
from hakmem.soak.analysis import BLOCKS, CV_GATE, Analysis, Distribution, Drift

SHOWN = 240  # epochs in the live charts
NOT_CARRIED = "*"

# Column: its name here, its unit, and the factor from the column's unit to that.
NAMES = {
    "ops_per_s": ("throughput", "M ops/s", 1e-6),
    "ops_per_cpu_s": ("throughput by CPU", "M ops/s", 1e-6),
    "rss_kb": ("resident", "MiB", 1 / 1024),
    "resident_kb": ("without lazily freed", "MiB", 1 / 1024),
    "lazyfree_kb": ("lazily freed", "MiB", 1 / 1024),
    "anon_kb": ("anonymous", "MiB", 1 / 1024),
    "anonhuge_kb": ("in huge pages", "MiB", 1 / 1024),
    "live_kb": ("live", "MiB", 1 / 1024),
    "committed_kb": ("committed", "MiB", 1 / 1024),
    "ns_per_op": ("time per operation", "ns", 1),
}


def shown(name: str, value: float | None, unit: bool = True) -> str:
    """A column's value as a person reads it."""
    if value is None or not math.isfinite(value):
        return "–"
    _, of, factor = NAMES[name]
    return f"{words.number(value * factor)} {of}" if unit else words.number(value * factor)


class Watch:
    """The live view; where the console is no terminal it shows nothing."""

    def __init__(self, console: Console, title: str, seconds: float | None) -> None:
        self._title, self._seconds = title, seconds
        self._columns: dict[str, list[float]] = {}
        self._live = Live(console=console, refresh_per_second=4, transient=True)
        self._seen = console.is_terminal

    def __enter__(self) -> "Watch":
        if self._seen:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._seen:
            self._live.stop()

    def update(self, row: Mapping[str, float]) -> None:
        for name, value in row.items():
            self._columns.setdefault(name, []).append(value)
        if self._seen:
            self._live.update(self._picture(row))

    def _picture(self, row: Mapping[str, float]) -> RenderableType:
        at = row["t_s"]
        length = f" of {duration(self._seconds)}" if self._seconds else ""
        known = [name for name in NAMES if name in row]
        table = terminal.table(*(f">{NAMES[name][0]}" for name in known), header_style="dim")
        table.add_row(*(shown(name, row[name]) for name in known))
        try:
            charts = [self._chart(name) for name in ("ops_per_s", "rss_kb") if name in row]
        except ImportError:  # Debian has no package of plotext
            charts = [Text("no curves: Python's plotext is not installed", style="dim")]
        return Group(
            Text(f"{self._title}: {duration(at)}{length}, epoch {row['epoch']:.0f}", style="bold"),
            table,
            *charts,
        )

    def _chart(self, name: str) -> Text:
        import plotext  # imported late: slow to load, and only a terminal needs it

        title, unit, factor = NAMES[name]
        values = [value * factor for value in self._columns[name][-SHOWN:]]
        figure = plotext.figure
        figure.clear()
        figure.plot_size(min(self._live.console.width, 110), 9)
        figure.title(f"{title}, {unit}")
        line = figure.signal(self._columns["t_s"][-SHOWN:], values, marker="braille")
        line.lines()
        figure.draw(line)
        return Text(plotext.uncolorize(str(figure.build())))


def print_analysis(console: Console, analysis: Analysis) -> None:
    """Everything the analysis says, with what it cannot say."""
    console.print(
        f"{analysis.epochs} epochs in {duration(analysis.run_s)}; judged are the last "
        f"{analysis.used}, the first quarter is warm-up"
    )
    console.print(_table(analysis))
    if analysis.distributions:
        console.print(_distributions(analysis))
        console.print(*not_carried(analysis))
    for line in remarks(analysis):
        console.print(line)


def levels(analysis: Analysis) -> list[dict[str, str]]:
    """For each column the plateau and, where it is judged, the drift with its margin and state."""
    made = []
    for name in (name for name in NAMES if name in analysis.plateau):
        row = {"name": NAMES[name][0], "plateau": shown(name, analysis.plateau[name])}
        if drift := analysis.drift.get(name):
            row["margin"] = shown(name, drift.margin, unit=False)
            row |= {"drift": drift_words(name, drift), "state": drift.state}
        made.append(row)
    return made


def _table(analysis: Analysis) -> Table:
    table = terminal.table("after warm-up", ">plateau", ">drift per run", "")
    for row in levels(analysis):
        judged: list[Text | str] = []
        if "state" in row:
            allowed = Text(f" (margin {row['margin']})", style="dim")
            state = terminal.state(row["state"], words.marked(row["state"]))
            judged = [row["drift"], state + allowed]
        table.add_row(row["name"], row["plateau"], *judged)
    return table


def drift_words(name: str, drift: Drift) -> str:
    """The drift with its interval, in the unit of the plateau beside it."""
    if drift.blocks == 0:
        return f"under {BLOCKS} epochs"
    middle, *ends = (shown(name, v, unit=False) for v in (drift.per_run, drift.low, drift.high))
    return f"{middle} [{' … '.join(ends)}]"


def figures(column: str, found: Distribution) -> dict[str, str]:
    """A column's distribution in its unit; percentiles that the epochs do not carry are marked."""
    mean, sd, least, most = (
        shown(column, value, unit=False)
        for value in (found.mean, found.sd, found.minimum, found.maximum)
    )
    percentiles = {
        name: shown(column, p.value, unit=False) + NOT_CARRIED * (not p.carried)
        for name, p in found.percentiles.items()
    }
    cv = f"{100 * found.cv:.2f} %"
    return {"mean": mean, "sd": sd, "CV": cv, "minimum": least, **percentiles, "maximum": most}


def not_carried(analysis: Analysis) -> list[str]:
    """The footnote of the marked percentiles, if there are any."""
    needs = {
        name: p.needs
        for found in analysis.distributions.values()
        for name, p in found.percentiles.items()
        if not p.carried
    }
    each = ", ".join(f"{name} (needs {least})" for name, least in needs.items())
    said = f"{NOT_CARRIED} not supported with {analysis.used} epochs, may be worse: {each}"
    return [said] if needs else []


def distribution_lines(analysis: Analysis) -> list[str]:
    """The table of distributions, as a line for each column."""
    return [
        f"{NAMES[name][0]} of the epochs, {NAMES[name][1]}: "
        + ", ".join(f"{label} {text}" for label, text in figures(name, found).items())
        for name, found in analysis.distributions.items()
    ] + not_carried(analysis)


def _distributions(analysis: Analysis) -> Table:
    titles = (">" + "\n".join(NAMES[name][:2]) for name in analysis.distributions)
    table = terminal.table("of the epochs", *titles)
    columns = [figures(name, found) for name, found in analysis.distributions.items()]
    percentiles = {p for found in analysis.distributions.values() for p in found.percentiles}
    by_size = sorted(percentiles, key=lambda name: float(name[1:]))
    for label in ("mean", "sd", "CV", "minimum", *by_size, "maximum"):
        table.add_row(label, *(column.get(label, "") for column in columns))
    return table


def remarks(analysis: Analysis) -> list[str]:
    """One line each: spread, steps, calls, processor time, and how the file was read."""
    lines = []
    for name, spread in analysis.spread.items():
        classic, robust = 100 * spread.cv, 100 * spread.robust_cv
        gate = ""
        if name.startswith("ops"):
            gate = f": {'within' if spread.cv < CV_GATE else 'NOT within'} the gate of 5 %"
        lines.append(f"CV of {NAMES[name][0]}: {classic:.2f} %, robust {robust:.2f} %{gate}")
    for name, found in analysis.changes.items():
        lines += [
            f"{NAMES[name][0]} changed at {duration(change.t_s)}: {shown(name, change.before)} → "
            f"{shown(name, change.after)}"
            for change in found
        ]
    calls = analysis.calls_per_op
    counted = "not counted" if calls is None else f"{calls:.2g} per operation, start to end"
    lines.append(f"system calls of the allocator: {counted}")
    if analysis.cpu_share is not None:
        lines.append(f"processor time: {100 * analysis.cpu_share:.1f} % of one processor")
    return [*lines, *(f"note: {remark}" for remark in analysis.remarks)]
