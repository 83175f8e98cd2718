"""What the audit holds this repository to: evidence/audit.toml."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hakmem.errors import LabError


@dataclass(frozen=True)
class Settings:
    """evidence/audit.toml.

    `floor`: the fewest claims a whole audit may see. `stale_after`: how many commits may have
    changed the source since a cited record. `messages_from`: the commit after which messages are
    held to the rules. `excused`: commits with a reason, where a message cannot be mended any more.
    """

    floor: int
    stale_after: int
    messages_from: str
    excused: dict[str, str]

    @classmethod
    def load(cls, root: Path) -> "Settings":
        path = root / "evidence" / "audit.toml"
        try:
            row: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
            return cls(
                floor=int(row["floor"]),
                stale_after=int(row["stale-after"]),
                messages_from=str(row["messages-from"]),
                excused={str(k): str(v) for k, v in row.get("excused", {}).items()},
            )
        except (OSError, ValueError, KeyError) as error:
            raise LabError(
                f"{path}: {error}; it needs floor, stale-after and messages-from"
            ) from None
