"""Headers given at enqueue, and what a handler sees of them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

import offpath
from offpath.errors import InvalidArgument
from offpath.extensions import Running

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def seen() -> list[dict[str, str]]:
    return []


@pytest.fixture
def app(seen: list[dict[str, str]]) -> offpath.App:
    app = offpath.App("memory://")

    @app.task(retry=2)
    async def look(ctx: offpath.Context, n: int = 0) -> None:
        seen.append(dict(ctx.headers))
        if n and ctx.attempt == 1:
            raise ValueError(n)

    @app.task
    def look_in_thread(ctx: offpath.Context) -> None:
        seen.append(dict(ctx.headers))

    return app


HEADERS = {"tenant": "acme", "request": "r-1"}


@pytest.mark.parametrize("task", ["look", "look_in_thread"])
async def test_a_handler_sees_them(app: offpath.App, seen: list[dict[str, str]], task: str) -> None:
    async with app:
        await app.tasks[task].options(headers=HEADERS).enqueue()
        await app.tasks[task].enqueue()
        await app.worker().run_until_idle()
    assert sorted(seen, key=len) == [{}, HEADERS]


async def test_they_cannot_be_changed(app: offpath.App) -> None:
    @app.task(retry=1)
    async def change(ctx: offpath.Context) -> str:
        ctx.headers["tenant"] = "x"  # type: ignore[index]
        return "changed"

    async with app:
        handle = await change.options(headers=HEADERS).enqueue()
        await app.worker().run_until_idle()
        assert (await handle.status()).reason == "exhausted"


async def test_an_around_sees_them(seen: list[dict[str, str]]) -> None:
    @contextmanager
    def look(run: Running) -> Iterator[None]:
        seen.append(dict(run.headers))
        seen.extend(dict(one.headers) for one in run.jobs)
        yield

    app = offpath.App("memory://", around=[look])

    @app.task
    async def work() -> None: ...

    async with app:
        await work.options(headers=HEADERS).enqueue()
        await app.worker().run_until_idle()
    assert seen == [HEADERS, HEADERS]


async def test_the_same_id_with_others_is_a_repeat(app: offpath.App) -> None:
    async with app:
        look = app.tasks["look"]
        first = await look.options(headers=HEADERS).enqueue()
        again = await look.options(id=first.id, headers={"tenant": "b"}).enqueue()
        assert (again.id, again.created) == (first.id, False)


async def test_a_function_of_the_arguments_may_give_them(seen: list[dict[str, str]]) -> None:
    app = offpath.App("memory://")

    def of(user: str) -> offpath.Options:
        return offpath.Options(headers={"user": user})

    @app.task(options=of)
    async def look(ctx: offpath.Context, user: str) -> None:
        seen.append(dict(ctx.headers))

    async with app:
        await look.enqueue("ann")
        await look.options(headers=HEADERS).enqueue("ann")
        await app.worker().run_until_idle()
    assert sorted(seen, key=len) == [{"user": "ann"}, HEADERS]


@pytest.mark.parametrize("name", ["authorization", "x-api-token", "db_password", "cookie"])
async def test_a_secret_is_refused_unless_the_task_is_lax(app: offpath.App, name: str) -> None:
    async def work() -> None: ...

    strict = app.task(name="strict")(work).options(headers={name: "a"})
    with pytest.raises(offpath.InvalidArgument, match=f"{name}.*strict=False"):
        await strict.enqueue()
    lax = app.task(name="lax", strict=False)(work).options(headers={name: "a", "tenant": "b"})
    handle = await lax.enqueue()
    assert name in str((await app.jobs.get(handle.id)).headers)
    assert await app.jobs.count() == 1


@pytest.mark.parametrize("headers", [{"Tenant": "a"}, ["tenant"], {"a": 1}])
async def test_what_cannot_be_is_refused_before_anything_is_written(
    app: offpath.App, headers: Mapping[str, str]
) -> None:
    async with app:
        with pytest.raises(InvalidArgument, match="header"):
            await app.tasks["look"].options(headers=headers).enqueue()
        assert await app.jobs.count() == 0
