"""The README's table is the one that its record gives."""

import re
from pathlib import Path

import pytest
from hakmem import document, markdown

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"<!--bench:begin (\S+)-->\n(.*?)<!--bench:end-->", re.DOTALL)


def blocks(text: str) -> list[tuple[str, str]]:
    found = BLOCK.findall(text)
    assert found, "the README has no generated table"
    return found


def differing(text: str) -> list[str]:
    return [
        record
        for record, table in blocks(text)
        if table.strip() != markdown.table(document.load(ROOT / record)).strip()
    ]


def test_the_table_is_what_the_record_gives() -> None:
    assert differing((ROOT / "README.md").read_text()) == []


def test_a_changed_digit_is_found() -> None:
    text = (ROOT / "README.md").read_text()
    record, table = blocks(text)[0]
    digit = re.search(r"\d\.\d\d \[", table)
    assert digit
    changed = "9" if digit.group()[0] != "9" else "8"
    planted = table[: digit.start()] + changed + table[digit.start() + 1 :]
    assert differing(text.replace(table, planted)) == [record]


def test_a_readme_without_a_table_is_refused() -> None:
    with pytest.raises(AssertionError, match="no generated table"):
        blocks("# hakmem")
