"""The report's part on matrices: who kept which rule in which stage, and the throughput. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from hakmem import words
from hakmem.ledger.claims import interval
from hakmem.matrix.rules import RULES
from hakmem.paired.session import duration
from hakmem.report import charts
from hakmem.report.charts import Ratio, Sides
from hakmem.report.records import Asked

SIDES = Sides("Throughput of each mode divided by the baseline's", "slower", "faster")


def of_record(asked: Asked) -> dict[str, Any]:
    """What the page shows; `id` is that of the heat map's place."""
    body, id = asked.body, f"{asked.record.id}-heat"
    modes = in_order(body)
    stages = [_stage(stage, modes) for stage in body["stages"]]
    return {
        "asked": asked,
        "id": id,
        "data": {id: _heat(body["title"], modes, stages)},
        "stages": stages,
        "standings": {at: body["standings"][at] for at in modes if at in body["standings"]},
        "forest": forest(body),
    }


def in_order(body: Mapping[str, Any]) -> list[str]:
    """The baseline, then the modes as the stages name them: a record's own keys are sorted."""
    named = [mode for stage in body["stages"] for mode in stage["stage"]["modes"] or ()]
    return list(dict.fromkeys([body["baseline"], *named, *body["modes"]]))


def _stage(stage: Mapping[str, Any], modes: Sequence[str]) -> dict[str, Any]:
    """The modes that were in it; a row has what a rule judged of each mode, None where nothing."""
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
    return charts.forest(drawn, SIDES)


def _heat(title: str, modes: Sequence[str], stages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The heat map for the script: a column per mode, a row per stage and rule."""
    rows = [
        (f"{stage['name']} · {rule}", found) for stage in stages for rule, found in stage["rows"]
    ]
    cells = [
        [x, y, judged["state"], f"{words.mark(judged['state'])} {judged['words']}"]
        for y, (_, found) in enumerate(rows)
        for x, judged in enumerate(found.values())
        if judged
    ]
    return {
        "kind": "heat",
        "title": f"{title}: who kept which rule",
        "columns": modes,
        "rows": [name for name, _ in rows],
        "cells": cells,
    }
