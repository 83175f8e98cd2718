"""A record that is to be measured again, with all that it was made from."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hakmem.errors import LabError
from hakmem.ledger.store import Record


@dataclass
class Past:
    """A record with those it was made from; `notes` collect what is not as it was.

    `given` names files for libraries whose own are gone.
    """

    record: Record
    records: Mapping[str, Record]
    given: Mapping[str, Path] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def body(self) -> Mapping[str, Any]:
        return self.record.body

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def settings(self) -> dict[str, str]:
        """hakmem's variables that its user had set, which reached every process."""
        inputs = (self.records[i] for i in self.body.get("inputs") or () if i in self.records)
        setting = next((r for r in inputs if r.kind == "setting"), self.record)
        return dict(setting.body.get("settings_of_user") or {})

    def with_given(self, word: str) -> str:
        """A word of its command line with the files that were given in place of libraries."""
        for name, path in self.given.items():
            # The name alone, or at the end of a path.
            named = rf"(?<![\w.-])(?:[^\s='\"]*/)?{re.escape(name)}(?![\w./-])"
            word = re.sub(named, str(path), word)
        return word


def source(past: Past) -> Mapping[str, Any]:
    """The source the record was measured from."""
    own = past.body.get("source")
    if isinstance(own, Mapping):
        return own
    raise LabError(f"record {past.record.id} does not say from which source it was measured")


def binaries(body: Mapping[str, Any]) -> dict[str, str]:
    """Checksums of the libraries of a record, by name."""
    found = body.get("binary") or ()
    sides = [found] if isinstance(found, Mapping) else list(found)
    sides += [{"name": name, **one} for name, one in (body.get("libraries") or {}).items()]
    return {
        side.get("name") or Path(str(side.get("path"))).stem: str(side["sha256"])
        for side in sides
        if side.get("sha256")
    }
