"""How a recorded metric is written as a figure, and how figures are found in a text. Pure.

A figure is cited as `41.2 M ops/s<!--c:ID/metric/scale-->`, in a commit message as
`41.2 M ops/s [c:ID/metric/scale]`. A scale is a prefix of the unit (k M G, m µ n, Ki Mi Gi); of a
ratio it is `ratio`, the default, or `%`, the signed change; of a share it is `%`. `noclaim: reason`
in either pair of brackets exempts the paragraph it stands in, or the next where it stands alone.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from hakmem.errors import LabError

SCALES = {
    "n": "1e-9", "µ": "1e-6", "m": "1e-3", "k": "1e3", "M": "1e6", "G": "1e9",
    "Ki": str(2**10), "Mi": str(2**20), "Gi": str(2**30),
}  # fmt: skip

# The `kind` of an interval that one run's series gives: it does not hold for another run.
WITHIN = "95 % CI within the run"

# ---- from a metric to a figure ----


def scaled(value: float, unit: str, scale: str | None) -> tuple[Decimal, str]:
    """The value and its unit as they are shown; LabError where the scale does not fit the unit."""
    exact = Decimal(repr(float(value)))
    if unit == "ratio":
        if scale in (None, "ratio"):
            return exact, ""
        if scale == "%":
            return (exact - 1) * 100, "%"
    elif scale is None:
        return exact, unit
    elif (unit, scale) == ("share", "%"):
        return exact * 100, "%"
    elif scale in SCALES:
        return exact / Decimal(SCALES[scale]), scale + unit
    raise LabError(f"no scale {scale!r} for a metric in {unit}")


def rounded(value: Decimal, decimals: int) -> str:
    text = f"{value:.{decimals}f}"
    return text.removeprefix("-") if not text.strip("-0.") else text


def ends(metric: Mapping[str, Any]) -> tuple[float, float] | None:
    """The metric's interval, if it has one."""
    low, high = metric.get("low"), metric.get("high")
    return None if low is None or high is None else (low, high)


def value(metric: Mapping[str, Any]) -> float:
    """A measurement's value, or a verdict's estimate."""
    return metric["estimate"] if "estimate" in metric else metric["value"]


def figure(metric: Mapping[str, Any], scale: str | None = None, decimals: int = 2) -> str:
    """The figure as a document shows it: value, unit, and the interval of what has one."""
    unit = str(metric["unit"])
    shown, unit_shown = scaled(value(metric), unit, scale)
    text = f"{rounded(shown, decimals)} {unit_shown}".rstrip()
    interval = ends(metric)
    if interval is not None:
        low, high = (rounded(scaled(end, unit, scale)[0], decimals) for end in interval)
        text += f" [{low}–{high}]"
    return text.replace("-", "−") if unit == "ratio" else text


def address(text: str, body: Mapping[str, Any]) -> tuple[str, str | None]:
    """Metric and scale of `metric` or `metric/scale`; the names of metrics may have slashes."""
    metric, slash, scale = text.rpartition("/")
    return (metric, scale) if slash and text not in (body.get("metrics") or {}) else (text, None)


# ---- from a text to its figures ----

_NUMBER = r"[+−-]?(?<![\d.])(?:\d{1,3}(?:[,\u202f\u2009\xa0 ]\d{3})+(?!\d)|\d+)(?:\.\d+)?"
_INTERVAL = rf"\[(?P<low>{_NUMBER})\s*(?:–|…|to|,)\s*(?P<high>{_NUMBER})\s*%?\]"
_ADDRESS = r"c:(?P<id>[0-9a-f]+)/(?P<address>[^<>\[\]]+?)"
_MARKERS = {"<": rf"<!--{_ADDRESS}-->", "[": rf"\[{_ADDRESS}\]"}
_NOCLAIM = {"<": r"<!--\s*noclaim:(?P<reason>.*?)-->", "[": r"\[noclaim:(?P<reason>[^\]]*)\]"}

# Units that only a measurement has; sizes, which are figures where memory use is the subject;
# numbers before and after an arrow or behind a division sign.
_UNIT = re.compile(
    r"""\s?(?:
      (?:million|billion|[kKMGµμumn])?\s?(?:ops?|operations|allocations|requests|calls)\s?(?:/|per\s)\s?\w+
    | (?:\w{1,8}\s){0,2}\w{0,8}\s?(?:/|per\s)\s?
      (?:ops?|operation|exec|call|malloc|free|s|sec|second)\b
    | (?:[mµμun]?s|(?:micro|milli|nano)?seconds?)\b | [kMG]?Hz\b
    | (?:\w+\s)?(?:cycles|instructions|faults|misses|system\scalls|syscalls)\b
    | % | percent\b | (?:×|(?<!\b0)x)(?!\s?[\w({])
    | (?:times|x|×)\s(?:faster|slower|less|more|fewer|smaller|larger|as|the)\b
    )""",
    re.VERBOSE,
)
_SIZE = re.compile(r"\s?(?:[KMGT]i?B|kB|bytes|B)\b")
_OF_MEMORY = re.compile(r"\b(?:RSS|resident|peak|footprint|memory use|leaner)\b", re.IGNORECASE)
_WITH_INTERVAL = re.compile(rf"{_NUMBER}\s?{_INTERVAL}")
_FROM_TO = re.compile(rf"{_NUMBER}[^\d|\n]{{0,12}}(?:→|->)\s?{_NUMBER}")
_DIVIDED = re.compile(r"÷(?:[^.]|\.(?=\d))*")
_TITLE_UNIT = re.compile(
    r"(?<!')\b[kMGmµμn]?(?:ops?|s|sec)\b|%|÷|×|cycles|instructions|faults|misses|CPU/|RSS|\b[KMG]i?B\b"
)


@dataclass(frozen=True)
class Claim:
    """A figure in a text and the address of the metric it is said to be."""

    line: int
    text: str
    number: str
    unit: str
    low: str | None
    high: str | None
    id: str
    address: str
    block: str = field(repr=False)


@dataclass
class Found:
    """What a text contains: claims, figures without a record (line and text), faults in markers."""

    claims: list[Claim] = field(default_factory=list)
    unbacked: list[tuple[int, str]] = field(default_factory=list)
    faults: list[tuple[int, str]] = field(default_factory=list)
    exempt: int = 0


def scan(text: str, brackets: str = "<") -> Found:
    """All figures of a text. `brackets` is `<` for Markdown, `[` for a commit message."""
    found = Found()
    exempt_next = False
    for line, block in _blocks(without_code(text) if brackets == "<" else text):
        reasons = re.findall(_NOCLAIM[brackets], block, re.DOTALL)
        if any(not reason.strip() for reason in reasons):
            found.faults.append((line, "noclaim without a reason"))
        rest = re.sub(_NOCLAIM[brackets], spaces, block, flags=re.DOTALL)
        rest = _take_claims(rest, block, line, brackets, found)
        figures = list(_figures(re.sub(r"<!--.*?-->", spaces, rest, flags=re.DOTALL)))
        if reasons or exempt_next:
            found.exempt += bool(figures)
        else:
            found.unbacked += [(line + block.count("\n", 0, at), words) for at, words in figures]
        exempt_next = bool(reasons) and not rest.strip()
    return found


def spaces(match: re.Match[str]) -> str:
    """What was matched, blanked: lines and offsets stay."""
    return re.sub(r"[^\n]", " ", match.group())


def without_code(text: str) -> str:
    """The text with spaces for fenced code; a fence that is never closed hides nothing."""
    fence = r"^ *(```+|~~~+).*?^ *\1[`~]*[ ]*$"
    return re.sub(fence, spaces, text, flags=re.DOTALL | re.MULTILINE)


def _blocks(text: str) -> Iterator[tuple[int, str]]:
    """Paragraphs, lists and tables with the number of their first line."""
    for match in re.finditer(r"(?:^[^\n]*\S[^\n]*(?:\n|\Z))+", text, re.MULTILINE):
        yield text.count("\n", 0, match.start()) + 1, match.group()


def _take_claims(rest: str, block: str, line: int, brackets: str, found: Found) -> str:
    """Adds the block's claims; returns the block without them."""
    marker = _MARKERS[brackets]
    pattern = rf"(?P<number>{_NUMBER})(?P<unit>[^\d<>|\[\]]{{0,40}}?)(?:{_INTERVAL}\s*)?\s*{marker}"

    def take(match: re.Match[str]) -> str:
        part = match.groupdict()
        part["unit"] = " ".join(part["unit"].strip(" \n*_`").split())
        at = line + rest.count("\n", 0, match.start())
        lower = re.search(rf"{_NUMBER}\s?(?:[–…-]|to|and|or)\s?$", rest[: match.start()])
        if lower:
            found.faults.append((at, f"{lower.group().strip()} … has no record of its own"))
        found.claims.append(Claim(line=at, text=match.group(), block=block, **part))
        return spaces(match)

    rest = re.sub(pattern, take, rest)
    stray = r"<!--\s*c:.*?-->" if brackets == "<" else r"\[c:[^\]]*\]"
    for match in re.finditer(stray, rest, re.DOTALL):
        at = line + rest.count("\n", 0, match.start())
        found.faults.append((at, f"a marker that no figure stands before: {match.group()}"))
    return rest


def _figures(block: str) -> Iterator[tuple[int, str]]:
    """Offset and words of each number that a performance unit makes a figure."""
    if block.lstrip().startswith("|"):
        yield from _table_figures(block)
        return
    seen: set[int] = set()
    sizes = bool(_OF_MEMORY.search(block))
    for match in re.finditer(_NUMBER, block):
        unit = _UNIT.match(block, match.end()) or (sizes and _SIZE.match(block, match.end()))
        if unit:
            seen.add(match.start())
            yield match.start(), match.group() + unit.group()
    for pattern in (_FROM_TO, _WITH_INTERVAL):
        for match in pattern.finditer(block):
            if match.start() not in seen:
                yield match.start(), match.group()
    for sentence in _DIVIDED.finditer(block):
        for match in re.finditer(r"\d+\.\d+", sentence.group()):
            if sentence.start() + match.start() not in seen:
                yield sentence.start() + match.start(), f"÷ … {match.group()}"


def _table_figures(block: str) -> Iterator[tuple[int, str]]:
    """In a table the unit may stand in the column's title or in a cell of the row."""
    titles: list[str] = []
    offset = 0
    for row in block.splitlines(keepends=True):
        cells = row.strip().strip("|").split("|")
        titles = titles or cells
        sizes = any(_OF_MEMORY.search(text) for text in (*titles, *cells))
        by_row = any(_TITLE_UNIT.search(c) and not re.search(r"\d", c) for c in cells)
        for title, cell in zip(titles, cells, strict=False):
            number = re.search(_NUMBER, cell)
            if number is None or cells is titles:
                continue
            alone = not re.search(r"[A-Za-z]{3}", cell)
            own = _UNIT.match(cell, number.end()) or (sizes and _SIZE.match(cell, number.end()))
            if own or (alone and (by_row or _TITLE_UNIT.search(title))):
                yield offset, cell.strip()
        offset += len(row)
