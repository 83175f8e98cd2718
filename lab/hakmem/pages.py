"""Pages and pictures: made from the package's templates, and compared with their sources."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from hakmem.errors import LabError

TEMPLATES = Path(__file__).parent / "templates"


def text(name: str) -> str:
    """The text of a template that is used as it is: a style or a script."""
    return (TEMPLATES / name).read_text(encoding="utf-8")


def render(template: str, **values: object) -> str:
    """The template with these values, which are escaped. A name that is used but not given is an
    error; so is a number that JSON does not have (NaN, infinity)."""
    # Imported late: most commands make no page.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    return environment.get_template(template).render(**values)


@dataclass(frozen=True)
class Axis:
    """A logarithmic axis from `low` to `high`, drawn from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float

    def x(self, value: float) -> float:
        inside = min(max(value, self.low), self.high)
        share = math.log(inside / self.low) / math.log(self.high / self.low)
        return self.start + share * (self.end - self.start)


def row(cells: Iterable[str]) -> str:
    """A line of a Markdown table."""
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n"


def with_table(page: str, name: str, table: str) -> str:
    """The page with the table between its marks `name`; LabError where it has no such marks."""
    begin, end = f"<!--{name}:begin-->", f"<!--{name}:end-->"
    head, begins, rest = page.partition(begin)
    _, ends, tail = rest.partition(end)
    if not begins or not ends:
        raise LabError(f"the page has no {begin} … {end}")
    return f"{head}{begin}\n{table}{end}{tail}"


def require_same(path: Path, due: str, says: str, remedy: str) -> None:
    """LabError that names the first line in which a page is not what its source gives (`due`)."""
    try:
        found = path.read_text(encoding="utf-8")
    except OSError as error:
        raise LabError(f"{path}: {error.strerror}; {remedy}", status=1) from None
    lines = zip_longest(found.split("\n"), due.split("\n"))
    for number, (is_there, should_be) in enumerate(lines, 1):
        if is_there != should_be:
            raise LabError(f"{path}:{number}: not what {says}; {remedy}", status=1)
