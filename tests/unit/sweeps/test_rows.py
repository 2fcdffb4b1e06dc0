"""Each row of a sweep stands alone: what one does, or does not do, is no other's trouble."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from offpath import Abort
from offpath.sweeps import SweepContext, Tally, Verdict
from tests.unit.sweeps.rows_table import BACK, Desk, Troubled, drive


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    made = Desk()
    yield made
    await made.app.close()


GOOD = tuple(f"row {n}" for n in range(17))


def sweep(desk: Desk, body: Any, **terms: Any) -> None:
    desk.app.sweep("s", **terms)(body)


def plain(rows: Any, advance: Any) -> Any:
    """A sweep that claims these rows each time."""

    class Plain:
        async def claim(self, ctx: SweepContext, now: Any, limit: int) -> Any:
            return rows

        async def advance(self, ctx: SweepContext, row: Any, now: Any) -> Any:
            return await advance(ctx, row)

    return Plain()


async def ok(ctx: SweepContext, row: Any) -> None:
    return None


async def test_of_20_rows_17_advance_beside_one_that_raises_one_unrecordable_and_one_that_hangs(
    desk: Desk,
) -> None:
    desk.table.add("raises", *GOOD[:8], "unrecordable", *GOOD[8:12], "hangs", *GOOD[12:])
    sweep(desk, Troubled(desk.table))
    result = (await desk.passing(only=["s"]))["s"]
    assert result.tally.buckets == {
        "failed": ("raises",),
        "moved": GOOD,
        "unrecorded": ("unrecordable",),
        "timed_out": ("hangs",),
    }
    assert (result.verdict, result.error) == (Verdict.DEGRADED, None)
    assert result.tally.reasons == {
        "raises": "ValueError",
        "unrecordable": "ValueError",
        "hangs": "sweep_overdue",
    }
    assert result.cause == "3 of 20 rows went wrong: 1 failed, 1 unrecorded, 1 timed_out"


async def test_rows_that_cannot_move_never_block_newer_ones_over_five_passes(desk: Desk) -> None:
    body = Troubled(desk.table)
    sweep(desk, body, limit=3, row_timeout=1)
    desk.table.add("raises", "unrecordable", "hangs")
    moved: list[str] = []
    for number in range(5):
        desk.table.add(f"new {number}")
        tally = await desk.tally("s", step=1.0)
        moved += tally.buckets.get("moved", ())
        assert tally.total <= 3
        desk.clock.advance(BACK / 10)
    assert moved == [f"new {number}" for number in range(5)]
    desk.clock.advance(BACK * 10)
    assert set((await desk.tally("s", step=1.0)).counts) == {"failed", "unrecorded", "timed_out"}


async def test_a_row_that_ignores_its_cancellation_is_left_alone_and_reported(desk: Desk) -> None:
    let_go = asyncio.Event()

    async def stubborn(ctx: SweepContext, row: Any) -> None:
        while row == "stubborn" and not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue

    sweep(desk, plain(["stubborn", "next"], stubborn), row_timeout=5)
    first = await desk.tally("s")
    assert first.buckets == {"timed_out": ("stubborn",), "advanced": ("next",)}
    assert ("SweepOverdue", "sweep:s") in desk.told
    # It is not begun a second time beside itself, and once it has ended it may be.
    assert (await desk.tally("s", step=0.001)).buckets == first.buckets
    let_go.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert (await desk.tally("s")).counts == {"advanced": 2}


async def test_what_an_abandoned_row_raises_in_the_end_is_reported(desk: Desk) -> None:
    let_go = asyncio.Event()

    async def stubborn(ctx: SweepContext, row: Any) -> None:
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue
        raise KeyError(row)

    sweep(desk, plain(["r"], stubborn), row_timeout=5)
    assert (await desk.tally("s")).counts == {"timed_out": 1}
    let_go.set()
    for _ in range(10):
        await asyncio.sleep(0)
    assert "KeyError" in [kind for kind, _ in desk.told]


async def test_abort_is_a_dead_letter_and_a_bucket_is_what_advance_says(desk: Desk) -> None:
    async def advance(ctx: SweepContext, row: Any) -> str | None:
        if row == "doomed":
            raise Abort("no such account")
        return "charged" if row == "paid" else None

    sweep(desk, plain(["doomed", "paid", "other"], advance))
    tally = await desk.tally("s")
    assert tally.buckets == {
        "dead_lettered": ("doomed",),
        "charged": ("paid",),
        "advanced": ("other",),
    }
    assert tally.reasons == {"doomed": "abort"}


async def test_the_hook_that_records_a_failure_may_name_its_bucket(desk: Desk) -> None:
    class Body:
        async def claim(self, ctx: Any, now: Any, limit: int) -> list[str]:
            return ["a", "b"]

        async def advance(self, ctx: Any, row: str, now: Any) -> None:
            raise ConnectionError(row)

        async def failed(self, ctx: Any, row: str, error: Exception, now: Any) -> str | None:
            return "retrying" if row == "a" else None

    sweep(desk, Body)
    tally = await desk.tally("s")
    assert tally.buckets == {"retrying": ("a",), "failed": ("b",)}
    assert tally.verdict is Verdict.DEGRADED


@pytest.mark.parametrize("answer", [3, "", "a\nb"])
async def test_a_bucket_without_a_fit_name_fails_that_row_only(desk: Desk, answer: Any) -> None:
    async def advance(ctx: SweepContext, row: Any) -> Any:
        return answer if row == "odd" else None

    sweep(desk, plain(["odd", "even"], advance))
    tally = await desk.tally("s")
    assert tally.buckets == {"failed": ("odd",), "advanced": ("even",)}
    assert tally.reasons == {"odd": "invalid_argument"}


async def test_a_row_that_cancels_itself_fails_alone(desk: Desk) -> None:
    async def advance(ctx: SweepContext, row: Any) -> None:
        if row == "odd":
            raise asyncio.CancelledError

    sweep(desk, plain(["odd", "even"], advance))
    assert (await desk.tally("s")).buckets == {"failed": ("odd",), "advanced": ("even",)}


async def test_to_cancel_a_run_cancels_the_row_that_it_is_at(desk: Desk) -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def advance(ctx: SweepContext, row: Any) -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    sweep(desk, plain(["one", "two"], advance))
    run = asyncio.ensure_future(desk.app.worker().run_once(only=["s"]))
    await began.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    await asyncio.wait_for(ended.wait(), 5)
    assert desk.told == []


class Keyed:
    def __init__(self, key: int) -> None:
        self.key = key


@pytest.mark.parametrize(
    ("row", "row_id"),
    [("text", "text"), ({"id": 7}, "7"), (type("R", (), {"id": 5})(), "5"), (Keyed(9), "9")],
)
async def test_a_row_has_the_id_that_it_says(desk: Desk, row: Any, row_id: str) -> None:
    body = plain([row], ok)
    if isinstance(row, Keyed):
        body.row_id = lambda row: row.key
    sweep(desk, body)
    assert (await desk.tally("s")).buckets == {"advanced": (row_id,)}


async def test_a_row_without_an_id_is_told_by_its_place_and_stops_none(desk: Desk) -> None:
    sweep(desk, plain(["a", object(), {"name": 1}, None, "b"], ok))
    tally = await desk.tally("s")
    places = tuple(f"row {n} of the claim" for n in (2, 3, 4))
    assert tally.buckets == {"advanced": ("a", "b"), "failed": places}
    assert ("InvalidArgument", "sweep:s") in desk.told


async def test_rows_beyond_the_limit_are_left_alone_and_told(desk: Desk) -> None:
    seen: list[str] = []

    async def advance(ctx: SweepContext, row: Any) -> None:
        seen.append(row)

    sweep(desk, plain(["a", "b", "c", "d", "e", "f"], advance), limit=2)
    tally = await desk.tally("s")
    assert seen == ["a", "b"]
    assert tally.buckets == {"advanced": ("a", "b"), "over_limit": ("c", "d")}
    assert (tally.verdict, tally.more) == (Verdict.DEGRADED, True)
    assert desk.told == [("InvalidArgument", "sweep:s")]


async def test_a_claim_may_be_a_generator_of_either_kind(desk: Desk) -> None:
    class Async:
        async def claim(self, ctx: Any, now: Any, limit: int) -> AsyncIterator[str]:
            for number in range(limit):
                yield f"a{number}"

        async def advance(self, ctx: Any, row: str, now: Any) -> None: ...

    class Sync:
        def claim(self, ctx: Any, now: Any, limit: int) -> Any:
            return (f"b{number}" for number in range(limit))

        def advance(self, ctx: Any, row: str, now: Any) -> None: ...

    desk.app.sweep("a", limit=2)(Async)
    desk.app.sweep("b", limit=3)(Sync())
    run = await asyncio.wait_for(desk.app.worker().run_once(only=["a", "b"]), 10)
    assert run["a"].tally.buckets == {"advanced": ("a0", "a1")}
    assert run["b"].tally.buckets == {"advanced": ("b0", "b1", "b2")}


async def test_sync_methods_run_in_threads_of_their_own(desk: Desk) -> None:
    names: list[str] = []

    class Sync:
        def claim(self, ctx: Any, now: Any, limit: int) -> list[str]:
            names.append(threading.current_thread().name)
            return ["a"]

        def advance(self, ctx: Any, row: str, now: Any) -> None:
            names.append(threading.current_thread().name)

    sweep(desk, Sync)
    run = await asyncio.wait_for(desk.app.worker().run_once(only=["s"]), 10)
    assert run["s"].tally.counts == {"advanced": 1}
    assert {name.rpartition("-")[0] for name in names} == {"offpath-sweep"}


async def test_a_sync_generator_makes_its_rows_in_the_threads_too(desk: Desk) -> None:
    names: list[str] = []

    class Rows:
        def claim(self, ctx: Any, now: Any, limit: int) -> Any:
            for row in range(1_000):
                names.append(threading.current_thread().name)
                yield f"r{row}"

        async def advance(self, ctx: Any, row: Any, now: Any) -> None:
            pass

    sweep(desk, Rows(), limit=3)
    tally = (await desk.app.worker().run_once(only="s"))["s"].tally
    assert tally.counts == {"advanced": 3, "over_limit": 3}
    assert len(names) == 6
    assert all(name.startswith("offpath-sweep") for name in names)


async def test_all_time_decisions_of_a_pass_have_its_one_now(desk: Desk) -> None:
    seen: list[Any] = []

    class Body:
        async def claim(self, ctx: SweepContext, now: Any, limit: int) -> list[str]:
            seen.extend((now, ctx.now))
            return ["a", "b"]

        async def advance(self, ctx: SweepContext, row: str, now: Any) -> None:
            desk.clock.advance(3)
            seen.append(now)

    sweep(desk, Body)
    began = desk.clock.now()
    await desk.tally("s")
    assert set(seen) == {began}
    await desk.tally("s", now=began.replace(year=2030))
    assert set(seen) == {began, began.replace(year=2030)}


async def test_a_row_may_enqueue_and_publish(desk: Desk) -> None:
    @desk.app.task
    async def remind(cart: str) -> None: ...

    async def advance(ctx: SweepContext, row: Any) -> str:
        await ctx.enqueue(remind.job(row))
        await ctx.publish("cart.stale", {"cart": row})
        ctx.log.info("reminded")
        assert ctx.app is desk.app
        assert ctx.sweep == "s"
        assert ctx.id
        return "reminded"

    sweep(desk, plain(["cart 1"], advance))
    assert (await desk.tally("s")).buckets == {"reminded": ("cart 1",)}
    assert [one.task for one in await desk.app.backlog()] == ["remind"]


async def test_a_whole_pass_tells_its_tally(desk: Desk) -> None:
    class Whole:
        async def run(self, ctx: SweepContext, now: Any, limit: int) -> Tally:
            return Tally(counted={"closed": limit}, facts={"rate": "1.5"}, postings=("p1",))

    sweep(desk, Whole, limit=40)
    run = await desk.passing(only="s")
    assert (run["s"].tally.counts, run.postings) == ({"closed": 40}, ("p1",))
    assert run["s"].verdict is Verdict.CLEAN
    run = await desk.passing(only="s", limit=2)
    assert run["s"].tally.counts == {"closed": 2}


async def test_a_claim_that_hangs_fails_within_its_limit(desk: Desk) -> None:
    class Hung:
        async def claim(self, ctx: Any, now: Any, limit: int) -> list[str]:
            await asyncio.Event().wait()
            raise AssertionError

        async def advance(self, ctx: Any, row: str, now: Any) -> None: ...

    sweep(desk, Hung, claim_timeout=20)
    desk.app.sweep("after")(plain(["a"], ok))
    run = asyncio.ensure_future(desk.app.worker().run_once(only=["s", "after"]))
    await drive(desk.clock, run, 20)
    results = (await run).batch
    assert [(one.name, one.error, one.retryable) for one in results] == [
        ("s", "sweep_overdue", True),
        ("after", None, False),
    ]
