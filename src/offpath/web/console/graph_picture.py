"""The picture of a graph: the place of each node and the curve of each way, as a page draws them.

Pure. Nodes stand in columns by their depth; within a column near the middle of what leads to
them, so that few ways cross. It is drawn on the server: it needs no script, and no ``style``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from msgspec import Struct

WIDTH: Final = 192
HEIGHT: Final = 44
BUNDLE_HEIGHT: Final = 62
"""Of a bundle, which says below how its members are shown."""
_GAP: Final = 48
"""Between two columns."""
_SPACE: Final = 16
"""Between two nodes of a column."""
_EDGE: Final = 8
_LONGEST: Final = 20
"""Characters of a name that fit into a node."""
_WORST: Final = ("dead", "running", "blocked", "queued", "pending", "cancelled", "succeeded")
"""States by which a node is coloured, the one that matters most first."""
_SHOWN: Final = 3
"""States of a bundle that fit into its node with their numbers."""


class NodePicture(Struct, frozen=True):
    """A node with its place."""

    id: str
    kind: str
    text: str
    jobs: int
    state: str
    """The state that matters most in it."""
    states: Mapping[str, int]
    """The counts that fit into it, the one that matters most first."""
    further: bool
    """True if it has members in further states."""
    told: str
    """All of it in words."""
    task: str | None
    parent: str | None
    deadline: datetime | None
    height: int
    x: int
    y: int


class GraphPicture(Struct, frozen=True):
    """A graph with places, as large as it is."""

    width: int
    height: int
    nodes: Sequence[NodePicture]
    ways: Sequence[tuple[str, str]]
    """The kind and the path of each way."""
    states: Sequence[str]
    """The states that occur in it, the one that matters most first."""


def picture_of(graph: Mapping[str, Any]) -> GraphPicture:
    """The picture of a plain graph document."""
    before = _sources(graph)
    # Who queued a job that waits says little beside what it waits for; the table has both.
    waiting = {way["target"] for way in graph["edges"] if way["kind"] == "waits"}
    columns = _columns(graph["nodes"], before)
    tallest = max((_length(column) for column in columns), default=0)
    places: dict[str, tuple[int, int]] = {}
    middles: dict[str, tuple[int, int]] = {}
    for across, column in enumerate(columns):
        x = _EDGE + across * (WIDTH + _GAP)
        y = _EDGE + (tallest - _length(column)) // 2
        for node in column:
            places[node["id"]] = (x, y)
            middles[node["id"]] = (x, y + _height(node) // 2)
            y += _height(node) + _SPACE
    present = {state for node in graph["nodes"] if node["jobs"] for state in node["states"]}
    return GraphPicture(
        width=2 * _EDGE + max(len(columns) * (WIDTH + _GAP) - _GAP, 0),
        height=2 * _EDGE + tallest,
        nodes=tuple(_node(node, places[node["id"]]) for node in graph["nodes"]),
        ways=tuple(
            (way["kind"], _curve(middles[way["source"]], middles[way["target"]]))
            for way in graph["edges"]
            if way["kind"] != "queued" or way["target"] not in waiting
        ),
        states=sorted(present, key=_weight),
    )


def _height(node: Mapping[str, Any]) -> int:
    return BUNDLE_HEIGHT if node["kind"] == "bundle" else HEIGHT


def _length(column: Sequence[Mapping[str, Any]]) -> int:
    """The height of a column with the spaces in it."""
    return sum(_height(node) + _SPACE for node in column) - _SPACE


def _weight(state: str) -> tuple[int, str]:
    return (_WORST.index(state) if state in _WORST else len(_WORST), state)


def _sources(graph: Mapping[str, Any]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for way in graph["edges"]:
        found.setdefault(way["target"], []).append(way["source"])
    return found


def _columns(
    nodes: Sequence[Mapping[str, Any]], before: Mapping[str, Sequence[str]]
) -> list[list[Mapping[str, Any]]]:
    """The nodes by depth, each column in the order of what leads to its nodes."""
    by_depth: dict[int, list[Mapping[str, Any]]] = {}
    for node in nodes:
        by_depth.setdefault(node["depth"], []).append(node)
    row: dict[str, int] = {}
    columns = []
    for depth in sorted(by_depth):
        column = sorted(by_depth[depth], key=lambda node: (_middle(node, before, row), node["id"]))
        row.update((node["id"], place) for place, node in enumerate(column))
        columns.append(column)
    return columns


def _middle(
    node: Mapping[str, Any], before: Mapping[str, Sequence[str]], row: Mapping[str, int]
) -> float:
    known = [row[one] for one in before.get(node["id"], ()) if one in row]
    return sum(known) / len(known) if known else 0.0


def _node(node: Mapping[str, Any], place: tuple[int, int]) -> NodePicture:
    states: Mapping[str, int] = node["states"]
    ordered = sorted(states, key=_weight)
    text = node["text"]
    return NodePicture(
        id=node["id"],
        kind=node["kind"],
        text=text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…",
        jobs=node["jobs"],
        state=ordered[0] if ordered else "",
        states={state: states[state] for state in ordered[:_SHOWN]},
        further=len(ordered) > _SHOWN,
        told=_in_words(node, ordered),
        task=node["task"],
        parent=node["parent"],
        deadline=node["deadline"],
        height=_height(node),
        x=place[0],
        y=place[1],
    )


def _in_words(node: Mapping[str, Any], ordered: Sequence[str]) -> str:
    if node["kind"] == "gate":
        return f"gate: {node['text']}, {ordered[0].replace('_', ' ')}"
    if node["jobs"] == 1:
        return f"{node['text']}: {ordered[0]}"
    counts = ", ".join(f"{node['states'][state]:,} {state}" for state in ordered)
    return f"{node['text']}, {node['jobs']:,} jobs: {counts}"


def _curve(source: tuple[int, int], target: tuple[int, int]) -> str:
    """The path of a way: out of the right side of one node, into the left side of another."""
    x1, y1 = source[0] + WIDTH, source[1]
    x2, y2 = target
    bend = max((x2 - x1) // 2, 16)
    return f"M{x1} {y1}C{x1 + bend} {y1} {x2 - bend} {y2} {x2} {y2}"
