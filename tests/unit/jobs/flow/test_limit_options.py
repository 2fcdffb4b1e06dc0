"""Limits and fair keys as they are given: checked before anything is written, merged by level."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from offpath import App, InvalidArgument, Limit, Options, Rate
from offpath.errors import WaitTimeout
from offpath.model.limit import Algorithm, LimitSpec, RateSpec
from offpath.model.unsent import unsent
from offpath.operating.documents.jobs import describe
from offpath.operating.job_waits import wait_of
from offpath.runtime.clock import ManualClock


def test_a_limit_without_a_key_is_the_tasks_own() -> None:
    app = App()

    @app.task(limit=Limit(max_running=3))
    def send() -> None: ...

    assert unsent(send.job()).new.limit == LimitSpec(key="send", max_running=3)


def test_a_limit_with_a_key_is_shared_by_tasks() -> None:
    app = App()
    both = Limit(key="mail-api", max_running=2, rate=Rate(100, per=timedelta(minutes=1)))

    @app.task(limit=both)
    def one() -> None: ...

    @app.task(limit=both)
    def other() -> None: ...

    expected = LimitSpec(key="mail-api", max_running=2, rate=RateSpec(count=100, per=60.0))
    assert unsent(one.job()).new.limit == unsent(other.job()).new.limit == expected


def test_a_function_of_the_arguments_gives_limit_and_fair_key() -> None:
    app = App()

    @app.task(
        limit=lambda tenant, _n=0: Limit(key=f"tenant:{tenant}", max_running=1) if tenant else None,
        fair_key=lambda tenant, _n=0: tenant or None,
    )
    def work(tenant: str, _n: int = 0) -> None: ...

    new = unsent(work.job("acme")).new
    assert (new.limit, new.fair_key) == (LimitSpec(key="tenant:acme", max_running=1), "acme")
    assert (unsent(work.job("")).new.limit, unsent(work.job("")).new.fair_key) == (None, None)


def test_the_nearest_level_counts_and_false_lifts() -> None:
    app = App(limit=Limit(key="all", max_running=100), fair_key="house")

    @app.task
    def plain() -> None: ...

    @app.task(limit=Limit(max_running=5), fair_key="task")
    def own() -> None: ...

    @app.task(limit=False, fair_key=lambda: "mine")
    def free() -> None: ...

    assert unsent(plain.job()).new.limit == LimitSpec(key="all", max_running=100)
    assert unsent(plain.job()).new.fair_key == "house"
    assert unsent(own.job()).new.limit == LimitSpec(key="own", max_running=5)
    assert unsent(own.options(limit=Limit(max_running=1)).job()).new.limit == LimitSpec(
        key="own", max_running=1
    )
    assert unsent(own.options(limit=False, fair_key="x").job()).new.limit is None
    assert unsent(own.options(fair_key="x").job()).new.fair_key == "x"
    assert (unsent(free.job()).new.limit, unsent(free.job()).new.fair_key) == (None, "mine")


def test_computed_options_may_give_a_limit() -> None:
    app = App()

    @app.task(options=lambda n: Options(limit=Limit(max_running=n)))
    def work(n: int) -> None: ...

    assert unsent(work.job(4)).new.limit == LimitSpec(key="work", max_running=4)


def test_an_app_wide_limit_without_a_key_is_each_tasks_own() -> None:
    app = App(limit=Limit(max_running=7))

    @app.task
    def one() -> None: ...

    assert unsent(one.job()).new.limit == LimitSpec(key="one", max_running=7)


@pytest.mark.parametrize("algorithm", ["token_bucket", "fixed_window", "sliding_window"])
def test_the_algorithms_have_names(algorithm: Any) -> None:
    app = App(limit=Limit(rate=Rate(5, per=1.5, algorithm=algorithm)))

    @app.task
    def one() -> None: ...

    limit = unsent(one.job()).new.limit
    assert limit is not None
    assert limit.rate == RateSpec(count=5, per=1.5, algorithm=Algorithm(algorithm))


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        ("mail", r"write limit=Limit\(key='mail', max_running=1\)"),
        (5, "must be an offpath.Limit, not int"),
        (Limit(key="x"), "needs max_running or rate"),
        (Limit(), "needs max_running or rate"),
        (Limit(max_running=0), "max_running must be between 1"),
        (Limit(max_running=True), "max_running must be an int"),
        (Limit(max_running=1.5), "max_running must be an int"),  # type: ignore[arg-type]
        (Limit(rate=Rate(0, per=1)), "count of a rate must be between 1"),
        (Limit(rate=Rate(1, per=0)), "per must be more than 0 seconds"),
        (Limit(rate=Rate(1, per=-1)), "per must be between 0"),
        (Limit(rate=Rate(1, per=float("nan"))), "per must be between 0"),
        (Limit(rate=5), r"write Rate\(100, per=60\)"),  # type: ignore[arg-type]
        (Limit(rate=Rate(1, per=1, algorithm="leaky")), "token_bucket, fixed_window, sliding"),  # type: ignore[arg-type]
        (Limit(key="", max_running=1), "limit key must have 1 to 500 characters"),
        (Limit(key="a\nb", max_running=1), "limit key must not have control"),
        (Limit(key="a\0b", max_running=1), "limit key must not have NUL"),
        (Limit(key="x" * 501, max_running=1), "limit key must have 1 to 500 characters"),
        ([], "names no limit"),
        ([Limit("a", max_running=1), "b"], "must be an offpath.Limit, not str"),
        ([Limit("a", max_running=1), Limit("a", rate=Rate(1, per=1))], "'a' is given twice"),
        ([Limit(str(n), max_running=1) for n in range(9)], "at most 8 limits, not 9"),
        ([Limit(c * 400, max_running=1) for c in "abc"], "1202 bytes together, over the limit"),
        (Limit("a", max_running=2, cost=3), "cost of 3 never fits in max_running=2"),
        (Limit("a", rate=Rate(2, per=1), cost=3), "cost of 3 never fits in a rate of 2"),
        (Limit("a", max_running=2, cost=0), "the cost of a limit must be"),
    ],
)
def test_what_cannot_be_a_limit_is_refused_at_every_level(limit: Any, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        App(limit=limit)
    app = App()
    with pytest.raises(InvalidArgument, match=message):
        app.task(name="named", limit=limit)(lambda: None)

    @app.task
    def work() -> None: ...

    with pytest.raises(InvalidArgument, match=message):
        work.options(limit=limit)

    @app.task(limit=lambda: limit)
    def computed() -> None: ...

    with pytest.raises(InvalidArgument, match=message):
        computed.job()


@pytest.mark.parametrize("key", ["", 5, "x" * 501, "a\0"])
def test_what_cannot_be_a_fair_key_is_refused(key: Any) -> None:
    with pytest.raises(InvalidArgument, match="fair_key must"):
        App(fair_key=key)


def test_a_function_is_given_to_the_task() -> None:
    app = App()

    @app.task
    def work() -> None: ...

    wrong: Any = lambda: Limit(max_running=1)  # noqa: E731 - what a caller may give
    with pytest.raises(InvalidArgument, match=r"not function; .* is given to the task"):
        work.options(limit=wrong)


async def test_several_limits_hold_together_and_are_shown_by_their_names() -> None:
    async with App(clock=ManualClock()) as app:

        @app.task(
            limit=lambda tenant, n: [
                Limit(max_running=4, cost=n),
                Limit(f"tenant:{tenant}", max_running=1),
            ]
        )
        def render(tenant: str, n: int) -> None: ...

        first, second = await app.enqueue([render.job("a", 3), render.job("b", 2)])
        record = await app.jobs.get(first.id)
        own = render.name
        assert (await app.limits.get(own)).max_running == 4
        assert [one.key for one in await app.limits.list()] == [own, "tenant:a", "tenant:b"]
        assert describe(record).limit_key == f"{own} ×3 + tenant:a"
        waits = await wait_of(app, await app.jobs.get(second.id))
        assert waits is not None
        assert waits["key"] == f"{own} ×2 + tenant:b"
        assert [one["key"] for one in waits["limits"]] == [own, "tenant:b"]
        with pytest.raises(WaitTimeout, match=f"limit {own} ×3 .+ tenant:a"):
            await first.result(timeout=0)
