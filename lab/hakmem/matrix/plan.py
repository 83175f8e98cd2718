"""What a matrix file says: modes, stages and their rules; checked when read, shrunk by a scale."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

from hakmem import project
from hakmem.errors import LabError
from hakmem.process import host

SHIPPED = Path(__file__).parent / "shipped"

Clock = Literal["wall", "cpu"]

LEAST_EPOCHS = 40  # a quarter is warm-up; what is left must fill 20 blocks
LEAST_EPOCH_S = 0.05
LEAST_PAIR_S = 0.5  # a shorter timed part is no sample

MEMORY_UNITS = {"kB": 1e3, "KiB": 2**10, "MB": 1e6, "MiB": 2**20, "GB": 1e9, "GiB": 2**30}


@dataclass(frozen=True)
class RssBound:
    """Resident memory may be `per_live` times the live bytes, and `plus_mib` MiB."""

    per_live: float
    plus_mib: float


@dataclass(frozen=True)
class Rules:
    """What a mode must keep in a stage, None or empty where nothing is asked. No crash, always."""

    throughput_floor: float | None = None
    rss: RssBound | Literal["baseline"] | None = None
    rss_below: str | None = None
    drift: tuple[Literal["rss", "throughput"], ...] = ()
    cv: float | None = None
    calls_per_op: float | None = None

    @property
    def compares(self) -> bool:
        """Whether a baseline is needed to judge them."""
        return self.throughput_floor is not None or self.rss == "baseline"


@dataclass(frozen=True)
class Mode:
    """An environment for the allocator, and the library: hakmem, a peer, or a file."""

    name: str
    environment: Mapping[str, str] = field(default_factory=dict)
    library: str = "hakmem"


@dataclass(frozen=True)
class Stage:
    """`modes` None: those that are still in. Times are in seconds; `rounds` 0: no pairs.

    `shortened`: its epochs are shorter than the file says, as those of a rehearsal may be.
    """

    name: str
    seconds: float
    epoch_s: float
    modes: tuple[str, ...] | None
    keep: int | None
    rounds: int
    pair_s: float
    rules: Rules
    shortened: bool = False


@dataclass(frozen=True)
class Matrix:
    """A whole file. `digest` is of its text; `scale` below 1 makes it a rehearsal."""

    title: str
    baseline: str
    command: tuple[str, ...]
    clock: Clock
    modes: Mapping[str, Mode]
    stages: tuple[Stage, ...]
    digest: str
    scale: float = 1.0

    @property
    def candidates(self) -> tuple[str, ...]:
        """The modes among which the matrix chooses: those of the first stage."""
        first = self.stages[0].modes or ()
        return tuple(name for name in first if name != self.baseline)

    def modes_of(self, stage: Stage, survivors: Sequence[str]) -> list[str]:
        """Every stage that compares has its own baseline run."""
        names = list(survivors if stage.modes is None else stage.modes)
        if stage.rules.compares and names and self.baseline not in names:
            names.insert(0, self.baseline)
        return names


def find(text: str) -> Path:
    """A file, or one of the matrices that come with the lab, by name."""
    path = Path(text)
    if path.is_file():
        return path
    shipped = SHIPPED / f"{path.name.removesuffix('.toml')}.toml"
    if shipped.is_file():
        return shipped
    names = ", ".join(sorted(p.stem for p in SHIPPED.glob("*.toml")))
    raise LabError(f"no matrix file {text}; those that come with the lab: {names}")


def shipped() -> dict[str, str]:
    """The digests of the matrices that come with the lab, by title."""
    return {matrix.title: matrix.digest for matrix in map(load, SHIPPED.glob("*.toml"))}


def load(path: Path) -> Matrix:
    content = project.toml(path)
    try:
        matrix = _matrix(content, host.sha256(path))
        _check(matrix)
    except LabError as error:
        raise LabError(f"{path}: {error}") from None
    return matrix


def scaled(matrix: Matrix, scale: float) -> Matrix:
    """All lengths shrunk, but never below what the rules need; the number of rounds stays."""

    def shrunk(stage: Stage) -> Stage:
        seconds = max(stage.seconds * scale, LEAST_EPOCHS * LEAST_EPOCH_S)
        epoch_s = min(stage.epoch_s, seconds / LEAST_EPOCHS)
        return replace(
            stage,
            seconds=seconds,
            epoch_s=epoch_s,
            pair_s=max(stage.pair_s * scale, LEAST_PAIR_S),
            shortened=epoch_s < stage.epoch_s,
        )

    return replace(matrix, stages=tuple(shrunk(stage) for stage in matrix.stages), scale=scale)


def memory_bytes(text: str) -> float:
    """A size as a rule writes it, such as "15 MB"; ValueError on anything else."""
    found = re.fullmatch(rf"(\d+(?:\.\d+)?) ?({'|'.join(MEMORY_UNITS)})", text, re.ASCII)
    if not found or not float(found[1]):
        raise ValueError(text)
    return float(found[1]) * MEMORY_UNITS[found[2]]


# ---- from TOML ----


def _matrix(content: Mapping[str, Any], digest: str) -> Matrix:
    known = ("title", "baseline", "command", "clock", "epoch_s", "mode", "stage")
    _only(content, known, "the file")
    clock = content.get("clock", "wall")
    if clock not in ("wall", "cpu"):
        raise LabError(f'clock is "wall" or "cpu", not {clock!r}')
    modes = [_mode(entry) for entry in _list(content, "mode")]
    _check_names([mode.name for mode in modes], "mode")
    epoch_s = _number(content, "epoch_s", "the file") if "epoch_s" in content else 1.0
    return Matrix(
        title=_text(content, "title", "the file"),
        baseline=_text(content, "baseline", "the file"),
        command=tuple(str(word) for word in _list(content, "command")),
        clock=clock,
        modes={mode.name: mode for mode in modes},
        stages=tuple(_stage(entry, epoch_s) for entry in _list(content, "stage")),
        digest=digest,
    )


def _mode(entry: Mapping[str, Any]) -> Mode:
    name = _text(entry, "name", "a mode")
    _only(entry, ("name", "environment", "library"), f"mode {name}")
    environment = entry.get("environment", {})
    if not isinstance(environment, dict):
        raise LabError(f"mode {name}: environment is a table of variables")
    settings = {str(k): str(v) for k, v in environment.items()}
    return Mode(name, settings, str(entry.get("library", "hakmem")))


def _stage(entry: Mapping[str, Any], epoch_s: float) -> Stage:
    name = _text(entry, "name", "a stage")
    where = f"stage {name}"
    _only(entry, ("name", "seconds", "modes", "keep", "pairs", "rules"), where)
    pairs = entry.get("pairs", {})
    _only(pairs, ("rounds", "seconds"), f"{where}, pairs")
    modes = entry.get("modes")
    if modes != "survivors" and not isinstance(modes, list):
        raise LabError(f'{where}: modes is a list of names or "survivors"')
    return Stage(
        name=name,
        seconds=_number(entry, "seconds", where),
        epoch_s=epoch_s,
        modes=None if modes == "survivors" else tuple(str(mode) for mode in modes),
        keep=int(_number(entry, "keep", where)) if "keep" in entry else None,
        rounds=int(_number(pairs, "rounds", where)) if "rounds" in pairs else 0,
        pair_s=_number(pairs, "seconds", where) if "seconds" in pairs else LEAST_PAIR_S,
        rules=_rules(entry.get("rules", {}), where),
    )


def _rules(entry: Mapping[str, Any], where: str) -> Rules:
    _only(entry, [f.name for f in fields(Rules)], f"{where}, rules")
    rss = entry.get("rss")
    if isinstance(rss, dict):
        inside = f"{where}, rss"
        _only(rss, ("per_live", "plus_mib"), inside)
        rss = RssBound(_number(rss, "per_live", inside), _number(rss, "plus_mib", inside))
    elif rss not in (None, "baseline"):
        raise LabError(f'{where}: rss is "baseline" or {{ per_live = …, plus_mib = … }}')
    below = entry.get("rss_below")
    try:
        if below is not None:
            memory_bytes(below)
    except (TypeError, ValueError):
        known = ", ".join(MEMORY_UNITS)
        wanted = f'a size with its unit ({known}), such as "15 MB"'
        raise LabError(f"{where}: rss_below is {wanted}, not {below!r}") from None
    drift = entry.get("drift", [])
    if not isinstance(drift, list) or not all(name in ("rss", "throughput") for name in drift):
        raise LabError(f'{where}: drift is a list of "rss" and "throughput"')
    names = ("throughput_floor", "cv", "calls_per_op")
    numbers = {key: _real(entry, key, where) if key in entry else None for key in names}
    return Rules(rss=rss, rss_below=below, drift=tuple(drift), **numbers)


def _only(entry: object, known: Sequence[str], where: str) -> None:
    """A misspelt rule that nobody reads would be a rule waived."""
    if not isinstance(entry, dict):
        raise LabError(f"{where}: a table is expected")
    unknown = [key for key in entry if key not in known]
    if unknown:
        raise LabError(f"{where}: unknown: {', '.join(unknown)}; known: {', '.join(known)}")


def _text(entry: object, key: str, where: str) -> str:
    if not isinstance(entry, dict):
        raise LabError(f"{where}: a table is expected")
    if not isinstance(entry.get(key), str) or not entry[key]:
        raise LabError(f"{where}: {key} is missing")
    return str(entry[key])


def _real(entry: Mapping[str, Any], key: str, where: str) -> float:
    value = entry.get(key)
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise LabError(f"{where}: {key} must be a number, not {value!r}")
    return float(value)


def _number(entry: Mapping[str, Any], key: str, where: str) -> float:
    value = _real(entry, key, where)
    if value <= 0:
        raise LabError(f"{where}: {key} must be a number above 0")
    return value


def _list(content: Mapping[str, Any], key: str) -> list[Any]:
    if not isinstance(content.get(key), list) or not content[key]:
        raise LabError(f"{key} is missing")
    return list(content[key])


# ---- what cannot work is said before the first hour ----


def rounds_needed(candidates: int) -> int:
    """Rounds below which a throughput gate could not be sure to be decidable.

    The exact test needs so many values to pass (by Holm) or to fail at all; twice as many rounds,
    because those that resemble their neighbours are merged in pairs.
    """
    passes = math.ceil(math.log2(candidates / 0.05))
    fails = math.ceil(math.log2(1 / 0.01))
    return 2 * max(passes, fails)


def _check(matrix: Matrix) -> None:
    _check_names([stage.name for stage in matrix.stages], "stage")
    first = matrix.stages[0]
    if first.modes is None:
        raise LabError(f'stage {first.name} is the first: its modes cannot be "survivors"')
    if not matrix.candidates:
        raise LabError(f"stage {first.name} has no mode besides the baseline")
    named = {matrix.baseline, *(n for stage in matrix.stages for n in stage.modes or ())}
    unknown = sorted(named - matrix.modes.keys())
    if unknown:
        raise LabError(f"unknown mode: {', '.join(unknown)}; known: {', '.join(matrix.modes)}")
    for stage in matrix.stages:
        _check_stage(matrix, stage)


def file_name(name: str) -> str:
    """Of a stage or a mode, as its files have it."""
    return re.sub(r"[^A-Za-z0-9.+-]+", "-", name)


def _check_names(names: Sequence[str], what: str) -> None:
    """Each has files of its own."""
    files = list(map(file_name, names))
    if len(set(files)) < len(files):
        raise LabError(f"two {what}s have the same name: {', '.join(names)}")


def _check_stage(matrix: Matrix, stage: Stage) -> None:
    where = f"stage {stage.name}"
    rules = stage.rules
    if stage.seconds < LEAST_EPOCHS * stage.epoch_s:
        raise LabError(f"{where}: {stage.seconds:g} s are under {LEAST_EPOCHS} epochs")
    if stage.keep is not None and stage.keep < 1:
        raise LabError(f"{where}: keep must be at least 1")
    if rules.throughput_floor is not None and not -1 < rules.throughput_floor < 0:
        raise LabError(f"{where}: throughput_floor is a loss between -1 and 0, such as -0.10")
    names = matrix.candidates if stage.modes is None else stage.modes
    count = len(set(names) - {matrix.baseline})
    if rules.throughput_floor is not None and stage.rounds < rounds_needed(count):
        raise LabError(
            f"{where}: {stage.rounds} rounds of pairs may never decide about {count} modes: "
            f"at least {rounds_needed(count)} are needed"
        )
