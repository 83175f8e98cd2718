"""Flame graphs: as a drawing that needs no script, and as data for the script. Pure.

The outermost function is on top, with what it called below it, each as wide as its allocations. The
drawing leaves out what is too narrow to be seen; the data, which can be zoomed into, has nearly
all.
"""

from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

from hakmem import words
from hakmem.heap.symbols import Frame
from hakmem.heap.weigh import Node
from hakmem.report import charts

ROW = 19.0
DEEPEST = 70  # rows of the drawing
LEAST = 2e-5  # share of the whole: smaller nodes are not in the data
SIZES = (("wide", 1200.0), ("narrow", 340.0))
NARROWEST = 2.5  # width of the narrowest box that is drawn
MODULES = 5  # modules that have a colour of their own


def drawing(root: Node, colours: dict[str, str], title: str) -> str:
    """The flame graph as SVG, in both widths."""
    return "".join(_svg(root, colours, title, *size) for size in SIZES)


def _svg(root: Node, colours: dict[str, str], title: str, name: str, width: float) -> str:
    scale = width / max(root.weight.bytes, 1)
    parts, deepest = [], 0
    for node, depth, start in _placed(root, 0, 0.0, scale, NARROWEST):
        deepest = max(deepest, depth)
        parts.append(_box(node, colours, start, depth, node.weight.bytes * scale, root))
    return charts.svg(name, width, ROW * (deepest + 1), title, parts)


def _placed(
    node: Node, depth: int, start: float, scale: float, least: float
) -> Iterator[tuple[Node, int, float]]:
    yield node, depth, start
    for child in node.children() if depth < DEEPEST else ():
        wide = child.weight.bytes * scale
        if wide >= least:
            yield from _placed(child, depth + 1, start, scale, least)
        start += wide


def _box(
    node: Node, colours: dict[str, str], x: float, depth: int, width: float, root: Node
) -> str:
    y = depth * ROW
    label = charts.fit(node.frame.name, width - 8, charts.SMALL) if width > 26 else ""
    shown = charts.text(x + 4, y + ROW / 2, label, "small") if label else ""
    return (
        f'<g class="frame {colours.get(node.frame.module, "c6")}"><title>{escape(tip(node, root))}'
        f'</title><rect x="{x:.1f}" y="{y:g}" width="{max(width - 1, 0.5):.1f}" '
        f'height="{ROW - 1:g}" rx="2"/>{shown}</g>'
    )


def tip(node: Node, root: Node) -> str:
    share = 100 * node.weight.bytes / max(root.weight.bytes, 1)
    name = node.frame.function or node.frame.name
    where = f" ({node.frame.module})" if node.frame.module else ""
    return f"{name}{where}: {words.size(node.weight.bytes)}, {share:.1f} %"


# ---- for the script ----


class Table:
    """The frames of all flame graphs of a page, each once."""

    def __init__(self) -> None:
        self.frames: dict[Frame, int] = {}

    def tree(self, root: Node) -> list[Any]:
        """[frame, bytes, objects, children], without nodes too small to be zoomed into."""
        return self._node(root, root.weight.bytes * LEAST)

    def _node(self, node: Node, least: float) -> list[Any]:
        index = self.frames.setdefault(node.frame, len(self.frames))
        below = [self._node(c, least) for c in node.children() if c.weight.bytes >= least]
        return [index, node.weight.bytes, node.weight.objects, below]

    def rows(self, colours: dict[str, str]) -> list[Any]:
        """[short name, whole name where it is longer, module, colour]."""
        return [
            [f.name, f.function * (f.function != f.name), f.module, colours.get(f.module, "c6")]
            for f in self.frames
        ]


def colours(roots: Sequence[Node]) -> dict[str, str]:
    """A CSS class for each of the heaviest modules, by the bytes of all their nodes."""
    heavy: dict[str, int] = {}
    for root in roots:
        for node, _, _ in _placed(root, 0, 0.0, 1.0, 1.0):
            heavy[node.frame.module] = heavy.get(node.frame.module, 0) + node.weight.bytes
    heavy.pop("", None)
    order = sorted(heavy, key=lambda module: (-heavy[module], module))
    return {module: f"c{n}" for n, module in enumerate(order[:MODULES], 1)} | {"": "c0"}
