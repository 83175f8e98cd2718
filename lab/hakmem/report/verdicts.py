"""The report's parts on verdicts, and on records that are a table of figures."""

from collections.abc import Mapping, Sequence
from typing import Any

from hakmem import words
from hakmem.ledger import claims
from hakmem.paired import recording
from hakmem.report import charts
from hakmem.report.charts import Ratio
from hakmem.report.records import Asked


def verdict(asked: Asked) -> dict[str, Any]:
    """The pair of cells; for the target and each guard its name, the ratio B ÷ A, and what it says
    of the question."""
    body = asked.body
    state = words.colour(str(body["verdict"]))
    # A record's keys are sorted, so the target is told from guards by their names.
    metrics = sorted(body["metrics"].items(), key=lambda item: item[0].startswith(recording.GUARD))
    target, *guards = (
        {
            "name": name,
            "of": str(entry.get("of", "")),
            "ratio": claims.interval(entry),
            "state": "guard" if number else state,
        }
        for number, (name, entry) in enumerate(metrics)
    )
    a, b = (str(cell["name"]) for cell in body["cells"])
    return {"asked": asked, "pair": f"{b} ÷ {a}", "target": target, "guards": guards}


def forest(verdicts: Sequence[Mapping[str, Any]]) -> str:
    """Targets in the colour of their verdict, guards without one."""
    drawn = [
        Ratio(
            found["pair"],
            track["name"],
            track["ratio"],
            track["state"],
            f"{found['pair']}: {track['of']} on {track['name']}",
        )
        for found in verdicts
        for track in (found["target"], *found["guards"])
    ]
    return charts.forest(drawn, "Every ratio with its interval", "B has less", "B has more")


# ---- anything else that has metrics ----


def figures(asked: Asked) -> dict[str, Any]:
    """A baseline, a bisection, a hot path: its answer in words, and each figure with its ends."""
    body = asked.body
    metrics = (body.get("metrics") or {}).items()
    found = [(str(name), *claims.for_people(metric)) for name, metric in metrics]
    return {
        "asked": asked,
        "title": asked.record.title,
        "said": ": ".join(str(body[k]) for k in ("verdict", "finding", "why") if body.get(k)),
        "figures": found + _posterior(body),
        "failures": body.get("failures") or {},
    }


def _posterior(body: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """For a bisection, the probability that each commit made the change."""
    return [
        (
            f"{entry['commit'][:12]} {entry.get('subject', '')}"
            if entry["commit"]
            else "no commit",
            f"{100 * entry['probability']:.1f} %",
            f"{entry['blocks']} blocks" if entry.get("blocks") else "",
        )
        for entry in body.get("posterior") or ()
    ]
