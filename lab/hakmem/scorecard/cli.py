"""`hakmem scorecard`: the targets against the last recorded results."""

from typing import Annotated

import typer
from rich.console import Console

from hakmem import git, project
from hakmem.audit import check as audit
from hakmem.errors import LabError
from hakmem.ledger.store import Ledger
from hakmem.ledger.verify import verify


def command(
    write: Annotated[bool, typer.Option("--write", help="Make docs/SCORECARD.md.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Fail if docs/SCORECARD.md is not what the ledger says.")
    ] = False,
) -> None:
    """Show every target with the last figure of it that may be cited, and whether it is met."""
    from hakmem.scorecard import page as scorecard

    if write and check:
        raise LabError("--write makes the page and --check reads it: choose one")
    root = project.root()
    if git.is_shallow(root) and (write or check):
        if write:
            raise LabError(f"{audit.WITHOUT_HISTORY}: git fetch --unshallow")
        print(f"not checked: {audit.WITHOUT_HISTORY} (git fetch --unshallow)")
        return
    checked = verify(Ledger.default())
    if checked.problems:
        raise LabError(f"the ledger does not verify: {checked.problems[0]}", status=1)
    found = scorecard.rows(root, checked.records)
    path = root / scorecard.PAGE
    if check:
        print(scorecard.check(path, found))
    elif write:
        project.write_atomically(path, scorecard.page(found))
        print(f"written: {path}: {scorecard.tally(found)}")
    else:
        console = Console()
        scorecard.show(found, console)
        for line in scorecard.remarks(found):
            console.print(line, style="dim", highlight=False)
