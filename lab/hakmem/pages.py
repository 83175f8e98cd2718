"""Pages and pictures: made from the package's templates, held to what they are made from."""

from __future__ import annotations

from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from hakmem.errors import LabError

if TYPE_CHECKING:
    from jinja2 import Environment

TEMPLATES = Path(__file__).parent / "templates"


def environment() -> Environment:
    """Escapes by itself; a name that a template uses and nobody gave is an error."""
    # Here, because most commands make no page.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def require_same(path: Path, due: str, says: str, remedy: str) -> None:
    """LabError that names the first line in which a page is not what it is made from."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise LabError(f"{path}: {error.strerror}; {remedy}", status=1) from None
    lines = zip_longest(text.split("\n"), due.split("\n"))
    for number, (is_there, should_be) in enumerate(lines, 1):
        if is_there != should_be:
            raise LabError(f"{path}:{number}: not what {says}; {remedy}", status=1)
