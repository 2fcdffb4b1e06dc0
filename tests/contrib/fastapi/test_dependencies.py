"""A FastAPI service on both databases: what its handlers enqueue, and what becomes of it."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Annotated, Any, Literal

import httpx2
import pytest
from fastapi import Depends, FastAPI, HTTPException
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, sessionmaker

import offpath
from offpath.contrib.fastapi import Later, blocking_bound, bound, errors, later, lifespan
from offpath.errors import InvalidArgument
from tests.contrib.urls import async_urls, blocking_url, run_sql

Scope = Literal["function", "request"] | None
INSERT = text("insert into orders (id) values (:id)")


@pytest.fixture
def app(url: str) -> offpath.App:
    run_sql(url, "create table orders (id integer primary key)")
    app = offpath.App(url, auto_start=False)

    @app.task
    async def receipt(order: int) -> int:
        return order

    return app


@asynccontextmanager
async def served(api: FastAPI) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of a service whose lifespan runs, in this event loop."""
    transport = httpx2.ASGITransport(api, raise_app_exceptions=False)
    async with (
        api.router.lifespan_context(api),
        httpx2.AsyncClient(transport=transport, base_url="http://shop") as client,
    ):
        yield client


def orders(url: str) -> int:
    return int(run_sql(url, "select count(*) from orders")[0][0])


def job(app: offpath.App, order: int) -> offpath.Job[Any, Any]:
    return app.tasks["receipt"].job(order)


def shop(app: offpath.App, driver: str, *, scope: Scope = None) -> FastAPI:
    """Orders whose receipts are enqueued in the session's transaction."""
    engine = create_async_engine(driver)
    sessions = async_sessionmaker(engine)

    @asynccontextmanager
    async def disposing(_: FastAPI) -> AsyncIterator[None]:
        yield
        await engine.dispose()

    async def get_session() -> AsyncIterator[AsyncSession]:
        async with sessions() as session:
            yield session

    source: Any = Depends(get_session, scope=scope) if scope else Depends(get_session)
    api = FastAPI(lifespan=lifespan(app, inner=disposing))
    errors(api)

    @api.post("/orders/{order}", status_code=201)
    async def place(
        order: int,
        session: Annotated[AsyncSession, source],
        jobs: Annotated[offpath.Bound, Depends(bound(app, source))],
        *,
        fail: bool = False,
        forget: bool = False,
    ) -> dict[str, str]:
        assert jobs.connection is session
        await session.execute(INSERT, {"id": order})
        handle = await jobs.enqueue(job(app, order))
        if fail:
            raise HTTPException(402)
        if not forget:
            await session.commit()
        return {"job": handle.id}

    return api


@pytest.mark.parametrize("scope", [None, "function", "request"])
async def test_a_job_shares_the_fate_of_the_requests_rows(
    app: offpath.App, url: str, scope: Scope
) -> None:
    for number, driver in enumerate(async_urls(url), 1):
        async with served(shop(app, driver, scope=scope)) as client:
            placed = await client.post(f"/orders/{number}")
            assert placed.status_code == 201
            assert (await app.jobs.get(placed.json()["job"])).state == "queued"
            assert (await client.post("/orders/98?fail=true")).status_code == 402
            assert (await client.post("/orders/99?forget=true")).status_code == 201
            assert (await app.jobs.count(), orders(url)) == (number, number)


async def test_a_handler_that_is_no_coroutine_has_a_blocking_one(
    app: offpath.App, url: str
) -> None:
    engine = create_engine(blocking_url(url))
    sessions = sessionmaker(engine)

    def get_session() -> Any:
        with sessions() as session:
            yield session

    api = FastAPI(lifespan=lifespan(app))

    @api.post("/orders/{order}")
    def place(
        order: int,
        session: Annotated[Session, Depends(get_session)],
        jobs: Annotated[Any, Depends(blocking_bound(app, get_session))],
        *,
        commit: bool,
    ) -> str:
        session.execute(INSERT, {"id": order})
        handle = jobs.enqueue(job(app, order))
        if commit:
            session.commit()
        return str(handle.id)

    async with served(api) as client:
        assert (await client.post("/orders/1?commit=true")).status_code == 200
        assert (await client.post("/orders/2?commit=false")).status_code == 200
        assert (await app.jobs.count(), orders(url)) == (1, 1)
    engine.dispose()


def leaving(app: offpath.App) -> FastAPI:
    api = FastAPI(lifespan=lifespan(app))
    errors(api)

    @api.post("/mails/{count}")
    async def leave(
        count: int, left: Annotated[Later, later(app)], *, fail: str = ""
    ) -> dict[str, int]:
        for number in range(count):
            left.add(app.tasks["receipt"], number)
        assert await app.jobs.count() == 0, "written before the handler returned"
        if fail == "http":
            raise HTTPException(409)
        if fail == "bug":
            raise RuntimeError
        return {"left": len(left)}

    return api


async def test_what_a_handler_leaves_is_there_when_the_answer_is(app: offpath.App) -> None:
    async with served(leaving(app)) as client:
        assert (await client.post("/mails/3")).json() == {"left": 3}
        assert await app.jobs.count() == 3


@pytest.mark.parametrize(("fail", "status"), [("http", 409), ("bug", 500)])
async def test_a_handler_that_raises_leaves_nothing(
    app: offpath.App, fail: str, status: int
) -> None:
    async with served(leaving(app)) as client:
        assert (await client.post(f"/mails/3?fail={fail}")).status_code == status
        assert await app.jobs.count() == 0


async def test_what_cannot_be_written_is_no_success(
    app: offpath.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trap of code after a `yield`, whose fault would follow a 200 that was sent already."""

    async def away(*_: object) -> None:
        raise offpath.StoreUnavailable("the store is away")

    async with served(leaving(app)) as client:
        monkeypatch.setattr(app, "enqueue", away)
        refused = await client.post("/mails/1")
    assert refused.status_code == 503
    assert refused.headers["retry-after"] == "1"


@pytest.mark.parametrize(
    ("call", "status", "code"),
    [
        ("same", 409, "id_conflict"),
        ("wrong", 422, "invalid_input"),
        ("closed", 503, "app_closed"),
        ("bug", 500, None),
    ],
)
async def test_faults_are_answers(
    app: offpath.App,
    call: str,
    status: int,
    code: str | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    api = FastAPI(lifespan=lifespan(app))
    errors(api)

    @api.get("/")
    async def fail() -> None:
        if call == "same":
            receipt = app.tasks["receipt"].options(id="0190163d-8694-739b-aea5-966c26f8ad91")
            await receipt.enqueue(1)
            await receipt.enqueue(2)
        if call == "wrong":
            app.tasks["receipt"].job("no number")
        if call == "closed":
            raise offpath.errors.AppClosed("the app is closed")
        raise InvalidArgument("a fault of the program")

    async with served(api) as client:
        answer = await client.get("/")
    assert answer.status_code == status
    if code:
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json() == {
            "type": f"urn:offpath:problem:{code}",
            "title": HTTPStatus(status).phrase,
            "status": status,
            "code": code,
            "retryable": status == 503,
        }
    told = [one.getMessage() for one in caplog.records if "answered with" in one.getMessage()]
    assert [text.partition(": task")[0] for text in told] == (
        ["GET / is answered with 422"] if call == "wrong" else []
    ), "the log says what does not fit, since the program may be at fault"


def test_a_session_that_is_no_dependency_is_refused(app: offpath.App) -> None:
    with pytest.raises(InvalidArgument, match="get_session"):
        bound(app, object())


def test_an_older_fastapi_is_told_which_one_is_needed(
    app: offpath.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    def old(dependency: Callable[..., Any], *, use_cache: bool = True) -> None: ...

    monkeypatch.setattr("offpath.contrib.fastapi.dependencies.Depends", old)
    with pytest.raises(offpath.errors.MissingExtra, match=r"0\.121"):
        later(app)
