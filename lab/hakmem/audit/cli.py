"""`hakmem audit`: the planted violations first, then documents and commit messages."""

from pathlib import Path
from typing import Annotated

import typer

from hakmem import project
from hakmem.audit import check as audit, planted
from hakmem.audit.settings import Settings
from hakmem.errors import LabError
from hakmem.ledger.store import Ledger


def command(
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="Documents; default: all Markdown files and the commit messages."),
    ] = None,
    make: Annotated[
        bool, typer.Option("--write", help="First make the generated tables again.")
    ] = False,
    release: Annotated[
        bool,
        typer.Option(
            "--release",
            help="Refuse evidence of any source but this one; of history, nothing more.",
        ),
    ] = False,
) -> None:
    """Check that every figure in the docs and commit messages is what a record says."""
    for path in files or ():
        project.require_file(path, "document")
    missed = planted.rehearse()
    if missed:
        raise LabError(f"the audit itself is broken, it let through: {'; '.join(missed)}", 1)
    root, ledger = project.root(), Ledger.default()
    settings = Settings.load(root)
    chosen = [path.resolve() for path in files or audit.documents(root)]
    if make:
        audit.write(root, chosen, ledger)
    stale_after = 0 if release else settings.stale_after
    result = audit.Audit.of(root, ledger, stale_after, settings.dated(root))
    shallow = result.evidence.shallow
    if release and shallow:
        raise LabError("a release needs the whole history to be audited: git fetch --unshallow")
    for path in chosen:
        result.document(path)
    if not files:
        for commit, text in audit.messages(root, settings, shallow):
            result.message(commit, text)
        result.floor(settings.floor)
    result.incomplete()
    for problem in result.problems:
        print(f"problem: {problem}")
    if any("unbacked" in problem for problem in result.problems):
        print(
            "help: `hakmem ledger cite ID/metric` prints a figure with its marker; "
            "<!--noclaim: reason--> exempts a paragraph"
        )
    for note in result.notes:
        print(f"note: {note}")
    refused, passed = len(planted.VIOLATIONS), len(planted.HARMLESS)
    print(f"audit: {refused} planted violations refused, {passed} harmless sentences not; {result}")
    if result.problems:
        raise typer.Exit(1)
