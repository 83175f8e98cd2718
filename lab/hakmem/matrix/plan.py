"""What a matrix file says: modes, stages and their rules; checked when read, shrunk by a scale."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, cast

from hakmem import project
from hakmem.entry import Entry
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
    """What a mode must keep in a stage; None or empty: not asked. No crash is always asked."""

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
    """`modes` None: those that have survived. Times are in seconds; `rounds` 0: no pairs.

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
        """The modes that a stage runs; one that compares runs the baseline too."""
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
    file = Entry(content, "the file", known)
    clock = file.text("clock", "wall")
    if clock not in ("wall", "cpu"):
        raise LabError(f'clock is "wall" or "cpu", not {clock!r}')
    modes = [_mode(entry) for entry in file.rows("mode")]
    _check_names([mode.name for mode in modes], "mode")
    epoch_s = file.positive("epoch_s", 1.0)
    return Matrix(
        title=file.text("title"),
        baseline=file.text("baseline"),
        command=tuple(map(str, file.rows("command"))),
        clock=cast(Clock, clock),
        modes={mode.name: mode for mode in modes},
        stages=tuple(_stage(entry, epoch_s) for entry in file.rows("stage")),
        digest=digest,
    )


def _mode(entry: object) -> Mode:
    name = Entry(entry, "a mode").text("name")
    mode = Entry(entry, f"mode {name}", ("name", "environment", "library"))
    settings = {str(k): str(v) for k, v in mode.table("environment").items()}
    return Mode(name, settings, mode.text("library", "hakmem"))


def _stage(entry: object, epoch_s: float) -> Stage:
    name = Entry(entry, "a stage").text("name")
    where = f"stage {name}"
    stage = Entry(entry, where, ("name", "seconds", "modes", "keep", "pairs", "rules"))
    pairs = Entry(stage.table("pairs"), f"{where}, pairs", ("rounds", "seconds"))
    rules = _rules(stage.table("rules"), where)
    rounds = int(pairs.positive("rounds")) if "rounds" in pairs else 0
    modes = stage.content.get("modes")
    if modes != "survivors" and not isinstance(modes, list):
        raise stage.wrong('modes is a list of names or "survivors"')
    return Stage(
        name=name,
        seconds=stage.positive("seconds"),
        epoch_s=epoch_s,
        modes=None if modes == "survivors" else tuple(map(str, modes)),
        keep=int(stage.positive("keep")) if "keep" in stage else None,
        rounds=0 if rules.throughput_floor is None else rounds,  # pairs serve only the floor
        pair_s=pairs.positive("seconds", LEAST_PAIR_S),
        rules=rules,
    )


def _rules(entry: object, where: str) -> Rules:
    rules = Entry(entry, f"{where}, rules", [f.name for f in fields(Rules)])
    rss, below = rules.content.get("rss"), rules.content.get("rss_below")
    if isinstance(rss, dict):
        inside = Entry(rss, f"{where}, rss", ("per_live", "plus_mib"))
        rss = RssBound(inside.positive("per_live"), inside.positive("plus_mib"))
    elif rss not in (None, "baseline"):
        raise rules.wrong('rss is "baseline" or { per_live = …, plus_mib = … }')
    try:
        if below is not None:
            memory_bytes(below)
    except (TypeError, ValueError):
        wanted = f'a size with its unit ({", ".join(MEMORY_UNITS)}), such as "15 MB"'
        raise rules.wrong(f"rss_below is {wanted}, not {below!r}") from None
    drift = rules.content.get("drift", [])
    if not isinstance(drift, list) or not all(name in ("rss", "throughput") for name in drift):
        raise rules.wrong('drift is a list of "rss" and "throughput"')
    names = ("throughput_floor", "cv", "calls_per_op")
    numbers = {key: rules.number(key) if key in rules else None for key in names}
    return Rules(rss=rss, rss_below=below, drift=tuple(drift), **numbers)


# ---- what cannot work is said before the first hour ----


def rounds_needed(candidates: int) -> int:
    """Rounds below which a throughput gate might never be decidable.

    The exact test needs so many values to pass (by Holm) or to fail at all; twice as many rounds,
    because correlated neighbours are merged in pairs.
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
    """The name of a stage or a mode, as the names of its files have it."""
    return re.sub(r"[^A-Za-z0-9.+-]+", "-", name)


def _check_names(names: Sequence[str], what: str) -> None:
    """LabError where two names would give the same files."""
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
