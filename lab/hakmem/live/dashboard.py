"""A dashboard for Grafana over what `hakmem export` serves: each row of PANELS is a panel."""

import re
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Any

SOURCE = {"type": "prometheus", "uid": "${datasource}"}
CHOSEN = '{command=~"$command",pid=~"$pid"}'
CALLS = ("maps", "munmap", "mremap", "mprotect", "madvise", "mincore", "futex", "other_calls")


@dataclass(frozen=True)
class Panel:
    """`asked` maps legends to expressions, where @NAME is that metric of the chosen processes."""

    title: str
    unit: str
    asked: dict[str, str]
    description: str = ""
    stacked: bool = False


def each(**metrics: str) -> dict[str, str]:
    """A line for each process; the legend begins with the name where there are several metrics."""
    words = {name: name.replace("_", " ") + " " if len(metrics) > 1 else "" for name in metrics}
    return {f"{words[name]}{{{{command}}}} {{{{pid}}}}": what for name, what in metrics.items()}


def rate(metric: str) -> str:
    return f"rate(@{metric}_total[$__rate_interval])"


PANELS = (
    Panel(
        "In use",
        "bytes",
        each(allocated="@allocated_bytes"),
        "Blocks that the program holds, each at its full size.",
    ),
    Panel(
        "Resident",
        "bytes",
        each(resident="@resident_bytes"),
        "Of hakmem's address space, what has memory.",
    ),
    Panel(
        "In use by band",
        "bytes",
        {"{{band}}": "sum by (band) (@band_allocated_bytes)"},
        stacked=True,
    ),
    Panel(
        "Resident and not in use",
        "bytes",
        each(dirty="@dirty_bytes", lazy="@lazy_bytes", magazines="@magazines_bytes"),
        "Dirty: on pages with nothing live. Lazy: given back, and not taken by the system yet.",
    ),
    Panel(
        "Address space",
        "bytes",
        each(mapped="@mapped_bytes", cached="@cached_bytes", metadata="@metadata_bytes"),
    ),
    Panel(
        "Held, and the limit",
        "bytes",
        each(held="@held_bytes", limit="@limit_bytes > 0"),
        "HAKMEM_LIMIT_MB, HAKMEM_LIMIT_PERCENT.",
    ),
    Panel("Allocations refused", "ops", each(refused=rate("refused"))),
    Panel("Lines about heap corruption", "short", each(faults="@faults_total")),
    Panel("Given back by purges", "Bps", each(purged=rate("purge_bytes"))),
    Panel(
        "Time spent giving back",
        "percentunit",
        each(purging=rate("purge_seconds")),
        "Share of one core.",
    ),
    Panel(
        "Calls to the system", "ops", {name: f"sum({rate(name)})" for name in CALLS}, stacked=True
    ),
    Panel(
        "Where magazines meet slabs",
        "ops",
        each(refills=rate("refills"), remote_frees=rate("remote_frees")),
    ),
)


def board() -> dict[str, Any]:
    """The dashboard in the form that Grafana imports."""
    return {
        "title": "hakmem",
        "uid": "hakmem",
        "tags": ["memory"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": variables()},
        "annotations": {"list": []},
        "panels": [_panel(number, panel) for number, panel in enumerate(PANELS)],
    }


def variables() -> list[dict[str, Any]]:
    """The data source; then programs and processes, of which all are chosen at first."""
    source = {"label": "data source", "type": "datasource", "query": "prometheus"}
    made: list[dict[str, Any]] = [{"name": "datasource", **source}]
    for name, label, of in (
        ("command", "program", "hakmem_info"),
        ("pid", "process", 'hakmem_info{command=~"$command"}'),
    ):
        query = {"query": f"label_values({of}, {name})", "refId": name}
        made.append({"name": name, "label": label, "type": "query", "datasource": SOURCE})
        made[-1] |= {"query": query, "definition": "", "refresh": 2, "sort": 1}
        made[-1] |= {"includeAll": True, "multi": True, "allValue": ".*"}
        made[-1] |= {"current": {"text": "All", "value": "$__all"}}
    return made


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    style = {
        "fillOpacity": 20 * panel.stacked,
        "stacking": {"mode": "normal" if panel.stacked else "none"},
    }
    targets = [
        {"datasource": SOURCE, "expr": chosen(what), "legendFormat": legend, "refId": letter}
        for letter, (legend, what) in zip(ascii_uppercase, panel.asked.items(), strict=False)
    ]
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.description,
        "datasource": SOURCE,
        "gridPos": {"h": 8, "w": 12, "x": 12 * (number % 2), "y": 8 * (number // 2)},
        "fieldConfig": {
            "defaults": {"unit": panel.unit, "min": 0, "custom": style},
            "overrides": [],
        },
        "options": {
            "legend": {
                "displayMode": "table",
                "placement": "bottom",
                "calcs": ["lastNotNull", "max"],
            },
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
        "targets": targets,
    }


def chosen(expression: str) -> str:
    """The expression with the metrics' own names, for the chosen programs and processes."""
    return re.sub(r"@(\w+)", lambda metric: f"hakmem_{metric[1]}{CHOSEN}", expression)
