"""The graph of a group is small, whole, without circles, and the same for the same members."""

from __future__ import annotations

import random
from datetime import UTC, datetime

import pytest

from offpath.model.brief import GateBrief, GateWatch, GraphMember, GroupGraph
from offpath.model.gate import Counting, GateState
from offpath.model.job import JobState
from offpath.operating.graph import GraphDocument, draw

STATES = list(JobState)


def member(number: int, task: str = "resize", **fields: object) -> GraphMember:
    """A member by its number."""
    state = fields.pop("state", STATES[number % len(STATES)])
    return GraphMember(id=f"j{number:05}", task=task, state=state, **fields)  # type: ignore[arg-type]


def watch(
    gate: str,
    on: tuple[str, ...],
    state: GateState = GateState.OPEN,
    deadline: datetime | None = None,
) -> GateWatch:
    """A gate on all of these."""
    brief = GateBrief(
        id=gate,
        state=state,
        deadline=deadline,
        need=len(on),
        of=Counting.SUCCEEDED,
        watched=len(on),
        succeeded=0,
        failed=0,
    )
    return GateWatch(gate=brief, on=on)


def checkout(children: int) -> GroupGraph:
    """A root that split into many, and one behind a gate over all of these."""
    root = member(0, "checkout")
    many = [member(n, parent=root.id) for n in range(1, children + 1)]
    last = member(children + 1, "publish", parent=root.id, gate="g1")
    return GroupGraph(
        members=(root, *many, last),
        watches=(watch("g1", tuple(one.id for one in many)),),
        more=False,
    )


def check(drawn: GraphDocument, given: GroupGraph, most: int = 300) -> None:
    """Rules that hold for every graph."""
    assert len(drawn.nodes) <= most
    assert sum(node.jobs for node in drawn.nodes) == len(given.members) == drawn.members
    counts = [sum(node.states.values()) for node in drawn.nodes if node.kind != "gate"]
    assert sum(counts) == len(given.members)
    depth = {node.id: node.depth for node in drawn.nodes}
    assert all(depth[edge.source] < depth[edge.target] for edge in drawn.edges)


def test_a_large_fan_out_is_one_bundle_between_its_root_and_its_gate() -> None:
    given = checkout(3_000)
    drawn = draw(given)
    check(drawn, given)
    assert [(node.kind, node.text, node.task, node.jobs) for node in drawn.nodes] == [
        ("job", "checkout", "checkout", 1),
        ("bundle", "resize", "resize", 3_000),
        ("gate", "all of 3000 succeeded", None, 0),
        ("job", "publish", "publish", 1),
    ]
    bundle, gate = drawn.nodes[1].id, "g1"
    assert {(edge.source, edge.target, edge.kind, edge.jobs) for edge in drawn.edges} == {
        ("j00000", bundle, "queued", 3_000),
        (bundle, gate, "waits", 3_000),
        ("j00000", "j03001", "queued", 1),
        (gate, "j03001", "waits", 1),
    }
    assert drawn.nodes[1].states == {state.value: 500 for state in sorted(JobState)}


def test_a_bundle_names_the_job_that_queued_all_of_it() -> None:
    (bundle,) = (node for node in draw(checkout(40)).nodes if node.kind == "bundle")
    assert bundle.parent == "j00000"
    two = [member(n, parent=f"p{n % 2}", gate="g1") for n in range(700)]
    given = GroupGraph(members=tuple(two), watches=(watch("g1", ()),), more=False)
    (folded,) = (node for node in draw(given, most=2).nodes if node.kind == "bundle")
    assert (folded.jobs, folded.parent) == (700, None)


@pytest.mark.parametrize("state", list(GateState))
def test_a_gate_that_waits_says_until_when(state: GateState) -> None:
    at = datetime(2026, 12, 1, 18, tzinfo=UTC)
    given = GroupGraph(
        members=(member(1), member(2, gate="g1")),
        watches=(watch("g1", ("j00001",), state, at),),
        more=False,
    )
    (gate,) = (node for node in draw(given).nodes if node.kind == "gate")
    assert gate.deadline == (at if state is GateState.OPEN else None)


def test_twelve_that_are_alike_stay_apart_and_thirteen_do_not() -> None:
    assert sum(node.kind == "job" for node in draw(checkout(12)).nodes) == 14
    assert [node.jobs for node in draw(checkout(13)).nodes if node.kind == "bundle"] == [13]


def test_the_order_of_members_makes_no_difference() -> None:
    given = checkout(40)
    shuffled = list(given.members)
    random.Random(7).shuffle(shuffled)
    assert draw(GroupGraph(members=tuple(shuffled), watches=given.watches, more=False)) == draw(
        given
    )


def test_a_chain_of_thousands_is_folded_along_its_way() -> None:
    chain = tuple(member(n, f"step{n}", parent=f"j{n - 1:05}" if n else None) for n in range(5_000))
    given = GroupGraph(members=chain, watches=(), more=True)
    drawn = draw(given)
    check(drawn, given)
    assert drawn.more
    assert len(drawn.edges) == len(drawn.nodes) - 1


def test_a_circle_that_somebody_wrote_is_cut() -> None:
    given = GroupGraph(
        members=(
            member(1, parent="j00002"),
            member(2, parent="j00001"),
            member(3, parent="j00003"),
        ),
        watches=(watch("g1", ("j00001", "j99999")),),
        more=False,
    )
    check(draw(given), given)


def test_nothing_is_an_empty_graph() -> None:
    drawn = draw(GroupGraph(members=(), watches=(), more=False))
    assert (drawn.nodes, drawn.edges) == ((), ())


@pytest.mark.parametrize("seed", range(20))
def test_any_group_is_drawn_small_whole_and_without_circles(seed: int) -> None:
    chance = random.Random(seed)
    size = chance.choice([1, 50, 700, 2_000])
    gates = [f"g{n}" for n in range(chance.randrange(0, 400))]
    members = [
        member(
            n,
            f"task{chance.randrange(chance.choice([2, 900]))}",
            parent=f"j{chance.randrange(n):05}" if n else None,
            gate=chance.choice(gates) if gates and chance.random() < 0.3 else None,
        )
        for n in range(size)
    ]
    held_from = {gate: min((one.id for one in members if one.gate == gate), default="j99999")
                 for gate in gates}  # fmt: skip
    watches = tuple(
        watch(
            gate,
            tuple(
                one.id for one in chance.sample(members, min(size, 5)) if one.id < held_from[gate]
            ),
        )
        for gate in gates
    )
    given = GroupGraph(members=tuple(members), watches=watches, more=False)
    check(draw(given), given)
    check(draw(given, 40), given, 40)
