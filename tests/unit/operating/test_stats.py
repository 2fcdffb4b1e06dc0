"""Stats of workers: what is told, how it is merged, and the points of a chart."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from offpath.app import App
from offpath.errors import InvalidArgument
from offpath.model.effects import Effects
from offpath.model.message import Box, NewMessage
from offpath.model.stats import (
    DAY,
    FIVE,
    HOUR,
    MERGED,
    MINUTE,
    MOST_BYTES,
    MOST_PAIRS,
    OTHER,
    QUARTER,
    SECONDS,
    QueueLevel,
    StatRow,
    StatSpan,
    WaitLevel,
    bounded,
    merged,
    pair,
    read,
    sums,
    written,
)
from offpath.operating.stats_loop import StatsLoop
from offpath.operating.stats_taken import TakenStats
from offpath.operating.stats_times import RANGES
from offpath.operating.stats_views import (
    StatChoice,
    percentile,
    points_of,
    rates_of,
    stats,
)
from offpath.runtime.catalogue import TIME_BOUNDS
from offpath.runtime.clock import ManualClock
from offpath.runtime.ids import new_id
from offpath.runtime.metrics import Metrics
from offpath.store.memory import MemoryStore
from offpath.store.rows.instants import from_seconds
from offpath.store.stats import MOST_STATS
from tests.conformance.builders import START

_NUMBERS = st.dictionaries(
    st.sampled_from(["a", "b"]),
    st.dictionaries(st.sampled_from(["0", "3", "mail\nsend"]), st.integers(0, 99), max_size=3),
    max_size=2,
)
_LEVELS = st.builds(
    QueueLevel,
    looks=st.integers(0, 9),
    ready=st.integers(0, 9),
    scheduled=st.integers(0, 9),
    blocked=st.integers(0, 9),
    running=st.integers(0, 9),
    oldest=st.integers(0, 99).map(float),
)
_WAITS = st.builds(
    WaitLevel,
    looks=st.integers(0, 9),
    waiting=st.integers(0, 9),
    oldest=st.integers(0, 99).map(float),
)
_SPANS = st.builds(
    StatSpan,
    jobs=_NUMBERS,
    wait=_NUMBERS,
    queue_wait=_NUMBERS,
    run=_NUMBERS,
    levels=st.dictionaries(st.sampled_from(["mail", "cpu"]), _LEVELS, max_size=2),
    workers=st.tuples(st.integers(0, 9), st.integers(0, 9)),
    messages=_NUMBERS,
    passed=st.dictionaries(st.sampled_from(["iu", "mail"]), st.integers(1, 9), max_size=2),
    streams=st.dictionaries(st.sampled_from(["a", "b"]), _WAITS, max_size=2),
    lags=st.dictionaries(st.sampled_from(["iu"]), _WAITS, max_size=1),
)


@given(st.lists(_SPANS, max_size=6), st.randoms(use_true_random=False), st.integers(0, 6))
def test_any_order_and_any_grouping_merge_to_the_same(
    spans: list[StatSpan], random: Random, cut: int
) -> None:
    mixed = list(spans)
    random.shuffle(mixed)
    assert merged([merged(mixed[:cut]), merged(mixed[cut:])]) == merged(spans)
    assert read(written(merged(spans))) == merged(spans)


@given(st.lists(st.tuples(st.integers(0, 3), _SPANS), max_size=6))
def test_sums_have_the_points_of_what_they_sum(spans: list[tuple[int, StatSpan]]) -> None:
    rows = [
        StatRow(
            step=SECONDS,
            at=START + timedelta(seconds=SECONDS * place),
            source=str(number),
            body=written(one),
        )
        for number, (place, one) in enumerate(spans)
    ]
    short = [structs.replace(one, body=sums(one.body)) for one in rows]
    until = START + timedelta(seconds=2 * MINUTE)
    for step in (SECONDS, MINUTE):
        assert points_of(short, START, until, step) == points_of(rows, START, until, step)


def test_sums_of_many_tasks_are_a_part_of_what_they_sum() -> None:
    counts = {pair(f"queue{n % 20}", f"task{n}"): 90 for n in range(50)}
    waits = {f"task{n}": dict.fromkeys("34567", 9) for n in range(50)}
    body = written(StatSpan(jobs=dict.fromkeys(("started", "succeeded"), counts), wait=waits))
    assert len(sums(body)) < len(body) / 20


def test_what_cannot_be_read_says_nothing() -> None:
    assert read("no json").empty
    assert read('{"jobs": 7}').empty


def test_differences_are_told_once_and_nothing_of_before() -> None:
    metrics = Metrics()
    started = metrics.counter("offpath_jobs_started_total", task="send", queue="mail")
    started.add(7)
    taken = TakenStats(metrics)
    assert taken.take().empty
    started.add(3)
    wait = metrics.summary("offpath_job_wait_seconds", task="send")
    wait.observe_all([0.0005, 0.0005, 15.0])
    metrics.summary("offpath_queue_wait_seconds", queue="mail").observe_all([15.0])
    span = taken.take()
    assert span.queue_wait == {"mail": {str(TIME_BOUNDS.index(30.0)): 1}}
    assert span.jobs == {"started": {pair("mail", "send"): 3}}
    assert span.wait == {"send": {"0": 2, str(TIME_BOUNDS.index(30.0)): 1}}
    assert taken.take().empty


def test_of_many_queues_and_tasks_the_rest_is_one() -> None:
    metrics = Metrics(most_names=1_000)
    taken = TakenStats(metrics)
    for number in range(MOST_PAIRS + 5):
        metrics.counter("offpath_jobs_started_total", task="send", queue=f"q{number}").add()
    counted = taken.take().jobs["started"]
    assert len(counted) == MOST_PAIRS + 1
    assert counted[pair(OTHER, OTHER)] == 5


def test_messages_and_routers_are_told_by_their_names() -> None:
    metrics = Metrics()
    taken = TakenStats(metrics)
    labels = {"box": "out", "stream": "billing"}
    metrics.counter("offpath_messages_total", **labels, outcome="done").add(3)
    metrics.counter("offpath_messages_total", **labels, outcome="dead").add(1)
    metrics.counter("offpath_router_passed_total", router="iu").add(7)
    span = taken.take()
    assert span.messages == {"done": {"billing": 3}, "dead": {"billing": 1}}
    assert span.passed == {"iu": 7}
    assert taken.take().empty


def test_points_of_a_stream_and_of_a_router_are_theirs_alone() -> None:
    span = StatSpan(
        messages={"done": {"a": 3, "b": 4}, "dead": {"a": 1}},
        passed={"iu": 7, "other": 2},
        streams={
            "a": WaitLevel(looks=2, waiting=6, oldest=9.0),
            "b": WaitLevel(looks=1, waiting=1, oldest=1.0),
        },
        lags={"iu": WaitLevel(looks=1, oldest=30.0)},
    )

    def told(**only: str) -> tuple[object, ...]:
        end = START + timedelta(seconds=SECONDS)
        (one,) = points_of([_row(0, span)], START, end, SECONDS, StatChoice(**only))
        return one.delivered, one.undelivered, one.passed, one.waiting, one.oldest_waiting

    assert told(stream="a") == (3, 1, 9, 3.0, 9.0)
    assert told(router="iu") == (7, 1, 7, None, 30.0)
    assert told() == (7, 1, 9, 4.0, 30.0)
    assert told(stream="none") == (0, 0, 9, None, None)


async def test_what_waits_in_streams_is_told_by_who_leads() -> None:
    clock = ManualClock(START)
    app = await _app(clock)
    async with app:
        sent = NewMessage(id=new_id(), box=Box.OUT, stream="billing", payload="{}")
        await app.store().commit(Effects(messages=(sent,)))
        clock.advance(2 * SECONDS)
        await StatsLoop(app).step()
        clock.advance(SECONDS)
        told = await stats(app, within="15m", only=StatChoice(stream="billing"))
        known = [one for one in told.points if one.waiting is not None]
        assert [(one.waiting, one.oldest_waiting) for one in known] == [(1.0, 20.0)]


def _total(span: StatSpan) -> dict[str, int]:
    """The sum of all counts of each kind."""
    kinds = ("jobs", "messages", "wait", "queue_wait", "run")
    found = {kind: sum(sum(one.values()) for one in getattr(span, kind).values()) for kind in kinds}
    return {**found, "passed": sum(span.passed.values())}


@pytest.mark.parametrize("names", [3, 120, 200])
def test_a_row_has_a_bound_and_loses_no_count(names: int) -> None:
    """The most frequent names stay, and the rarest are told as one."""
    tasks = {f"a task with quite a long name, number {n}": n + 1 for n in range(names)}
    span = StatSpan(
        jobs={what: {pair("mail", name): n for name, n in tasks.items()}
              for what in ("queued", "succeeded")},
        messages={"done": tasks},
        passed=tasks,
        wait={name: {"0": n, "7": 1} for name, n in tasks.items()},
        run={name: {"2": n} for name, n in tasks.items()},
    )  # fmt: skip
    small = bounded(span)
    assert len(written(small).encode()) <= MOST_BYTES
    assert _total(small) == _total(span)
    assert small == span if names == 3 else OTHER in small.run
    *_, most = tasks
    assert small.jobs["queued"][pair("mail", most)] == names


def test_a_percentile_is_a_bound() -> None:
    assert percentile([{"0": 90}, {"3": 10}], 0.95) == TIME_BOUNDS[3]
    assert percentile([{"0": 96}, {"3": 4}], 0.95) == TIME_BOUNDS[0]
    assert percentile([], 0.95) is None
    assert percentile([{"999": 5, "x": 5}], 0.95) is None


def _row(second: int, span: StatSpan) -> StatRow:
    at = START + timedelta(seconds=second)
    return StatRow(step=SECONDS, at=at, source=MERGED, body=written(span))


def test_points_are_empty_where_nobody_told_and_arrivals_follow_from_levels() -> None:
    def span(ready: int, done: int) -> StatSpan:
        level = QueueLevel(looks=1, ready=ready)
        return StatSpan(jobs={"succeeded": {pair("mail", "send"): done}}, levels={"mail": level})

    rows = [_row(0, span(5, 10)), _row(10, span(25, 10)), _row(30, span(0, 4))]
    points = points_of(rows, START, START + timedelta(seconds=40), SECONDS)
    assert [one.ended for one in points] == [10, 10, None, 4]
    assert [one.arrived for one in points] == [10, 30, None, 4]
    assert [one.ready for one in points] == [5, 25, None, 0]
    other = points_of(rows, START, START + timedelta(seconds=20), SECONDS, StatChoice(queue="cpu"))
    assert [(one.ended, one.ready) for one in other] == [(0, None), (0, None)]


async def _app(clock: ManualClock) -> App:
    return App(clock=clock, store=MemoryStore(clock), auto_start=False)


async def test_a_worker_tells_each_span_once_and_one_of_the_fleet_what_waits() -> None:
    clock = ManualClock(START)
    app = await _app(clock)

    @app.task(name="send", queue="mail")
    async def send() -> None: ...

    async with app:
        first, second = StatsLoop(app), StatsLoop(app)
        await app.enqueue([send.job() for _ in range(3)])
        for _ in range(2):
            clock.advance(SECONDS)
            for loop in (first, second, first):
                await loop.step()
        told = await stats(app, within="15m", only=StatChoice(queue="mail"))
        assert [one.ready for one in told.points if one.ready is not None][-1:] == [3.0]
        rows = await app.store().stats(since=START - timedelta(hours=1), until=clock.now())
        spans = [read(one.body) for one in rows]
        assert sum(one.levels["mail"].looks for one in spans if one.levels) == 2
        # both are of one process, and what one has told the other does not tell again
        assert sum(sum(one.jobs.get("queued", {}).values()) for one in spans) == 3


async def test_a_worker_that_ends_within_a_span_has_told_what_it_did() -> None:
    clock = ManualClock(START)
    app = await _app(clock)
    async with app:
        loop = StatsLoop(app)
        app.metrics.counter("offpath_jobs_succeeded_total", queue="mail", task="send").add(50)
        stop = loop.spec().stop
        assert stop is not None
        await stop(1.0)
        await stop(1.0)  # nothing was done since
        clock.advance(SECONDS)
        told = await stats(app, within="15m", only=StatChoice(queue="mail"))
        assert [one.ended for one in told.points if one.ended] == [50]


async def test_rows_grow_coarser_with_age_and_go_at_last() -> None:
    clock = ManualClock(START)
    app = await _app(clock)
    async with app:
        store, loop = app.store(), StatsLoop(app)
        span = StatSpan(jobs={"succeeded": {pair("mail", "send"): 1}})
        await store.put_stats([_row(10 * n, span) for n in range(12)])

        async def steps(hours: float) -> dict[int, int]:
            clock.advance(hours * HOUR)
            await loop.step()
            rows = await store.stats(since=START - timedelta(days=1), until=clock.now())
            found: dict[int, int] = {}
            for one in rows:
                done = sum(read(one.body).jobs.get("succeeded", {}).values())
                found[one.step] = found.get(one.step, 0) + done
            return {step: done for step, done in found.items() if done}

        assert await steps(0.25) == {SECONDS: 12}
        assert await steps(1) == {MINUTE: 12}
        assert await steps(0.5) == {FIVE: 12}
        assert await steps(6) == {QUARTER: 12}
        assert await steps(26) == {HOUR: 12}
        assert await steps(70) == {DAY: 12}
        assert await steps(92 * 24) == {}


class CountingStore(MemoryStore):
    """A store that counts the rows of stats that it answers."""

    answered = 0

    async def stats(
        self, *, since: datetime, until: datetime, limit: int = MOST_STATS, named: bool = True
    ) -> list[StatRow]:
        """Rows of a time."""
        found = await super().stats(since=since, until=until, limit=limit, named=named)
        self.answered += len(found)
        return found


def _months_of_rows(until: datetime) -> Iterator[StatRow]:
    """Rows without a gap, as a version left them that knew three steps: each tells of one job."""
    body = written(StatSpan(jobs={"succeeded": {pair("mail", "send"): 1}}))
    end = int(until.timestamp())
    ages = ((SECONDS, 0, 2 * HOUR), (MINUTE, 2 * HOUR, 2 * DAY), (HOUR, 2 * DAY, 90 * DAY))
    for step, youngest, oldest in ages:
        first, last = (end - oldest) // step * step, (end - youngest) // step * step
        for second in range(first, last, step):
            yield StatRow(step=step, at=from_seconds(second), source=MERGED, body=body)


async def test_no_range_reads_more_than_a_few_hundred_rows_and_none_is_lost() -> None:
    # just before midnight every step has the most rows that are not over
    end = START.replace(hour=23, minute=59, second=50, microsecond=0)
    clock = ManualClock(end - timedelta(minutes=15))
    store, rows = CountingStore(clock), list(_months_of_rows(end))
    async with App(clock=clock, store=store, auto_start=False) as app:
        await store.put_stats(rows)
        loop = StatsLoop(app)
        while clock.now() < end:  # so many turns as merging all that takes
            clock.advance(MINUTE)
            await loop.step()
        for within, most in (("15m", 100), ("1h", 160), ("6h", 250), ("2d", 370), ("90d", 500)):
            store.answered = 0
            told = await stats(app, within=within, compared="yesterday")
            assert store.answered - len(told.yesterday) <= most, within
            wanted = sum(told.since <= one.at < told.until for one in rows)
            assert sum(one.ended or 0 for one in told.points) == wanted, within


async def test_a_range_that_is_none_is_refused() -> None:
    app = await _app(ManualClock(START))
    async with app:
        with pytest.raises(InvalidArgument, match="range is one of 15m"):
            await stats(app, within="1y")
        for name, (seconds, step) in RANGES.items():
            assert len((await stats(app, within=name)).points) == seconds // step


# -- the pace of queues, and a day before ----------------------------------------------------------


def span_row(second: int, step: int = SECONDS, **fields: object) -> StatRow:
    """A row of a span that begins so many seconds after the start."""
    at = START + timedelta(seconds=second)
    return StatRow(step=step, at=at, source=new_id(), body=written(StatSpan(**fields)))  # type: ignore[arg-type]


def waiting(jobs: int) -> dict[str, QueueLevel]:
    """A look at one queue."""
    return {"mail": QueueLevel(looks=1, ready=jobs)}


def test_what_came_is_what_ended_and_what_more_waits() -> None:
    mail = pair("mail", "send")
    rows = [
        span_row(0, jobs={"succeeded": {mail: 10}}, levels=waiting(5)),
        span_row(10, jobs={"succeeded": {mail: 6}, "dead": {mail: 4}}, levels=waiting(20)),
        span_row(10, queue_wait={"mail": {"3": 9, "6": 1}}),
    ]
    rate = rates_of(rows)["mail"]
    assert (rate.ended, rate.arrived) == (1.0, 1.75)
    assert rate.wait_p95 == TIME_BOUNDS[6]


def test_a_queue_that_ran_empty_has_fewer_that_wait() -> None:
    mail = pair("mail", "send")
    rows = [
        span_row(0, jobs={"succeeded": {mail: 10}}, levels=waiting(10)),
        span_row(10, jobs={"succeeded": {mail: 10}}, levels={"cpu": QueueLevel(looks=1)}),
    ]
    rates = rates_of(rows)
    assert (rates["mail"].ended, rates["mail"].arrived) == (1.0, 0.5)
    assert (rates["cpu"].arrived, rates["cpu"].wait_p95) == (0.0, None)
    assert rates_of([]) == {}


def test_waits_are_told_of_one_queue() -> None:
    rows = [span_row(0, wait={"mail": {"9": 1}}, queue_wait={"mail": {"3": 1}, "cpu": {"9": 9}})]
    until = START + timedelta(seconds=10)
    for only, bound in (
        (StatChoice(queue="mail"), TIME_BOUNDS[3]),
        (StatChoice(task="mail"), TIME_BOUNDS[9]),
        (StatChoice(queue="mail", task="mail"), None),
    ):
        (point,) = points_of(rows, START, until, 10, only)
        assert point.wait_p95 == bound, only


async def test_a_range_is_compared_with_the_day_before() -> None:
    async with await _app(ManualClock(START + timedelta(days=2))) as app:
        mail = pair("mail", "send")
        day = 86_400
        await app.store().put_stats(
            [
                span_row(day - QUARTER, QUARTER, jobs={"succeeded": {mail: 900}}),
                span_row(2 * day - 10, jobs={"succeeded": {mail: 30}}, wait={"send": {"3": 30}}),
            ]
        )
        told = await stats(app, within="15m", compared="yesterday")
        assert (told.step, told.yesterday_step) == (SECONDS, QUARTER)
        assert told.points[-1].ended == 30
        assert [one.ended for one in told.yesterday] == [900]
        assert told.waits.p99 == TIME_BOUNDS[3]
        assert (await stats(app, within="15m")).yesterday == ()
        with pytest.raises(InvalidArgument, match="compare is yesterday"):
            await stats(app, compared="tomorrow")
