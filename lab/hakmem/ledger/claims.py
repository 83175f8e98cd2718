"""How a recorded metric is written as a figure. Pure.

A scale is a prefix of the unit (k M G, m µ n, Ki Mi Gi); for a ratio it is `ratio`, the default, or
`%`, the signed change; for a share it is `%`. `audit/scanner.py` reads figures of this form.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from hakmem import words
from hakmem.errors import LabError
from hakmem.stats import Interval

SCALES = {
    "n": "1e-9", "µ": "1e-6", "m": "1e-3", "k": "1e3", "M": "1e6", "G": "1e9",
    "Ki": str(2**10), "Mi": str(2**20), "Gi": str(2**30),
}  # fmt: skip

GUARD = "guard "  # prefix of a guard's name among a verdict's metrics
# The `kind` of an interval computed from the series of one run: it does not hold for another run.
WITHIN = "95 % CI within the run"


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
    """The two ends of the metric's interval or range, if it has them."""
    low, high = metric.get("low"), metric.get("high")
    return None if low is None or high is None else (low, high)


def is_range(metric: Mapping[str, Any]) -> bool:
    """Whether its ends are only the lowest and the highest value, and so no interval."""
    return str(metric.get("kind", "")).startswith("range")


def value(metric: Mapping[str, Any]) -> float:
    """A measurement's value, or a verdict's estimate."""
    return metric["estimate"] if "estimate" in metric else metric["value"]


def interval(metric: Mapping[str, Any]) -> Interval:
    """The metric as an Interval; one without ends has its value as both."""
    middle = value(metric)
    low, high = ends(metric) or (middle, middle)
    return Interval(middle, low, high, str(metric.get("kind", "")))


def figure(metric: Mapping[str, Any], scale: str | None = None, decimals: int = 2) -> str:
    """The figure as a document shows it: value, unit and, if it has them, its two ends."""
    unit = str(metric["unit"])
    shown, unit_shown = scaled(value(metric), unit, scale)
    text = f"{rounded(shown, decimals)} {unit_shown}".rstrip()
    found = ends(metric)
    if found is not None:
        low, high = (rounded(scaled(end, unit, scale)[0], decimals) for end in found)
        text += f" [{low}–{high}]"
    return text.replace("-", "−") if unit == "ratio" else text


def for_people(metric: Mapping[str, Any]) -> tuple[str, str]:
    """The value with few digits in a unit that suits it, and its ends in the same unit or ""."""
    middle, unit, by = value(metric), str(metric.get("unit", "")), 1.0
    if unit in ("share", "probability"):
        unit, by = "%", 0.01
    elif unit == "B" or unit.endswith("/s"):
        scales = ("Gi", "Mi", "Ki") if unit == "B" else ("G ", "M ", "k ")
        for scale in scales:
            if abs(middle) >= float(SCALES[scale.strip()]):
                unit, by = scale + unit, float(SCALES[scale.strip()])
                break
    said = "–".join(_digits(end / by) for end in ends(metric) or ())
    return f"{_digits(middle / by)} {'' if unit == 'ratio' else unit}".rstrip(), said


def _digits(value: float) -> str:
    """Whole numbers without decimals; below 0.01 two significant digits, so that none is 0."""
    if value == int(value):
        return words.count(value)
    return f"{value:.2g}" if abs(value) < 0.01 else words.number(value)


def address(text: str, body: Mapping[str, Any]) -> tuple[str, str | None]:
    """Splits `metric` or `metric/scale`, where the names of metrics may contain slashes."""
    metric, slash, scale = text.rpartition("/")
    return (metric, scale) if slash and text not in (body.get("metrics") or {}) else (text, None)
