"""What a matrix has measured so far: a file that is whole after each cell, so a run can go on.

A cell is what is repeated when it was interrupted: one soak, or one round of pairs.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hakmem import project
from hakmem.errors import LabError
from hakmem.matrix.rules import Evidence
from hakmem.process import host
from hakmem.soak import analysis as soak_analysis
from hakmem.soak import epochs_csv as soak_csv

FORMAT = 1
NAME = "state.json"


@dataclass(frozen=True)
class Setting:
    """What must be the same when a run goes on, or its cells would not belong together."""

    digest: str
    scale: float
    libraries: Mapping[str, str]
    source: Mapping[str, object]


@dataclass
class State:
    """The folder of one run: state.json, and the CSV of every soak beside it.

    `record` is the id under which the finished matrix was recorded.
    """

    folder: Path
    setting: Mapping[str, Any]
    seed: int
    cells: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    record: str | None = None

    @classmethod
    def open(cls, folder: Path, setting: Setting, seed: int | None, new_seed: int) -> "State":
        """The state found in the folder, if it is of the same setting; otherwise a new one."""
        try:
            text = (folder / NAME).read_text(encoding="utf-8")
        except FileNotFoundError:
            state = cls(folder, vars(setting), new_seed if seed is None else seed)
            state._save()
            return state
        except OSError as error:
            raise LabError(f"cannot read {folder / NAME}: {error.strerror}") from error
        try:
            content = json.loads(text)
            if content.pop("format") != FORMAT:
                raise ValueError
            state = cls(folder, **content)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise LabError(f"{folder / NAME} cannot be read: begin anew with --fresh") from None
        for key, value in vars(setting).items():
            if state.setting.get(key) != value:
                raise LabError(
                    f"the {key} of the run in {folder} was another one: its cells do not fit; "
                    "begin anew with --fresh, or choose another folder with --out"
                )
        if seed is not None and state.seed != seed:
            raise LabError(f"the run in {folder} has seed {state.seed}: --fresh, or no --seed")
        return state

    def put(self, key: str, cell: Mapping[str, Any]) -> None:
        self.cells[key] = dict(cell)
        self._save()

    def keep(self, record: str) -> None:
        self.record = record
        self._save()

    def has(self, key: str) -> bool:
        """Also false where a soak's CSV is no longer the one that was written."""
        cell = self.cells.get(key)
        if cell is None or "csv" not in cell:
            return cell is not None
        path = self.folder / cell["csv"]
        return path.is_file() and host.sha256(path) == str(cell["sha256"])

    def dump(self) -> str:
        content = {key: value for key, value in vars(self).items() if key != "folder"}
        return json.dumps({"format": FORMAT, **content}, indent=1, ensure_ascii=False) + "\n"

    def _save(self) -> None:
        project.write_atomically(self.folder / NAME, self.dump())


def soak_key(stage: str, mode: str) -> str:
    return f"stage {stage}, soak, {mode}"


def round_key(stage: str, number: int) -> str:
    return f"stage {stage}, round {number}"


def evidence(state: State, stage: str, mode: str, baseline: str, rounds: int) -> Evidence:
    """All that the cells of a stage say of a mode."""
    cell = state.cells[soak_key(stage, mode)]
    errors = [cell["error"]]
    gains = []
    for number in range(rounds):
        done = state.cells.get(round_key(stage, number), {})
        errors.append(done.get("failed", {}).get(mode))
        found = done.get("logs", {})
        if mode in found and baseline in found:
            gains.append(found[mode] - found[baseline])
    error = next((e for e in errors if e), None)
    analysis = None
    if cell["error"] is None:
        text = (state.folder / cell["csv"]).read_text(encoding="utf-8")
        analysis = soak_analysis.analyze(soak_csv.parse(text))
    return Evidence(error, analysis, cell["ops"], gains)
