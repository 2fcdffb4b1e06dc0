"""The graph of a group: its members and gates, folded until it can be drawn.

Pure. The same members give the same graph in whatever order they come, each member is in exactly
one node, and there is no circle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

from msgspec import Struct

from offpath.model.brief import GateBrief, GateWatch, GraphMember, GroupGraph
from offpath.model.gate import GateState

MOST_NODES: Final = 300
"""Nodes that are drawn at most."""
ALIKE: Final = 12
"""Members that are alike are one bundle from one more on."""
_SAMPLE: Final = 5


class GraphNode(Struct, frozen=True, kw_only=True):
    """A job, a bundle of jobs that are alike, or a gate."""

    id: str
    """The job's or the gate's; of a bundle, that of its first job."""
    kind: str
    """``job``, ``bundle`` or ``gate``."""
    text: str
    """The task, or the condition of the gate."""
    task: str | None
    """The task of all its members; None where they have several, and of a gate."""
    jobs: int
    """Members in it; 0 for a gate."""
    states: dict[str, int]
    """The number of members in each state; of a gate, its own state with 1."""
    sample: tuple[str, ...]
    """The first ids of a bundle."""
    depth: int
    """The longest way to it."""
    parent: str | None = None
    """The job that queued all its members; None where several did, none did, and of a gate."""
    deadline: datetime | None = None
    """The time at which an open gate gives up; None without one, and of jobs."""


class GraphEdge(Struct, frozen=True, kw_only=True, order=True):
    """A way from one node to another: one queued the other, or one waits for the other."""

    source: str
    target: str
    kind: str
    """``queued`` or ``waits``."""
    jobs: int
    """Members for which it stands."""


class GraphDocument(Struct, frozen=True, kw_only=True):
    """The graph of a group: nodes by depth and id, and the ways between them."""

    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]
    members: int
    """Members that are in it."""
    more: bool
    """True if the group has further members, which are not in it."""


def draw(graph: GroupGraph, most: int = MOST_NODES) -> GraphDocument:
    """The graph, with members that are alike folded until at most ``most`` nodes are left."""
    known = _Known(graph.members, graph.watches)
    for fold in _FOLDS:
        document = _folded(known, fold, more=graph.more)
        if len(document.nodes) <= most:
            return document
    deepest = 1 + max(known.depth.values())

    def by_part(one: GraphMember) -> Hashable:
        # parts of the way: what is further on is never in an earlier part, so no circle comes
        return known.depth[one.id] * most // deepest

    return _folded(known, _Fold(key=lambda _: by_part, least=0, gates=False), more=graph.more)


class _Known:
    """Members and gates by id, and how deep each lies."""

    def __init__(self, members: Sequence[GraphMember], watches: Sequence[GateWatch]) -> None:
        self.members = {one.id: one for one in sorted(members, key=lambda one: one.id)}
        self.watches = {one.gate.id: one for one in watches}
        self.watched: dict[str, tuple[str, ...]] = {}
        for gate_id in sorted(self.watches):
            for job in self.watches[gate_id].on:
                self.watched[job] = (*self.watched.get(job, ()), gate_id)
        self.depth = _depths({each: tuple(self._before(each)) for each in self._all()})

    def _all(self) -> Iterator[str]:
        yield from self.members
        yield from self.watches

    def _before(self, node: str) -> Iterator[str]:
        """The members and gates that lead directly to one."""
        if node in self.watches:
            yield from (each for each in self.watches[node].on if each in self.members)
            return
        one = self.members[node]
        if one.parent in self.members and one.parent != node:
            yield one.parent
        if one.gate in self.watches:
            yield one.gate

    def ways(self, one: GraphMember) -> Iterator[tuple[str, str]]:
        """The kinds of ways that lead to a member, and whence; those of a circle are left out."""
        for each in self._before(one.id):
            if self.depth[each] < self.depth[one.id]:
                yield ("waits" if each in self.watches else "queued"), each

    def ways_to_gate(self, gate: str) -> Iterator[str]:
        """The members that lead to a gate."""
        return (each for each in self._before(gate) if self.depth[each] < self.depth[gate])


def _depths(before: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """The longest way to each; without recursion, since a chain may be thousands long."""
    left = {node: {each for each in sources if each in before} for node, sources in before.items()}
    after: dict[str, list[str]] = {}
    for node, sources in left.items():
        for each in sources:
            after.setdefault(each, []).append(node)
    depth = dict.fromkeys(before, 0)
    ready = sorted(node for node, sources in left.items() if not sources)
    for node in ready:  # grows as it goes
        for following in sorted(after.get(node, ())):
            depth[following] = max(depth[following], depth[node] + 1)
            left[following].discard(node)
            if not left[following]:
                ready.append(following)
    return depth


class _Fold(Struct, frozen=True):
    """A way to fold: what makes members alike, and from how many on they are one."""

    key: Callable[[_Known], Callable[[GraphMember], Hashable]]
    least: int
    gates: bool
    """True if gates are nodes of their own."""


def _exact(known: _Known) -> Callable[[GraphMember], Hashable]:
    return lambda one: (
        *(known.depth[one.id], one.task, one.parent or "", one.gate or ""),
        known.watched.get(one.id, ()),
    )


def _of_one_gate(known: _Known) -> Callable[[GraphMember], Hashable]:
    return lambda one: (
        *(known.depth[one.id], one.task, one.gate or ""),
        known.watched.get(one.id, ()),
    )


_FOLDS: Final = (
    _Fold(_exact, ALIKE, gates=True),
    _Fold(_exact, 1, gates=True),
    _Fold(_of_one_gate, 1, gates=True),
    _Fold(lambda known: lambda one: (known.depth[one.id], one.task), 1, gates=False),
    _Fold(lambda known: lambda one: known.depth[one.id], 1, gates=False),
)
"""From the finest to the coarsest. Each has the depth in its key, so that no circle comes."""


def _folded(known: _Known, fold: _Fold, *, more: bool) -> GraphDocument:
    place, nodes = _places(known, fold)
    edges: Counter[tuple[str, str, str]] = Counter()
    for one in known.members.values():
        for kind, source in known.ways(one):
            if source not in known.watches or fold.gates:
                edges[place.get(source, source), place[one.id], kind] += 1
            else:
                for watched in known.ways_to_gate(source):
                    edges[place[watched], place[one.id], kind] += 1
    if fold.gates:
        for gate in known.watches:
            nodes.append(_gate(known.watches[gate].gate, known.depth[gate]))
            for watched in known.ways_to_gate(gate):
                edges[place[watched], gate, "waits"] += 1
    return GraphDocument(
        nodes=tuple(sorted(nodes, key=lambda node: (node.depth, node.id))),
        edges=tuple(
            GraphEdge(source=source, target=target, kind=kind, jobs=jobs)
            for (source, target, kind), jobs in sorted(edges.items())
            if source != target
        ),
        members=len(known.members),
        more=more,
    )


def _places(known: _Known, fold: _Fold) -> tuple[dict[str, str], list[GraphNode]]:
    """The node of each member, and the nodes."""
    key = fold.key(known)
    alike: dict[Hashable, list[GraphMember]] = {}
    for one in known.members.values():
        alike.setdefault(key(one), []).append(one)
    place: dict[str, str] = {}
    nodes: list[GraphNode] = []
    for several in alike.values():
        parts = [several] if len(several) > fold.least else [[one] for one in several]
        for part in parts:
            place.update((one.id, part[0].id) for one in part)
            nodes.append(_node(part, min(known.depth[one.id] for one in part)))
    return place, nodes


def _node(part: Sequence[GraphMember], depth: int) -> GraphNode:
    tasks = sorted({one.task for one in part})
    parents = {one.parent for one in part}
    return GraphNode(
        id=part[0].id,
        kind="job" if len(part) == 1 else "bundle",
        text=tasks[0] if len(tasks) == 1 else f"{tasks[0]} and {len(tasks) - 1} other tasks",
        task=tasks[0] if len(tasks) == 1 else None,
        jobs=len(part),
        states=_counted(one.state.value for one in part),
        sample=() if len(part) == 1 else tuple(one.id for one in part[:_SAMPLE]),
        depth=depth,
        parent=parents.pop() if len(parents) == 1 else None,
    )


def _gate(gate: GateBrief, depth: int) -> GraphNode:
    return GraphNode(
        id=gate.id,
        kind="gate",
        text=gate_text(gate),
        task=None,
        jobs=0,
        states={gate.state.value: 1},
        sample=(),
        depth=depth,
        deadline=gate.deadline if gate.state is GateState.OPEN else None,
    )


def gate_text(gate: GateBrief) -> str:
    """The condition of a gate in a few words."""
    need = "all" if gate.need == gate.watched else f"{gate.need}"
    return f"{need} of {gate.watched} {gate.of.value}"


def _counted(states: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(states).items()))
