"""``offpath.enqueue(...)``: jobs put in by SQL, from triggers and other languages."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable

import psycopg
import pytest
from psycopg import errors

import offpath
from offpath.records import DeadReason
from tests.integration.within.conftest import build_postgres


@pytest.fixture
def url(database_from_template: Callable[[str, Callable[[str], None]], str]) -> str:
    return database_from_template("within", build_postgres)


@pytest.fixture
async def app(url: str) -> AsyncIterator[offpath.App]:
    app = offpath.App(url, auto_start=False)

    @app.task
    async def add(a: int, b: int = 10) -> int:
        return a + b

    async with app:
        yield app


def call(url: str, sql: str, *values: object) -> str:
    with psycopg.connect(url) as connection:
        row = connection.execute(sql.encode(), values).fetchone()
    assert row is not None
    return str(row[0])


async def test_a_job_put_in_by_sql_runs(app: offpath.App, url: str) -> None:
    job = call(url, "select offpath.enqueue('add', %s)", json.dumps({"a": 1, "b": 2}))
    await app.worker().run_until_idle()
    assert await app.tasks["add"].handle(job).result(timeout=5) == 3


async def test_options_by_name(app: offpath.App, url: str) -> None:
    job = call(
        url,
        "select offpath.enqueue('add', '{\"a\": 1}', queue => 'slow', priority => 7, "
        "delay => interval '1 hour', tags => '[\"nightly\"]')",
    )
    record = await app.jobs.get(job)
    assert (record.queue, record.priority, record.tags) == ("slow", 7, ("nightly",))
    assert (record.run_at - record.enqueued_at).total_seconds() == 3600
    await app.worker().run_until_idle()
    assert (await app.jobs.get(job)).state is offpath.JobState.QUEUED


async def test_headers_travel_with_it(app: offpath.App, url: str) -> None:
    sql = "select offpath.enqueue('add', '{\"a\": 1}', headers => %s)"
    job = call(url, sql, '{"tenant": "acme", "note": "ä"}')
    plain = call(url, sql, "{}")
    record = await app.jobs.get(job)
    assert json.loads(record.headers or "") == {"tenant": "acme", "note": "ä"}
    assert (await app.jobs.get(plain)).headers is None


@pytest.mark.parametrize(
    ("headers", "why"),
    [
        ("[]", "must be a JSON object"),
        ('{"a": 1}', "must be texts"),
        ('{"a": null}', "must be texts"),
        ('{"Tenant": "a"}', "the name of a header"),
        ('{"a\\n": "a"}', "the name of a header"),
        (json.dumps({f"n{n}": "" for n in range(65)}), "at most 64"),
        (json.dumps({"n": "ä" * 4096}), "have 8193 bytes"),
    ],
)
async def test_headers_that_the_library_refuses_are_refused(
    app: offpath.App, url: str, headers: str, why: str
) -> None:
    with pytest.raises(errors.InvalidParameterValue, match=why):
        call(url, "select offpath.enqueue('add', headers => %s)", headers)
    assert await app.jobs.count() == 0


async def test_a_unique_key_gives_the_live_job(app: offpath.App, url: str) -> None:
    sql = "select offpath.enqueue('add', '{\"a\": 1}', unique_key => 'k')"
    first = call(url, sql)
    assert call(url, sql) == first
    attached = app.tasks["add"].options(unique=offpath.Unique(key="k", policy="replace"))
    handle = await attached.enqueue(1)
    assert handle.id == first
    await app.worker().run_until_idle()
    assert call(url, sql) != first, "the key is free again when its job has ended"


async def test_it_commits_and_rolls_back_with_the_caller(app: offpath.App, url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("select offpath.enqueue('add', '{\"a\": 1}')")
        connection.rollback()
        connection.execute("select offpath.enqueue('add', '{\"a\": 1}')")
        connection.commit()
    assert await app.jobs.count() == 1


async def test_from_a_trigger(app: offpath.App, url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            """
            create function on_caller_row() returns trigger language plpgsql as $$
            begin
                perform offpath.enqueue('add', jsonb_build_object('a', new.id));
                return new;
            end $$;
            create trigger enqueue_add after insert on caller_row
                for each row execute function on_caller_row()
            """
        )
        connection.execute("insert into caller_row (id) values (5), (6)")
    await app.worker().run_until_idle()
    results = [record.result async for record in app.jobs.each(state="succeeded", newest=False)]
    assert sorted(results, key=str) == ["15", "16"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [("''", "task must be given"), ("'add', '[1]'", "input must be a JSON object")],
)
async def test_wrong_arguments_are_refused(
    app: offpath.App, url: str, arguments: str, message: str
) -> None:
    with pytest.raises(errors.DatabaseError, match=message):
        call(url, f"select offpath.enqueue({arguments})")
    assert await app.jobs.count() == 0


async def test_an_input_that_does_not_fit_dies_with_its_reason(app: offpath.App, url: str) -> None:
    job = call(url, "select offpath.enqueue('add', '{\"a\": \"one\"}')")
    await app.worker().run_until_idle()
    record = await app.jobs.get(job)
    assert record.state is offpath.JobState.DEAD
    assert record.reason == DeadReason.BAD_INPUT


@pytest.fixture
async def shop(url: str) -> AsyncIterator[offpath.App]:
    """A service whose task has an own value for each option; a worker of it has begun before."""
    app = offpath.App(url, auto_start=False)

    @app.task(
        queue="mail",
        priority=7,
        deadline=3600,
        tags=["shop", "slow"],
        announce=["dead", "succeeded"],
        limit=offpath.Limit(max_running=1),
        fair_key="tenant",
        group_policy="fail_fast",
    )
    async def told(a: int) -> int:
        return a

    @app.task(
        limit=[
            offpath.Limit("api", max_running=3, cost=2),
            offpath.Limit("shop", max_running=2, rate=offpath.Rate(5, per=60)),
        ]
    )
    async def several(a: int) -> int:
        return a

    @app.task(limit=offpath.Limit("api", max_running=3))
    async def alone(a: int) -> int:
        return a

    @app.task(unique=offpath.Unique(key="one", period=60))
    async def single(a: int) -> int:
        return a

    @app.task(unique=offpath.Unique(key="one", policy="refuse"))
    async def refusing(a: int) -> int:
        return a

    @app.task(unique=offpath.Unique(key="one", policy="replace"))
    async def replacing(a: int) -> int:
        return a

    @app.task(limit=lambda a: offpath.Limit(key=f"key {a}", max_running=1))
    async def computed(a: int) -> int:
        return a

    async with app:
        await app.worker(queues=["none"]).run_until_idle()
        yield app


ROWS = """
    select j.state, j.reason, j.queue, j.priority, j.tags, j.limit_key, j.limit_spec, j.fair_key,
        j.unique_key, j.unique_states, j.unique_held, j.unique_until - j.enqueued_at,
        j.deadline - j.enqueued_at, j.deadline_in, j.blocked_until - j.enqueued_at, j.announce,
        j.grouped, g.policy, g.open
    from offpath.job j left join offpath.job_group g on g.id = j.id::text
    where j.id = %s
"""


@pytest.mark.parametrize("task", ["told", "several", "single", "refusing", "replacing"])
async def test_a_null_option_means_the_tasks(shop: offpath.App, url: str, task: str) -> None:
    by_library = await shop.tasks[task].enqueue(1)
    with psycopg.connect(url, autocommit=True) as connection:
        wanted = connection.execute(ROWS, [by_library.id]).fetchone()
        connection.execute("delete from offpath.job")
        job = call(url, f"select offpath.enqueue('{task}', '{{\"a\": 1}}')")
        assert connection.execute(ROWS, [job]).fetchone() == wanted


async def test_what_is_given_beats_the_task(shop: offpath.App, url: str) -> None:
    job = call(
        url,
        "select offpath.enqueue('told', '{\"a\": 1}', queue => 'default', priority => 0, "
        "tags => '[]', unique_key => 'own')",
    )
    record = await shop.jobs.get(job)
    assert (record.queue, record.priority, record.tags) == ("default", 0, ())
    assert record.unique_key == "told:own"


async def test_the_tasks_limit_holds_jobs_that_sql_put_in(shop: offpath.App, url: str) -> None:
    for _ in range(3):
        call(url, "select offpath.enqueue('told', '{\"a\": 1}')")
    await shop.store().admit(limit=10)
    states = sorted([record.state.value async for record in shop.jobs.each()])
    assert states == ["blocked", "blocked", "queued"]
    await shop.worker(queues=["mail"]).run_until_idle()
    assert await shop.jobs.count(state="succeeded") == 3
    assert len((await shop.messages.find(streams=["offpath.jobs"])).items) == 3, "announced"


async def test_all_limits_of_the_task_hold_jobs_that_sql_put_in(
    shop: offpath.App, url: str
) -> None:
    for _ in range(2):
        call(url, "select offpath.enqueue('several', '{\"a\": 1}')")
    for _ in range(2):
        await shop.tasks["alone"].enqueue(1)
    assert (await shop.store().admit(limit=10)).jobs == 2
    held = {one.key: (one.admitted, one.held) for one in await shop.limits.list()}
    assert held == {"api": (3, 2), "shop": (1, 1)}, "two of three for one job, one for another"
    await shop.worker().run_until_idle()
    assert await shop.jobs.count(state="succeeded") == 4
    assert not any(one.admitted for one in await shop.limits.list())


async def test_the_holder_of_the_tasks_unique_key_is_given(shop: offpath.App, url: str) -> None:
    first = call(url, "select offpath.enqueue('single', '{\"a\": 1}')")
    assert call(url, "select offpath.enqueue('single', '{\"a\": 2}')") == first
    assert await shop.jobs.count() == 1


@pytest.mark.parametrize(
    ("task", "error"),
    [("refusing", errors.UniqueViolation), ("replacing", errors.FeatureNotSupported)],
)
async def test_another_policy_than_attach_is_refused(
    shop: offpath.App, url: str, task: str, error: type[Exception]
) -> None:
    first = call(url, f"select offpath.enqueue('{task}', '{{\"a\": 1}}')")
    with pytest.raises(error, match=first):
        call(url, f"select offpath.enqueue('{task}', '{{\"a\": 2}}')")
    assert await shop.jobs.count() == 1


async def test_a_function_of_the_arguments_is_not_asked(shop: offpath.App, url: str) -> None:
    job = call(url, "select offpath.enqueue('computed', '{\"a\": 1}')")
    assert (await shop.jobs.get(job)).limit_key is None


async def test_a_worker_of_a_new_version_says_it_anew(shop: offpath.App, url: str) -> None:
    newer = offpath.App(url, auto_start=False)

    @newer.task(name="told", priority=9)
    async def told(a: int) -> int:
        return a

    async with newer:
        await newer.worker().run_until_idle()
        record = await newer.jobs.get(call(url, "select offpath.enqueue('told', '{\"a\": 1}')"))
    assert (record.queue, record.priority, record.limit_key) == ("default", 9, None)
