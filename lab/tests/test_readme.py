"""The README's tables and picture are as made from their records, by the audit's own check."""

import re
import shutil
from pathlib import Path

from hakmem.audit import blocks
from hakmem.audit.check import Audit
from hakmem.ledger.store import Ledger

ROOT = Path(__file__).parents[2]


def test_tables_and_picture_are_made_from_their_records(tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (block,) = (b for b in blocks.find(text) if b.kind == "picture")
    shutil.copy(ROOT / "README.md", tmp_path)
    drawn = tmp_path / block.file
    drawn.parent.mkdir()
    shutil.copy(ROOT / block.file, drawn)

    audit = Audit.of(ROOT, Ledger(ROOT / "evidence"), 1000)

    def wrong() -> list[str]:
        audit.problems.clear()
        audit.document(tmp_path / "README.md")
        return [p for p in audit.problems if re.search("the table (cannot|is not)", p)]

    assert wrong() == []
    svg = drawn.read_text(encoding="utf-8")
    assert svg.count("<circle") > 400
    drawn.write_text(svg.replace('cx="', 'cx="1', 1), encoding="utf-8")
    assert len(wrong()) == 1
    drawn.unlink()
    assert len(wrong()) == 1
