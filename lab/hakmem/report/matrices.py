"""The report's part on matrices: who kept which rule in which stage, and the throughput. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hakmem.ledger.claims import interval
from hakmem.matrix.rules import RULES
from hakmem.matrix.view import MARKS
from hakmem.paired.session import duration
from hakmem.report import charts
from hakmem.report.charts import COLOUR, Ratio, Sides
from hakmem.report.records import Asked

SIDES = Sides("Throughput of each mode divided by the baseline's", "slower", "faster")


@dataclass(frozen=True)
class Stage:
    """`modes`: those that were in it. A row has what a rule judged of each, None where nothing."""

    name: str
    length: str
    modes: Sequence[str]
    rows: Sequence[tuple[str, Mapping[str, Mapping[str, str] | None]]]


@dataclass(frozen=True)
class Shown:
    asked: Asked
    id: str
    modes: Sequence[str]
    stages: Sequence[Stage]
    standings: Mapping[str, Mapping[str, str]]
    forest: str


def of_record(asked: Asked) -> Shown:
    body = asked.body
    modes = in_order(body)
    stages = [_stage(stage, modes) for stage in body["stages"]]
    id = f"{asked.record.id}-heat"
    standings = {mode: body["standings"][mode] for mode in modes if mode in body["standings"]}
    return Shown(asked, id, modes, stages, standings, forest(body))


def in_order(body: Mapping[str, Any]) -> list[str]:
    """The baseline, then the modes as the stages name them: a record's own keys are sorted."""
    named = [mode for stage in body["stages"] for mode in stage["stage"]["modes"] or ()]
    return list(dict.fromkeys([body["baseline"], *named, *body["modes"]]))


def _stage(stage: Mapping[str, Any], modes: Sequence[str]) -> Stage:
    judged = {
        mode: {found["rule"]: found for found in stage["judged"].get(mode, ())} for mode in modes
    }
    rows = [
        (rule, {mode: judged[mode].get(rule) for mode in modes})
        for rule in RULES
        if any(rule in found for found in judged.values())
    ]
    inside = [mode for mode in modes if judged[mode]]
    return Stage(str(stage["stage"]["name"]), duration(stage["stage"]["seconds"]), inside, rows)


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
                drawn.append(Ratio(f"{name}: {mode}", "", interval(metric), COLOUR[state]))
    return charts.forest(drawn, SIDES)


def data(shown: Shown) -> dict[str, Any]:
    """The heat map for the script: a column per mode, a row per stage and rule."""
    rows = [
        (f"{stage.name} · {rule}", found) for stage in shown.stages for rule, found in stage.rows
    ]
    cells = [
        [x, y, judged["state"], f"{MARKS[judged['state']]} {judged['words']}"]
        for y, (_, found) in enumerate(rows)
        for x, judged in enumerate(found.values())
        if judged
    ]
    return {
        "kind": "heat",
        "title": f"{shown.asked.body['title']}: who kept which rule",
        "columns": list(shown.modes),
        "rows": [name for name, _ in rows],
        "cells": cells,
    }
