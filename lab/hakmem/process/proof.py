"""The proof file: what each process said about the allocator that serves its malloc."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Proof:
    """One line of the file named by HAKMEM_PROOF, written by the library inside a process.

    `settings` are the options that then had another value than the default, by environment name;
    None where the library does not state them.
    """

    version: str
    pid: int
    exe: str
    serving: bool
    allocator: str
    profile: str = ""
    settings: Mapping[str, str] | None = None

    @property
    def program(self) -> str:
        return Path(self.exe).name

    def to_dict(self) -> dict[str, object]:
        return asdict(self)


def _settings(stated: object) -> dict[str, str] | None:
    if stated is None:
        return None
    if not isinstance(stated, Mapping):
        raise TypeError(f"settings that are no table: {stated!r}")
    return {str(name): str(value) for name, value in stated.items()}


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
                profile=str(row.get("profile", "")),
                settings=_settings(row.get("settings")),
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


def own(path: Path, pid: int) -> Proof | None:
    """The last line of that process, or None."""
    return next((p for p in reversed(read(path)) if p.pid == pid), None)
