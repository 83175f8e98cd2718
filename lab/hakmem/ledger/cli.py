"""`hakmem ledger`: reading, checking and asking the ledger."""

import json
import sys
from difflib import get_close_matches
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hakmem.errors import LabError
from hakmem.ledger import claims
from hakmem.ledger import index as ledger_index
from hakmem.ledger import listing as ledger_list
from hakmem.ledger.store import Ledger
from hakmem.ledger.verify import verify

app = typer.Typer(help="The recorded evidence: list, show, verify, query.", no_args_is_help=True)


@app.command("list")
def list_command(
    kind: Annotated[str | None, typer.Option(help="Only records of this kind.")] = None,
    last: Annotated[int, typer.Option(min=1, help="How many, the latest.")] = 40,
    whole: Annotated[
        bool, typer.Option("--all", help="Also the settings, samples and blocks that others cite.")
    ] = False,
) -> None:
    """The latest results, one line each."""
    console = Console()
    records = list(Ledger.default().records())
    chosen = ledger_list.choose(records, kind, whole)
    shown = chosen[-last:]
    for line in ledger_list.lines(shown, console.width) if shown else ():
        console.print(line)
    said = [f"{len(shown)} of {len(chosen)} records"]
    if len(records) > len(chosen):
        said.append(f"{len(records) - len(chosen)} of other kinds are not shown (--all, --kind)")
    print("; ".join(said))


@app.command("show")
def show_command(id: Annotated[str, typer.Argument(help="A record's id.")]) -> None:
    """One record, whole, and where its raw output lies."""
    ledger = Ledger.default()
    record = ledger.get(id)
    print(json.dumps(record.to_dict(), indent=2, ensure_ascii=False))
    for name, digest in record.raw.items():
        print(f"{name}: {ledger.raw_path(digest)}", file=sys.stderr)


@app.command("verify")
def verify_command() -> None:
    """Recompute every hash; compare with what is committed."""
    result = verify(Ledger.default())
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
    answer = ledger_index.query(Ledger.default(), terms)
    if as_json:
        for row in answer.rows:
            print(json.dumps(dict(zip(answer.columns, row, strict=True)), ensure_ascii=False))
        return
    table = Table(*answer.columns)
    for row in answer.rows:
        table.add_row(*(Text("–" if cell is None else str(cell)) for cell in row))
    Console().print(table)
    print(f"{len(answer.rows)} rows")


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
        raise LabError(
            f"none of the {len(metrics)} metrics of record {id} has {part!r} in its name"
        )
    table = Table("metric", "value", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name, entry in chosen.items():
        table.add_row(Text(name), Text(ledger_list.short(entry)))
    Console().print(table)
    print(f"{len(chosen)} of {len(metrics)} metrics; hakmem ledger cite {id}/METRIC cites one")
