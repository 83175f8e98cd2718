"""Takes the samples of a plan, in its order; every failure stays in the record."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from hakmem.errors import LabError
from hakmem.overview.summary import SUBJECT
from hakmem.process.library import Library, system
from hakmem.process.order import Task
from hakmem.process.sample import Process, Sample, take
from hakmem.project import bench_dir

GIVE_UP_AFTER = 2


def process_for(task: Task, libraries: Mapping[str, Library], amount: int) -> Process:
    """The process of a task; a reference runs with its own preload, or with none."""
    reference = task.reference
    if reference is None:
        library = libraries[task.library]
    elif reference.preload:
        library = replace(system(), path=bench_dir() / reference.preload)
    else:
        library = system()
    return Process(
        argv=task.command.argv(amount, reference),
        library=library,
        padding=task.padding,
        expects_proof=task.library == SUBJECT,
        proof_apart=task.command.proof_apart and reference is None,
        environment=dict(task.command.settings) if task.library == SUBJECT else {},
    )


def collect(
    plan: Iterable[list[Task]],
    libraries: Mapping[str, Library],
    amount_of: Callable[[str], int],
    on_sample: Callable[[Sample], None],
    deadline: float | None = None,
) -> list[Sample]:
    """All samples of the plan. A cell that failed twice is not run again: its errors stand.

    With a deadline (monotonic seconds) whole rounds are left out once the next would pass it.
    """
    samples: list[Sample] = []
    failures: Counter[tuple[str, str]] = Counter()
    longest = 0.0
    for tasks in plan:
        start = time.monotonic()
        if deadline is not None and samples and start + longest > deadline:
            break
        for position, task in enumerate(tasks):
            if failures[task.cell] >= GIVE_UP_AFTER:
                continue
            process = process_for(task, libraries, amount_of(task.command.name))
            blank = Sample(
                command=task.command.name,
                library=task.library,
                argv=process.argv,
                round=task.round,
                position=position,
                padding=task.padding,
            )
            try:
                sample = take(blank, process)
            except KeyboardInterrupt:
                raise LabError("interrupted: nothing was written", status=130) from None
            failures[task.cell] += sample.error is not None
            samples.append(sample)
            on_sample(sample)
        longest = max(longest, time.monotonic() - start)
    return samples
