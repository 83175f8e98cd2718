"""The report's part on matrices: which mode kept which rule in each stage; throughput. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from hakmem import words
from hakmem.ledger.claims import interval
from hakmem.matrix.rules import RULES
from hakmem.paired.session import duration
from hakmem.report import charts
from hakmem.report.charts import Ratio
from hakmem.report.records import Asked


def of_record(asked: Asked) -> dict[str, Any]:
    """What the page shows of a matrix."""
    body = asked.body
    modes = in_order(body)
    return {
        "asked": asked,
        "stages": [_stage(stage, modes) for stage in body["stages"]],
        "standings": {at: body["standings"][at] for at in modes if at in body["standings"]},
        "forest": forest(body),
    }


def in_order(body: Mapping[str, Any]) -> list[str]:
    """The baseline, then the modes as the stages name them: a record's own keys are sorted."""
    named = [mode for stage in body["stages"] for mode in stage["stage"]["modes"] or ()]
    return list(dict.fromkeys([body["baseline"], *named, *body["modes"]]))


def _stage(stage: Mapping[str, Any], modes: Sequence[str]) -> dict[str, Any]:
    """One stage with its modes; a row has a rule's judgement of each mode, or None."""
    judged = {
        mode: {found["rule"]: found for found in stage["judged"].get(mode, ())} for mode in modes
    }
    rows = [
        (rule, {mode: judged[mode].get(rule) for mode in modes})
        for rule in RULES
        if any(rule in found for found in judged.values())
    ]
    return {
        "name": str(stage["stage"]["name"]),
        "length": duration(stage["stage"]["seconds"]),
        "modes": [mode for mode in modes if judged[mode]],
        "rows": rows,
    }


def forest(body: Mapping[str, Any]) -> str:
    """A row per stage and mode; the colour is the state of the rule on throughput."""
    drawn = []
    for stage in body["stages"]:
        name = stage["stage"]["name"]
        for mode in in_order(body):
            judged = stage["judged"].get(mode, ())
            metric = body["metrics"].get(f"stage {name}/{mode}/throughput")
            if metric and "low" in metric:
                state = next((j["state"] for j in judged if j["rule"] == "throughput"), "open")
                drawn.append(Ratio(f"{name}: {mode}", "", interval(metric), words.colour(state)))
    title = "Throughput of each mode divided by the baseline's"
    return charts.forest(drawn, title, "slower", "faster")
