"""One comparison from its cells to its outcome: checks, a trial run of everything, the blocks."""

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from rich.console import Console
from rich.text import Text

from hakmem.errors import LabError
from hakmem.paired import blocks as paired
from hakmem.paired.blocks import BASE, FLOOR, Outcome, Plan, Sampler, Track, Trial
from hakmem.paired.cells import Cell
from hakmem.paired.protocol import Decision
from hakmem.paired.readings import COUNTED, MEMORY, Better
from hakmem.process import library, provenance
from hakmem.process.sample import Process, Sample, take, take_shown
from hakmem.process.settings import without_settings
from hakmem.terminal import progress_bar

Standing = Callable[[Plan, int, Mapping[str, Decision]], Iterable[str]]

MOST_TURNS = 1000
MOST_OF_COMMAND = 10  # more turns would mostly measure how a command is started from outside
LEAST_SHARE = 0.25  # the least share of its work that a sample does, however little time there is


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What every comparison is asked for: `most` blocks at most, and the `seconds` that the timed
    part of a cell takes in each.

    `argv` is the command line that repeats it, `passed` the user's variables that a command needs.
    """

    most: int
    seconds: float
    seed: int
    record: bool
    argv: Sequence[str]
    passed: Sequence[str] = ()
    metric: str | None = None
    better: Better = "lower"


@dataclass(frozen=True)
class Ready:
    """A plan whose blocks are sized. `failures` has the cells that failed their trial, `round_s`
    the seconds that a round takes.

    `same` says which cell is identical to A, so that there is nothing to compare; else "".
    """

    plan: Plan
    failures: Mapping[str, str]
    round_s: float
    same: str = ""


def sampler(plan: Plan) -> Sampler:
    """A Sampler that takes real samples, each in a process of its own."""

    def one(trial: Trial) -> Sample:
        blank = Sample(trial.track.name, trial.round, trial.position, trial.letter)
        return trial.work.nominal(take(blank, process_for(plan, trial)))

    return one


def process_for(plan: Plan, trial: Trial) -> Process:
    track = trial.track
    cell = track.floor if trial.letter == FLOOR else plan.cells[trial.letter]
    assert cell is not None
    return trial.work.process(cell, trial.padding, track.reading.name in COUNTED)


def prepare(plan: Plan, seconds: float, console: Console, within_s: float = math.inf) -> Ready:
    """Runs everything once, uncounted, so that what cannot work is known before the first block.

    A block then has as many samples as make `seconds` of the fastest cell's timed part; fewer and
    shorter ones where the first look would come later than `within_s` seconds from now.
    """
    end = time.monotonic() + within_s
    failures = unproven(plan.cells)
    tracks, round_s, same = [], 0.0, ""
    with console.status("one run of everything, not counted"):
        for track in plan.tracks:
            letters = [*plan.cells, *([FLOOR] if track.floor else [])]
            found: dict[str, Sample] = {}
            for letter in letters:
                if letter not in failures:
                    sample = _trial(plan, Trial(track, letter, -1, 0, 0))
                    if sample.error is not None:
                        failures[letter] = f"{track.name}: {sample.error}"
                    found[letter] = sample
            if track is plan.tracks[0]:
                same = what_is_the_same(plan, track, found)
            left = (end - time.monotonic()) / (len(plan.tracks) * plan.looks[0])
            chosen, block_s = sized(track, found, seconds, left)
            tracks.append(chosen)
            round_s += block_s
    return Ready(replace(plan, tracks=tracks), failures, round_s, same)


def what_is_the_same(plan: Plan, track: Track, found: Mapping[str, Sample]) -> str:
    """Names a cell that is identical to A (file, work and settings in effect) in a sentence; else
    "".

    A process's proof states the settings it was given; its warnings name those without effect,
    which are ignored here.
    """
    base = found.get(BASE)
    for letter in plan.contenders:
        sample = found.get(letter)
        if base is None or sample is None or plan.cells[letter].twin:
            continue
        if _effective(plan, track, BASE, base) == _effective(plan, track, letter, sample):
            said = "".join(f"; {line}" for line in dict.fromkeys(base.warnings + sample.warnings))
            return (
                f"nothing to compare: {name_of(plan, BASE)} and {name_of(plan, letter)} are the "
                f"same library with the same settings in effect (--aa compares two copies){said}"
            )
    return ""


def _effective(plan: Plan, track: Track, letter: str, sample: Sample) -> object:
    cell, work = plan.cells[letter], track.works[letter]
    idle = {word for line in sample.warnings if " no effect" in line for word in line.split()}
    stated = sample.proof.settings if sample.proof else None
    known = {k: v for k, v in (stated or {}).items() if f"{k}={v}" not in idle}
    others = dict(cell.environment)
    if stated is not None:
        others = without_settings(others)
    digest = provenance.binary(cell.library.path).sha256
    return digest, cell.library.beside, dict(cell.library.env), work, known, others


class CellsFailed(LabError):
    """Cells failed their trial, and what remains is nothing to measure."""

    def __init__(self, said: str, plan: Plan, failures: Mapping[str, str]) -> None:
        whys = "; ".join(f"{name_of(plan, at)}: {why}" for at, why in failures.items())
        super().__init__(f"{said}: {whys}", status=1)
        self.failures = failures


def require_ready(
    plan: Plan, seconds: float, console: Console, drop: bool, within_s: float = math.inf
) -> Ready:
    """The prepared plan. LabError where a cell is identical to A, CellsFailed where failed trials
    leave nothing to measure: any failed trial without `drop`."""
    ready = prepare(plan, seconds, console, within_s)
    if ready.same:
        raise LabError(ready.same)
    if ready.failures and not (drop and paired.sound(ready.failures)):
        raise CellsFailed("nothing was measured", plan, ready.failures)
    if len(ready.failures) == len(plan.contenders):
        raise CellsFailed("nothing to compare with", plan, ready.failures)
    return ready


def unproven(cells: Mapping[str, Cell]) -> dict[str, str]:
    """The cells whose library does not serve malloc at all, with the reason."""
    reasons: dict[str, str] = {}
    for files, lib in {str(cell.library.files): cell.library for cell in cells.values()}.items():
        try:
            library.verify(lib)
        except LabError as error:
            reasons[files] = str(error)
    found = {letter: reasons.get(str(cell.library.files)) for letter, cell in cells.items()}
    return {letter: why for letter, why in found.items() if why}


def _trial(plan: Plan, trial: Trial) -> Sample:
    """One run, for which the loader confirms that a library that leaves no proof was loaded."""
    sample = take_shown(Sample(trial.track.name), process_for(plan, trial))
    return paired.checked(sample, trial.track.reading)


def sized(
    track: Track, found: Mapping[str, Sample], seconds: float, most_s: float
) -> tuple[Track, float]:
    """The track with its number of samples chosen, and the seconds that a block of it takes.

    Where a block would take longer than `most_s` it has fewer samples and, where two of each cell
    are still too long, shorter ones, but no shorter than LEAST_SHARE of the work.
    """
    good = [sample for sample in found.values() if sample.error is None]
    pair = max(1e-6, 2 * sum(s.wall_s + track.works[BASE].quiet_s for s in good))
    often = max(1, int(min(turns(track, found, seconds), most_s / pair)))
    timed = max(1e-6, 2 * sum(min(_timed(s), s.wall_s) for s in good))
    share = min(1.0, max(LEAST_SHARE, 1 - (pair - most_s) / timed))
    if share == 1:
        return replace(track, turns=often), often * pair
    works = {letter: work.shortened(share) for letter, work in track.works.items()}
    return replace(track, turns=1, works=works), pair - (1 - share) * timed


def turns(track: Track, found: Mapping[str, Sample], seconds: float) -> int:
    """How often a block goes there and back, at least once, to make `seconds` of the fastest cell.

    Memory is read off few samples: it hardly differs between them.
    """
    good = [sample for sample in found.values() if sample.error is None]
    if not good or track.reading.name in MEMORY:
        return 1
    # A sample counts for at least a third of its wall time: where starting takes long, a block
    # takes no more than about three times `seconds` of the fastest cell.
    longest = max(min(map(_timed, good)), min(s.wall_s for s in good) / 3, 1e-6)
    own = track.works[BASE].command is not None
    return max(1, min(MOST_TURNS if own else MOST_OF_COMMAND, round(seconds / (2 * longest))))


def _timed(sample: Sample) -> float:
    seconds = sample.stated("seconds")
    return sample.wall_s if seconds is None else float(seconds)


@dataclass(frozen=True)
class Conducted:
    """A comparison that was measured: its plan with sized blocks, the outcome, what else the host
    did (`noise`), and how many seconds it took."""

    plan: Plan
    outcome: Outcome
    noise: Mapping[str, object]
    seconds: float


def conduct(
    plan: Plan,
    seconds: float,
    console: Console,
    take_sample: Sampler | None = None,
    drop: bool = False,
    say: Standing | None = None,
    within_s: float = math.inf,
) -> Conducted:
    """Prepares and measures. With `drop` contenders that fail their trial are left out.

    `say` makes the lines shown after a look; the first look shall come within `within_s` seconds.
    """
    ready = require_ready(plan, seconds, console, drop, within_s)
    console.print(f"this takes {expected_time(ready)}")
    return measure(ready, console, take_sample or sampler(ready.plan), say)


def name_of(plan: Plan, letter: str) -> str:
    return "the floor" if letter == FLOOR else plan.cells[letter].name


def expected_time(ready: Ready) -> str:
    """The time to the first look and to the last; rounds get shorter as cells are decided."""
    first, last = (
        duration(max(n * ready.round_s, 1)) for n in (ready.plan.looks[0], ready.plan.most)
    )
    return last if first == last else f"{first} to {last}"


def duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def measure(
    ready: Ready, console: Console, take_sample: Sampler, say: Standing | None = None
) -> Conducted:
    """Takes the blocks, with a progress bar and the standing after each look."""
    plan, meter, started = ready.plan, provenance.NoiseMeter(), time.monotonic()
    with progress_bar(console) as progress:
        bar = progress.add_task("block 1", total=plan.most * plan.samples_per_round())

        def tick(trial: Trial, sample: Sample) -> None:
            where = f"block {trial.round + 1} of at most {plan.most}: {trial.track.name}"
            progress.update(bar, advance=1, description=where)

        def tell(blocks: int, decisions: Mapping[str, Decision]) -> None:
            for line in say(plan, blocks, decisions) if say else ():
                progress.console.print(Text(line, style="dim"))

        outcome = paired.run(plan, take_sample, tick, tell, ready.failures)
    return Conducted(plan, outcome, meter.stop(), time.monotonic() - started)
