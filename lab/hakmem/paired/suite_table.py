"""A suite (suite_record.joined) as a table, in Markdown or for the terminal. Pure; shows losses
like wins.

The best rival of a row is the one that hakmem does worst against over all blocks; "÷ oracle" is
against the rival that suite_record chose on other blocks than those it is scored on.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import geometric_mean
from typing import Any

from hakmem import pages, suite, words
from hakmem.ledger.claims import interval, value
from hakmem.paired.oracle import ORACLE
from hakmem.paired.suite_record import CPU, MEMORY, TIME, TITLES as TITLE_OF, metric_name, rivals_of
from hakmem.process.library import SYSTEM

NONE = "–"
JUDGED = ("win", "tie", "loss", "undecided")
OF_GROSS = (ORACLE, SYSTEM)  # against these, rows above a floor are also shown gross
ALL = "the system's allocator · the least of all rivals, whichever that is there"


@dataclass(frozen=True)
class Line:
    """One row as it is shown, and the words on time and memory (best and leanest rival)."""

    cells: tuple[str, ...]
    time: str | None
    memory: str | None


def subject(body: Mapping[str, Any]) -> str:
    """The name of the cell that is compared: hakmem, or what a setting of it was called."""
    return str(body.get("subject") or body["rows"][0]["subject"])


def rivals(body: Mapping[str, Any]) -> list[str]:
    """The rivals of all rows, in the order of the rows."""
    of_rows = [*map(rivals_of, body["rows"]), *left_out(body).values()]
    return list(dict.fromkeys(chain.from_iterable(of_rows)))


def left_out(body: Mapping[str, Any]) -> Mapping[str, Mapping[str, str]]:
    """The rows that all rivals failed, with each one's reason; older records do not have them."""
    return body.get("left_out") or {}


def sole_rival(body: Mapping[str, Any]) -> str | None:
    """The only rival, or None if there are several: the titles name it, instead of each row."""
    names = rivals(body)
    return names[0] if len(names) == 1 else None


def titles(body: Mapping[str, Any]) -> tuple[str, ...]:
    """The titles of a line's cells."""
    rival = sole_rival(body)
    best, leanest = (rival, rival) if rival else ("best rival", "leanest rival")
    time = ("benchmark", subject(body), best, f"÷ {best}", "÷ oracle", "÷ system")
    return (*time, "peak MiB", leanest, f"÷ {leanest}", "÷ oracle")


def lines(body: Mapping[str, Any]) -> list[Line]:
    """All rows by name; then those that all rivals failed; last those that hakmem failed."""
    rows = in_order(body["rows"])
    made = [_line(row, body["metrics"], sole_rival(body) is not None) for row in rows]
    gaps = (NONE,) * (len(titles(body)) - 3)
    made += [Line((name, NONE, "failed", *gaps), None, None) for name in left_out(body)]
    return made + [Line((name, "failed", NONE, *gaps), None, None) for name in body["failures"]]


def in_order(rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The rows by the names of their benchmarks; numbers in names count as numbers."""

    def key(row: Mapping[str, Any]) -> list[tuple[int, int | str]]:
        parts = row["benchmark"].split("_")
        return [(0, int(part)) if part.isdigit() else (1, part) for part in parts]

    return sorted(rows, key=key)


def best_rival(row: Mapping[str, Any], metrics: Mapping[str, Any], kind: str = TIME) -> str | None:
    """The rival that hakmem does worst against by the paired ratios: among those that have beaten
    it, else among all; None where there is none. (Plain means would mislead: a rival that was
    decided early was measured in a shorter stretch of time.)"""
    more = kind == TIME and row["better"] == "higher"
    names = ((name, metric_name(row["benchmark"], kind, name)) for name in row["figures"])
    found = {rival: metrics.get(name) for rival, name in names}
    worst = {
        rival: (entry["verdict"] == "loss", -value(entry) if more else value(entry))
        for rival, entry in found.items()
        if entry
    }
    return max(worst, key=lambda rival: worst[rival], default=None)


def _line(row: Mapping[str, Any], metrics: Mapping[str, Any], alone: bool) -> Line:
    name = row["benchmark"]
    own, figures = row["subject"], row["figures"]
    best, lean = best_rival(row, metrics), best_rival(row, metrics, MEMORY)

    def entry(kind: str, rival: str | None) -> Mapping[str, Any] | None:
        return metrics.get(metric_name(name, kind, rival)) if rival else None

    def of(figure: str, rival: str) -> str:
        return figure if alone else f"{figure} {rival}"

    time, memory = entry(TIME, best), entry(MEMORY, lean)
    cells = (
        name,
        f"{words.number(figures[own]['value'])} {row['unit']}",
        of(words.number(figures[best]["value"]), best) if best else NONE,
        ratio(time),
        ratio(entry(TIME, ORACLE)),
        ratio(entry(TIME, SYSTEM)),
        _mib(figures[own]["memory_kb"]) if memory else NONE,
        of(_mib(figures[lean]["memory_kb"]), lean) if lean else NONE,
        ratio(memory),
        ratio(entry(MEMORY, ORACLE)),
    )
    return Line(cells, *(found["verdict"] if found else None for found in (time, memory)))


def _mib(kib: float) -> str:
    return words.number(kib / 1024)


def ratio(entry: Mapping[str, Any] | None) -> str:
    """The text of a cell: mark, if the ratio was judged, ratio and interval."""
    if entry is None:
        return NONE
    found = interval(entry)
    mark = f"{words.mark(entry['verdict'])} " if "verdict" in entry else ""
    return f"{mark}{words.ratio(found)} {words.ends(found)}"


def markdown(body: Mapping[str, Any], time: str) -> str:
    """The table in Markdown, then its notes, then the tables of further figures."""
    head = (titles(body), ("---", "--:", "---", *["--:"] * 4, "---", "--:", "--:"))
    table = "".join(map(pages.row, (*head, *(line.cells for line in lines(body)))))
    said = list(notes(body, time))
    rival = sole_rival(body)
    for what, columns in (("program", MORE), ("benchmark", LATENCIES)):
        rows = [row for row in in_order(body["rows"]) if _has(row, columns)]
        if rows:
            said += [
                f"Means of all runs, of the row's own figure without the worst tenth; in each cell "
                f"**{subject(body)}** · {rival or ALL}.",
                figures(what, rows, columns, rival),
            ]
    return "\n\n".join(part.rstrip() for part in (table, *said)) + "\n"


# Columns of a table of further figures: title, key in a row's figures, factor to the unit shown.
# The title of the row's own figure, "value", is "": the reading of the first row is its title.
Columns = Sequence[tuple[str, str, float]]

# Columns of a program.
MORE: Columns = (
    ("", "value", 1.0),
    ("wall s", "wall", 1.0),
    ("system s", "sys", 1.0),
    ("page faults", "faults", 1.0),
    ("peak MiB", "memory_kb", 1 / 1024),
    ("MB·s", "mbs", 1.0),
    ("MiB after the quiet", "quiet", 1.0),
)
# Columns of a benchmark of single calls, in nanoseconds.
LATENCIES: Columns = tuple(
    ("", "value", 1.0) if name == "free_p9999" else (f"{name.replace('_', ' ')} ns", name, 1.0)
    for name in suite.LATENCIES
)


def _has(row: Mapping[str, Any], columns: Columns) -> bool:
    """Whether the row has the figure of the second column; then it has these columns."""
    return columns[1][1] in row["figures"][row["subject"]]


def figures(
    what: str, rows: Sequence[Mapping[str, Any]], columns: Columns, rival: str | None = None
) -> str:
    """A Markdown table of further figures of rows whose own figures are of one kind. A cell has
    hakmem, the system's allocator and the least of all rivals; or hakmem and its one rival."""
    own = f"{rows[0]['reading']}, {rows[0]['unit']}"
    made = [(what, *(title or own for title, _, _ in columns)), ("---", *["--:"] * len(columns))]
    for row in rows:
        cells = [_means(row, key, factor, rival) for _, key, factor in columns]
        made.append((row["benchmark"], *cells))
    return "".join(map(pages.row, made))


def _means(row: Mapping[str, Any], key: str, factor: float, rival: str | None) -> str:
    own, figures = row["subject"], row["figures"]
    known = {name: f[key] * factor for name, f in figures.items() if f.get(key) is not None}
    if own not in known:
        return NONE
    if rival:
        return f"**{words.number(known[own])}** · {words.number(known.get(rival))}"
    rivals = {name: value for name, value in known.items() if name != own}
    system = words.number(known.get(SYSTEM))
    least = min(rivals, key=lambda name: rivals[name], default=None)
    best = f"{words.number(rivals[least])} {least}" if least else NONE
    return f"**{words.number(known[own])}** · {system} · {best}"


def notes(body: Mapping[str, Any], time: str) -> Iterator[str]:
    """The notes below the table, in sentences. `time` is when the record was made, UTC."""
    yield tally(body)
    yield words.TIE
    yield from against_oracle(body)
    yield from above_floors(body)
    if body.get("absent"):
        yield f"Not here, and left out: {', '.join(body['absent'])}."
    gone = [f"{benchmark}: {who} ({why})" for benchmark, who, why in failures(body)]
    if gone:
        yield f"Failed and left out: {'; '.join(' '.join(text.split()) for text in gone)}."
    yield from conditions(body)
    least, most = body["blocks"]
    blocks = f", {most if least == most else f'{least} to {most}'} blocks each" if most else ""
    there = ", ".join(
        f"{name} {library['version']}"
        for name, library in sorted(body["libraries"].items())
        if library["origin"] != "hakmem" or name in rivals(body)
    )
    commit = str(body["source"]["commit"])[:10]
    cpu = (body.get("host") or {}).get("cpu")
    on = f" on {cpu}" * bool(cpu)
    yield f"Measured {time[:10]}{on} at commit {commit}{blocks}. Rivals: {there}."


def conditions(body: Mapping[str, Any]) -> Iterator[str]:
    """Notes on conditions that a reader of the ratios has to know."""
    hidden = [f"{r['benchmark']} ({', '.join(r['hidden'])})" for r in body["rows"] if r["hidden"]]
    if hidden:
        yield f"No peak is compared where one is not above the launcher's own: {', '.join(hidden)}."
    if body.get("settings"):
        told = ", ".join(f"{name}={value}" for name, value in sorted(body["settings"].items()))
        yield f"Measured with {told}."


def failures(body: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """(row, name of the cell that failed, reason): first the subject's failures, then rivals'."""
    for benchmark, why in body["failures"].items():
        yield benchmark, subject(body), why
    by_row = {row["benchmark"]: row["left_out"] for row in body["rows"]} | {**left_out(body)}
    for benchmark, whys in by_row.items():
        for rival, why in whys.items():
            yield benchmark, rival, why


def means(body: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The geometric means over the rows against the oracle, by title."""
    found = {title: metric_name(title, TIME, ORACLE) for title in TITLE_OF.values()}
    metrics = body["metrics"]
    return {title: metrics[name] for title, name in found.items() if name in metrics}


def against_oracle(body: Mapping[str, Any]) -> Iterator[str]:
    """A sentence with these means, where there is more than one row."""
    found = means(body)
    if len(body["rows"]) > 1 and found:
        said = ", ".join(f"{ratio(m)} of its {title} ({m['rows']})" for title, m in found.items())
        yield (
            f"Against the oracle, the best rival of each row (chosen on one half of its blocks, "
            f"scored on the other), {subject(body)} needs {said}: geometric means over so many "
            f"rows, memory being the peak.{of_whole_time(body)}"
        )


def of_whole_time(body: Mapping[str, Any]) -> str:
    """How rows above a floor enter the means of times, as a sentence; "" without such rows."""
    entered = {row["means"][TIME] for row in body["rows"] if row["floor"]}
    left_out = "are left out, for their whole time was not recorded"
    said = {CPU: "enter with all of their time", None: left_out}
    how = " and ".join(said[kind] for kind in said if kind in entered)
    return f" The means are of whole times: rows above a floor {how}." if entered else ""


def above_floors(body: Mapping[str, Any]) -> Iterator[str]:
    """A sentence on the rows whose own ratios are net: their gross ratios against OF_GROSS."""
    said = []
    for row in in_order(body["rows"]):
        found = [(n, body["metrics"].get(metric_name(row["benchmark"], CPU, n))) for n in OF_GROSS]
        shown = [f"{ratio(entry)} of {name}'s" for name, entry in found if entry]
        if row["floor"] and shown:
            said.append(f"{row['benchmark']} {', '.join(shown)}")
    if said:
        yield f"With all of their CPU time, the rows above a floor: {'; '.join(said)}."


def tally(body: Mapping[str, Any]) -> str:
    """A sentence that counts in how many rows hakmem was better, the same, worse or undecided."""
    shown = lines(body)

    def count(found: list[str]) -> str:
        number = Counter(found)
        return ", ".join(f"{number[w]} {words.mark(w)}" for w in JUDGED if number[w])

    time = count([line.time for line in shown if line.time])
    memory = count([line.memory for line in shown if line.memory])
    rival = sole_rival(body)
    parts = [f"against {rival or 'the best rival'} {time}"] if time else []
    parts += [f"in peak memory against {rival or 'the leanest'} {memory}"] if memory else []
    over = f"{len(shown)} row{'s' * (len(shown) > 1)}"
    return f"{subject(body)} over {over}: {'; '.join(parts) or 'nothing'}."


# ---- two or more suites as one picture: hakmem ÷ each rival, in time and in peak memory ----

# A dot is a benchmark or a real program; left of 1 hakmem needs less. What lies beyond the scale is
# drawn at its end. The mark is the geometric mean of a rival's dots.
LOW, HIGH = 1 / 8, 4.0
TICKS = (1 / 8, 1 / 4, 1 / 2, 1.0, 2.0, 4.0)
LEFT, PANEL, GAP, TOP, ROW, RADIUS = 120.0, 410.0, 40.0, 96.0, 42.0, 3.6
# Offsets to try, in order, for a dot that would lie on another one.
OFFSETS = (0.0, -7.0, 7.0, -14.0, 14.0)


def svg(bodies: Sequence[Mapping[str, Any]], times: Sequence[str]) -> str:
    """The picture of suites as suite_record.joined has them; `times` are those of their records."""
    names = sorted({name for body in bodies for name in rivals(body)})
    panels = [
        (title, left, list(_rows(bodies, names, kind, left)))
        for title, kind, left in (("time", TIME, LEFT), ("peak memory", MEMORY, LEFT + PANEL + GAP))
    ]
    commits = sorted({str(body["source"]["commit"])[:10] for body in bodies})
    days = sorted({time[:10] for time in times})
    return pages.render(
        "picture.svg.j2",
        panels=panels,
        ticks=[(words.number(tick), pages.Axis(LOW, HIGH, 0, PANEL).x(tick)) for tick in TICKS],
        width=LEFT + 2 * PANEL + GAP + 20,
        top=TOP,
        end=TOP + ROW * len(names),
        radius=RADIUS,
        rows=sum(len(body["rows"]) for body in bodies),
        programs=sum(len(body["rows"]) for body in bodies if body["programs"]),
        measured=f"{', '.join(days)} at {', '.join(commits)}",
    )


def _rows(
    bodies: Sequence[Mapping[str, Any]], rivals: Iterable[str], kind: str, left: float
) -> Iterator[dict[str, Any]]:
    """A row of the picture for each rival: its dots, with titles for a browser, and their mean."""
    axis = pages.Axis(LOW, HIGH, left, left + PANEL)
    for at, rival in enumerate(rivals):
        found = sorted(_ratios(bodies, rival, kind))
        middle = TOP + ROW * (at + 0.5)
        mean = geometric_mean(ratio for ratio, *_ in found) if found else 1.0
        dots: list[dict[str, Any]] = []
        for ratio, name, program in found:
            x = axis.x(ratio)
            y = _free(x, [middle + offset for offset in OFFSETS], dots)
            title = f"{name}: {words.number(ratio)} of {rival}"
            dots.append({"x": x, "y": y, "title": title, "program": program})
        mark = {"mean_x": axis.x(mean), "mean": f"{words.number(mean)} of {rival}"}
        yield {"rival": rival, "y": middle, "dots": dots, **mark}


def _free(x: float, places: Sequence[float], dots: Sequence[Mapping[str, Any]]) -> float:
    """The first of `places` at which the dot overlaps no other, else the last."""

    def is_free(y: float) -> bool:
        return all(math.hypot(dot["x"] - x, dot["y"] - y) >= 2 * RADIUS for dot in dots)

    return next(filter(is_free, places), places[-1])


def _ratios(
    bodies: Sequence[Mapping[str, Any]], rival: str, kind: str
) -> Iterator[tuple[float, str, bool]]:
    """(ratio, row, whether it is a program) of each row that enters the mean of this kind. Rows of
    idle memory or of single calls have no time in it: they are shown by their peak alone."""
    for body in bodies:
        for row in body["rows"]:
            own = row["means"][kind]
            entry = own and body["metrics"].get(metric_name(row["benchmark"], own, rival))
            if entry:
                yield entry["value"], row["benchmark"], body["programs"]
