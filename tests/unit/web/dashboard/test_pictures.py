"""Pictures that the server draws: a group's graph, a job's time line."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpath.operating.stats_views import StatPoint
from offpath.web.console.charts import LineChart, charts_of
from offpath.web.console.graph_picture import BUNDLE_HEIGHT, HEIGHT, WIDTH, picture_of
from offpath.web.console.timeline import SCALE, timeline_of

T0 = datetime(2026, 7, 1, 12, tzinfo=UTC)
FAILED = {"attempt": 1, "kind": "error", "worker": "w"}


def node(name: str, depth: int, **others: Any) -> dict[str, Any]:
    """A node of a plain graph."""
    return {"id": name, "kind": "job", "text": name, "jobs": 1, "states": {"queued": 1},
            "task": name, "parent": None, "deadline": None, "depth": depth, **others}  # fmt: skip


def bundle(name: str, states: dict[str, int], depth: int = 0) -> dict[str, Any]:
    """A node of several jobs."""
    return node(name, depth, kind="bundle", jobs=sum(states.values()), states=states)


def way(source: str, target: str, kind: str = "queued") -> dict[str, Any]:
    """A way between two of them."""
    return {"source": source, "target": target, "kind": kind, "jobs": 1}


def test_nodes_stand_in_columns_by_their_depth() -> None:
    nodes = [node("a", 0), node("b", 1), node("c", 1), node("d", 2)]
    drawn = picture_of({"nodes": nodes, "edges": [way("a", "b"), way("a", "c"), way("b", "d")]})
    places = {one.id: (one.x, one.y) for one in drawn.nodes}
    assert places["a"][0] < places["b"][0] == places["c"][0] < places["d"][0]
    assert abs(places["b"][1] - places["c"][1]) >= HEIGHT
    assert len(drawn.ways) == 3


@given(st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=1, max_size=80))
def test_no_two_nodes_overlap_and_all_are_inside(given: list[tuple[int, bool]]) -> None:
    nodes = [
        bundle(f"n{at}", {"dead": 13}, depth) if several else node(f"n{at}", depth)
        for at, (depth, several) in enumerate(given)
    ]
    drawn = picture_of({"nodes": nodes, "edges": []})
    assert {one.id for one in drawn.nodes} == {one["id"] for one in nodes}
    for one in drawn.nodes:
        assert 0 <= one.x <= drawn.width - WIDTH
        assert 0 <= one.y <= drawn.height - one.height
    for at, one in enumerate(drawn.nodes):
        for other in drawn.nodes[at + 1 :]:
            upper, lower = sorted((one, other), key=lambda each: each.y)
            assert abs(one.x - other.x) >= WIDTH or lower.y - upper.y >= upper.height


def test_what_leads_to_a_node_decides_on_its_row() -> None:
    nodes = [node("a", 0), node("b", 0), node("x", 1), node("y", 1)]
    drawn = picture_of({"nodes": nodes, "edges": [way("b", "x"), way("a", "y")]})
    rows = {one.id: one.y for one in drawn.nodes}
    assert rows["y"] < rows["x"]


def test_who_queued_a_job_that_waits_is_left_to_the_table() -> None:
    nodes = [node("a", 0), node("g", 1, kind="gate", jobs=0), node("b", 2)]
    edges = [way("a", "g", "waits"), way("a", "b"), way("g", "b", "waits")]
    assert [kind for kind, _ in picture_of({"nodes": nodes, "edges": edges}).ways] == ["waits"] * 2


def test_a_bundle_is_coloured_by_what_matters_most_in_it() -> None:
    states = {"succeeded": 2_184, "running": 48, "dead": 1}
    drawn = picture_of({"nodes": [node("a", 0, jobs=2_233, states=states)], "edges": []})
    assert drawn.nodes[0].state == "dead"


def test_a_bundle_counts_the_states_that_matter_most_and_has_room_for_a_link() -> None:
    states = {"blocked": 5, "dead": 1, "queued": 7, "running": 48, "succeeded": 2_184}
    drawn = picture_of({"nodes": [bundle("a", states), node("b", 0)], "edges": []})
    one, other = drawn.nodes
    assert list(one.states.items()) == [("dead", 1), ("running", 48), ("blocked", 5)]
    assert one.further
    assert one.told == ("a, 2,245 jobs: 1 dead, 48 running, 5 blocked, 7 queued, 2,184 succeeded")
    assert (one.height, other.height) == (BUNDLE_HEIGHT, HEIGHT)
    assert drawn.states == ["dead", "running", "blocked", "queued", "succeeded"]


def test_the_legend_has_the_states_of_jobs_alone() -> None:
    gate = node("g", 1, kind="gate", jobs=0, states={"open": 1})
    drawn = picture_of({"nodes": [node("a", 0), gate], "edges": [way("a", "g", "waits")]})
    assert drawn.states == ["queued"]
    assert drawn.nodes[1].told == "gate: g, open"


def test_long_names_are_cut() -> None:
    drawn = picture_of({"nodes": [node("x" * 300, 0)], "edges": []})
    assert len(drawn.nodes[0].text) == 20


def job(**others: Any) -> dict[str, Any]:
    """A plain job."""
    return {"enqueued_at": T0, "failures": [], "started_at": None, "finished_at": None,
            "attempt": 1, "state": "queued", **others}  # fmt: skip


def test_a_job_that_has_only_been_enqueued_has_no_time_line() -> None:
    assert timeline_of(job(), T0 + timedelta(hours=1)) is None


def test_a_time_line_spans_from_the_enqueue_to_the_end() -> None:
    dead = job(
        failures=[{**FAILED, "at": T0 + timedelta(seconds=10), "started_at": None}],
        started_at=T0 + timedelta(seconds=80),
        finished_at=T0 + timedelta(seconds=100),
        attempt=2,
        state="dead",
    )
    line = timeline_of(dead, T0 + timedelta(days=1))
    assert line is not None
    assert (line.first, line.last) == (T0, T0 + timedelta(seconds=100))
    assert [(one.kind, one.x) for one in line.marks] == [("failed", 100), ("dead", 800)]
    assert line.marks[1].width == 200


def test_a_running_job_reaches_to_now() -> None:
    running = job(started_at=T0 + timedelta(seconds=5), state="running")
    line = timeline_of(running, T0 + timedelta(seconds=10))
    assert line is not None
    assert line.marks[0].x + line.marks[0].width == SCALE


@given(
    st.lists(st.floats(-1e6, 1e6), max_size=6),
    st.none() | st.floats(-1e6, 1e6),
    st.none() | st.floats(-1e6, 1e6),
)
def test_no_mark_leaves_the_line(
    failed: list[float], started: float | None, ended: float | None
) -> None:
    def at(seconds: float | None) -> datetime | None:
        return None if seconds is None else T0 + timedelta(seconds=seconds)

    told = job(
        failures=[
            {**FAILED, "at": at(one), "started_at": start}
            for one in failed
            for start in (None, T0, at(one))
        ],
        started_at=at(started),
        finished_at=at(ended),
        state="dead",
    )
    line = timeline_of(told, T0 + timedelta(seconds=50))
    for one in () if line is None else line.marks:
        assert one.x >= 0
        assert one.width > 0
        assert one.x + one.width <= SCALE


# -- charts ----------------------------------------------------------------------------------------


def _point(second: int, **known: float | None) -> dict[str, Any]:
    names = StatPoint.__struct_fields__
    at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=second)
    return {**dict.fromkeys(names), "at": at, **known}


def _charts(points: list[dict[str, Any]], **given: Any) -> tuple[LineChart, ...]:
    """The charts of these points of ten seconds."""
    return charts_of({"points": points, "step": 10, "yesterday": [], "yesterday_step": 0, **given})


def test_a_chart_has_gaps_where_nobody_told_and_begins_at_zero() -> None:
    told = {"ended": 20, "arrived": 0, "failed": 0, "dead": 0, "ready": 4.0}
    points = [_point(0, **told), _point(10), _point(20, **{**told, "ended": 10})]
    ended, wait, due, failed = _charts(points)
    assert [line.words for line in ended.lines] == ["ended", "arrived"]
    # two points with a gap between them: one at the top, one at half the height
    assert ended.lines[0].paths == ("M100.0 4.0 h2", "M500.0 50.0 h2")
    assert ended.lines[1].paths == ("M100.0 96.0 h2", "M500.0 96.0 h2")
    assert (ended.most, ended.lines[0].last) == ("2/s", "1/s")
    assert "ended –, arrived –" in ended.slices[1].text
    assert wait.empty
    assert not due.empty
    assert failed.lines[0].last == "0 %"
    # what begins from zero is drawn as zero, and not as the highest
    assert failed.lines[0].paths == ("M100.0 96.0 h2", "M500.0 96.0 h2")


def test_a_range_of_which_nobody_told_is_empty() -> None:
    assert all(one.empty for one in _charts([_point(0), _point(10)]))
    assert all(one.empty for one in _charts([]))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"stream": "a"}, ["Delivered a second", "The oldest has waited", "Due now"]),
        ({"router": "iu"}, ["Passed a second", "The oldest has waited"]),
        (
            {"task": "add"},
            ["Ended a second", "Wait, 95 of 100 within", "Attempts that failed"],
        ),
    ],
)
def test_a_stream_a_router_and_a_task_have_charts_of_their_own(
    given: dict[str, str], words: list[str]
) -> None:
    told = dict.fromkeys(("delivered", "undelivered", "passed", "waiting", "ended"), 10.0)
    point = _point(0, **told, oldest_waiting=5.0, wait_p95=5.0)
    charts = _charts([point], **given)
    assert [one.words for one in charts] == words
    assert charts[0].lines[0].last == "1/s"
    assert charts[1].lines[0].last == "5 s"


def test_a_day_before_is_a_line_of_its_own_of_the_same_height() -> None:
    now = [_point(10 * number, ended=100, wait_p95=0.5) for number in range(6)]
    then = [_point(0, ended=1_200, wait_p95=0.1)]
    ended, wait, due, _ = _charts(now, yesterday=then, yesterday_step=60)
    assert [(one.words, one.style, one.last) for one in ended.lines] == [
        ("ended", "1", "10/s"),
        ("arrived", "2", "–"),
        ("yesterday", "old", "20/s"),
    ]
    assert ended.most == "20/s"
    assert wait.lines[-1].last == "100 ms"
    assert due.lines[-1].paths == ()


@pytest.mark.parametrize(
    ("ended", "failed", "rate", "share"),
    [
        (20, 20, "2/s", "100 %"),
        (1_000, 997, "100/s", "100 %"),
        (1, 1, "0.1/s", "100 %"),
        (3_000_000, 1, "300,000/s", "0.000033 %"),
        (0.0005, 0, "0.00005/s", "0 %"),
    ],
)
def test_numbers_of_charts_have_no_exponent(
    ended: float, failed: int, rate: str, share: str
) -> None:
    flow, *_, failures = _charts([_point(0, ended=ended, failed=failed, dead=failed)])
    assert (flow.lines[0].last, failures.lines[0].last) == (rate, share)
    assert (flow.most, failures.most) == (rate, share if failed else "")
