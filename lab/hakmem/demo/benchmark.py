"""The second half: a short benchmark against every allocator that is here, in a time budget."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from hakmem.paired import suite_run
from hakmem.paired.protocol import LOOKS
from hakmem.process.library import SUBJECT

# Those whose samples say the same when they are cut to a quarter. Of large blocks and working sets
# so short a sample would show little but the first touch of their pages.
ROWS = (
    "random_mixed_256",
    "random_mixed_400",
    "random_mixed_8192",
    "batch_fifo",
    "larson_1",
    "larson_2",
    "larson_16",
    "larson_generations",
    "thread_churn",
    "idle_rss",
)
# Timed part of each cell in a block, if the budget has room for it.
SECONDS = 0.05


def request(
    library: Path | None,
    rivals: Sequence[str],
    budget_s: float,
    seed: int | None,
    argv: Sequence[str],
) -> suite_run.Request:
    """The suite in a hurry, unrecorded, about `budget_s` seconds; of `library`, or as built.

    As many blocks as in the suite, of shorter samples: with fewer of them nothing is left to decide
    on once neighbours that are correlated are merged.
    """
    return suite_run.Request(
        names=ROWS,
        library=f"{shlex.quote(str(library.absolute()))} name={SUBJECT}" if library else SUBJECT,
        rivals=rivals,
        most=LOOKS[-1],
        seconds=SECONDS,
        seed=seed,
        record=False,
        argv=argv,
        budget_s=budget_s,
    )
