"""What the profiles of a run say: of which process, at which times, and in which words."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hakmem import words
from hakmem.errors import LabError
from hakmem.heap import page as heap_page, pprof, symbols, weigh
from hakmem.heap.page import Page, View
from hakmem.heap.pprof import ALLOCATED, IN_USE, Profile
from hakmem.heap.weigh import Weighed

PERF_MAPS = Path("/tmp")


@dataclass(frozen=True)
class Process:
    """A process's profiles, in the order in which it wrote them."""

    pid: int
    profiles: Sequence[Profile]

    @property
    def peak(self) -> Profile:
        return max(self.profiles, key=lambda profile: profile.total(IN_USE))

    @property
    def last(self) -> Profile:
        return self.profiles[-1]

    @property
    def program(self) -> str:
        """The first file that is mapped is the program's, as everywhere in the format."""
        modules = self.last.modules
        return Path(modules[0].file).name if modules else f"process {self.pid}"


Identity = tuple[int, str, int]


def identity(profile: Profile) -> Identity:
    """Tells processes apart: by where the program is mapped too, for each container has a pid 1."""
    first = profile.modules[0] if profile.modules else None
    return (profile.pid, first.file, first.start) if first else (profile.pid, "", 0)


def processes(files: Iterable[Path]) -> list[Process]:
    """The profiles by process, the one with most in use first. LabError: a file is no profile."""
    by_process: dict[Identity, list[Profile]] = defaultdict(list)
    for file in files:
        profile = pprof.read(file)
        by_process[identity(profile)].append(profile)
    found = [
        Process(own[0].pid, sorted(own, key=lambda profile: (profile.time_ns, profile.name)))
        for own in by_process.values()
    ]
    return sorted(found, key=lambda process: -process.peak.total(IN_USE))


def choose(found: Sequence[Process], pid: int | None) -> Process:
    """The process `pid`, or the first. LabError where there is none, or its profiles are empty."""
    chosen = next((process for process in found if pid in (None, process.pid)), None)
    if chosen is None:
        there = ", ".join(f"{process.pid} ({process.program})" for process in found)
        raise LabError(f"--pid {pid}: no profile is of that process, but of {there}")
    interval = chosen.last.interval
    if any(profile.samples for profile in chosen.profiles):
        return chosen
    if interval <= 1:
        said = f"nothing was allocated in {chosen.program} while its profile was on"
        raise LabError(said, status=1)
    raise LabError(
        f"nothing was sampled in {chosen.program}: it allocates too little for one in "
        f"{words.size(interval)}; repeat with --sample-kb 0 (HAKMEM_PROF_SAMPLE_KB=0)",
        status=1,
    )


def of_process(
    process: Process,
    others: Sequence[Process],
    beside: Iterable[Path],
    wrappers: re.Pattern[str],
    command: str,
) -> Page:
    names = symbols.names(process.profiles, [*beside, PERF_MAPS])
    at = [weigh.weigh(profile, IN_USE, names.of) for profile in process.profiles]
    peak, last = process.profiles.index(process.peak), len(at) - 1
    total = weigh.weigh(process.last, ALLOCATED, names.of)
    views = [
        _view("inuse", "In use", _when(process.last, last, at), at[last], wrappers),
        _view("alloc", "Allocated", "Since the start, freed or not.", total, wrappers),
    ]
    if peak != last:
        views.insert(1, _view("peak", "At the peak", _peak(process, at), at[peak], wrappers))
    grew = process.profiles[-1].time_ns > process.profiles[0].time_ns
    growth = weigh.growth(process.profiles, at, wrappers, heap_page.DRAWN) if grew else None
    return Page(
        title=f"The heap of {process.program}",
        kicker=f"hakmem heap · {heap_page.when(process.last.time_ns)}",
        lede=_lede(at[last], at[peak], total, peak != last),
        views=views,
        first="peak" if peak != last else "inuse",
        facts=_facts(process, command),
        interval=process.last.interval,
        growth=growth,
        others=[_row(other) for other in others if other is not process],
        problems=[*names.problems, *_lost(process.last)],
    )


def _lost(profile: Profile) -> list[str]:
    lost = profile.fact("lost_samples")
    why = "there was no memory for their stacks, and they are in no figure"
    return [f"{words.count(lost)} samples were lost: {why}"] if lost else []


def _view(id: str, name: str, note: str, weighed: Weighed, wrappers: re.Pattern[str]) -> View:
    return View(id, name, note, weighed, weigh.functions(weighed, wrappers))


def _when(profile: Profile, index: int, at: Sequence[Weighed]) -> str:
    reason = profile.facts.get("reason", "")
    when = {"exit": "When the process ended", "signal": "When it was asked by a signal"}
    said = when.get(reason, "When the profile was written")
    return f"{said}{f', the last of {len(at)} profiles' if index else ''}."


def _peak(process: Process, at: Sequence[Weighed]) -> str:
    return (
        f"The one of {len(at)} profiles that has most in use, {process.peak.name}; between two "
        "profiles it may have been more."
    )


def _lede(last: Weighed, peak: Weighed, total: Weighed, fell: bool) -> str:
    used = words.size(last.total.bytes)
    if fell:
        used = f"{words.size(peak.total.bytes)} were in use at the peak, {used} in the end"
    else:
        used = f"{used} were in use"
    return f"{used}. {words.size(total.total.bytes)} were allocated in all."


def _facts(process: Process, command: str) -> dict[str, str]:
    last = process.last
    facts = {
        "command": command,
        "program": last.modules[0].file if last.modules else "",
        "process": str(process.pid or ""),
        "hakmem": last.facts.get("hakmem", ""),
        "profiles": f"{len(process.profiles)}, the last {last.name}",
        "written": f"{heap_page.when(last.time_ns)}, {last.facts.get('reason', '')}".rstrip(", "),
        "sampled": f"one in {words.size(last.interval)}" if last.interval > 1 else "everything",
        "stacks in the last": str(len(last.samples)),
        "in use, by the samples": words.size(last.total(IN_USE)),
        "in use, as counted": _size(last, "live_bytes"),
        "resident memory": _size(last, "rss_bytes"),
    }
    return {name: value for name, value in facts.items() if value}


def _size(profile: Profile, fact: str) -> str:
    return words.size(profile.fact(fact)) if fact in profile.facts else ""


def _row(process: Process) -> tuple[str, str, str]:
    name = f"{process.program} (pid {process.pid}, {len(process.profiles)} profiles)"
    return name, words.size(process.peak.total(IN_USE)), words.size(process.last.total(ALLOCATED))


def of_two(
    before: Profile, after: Profile, beside: Iterable[Path], wrappers: re.Pattern[str]
) -> Page:
    """The page of what grew and what shrank from one profile to the other."""
    folders = [*beside, PERF_MAPS]
    one = identity(before) == identity(after)
    same = one and before.pid != 0 and before.time_ns <= after.time_ns
    if same:
        names = symbols.names([before, after], folders)
        of, problems = names.of, names.problems
    else:
        each = [symbols.names([profile], folders) for profile in (before, after)]
        of = each[0].of | each[1].of
        problems = list(dict.fromkeys(each[0].problems + each[1].problems))
    sides = [weigh.weigh(profile, IN_USE, of) for profile in (before, after)]
    between = None
    if same:
        made = [weigh.weigh(profile, ALLOCATED, of) for profile in (before, after)]
        between = weigh.grown(weigh.change(made[0], made[1]))
    interval = max(before.interval, after.interval)
    changed = weigh.change(sides[0], sides[1], between, interval)
    grew, shrank = weigh.grown(changed), weigh.shrunk(changed)
    views = [
        _view("grew", "Grew", "What is in use after and was not before.", grew, wrappers),
        _view("shrank", "Shrank", "What was in use before and is not after.", shrank, wrappers),
    ]
    if between:
        note = "Between the two profiles, freed or not."
        views.append(_view("alloc", "Allocated", note, between, wrappers))
    then, now = (side.total.bytes for side in sides)
    lede = (
        f"{words.size(then)} were in use before, {words.size(now)} after: "
        f"{words.size(abs(now - then))} {'more' if now >= then else 'less'}."
    )
    facts = {
        f"{name} {side}": value
        for side, profile in (("before", before), ("after", after))
        for name, value in _facts(Process(profile.pid, [profile]), "").items()
        if name in ("program", "process", "written", "sampled", "resident memory")
    }
    old, new = (Process(profile.pid, [profile]).program for profile in (before, after))
    return Page(
        title=f"The heap of {new}, before and after"
        if old == new
        else f"The heap of {old} before, of {new} after",
        kicker=f"hakmem heap · {before.name} → {after.name}",
        lede=lede,
        views=views,
        first="grew" if grew.total.bytes >= shrank.total.bytes else "shrank",
        facts=facts,
        interval=interval,
        changes=weigh.changes(sides[0], sides[1], changed, wrappers),
        problems=problems,
    )
