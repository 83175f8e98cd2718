"""What the documents cite: the records behind every figure and every generated table."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from hakmem.audit import blocks as audit_blocks
from hakmem.audit import scanner
from hakmem.ledger.store import Record


def cited(files: Sequence[Path], records: Mapping[str, Record]) -> dict[str, list[str]]:
    """Ids by order of appearance, each with the names of the documents that cite it.

    A suite stands for its verdicts, so a verdict of a suite that is cited as well is left out.
    """
    found: dict[str, list[str]] = {}
    for path in files:
        text = path.read_text(encoding="utf-8")
        rest, _ = audit_blocks.without(text)
        ids = [id for block in audit_blocks.find(text) for id in block.ids]
        ids += [claim.id for claim in scanner.scan(rest).claims]
        for id in ids:
            where = found.setdefault(id, [])
            if path.name not in where:
                where.append(path.name)
    whole = [id for id in found if id in records and records[id].kind == "suite"]
    inside = {part for id in whole for part in records[id].body["inputs"]}
    return {id: where for id, where in found.items() if id not in inside}
