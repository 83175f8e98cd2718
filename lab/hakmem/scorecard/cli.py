"""`hakmem scorecard`: the targets against the last recorded results."""

from hakmem import project, terminal
from hakmem.errors import LabError
from hakmem.ledger.store import Ledger
from hakmem.ledger.verify import verify


def command() -> None:
    """Show every target with the last figure of it that may be cited, and whether it is met."""
    from hakmem.scorecard import page as scorecard

    checked = verify(Ledger.default())
    if checked.problems:
        raise LabError(f"the ledger does not verify: {checked.problems[0]}", status=1)
    found = scorecard.rows(project.root(), checked.records)
    console = terminal.new_console()
    scorecard.show(found, console)
    for line in scorecard.remarks(found):
        console.print(line, style="dim")
