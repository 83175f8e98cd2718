"""The report's part on matrices: who kept which rule in which stage, and the throughput. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hakmem.matrix.view import MARKS, RULES
from hakmem.paired.session import duration
from hakmem.report import charts
from hakmem.report.charts import Ratio, Sides
from hakmem.report.records import Asked
from hakmem.report.verdicts import STATES, interval

SIDES = Sides("Throughput of each mode divided by the baseline's", "slower", "faster")
CSS = {"kept": "win", "broken": "loss", "open": "undecided"}


@dataclass(frozen=True)
class Cell:
    state: str
    mark: str
    words: str
    css: str


@dataclass(frozen=True)
class Line:
    """A rule in a stage: each mode's cell, None where it was not judged."""

    stage: str
    rule: str
    cells: Mapping[str, Cell | None]


@dataclass(frozen=True)
class Stage:
    """`modes`: those that were in it."""

    name: str
    length: str
    modes: Sequence[str]
    lines: Sequence[Line]


@dataclass(frozen=True)
class Shown:
    asked: Asked
    id: str
    modes: Sequence[str]
    stages: Sequence[Stage]
    standings: Mapping[str, Mapping[str, str]]
    forest: str

    @property
    def body(self) -> Mapping[str, Any]:
        return self.asked.record.body

    @property
    def css(self) -> str:
        return STATES.get(str(self.body["verdict"]), "undecided")


def of_record(asked: Asked) -> Shown:
    body = asked.record.body
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
    name = str(stage["stage"]["name"])
    judged = {
        mode: {found["rule"]: found for found in stage["judged"].get(mode, ())} for mode in modes
    }
    lines = [
        Line(name, rule, {mode: _cell(judged[mode].get(rule)) for mode in modes})
        for rule in RULES
        if any(rule in found for found in judged.values())
    ]
    inside = [mode for mode in modes if judged[mode]]
    return Stage(name, duration(stage["stage"]["seconds"]), inside, lines)


def _cell(judged: Mapping[str, Any] | None) -> Cell | None:
    if judged is None:
        return None
    state = judged["state"]
    return Cell(state, MARKS[state], str(judged["words"]), CSS[state])


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
                drawn.append(Ratio(f"{name}: {mode}", "", interval(metric), CSS[state]))
    return charts.both(charts.forest, drawn, SIDES)


def data(shown: Shown) -> dict[str, Any]:
    """The heat map for the script: a column per mode, a row per stage and rule."""
    lines = [line for stage in shown.stages for line in stage.lines]
    cells = [
        [x, y, found.state, f"{found.mark} {found.words}"]
        for y, line in enumerate(lines)
        for x, found in enumerate(line.cells.values())
        if found
    ]
    return {
        "kind": "heat",
        "title": f"{shown.body['title']}: who kept which rule",
        "columns": list(shown.modes),
        "rows": [f"{line.stage} · {line.rule}" for line in lines],
        "cells": cells,
    }
