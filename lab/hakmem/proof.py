"""The proof file: what each process said about the allocator that serves its malloc."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Proof:
    """One line of the file named by HAKMEM_PROOF, written by the library inside a process.

    `settings` are the effective ones by name, None where the library does not state them.
    """

    version: str
    pid: int
    exe: str
    serving: bool
    allocator: str
    settings: Mapping[str, object] | None = None

    @property
    def program(self) -> str:
        return Path(self.exe).name

    def to_dict(self) -> dict[str, object]:
        return asdict(self)


def parse(text: str) -> list[Proof]:
    """All well-formed lines; a torn or foreign line proves nothing and is left out."""
    proofs = []
    for line in text.splitlines():
        try:
            row = json.loads(line)
            proof = Proof(
                version=str(row["hakmem"]),
                pid=int(row["pid"]),
                exe=str(row["exe"]),
                serving=row["serving"] is True,
                allocator=str(row["allocator"]),
                settings=None if row.get("settings") is None else dict(row["settings"]),
            )
        except (ValueError, KeyError, TypeError):
            continue
        proofs.append(proof)
    return proofs


def read(path: Path) -> list[Proof]:
    try:
        return parse(path.read_text(encoding="utf-8", errors="replace"))
    except FileNotFoundError:
        return []
