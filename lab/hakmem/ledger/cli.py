"""`hakmem ledger`: reading, checking and asking the ledger."""

import json
import shlex
import sqlite3
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from difflib import get_close_matches
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from hakmem import terminal
from hakmem.errors import LabError
from hakmem.ledger import claims
from hakmem.ledger.store import PARTS, Ledger, Record
from hakmem.ledger.verify import verify

ROOMY = 110
TELLING = ("throughput", "resident")


def choose(records: Sequence[Record], kind: str | None, whole: bool) -> list[Record]:
    """The results in the order of time; all records with `whole`, or all of one `kind`."""
    found = [
        record
        for record in records
        if (record.kind == kind if kind else whole or record.kind not in PARTS)
    ]
    return sorted(found, key=lambda record: record.time)


def table(records: Sequence[Record], width: int) -> Table:
    """A line for each record; what does not fit in `width` ends in dots."""
    roomy = width >= ROOMY
    made = terminal.table("id", "kind", "time (UTC)", *(["host"] * roomy), rest="what")
    for record in records:
        refused = record.body.get("ok") is False
        what = Text("NOT ok ", style="bold red") if refused else Text()
        time = record.time[:16].replace("T", " ")
        cells = [record.id, record.kind, time, *([record.host] * roomy)]
        made.add_row(*cells, what.append(" ".join(summary(record).split())))
    return made


def summary(record: Record) -> str:
    """The answer first, because the end may be cut off; then what was asked; then figures."""
    body = record.body
    parts = [answer(body), subject(body)]
    if "verdict" not in body:
        parts.append(figures(body.get("metrics") or {}))
    return ": ".join(part for part in parts if part)


def answer(body: Mapping[str, Any]) -> str:
    """The verdict with the ratio it is about; of many verdicts, how many of each."""
    metrics = body.get("metrics") or {}
    if "verdict" in body:
        own = (m for name, m in metrics.items() if not name.startswith(claims.GUARD))
        target: Mapping[str, Any] = next(own, {})
        if "estimate" in target and "question" in body:
            return f"{body['verdict']} {target['estimate']:.3f}"
        return str(body["verdict"])
    each = Counter(m["verdict"] for m in metrics.values() if m.get("verdict"))
    return ", ".join(f"{count} {word}" for word, count in each.most_common())


def subject(body: Mapping[str, Any]) -> str:
    """What was asked or run."""
    for name in ("question", "title", "what"):
        if body.get(name):
            why = body.get("why") if name == "title" else None
            return f"{body[name]} ({why})" if why else str(body[name])
    if "cell" in body:
        return f"{body['cell']} on {body.get('track')}"
    if "order" in body:
        return f"{body.get('track')}, round {body.get('round')}, {body['order']}"
    return shlex.join(str(word) for word in (body.get("argv") or ())[1:])


def figures(metrics: Mapping[str, Any]) -> str:
    """The first figures of a record that decides nothing."""
    names = sorted(metrics, key=lambda name: name not in TELLING)
    return ", ".join(f"{name} {claims.for_people(metrics[name])[0]}" for name in names[:3])


# ---- the index, made in memory for one question ----

COLUMNS = ("id", "host", "seq", "kind", "time", "method", "ok")
# `body` is JSON, `value` a measurement's value or a verdict's estimate.
SCHEMA = f"""
create table records ({", ".join(COLUMNS)}, body);
create view metrics as select records.id as record, m.key as name,
    coalesce(json_extract(m.value, '$.value'), json_extract(m.value, '$.estimate')) as value,
    json_extract(m.value, '$.low') as low, json_extract(m.value, '$.high') as high,
    json_extract(m.value, '$.unit') as unit
from records, json_each(body, '$.metrics') as m;
"""


def query(ledger: Ledger, terms: Sequence[str]) -> tuple[list[str], list[tuple[object, ...]]]:
    """Columns and rows of one SQL query, or of filters `key=value` that must all hold.

    A key is a column of `records` or a dotted path into the body, such as `source.commit`.
    """
    is_sql = len(terms) == 1 and terms[0].lower().startswith(("select ", "with "))
    sql, values = (terms[0], []) if is_sql else _filters(terms)
    with closing(sqlite3.connect(":memory:")) as database:
        database.executescript(SCHEMA)
        places = ",?" * len(COLUMNS)
        database.executemany(f"insert into records values (?{places})", map(_row, ledger.records()))
        database.execute("pragma query_only = 1")
        try:
            cursor = database.execute(sql, values)
            columns = [column[0] for column in cursor.description or ()]
            return columns, cursor.fetchall()
        except sqlite3.Error as error:
            raise LabError(
                f"the query failed: {error}; tables: records ({', '.join(COLUMNS)}, body), "
                "metrics (record, name, value, low, high, unit)"
            ) from None


def _filters(terms: Sequence[str]) -> tuple[str, list[str]]:
    conditions = ["1"]
    values: list[str] = []
    for term in terms:
        key, equals, text = term.partition("=")
        if not equals or not key or '"' in key:
            raise LabError(f"neither SQL (select …) nor key=value: {term}")
        if key in COLUMNS:
            conditions.append(f"cast({key} as text) = ?")
        else:
            conditions.append("cast(json_extract(body, ?) as text) = ?")
            values.append("$" + "".join(f'."{part}"' for part in key.split(".")))
        values.append({"true": "1", "false": "0"}.get(text, text))
    where = " and ".join(conditions)
    return f"select {', '.join(COLUMNS)} from records where {where} order by host, seq", values


def _row(record: Record) -> list[object]:
    own = [vars(record).get(name, record.body.get(name)) for name in COLUMNS]
    return [*own, json.dumps(record.body, ensure_ascii=False)]


app = typer.Typer(help="The recorded evidence: list, show, verify, query.", no_args_is_help=True)


@app.command("list")
def list_command(
    kind: Annotated[str | None, typer.Option(help="Only records of this kind.")] = None,
    last: Annotated[int, typer.Option(min=1, help="How many, the latest.")] = 40,
    whole: Annotated[
        bool,
        typer.Option("--all", help="Also the parts of results: settings, samples, …"),
    ] = False,
) -> None:
    """The latest results, one line each."""
    console = terminal.new_console()
    records = list(Ledger.default().records())
    kinds = {record.kind for record in records}
    if kind and kind not in kinds:
        raise LabError(f"no record of the kind {kind}; there are: {', '.join(sorted(kinds))}")
    chosen = choose(records, kind, whole)
    shown = chosen[-last:]
    if shown:
        console.print(table(shown, console.width))
    said = [f"{len(shown)} of {len(chosen)} records"]
    if len(records) > len(chosen):
        said.append(f"{len(records) - len(chosen)} of other kinds are not shown (--all, --kind)")
    print("; ".join(said))


@app.command("show")
def show_command(id: Annotated[str, typer.Argument(help="A record's id.")]) -> None:
    """One record, whole, and where its raw output lies."""
    ledger = Ledger.default()
    record = ledger.get(id)
    print(json.dumps(vars(record), indent=2, ensure_ascii=False))
    for name, digest in record.raw.items():
        print(f"{name}: {ledger.raw_path(digest)}", file=sys.stderr)


@app.command("verify")
def verify_command() -> None:
    """Recompute every hash, and each ratio from its samples; compare with what is committed."""
    from hakmem.paired import recheck  # imported late: paired is built on the ledger

    ledger = Ledger.default()
    result = verify(ledger)
    if not result.problems:
        console = terminal.new_console(stderr=True)
        problems, notes = recheck.recheck(ledger, result.records, console)
        result.problems += problems
        result.notes += notes
    for problem in result.problems:
        print(f"problem: {problem}")
    for note in result.notes:
        print(f"note: {note}")
    print(f"ledger: {result}")
    if result.problems:
        raise typer.Exit(1)


@app.command("recover")
def recover_command() -> None:
    """Move the torn last line of a writer that was killed into a file of its own."""
    Ledger.default().recover()


@app.command("query")
def query_command(
    terms: Annotated[
        list[str], typer.Argument(help="kind=verdict source.commit=… or one 'select …'.")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per row.")] = False,
) -> None:
    """Ask the index: filters that must all hold, or SQL over `records` and `metrics`."""
    columns, rows = query(Ledger.default(), terms)
    if as_json:
        for row in rows:
            print(json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False))
        return
    table = terminal.table(*columns)
    for row in rows:
        table.add_row(*(Text("–" if cell is None else str(cell)) for cell in row))
    terminal.new_console().print(table)
    print(f"{len(rows)} rows")


@app.command("cite")
def cite_command(
    figure: Annotated[
        str, typer.Argument(help="ID/metric or ID/metric/scale; a bare ID lists its metrics.")
    ],
    part: Annotated[
        str, typer.Argument(help="Of a bare ID: only metrics with this in their name.")
    ] = "",
    decimals: Annotated[int, typer.Option(min=0, max=9, help="Digits after the point.")] = 2,
) -> None:
    """Print a figure with its marker, ready for a document: nothing needs to be typed."""
    id, _, rest = figure.partition("/")
    body = Ledger.default().get(id).body
    metrics: dict[str, Any] = body.get("metrics") or {}
    if not rest:
        _list_metrics(id, metrics, part)
        return
    metric, scale = claims.address(rest, body)
    if metric not in metrics:
        near = ", ".join(get_close_matches(metric, metrics)) or "none is like it"
        where = f"its {len(metrics)} metrics: hakmem ledger cite {id}"
        raise LabError(f"record {id} has no metric {metric!r}; similar: {near}; {where}")
    print(f"{claims.figure(metrics[metric], scale, decimals)}<!--c:{figure}-->")


def _list_metrics(id: str, metrics: dict[str, Any], part: str) -> None:
    chosen = {name: entry for name, entry in metrics.items() if part in name}
    if not chosen:
        named = f", none with {part!r} in its name" if metrics else ""
        raise LabError(f"record {id} has {len(metrics)} metrics{named}")
    table = terminal.table("metric", "value")
    for name, entry in chosen.items():
        table.add_row(Text(name), Text(claims.for_people(entry)[0]))
    terminal.new_console().print(table)
    print(f"{len(chosen)} of {len(metrics)} metrics; hakmem ledger cite {id}/METRIC cites one")
