"""The claims of a text, its figures without a record, and the faults in its markers. Pure.

A figure is cited as `41.2 M ops/s<!--c:ID/metric/scale-->`, in a commit message as
`41.2 M ops/s [c:ID/metric/scale]`. `noclaim: reason` in either pair of brackets exempts the
paragraph it stands in, or the next where it stands alone.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from hakmem.audit.figures import INTERVAL, NUMBER, figures

_ADDRESS = r"c:(?P<id>[0-9a-f]+)/(?P<address>[^<>\[\]]+?)"
_MARKERS = {"<": rf"<!--{_ADDRESS}-->", "[": rf"\[{_ADDRESS}\]"}
_NOCLAIM = {"<": r"<!--\s*noclaim:(?P<reason>.*?)-->", "[": r"\[noclaim:(?P<reason>[^\]]*)\]"}


@dataclass(frozen=True)
class Claim:
    """A figure in a text, and the id and address of the metric that it cites."""

    line: int
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
        unbacked = list(figures(re.sub(r"<!--.*?-->", spaces, rest, flags=re.DOTALL)))
        if reasons or exempt_next:
            found.exempt += bool(unbacked)
        else:
            found.unbacked += [(line + below, words) for below, words in unbacked]
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
    """Adds the claims of the block to `found`; returns the block with them blanked."""
    marker = _MARKERS[brackets]
    pattern = rf"(?P<number>{NUMBER})(?P<unit>[^\d<>|\[\]]{{0,40}}?)(?:{INTERVAL}\s*)?\s*{marker}"

    def take(match: re.Match[str]) -> str:
        part = match.groupdict()
        part["unit"] = " ".join(part["unit"].strip(" \n*_`").split())
        at = line + rest.count("\n", 0, match.start())
        lower = re.search(rf"{NUMBER}\s?(?:[–…-]|to|and|or)\s?$", rest[: match.start()])
        if lower:
            found.faults.append((at, f"{lower.group().strip()} … has no record of its own"))
        found.claims.append(Claim(line=at, block=block, **part))
        return spaces(match)

    rest = re.sub(pattern, take, rest)
    stray = r"<!--\s*c:.*?-->" if brackets == "<" else r"\[c:[^\]]*\]"
    for match in re.finditer(stray, rest, re.DOTALL):
        at = line + rest.count("\n", 0, match.start())
        found.faults.append((at, f"a marker that no figure stands before: {match.group()}"))
    return rest
