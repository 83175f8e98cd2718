"""Tables in a terminal: no cell is cut off at any width, except in columns meant for it."""

import io

import pytest
from hakmem import terminal
from rich.console import Console
from rich.table import Table
from rich.text import Text

TITLES = ("", ">A", ">÷ A", "interval", ">change", "")
ROWS = (
    ("random_mixed_400", "0.000749", "0.782", "[0.732–0.851]", "−21.8 %", "NO-GO"),
    ("guard batch_lifo", "3.51", "2.526", "[2.408–2.632]", "+152.6 %", "broken"),
)


def printed(table: Table, width: int) -> str:
    out = io.StringIO()
    Console(file=out, width=width).print(table)
    return out.getvalue()


@pytest.fixture
def paired() -> Table:
    made = terminal.table(*TITLES)
    for row in ROWS:
        made.add_row(*map(Text, row))
    return made


@pytest.mark.parametrize("width", [30, 46, 60, 80])
def test_every_cell_is_there_and_no_figure_is_broken(paired: Table, width: int) -> None:
    said = printed(paired, width)
    assert "…" not in said
    assert max(map(len, said.splitlines())) <= width
    assert set(" ".join(map(" ".join, ROWS)).split()) <= set(said.split())


def test_where_there_is_room_it_is_a_table_and_where_not_titles_stand_before_cells(
    paired: Table,
) -> None:
    assert len(printed(paired, 80).splitlines()) == 3
    narrow = " ".join(printed(paired, 46).split())
    assert "guard batch_lifo A 3.51 ÷ A 2.526 interval [2.408–2.632] change +152.6 %" in narrow


def test_a_column_that_has_the_rest_is_cut_off_where_it_is_a_table() -> None:
    made = terminal.table("id", "time (UTC)", rest="what")
    made.add_row("f12db6a701eb", "2026-11-30 21:40", Text("compare " * 20 + "to the end"))
    assert [len(line) for line in printed(made, 80).splitlines()] == [80, 80]
    assert "what compare compare" in (narrow := printed(made, 40))
    assert "to the end" in " ".join(narrow.split())


@pytest.mark.parametrize("width", range(60, 100))
def test_no_word_is_broken_where_others_could_be_narrower(width: int) -> None:
    made = terminal.table("what", ">nanoseconds_per_op", ">resident-memory-peak", "in words")
    made.add_row("random_mixed", "12", "34567", "a few short words " * 9)
    said = printed(made, width).split()
    assert {"nanoseconds_per_op", "resident-memory-peak", "random_mixed", "34567"} <= set(said)
    assert set(said[4:]) >= {"few", "short", "words"}
    assert max(map(len, printed(made, width).splitlines())) <= width
