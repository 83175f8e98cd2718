"""The SQLite index over the ledger: made from it, thrown away at will, never committed.

Tables: `records` (id, host, seq, kind, time, method, ok, body as JSON) and `metrics` (record,
name, value, low, high, unit), where value is a measurement's value or a verdict's estimate.
"""

import json
import sqlite3
import tempfile
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from hakmem.errors import LabError
from hakmem.ledger.store import Ledger, Record

SCHEMA = """
create table records (id primary key, host, seq, kind, time, method, ok, body);
create table metrics (record, name, value, low, high, unit);
create table made_from (state);
"""
COLUMNS = ("id", "host", "seq", "kind", "time", "method", "ok")


@dataclass(frozen=True)
class Answer:
    columns: list[str]
    rows: list[tuple[object, ...]]


def query(ledger: Ledger, terms: Sequence[str]) -> Answer:
    """One SQL query, or filters `key=value` that must all hold.

    A key is a column of `records` or a dotted path into the body, such as `source.commit`.
    """
    is_sql = len(terms) == 1 and terms[0].lower().startswith(("select ", "with "))
    sql, values = (terms[0], []) if is_sql else _filters(terms)
    with closing(sqlite3.connect(f"{fresh(ledger).as_uri()}?mode=ro", uri=True)) as database:
        try:
            cursor = database.execute(sql, values)
            columns = [column[0] for column in cursor.description or ()]
            return Answer(columns, cursor.fetchall())
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


def fresh(ledger: Ledger) -> Path:
    """The index file in out/, made again where the ledger is not the one it was made from."""
    path = ledger.root.parent / "out" / "ledger.sqlite"
    state = json.dumps([(p.name, p.stat().st_size, p.stat().st_mtime_ns) for p in ledger.files()])
    if not _is_made_from(path, state):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".index-", dir=path.parent) as folder:
            made = Path(folder) / "ledger.sqlite"
            _build(ledger, made, state)
            made.replace(path)
    return path


def _is_made_from(path: Path, state: str) -> bool:
    if not path.exists():
        return False
    try:
        with closing(sqlite3.connect(path)) as database:
            return database.execute("select state from made_from").fetchall() == [(state,)]
    except sqlite3.Error:
        return False


def _build(ledger: Ledger, path: Path, state: str) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.executescript(SCHEMA)
        database.execute("insert into made_from values (?)", (state,))
        for record in ledger.records():
            _insert(database, record)
        database.commit()


def _insert(database: sqlite3.Connection, record: Record) -> None:
    row = [vars(record)[name] for name in COLUMNS if name != "ok"]
    database.execute(
        "insert into records values (?,?,?,?,?,?,?,?)",
        [*row, record.body.get("ok"), json.dumps(record.body, ensure_ascii=False)],
    )
    metrics = record.body.get("metrics")
    for name, metric in metrics.items() if isinstance(metrics, dict) else ():
        if isinstance(metric, dict):
            value = metric.get("value", metric.get("estimate"))
            ends = [metric.get(key) for key in ("low", "high", "unit")]
            database.execute(
                "insert into metrics values (?,?,?,?,?,?)", [record.id, name, value, *ends]
            )
