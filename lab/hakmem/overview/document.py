"""The recorded run, `bench.json`: all raw samples and what is needed to understand them."""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hakmem import __version__
from hakmem.errors import LabError
from hakmem.process.sample import Sample
from hakmem.suite import Figure, Suite

FORMAT = 2


def figure_entry(figure: Figure, counted: bool) -> dict[str, Any]:
    """The figure as it was read here: by cycles where they were counted."""
    metric = figure.counted if counted and figure.counted else figure.metric
    return {
        "name": figure.name,
        "command": figure.command,
        "metric": metric,
        "floor": figure.floor,
        "what": figure.what,
    }


def build(
    suite: Suite,
    samples: Sequence[Sample],
    libraries: Sequence[Mapping[str, Any]],
    facts: Mapping[str, Any],
    amount_of: Callable[[str], int],
    counters: str | None,
) -> dict[str, Any]:
    """`facts` carries what only the caller knows: rounds, scale, seed, argv, host, source."""
    return {
        "format": FORMAT,
        "lab": __version__,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        **facts,
        "counters": counters or "user cycles counted",
        "libraries": list(libraries),
        "commands": [
            {
                "name": command.name,
                "argv": list(command.argv(amount_of(command.name))),
                "threads": command.threads,
                "starts_others": command.proof_apart,
                "settings": dict(command.settings),
                "references": [reference.name for reference in command.references],
            }
            for command in suite.commands
        ],
        "figures": [figure_entry(figure, counters is None) for figure in suite.figures],
        "samples": [sample.to_dict() for sample in samples],
    }


def dump(document: Mapping[str, Any]) -> str:
    """JSON text, one sample a line: readable, and small in a diff."""
    parts = []
    for key, content in document.items():
        text = json.dumps(content, ensure_ascii=False)
        if key in ("samples", "libraries", "commands", "figures"):
            lines = ",\n    ".join(json.dumps(item, ensure_ascii=False) for item in content)
            text = f"[\n    {lines}\n  ]" if content else "[]"
        parts.append(f"  {json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def load(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise LabError(
            f"cannot read {path}: {error.strerror} (run `hakmem bench` first)"
        ) from error
    except ValueError as error:
        raise LabError(f"{path} is not a recorded run: {error}") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise LabError(f"{path} is not a recorded run of format {FORMAT}")
    return document
