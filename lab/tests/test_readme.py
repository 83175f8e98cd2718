"""The README's table and picture are those that its records give."""

import re
import shutil
from pathlib import Path

import pytest
from hakmem.audit import blocks as audit_blocks
from hakmem.audit.check import Audit
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
    block = next(b for b in audit_blocks.find(text) if b.kind == "claims")
    digit = re.search(r"\d\.\d\d+ \[", block.text)
    assert digit
    at = block.start + digit.start()
    changed = "8" if text[at] == "9" else "9"
    assert differing(text[:at] + changed + text[at + 1 :]) == [block.source]


def test_the_picture_is_drawn_from_its_records(tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (block,) = (b for b in audit_blocks.find(text) if b.kind == "picture")
    shutil.copy(ROOT / "README.md", tmp_path)
    drawn = tmp_path / block.file
    drawn.parent.mkdir()
    shutil.copy(ROOT / block.file, drawn)

    def wrong() -> list[str]:
        audit = Audit.of(ROOT, Ledger(ROOT / "evidence"), 1000)
        audit.document(tmp_path / "README.md")
        return [problem for problem in audit.problems if block.file in problem]

    assert wrong() == []
    svg = drawn.read_text(encoding="utf-8")
    assert svg.count("<circle") > 400
    drawn.write_text(svg.replace('cx="', 'cx="1', 1), encoding="utf-8")
    assert len(wrong()) == 1
    drawn.unlink()
    assert len(wrong()) == 1


def test_a_readme_without_a_table_is_refused() -> None:
    with pytest.raises(AssertionError, match="no generated table"):
        differing("# hakmem")
