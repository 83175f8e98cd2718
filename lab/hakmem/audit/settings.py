"""What the audit is told: evidence/audit.toml."""

from dataclasses import dataclass
from pathlib import Path

from hakmem import project
from hakmem.entry import Entry
from hakmem.errors import LabError


@dataclass(frozen=True)
class Settings:
    """evidence/audit.toml.

    `floor`: the fewest claims a whole audit may see. `stale_after`: how many commits may have
    changed the source since a cited record. `messages_from`: the commit after which messages are
    held to the rules. `excused`: commits with a reason, where a message cannot be mended any more.
    `history`: globs of the documents whose evidence may be old.
    """

    floor: int
    stale_after: int
    messages_from: str
    excused: dict[str, str]
    history: tuple[str, ...] = ()

    def dated(self, root: Path) -> frozenset[Path]:
        """The documents that are history; LabError for a glob that matches none."""
        found: set[Path] = set()
        for pattern in self.history:
            try:
                matched = {path.resolve() for path in root.glob(pattern) if path.suffix == ".md"}
            except (ValueError, NotImplementedError) as error:
                raise LabError(f"evidence/audit.toml: history: {pattern!r}: {error}") from None
            if not matched:
                raise LabError(f"evidence/audit.toml: history: {pattern!r} matches no document")
            found |= matched
        return frozenset(found)

    @classmethod
    def load(cls, root: Path) -> "Settings":
        path = root / "evidence" / "audit.toml"
        row = Entry(project.toml(path), str(path))
        return cls(
            floor=int(row.number("floor")),
            stale_after=int(row.number("stale-after")),
            messages_from=row.of(str, "a text", "messages-from"),
            excused={str(k): str(v) for k, v in row.table("excused").items()},
            history=row.names("history"),
        )
