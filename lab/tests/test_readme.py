"""The README's table is the one that its record gives."""

import re
from pathlib import Path

import pytest
from hakmem.audit import blocks as audit_blocks
from hakmem.ledger.store import Ledger

ROOT = Path(__file__).parents[2]


def differing(text: str) -> list[str]:
    """The sources of the generated tables that are not what their records give."""
    records = {record.id: record for record in Ledger(ROOT / "evidence").records()}
    blocks = audit_blocks.find(text)
    assert blocks, "the README has no generated table"
    return [
        block.source
        for block in blocks
        if audit_blocks.render(block, ROOT, records).strip() != block.text.strip()
    ]


def test_the_table_is_what_the_record_gives() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert differing(text) == []
    assert max(block.rows for block in audit_blocks.find(text)) >= 15


def test_a_changed_digit_is_found() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    block = audit_blocks.find(text)[0]
    digit = re.search(r"\d\.\d\d+ \[", block.text)
    assert digit
    at = block.start + digit.start()
    changed = "8" if text[at] == "9" else "9"
    assert differing(text[:at] + changed + text[at + 1 :]) == [block.source]


def test_a_readme_without_a_table_is_refused() -> None:
    with pytest.raises(AssertionError, match="no generated table"):
        differing("# hakmem")
