"""Who is cut off between the commit and the answer: each row has its job, and each job its row."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

import offpath
from tests.contrib.processes import Processes, post, posted
from tests.contrib.urls import run_sql
from tests.integration.polling import eventually
from tests.servers import free_port

if TYPE_CHECKING:
    from pathlib import Path

SERVICE = """
import asyncio, os, signal
from pathlib import Path
from typing import Annotated

import offpath
from fastapi import Depends, FastAPI
from offpath.contrib.fastapi import bound, errors, lifespan
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine

URL = os.environ["SHOP_URL"]
engine = create_async_engine(URL.replace("sqlite://", "sqlite+aiosqlite://"))
sessions = async_sessionmaker(engine)
jobs = offpath.App(URL, auto_start=False)


@jobs.task
async def receipt(order: int) -> None: ...


async def get_session():
    async with sessions() as session:
        yield session


api = FastAPI(lifespan=lifespan(jobs))
errors(api)
Session = Annotated[AsyncSession, Depends(get_session)]
Jobs = Annotated[offpath.Bound, Depends(bound(jobs, get_session))]


@api.post("/orders/{order}", status_code=201)
async def place(order: int, session: Session, own: Jobs, dies: str = "", waits: bool = False):
    await session.execute(text("insert into orders (id) values (:id)"), {"id": order})
    await own.enqueue(receipt.job(order))
    if waits:
        Path("began").touch()
        while not Path("go").exists():
            await asyncio.sleep(0.02)
    if dies == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    await session.commit()
    if dies == "after":
        os.kill(os.getpid(), signal.SIGKILL)
    return {"order": order}
"""


@pytest.mark.timeout(120)
async def test_a_kill_and_a_client_that_leaves_part_no_row_from_its_job(tmp_path: Path) -> None:
    (tmp_path / "service.py").write_text(SERVICE)
    url, port = f"sqlite:///{tmp_path / 'shop.db'}", free_port()
    run_sql(url, "create table orders (id integer primary key)")
    run = Processes(tmp_path, {"SHOP_URL": url})
    home = f"http://127.0.0.1:{port}/orders"

    def serve() -> None:
        run.start("-m", "uvicorn", "service:api", "--port", str(port))

    try:
        run.run("-m", "offpath", "migrate", "--url", url)
        serve()
        await posted(f"{home}/1", 201)
        for order, dies in ((2, "after"), (3, "before")):
            assert post(f"{home}/{order}?dies={dies}")[0] == 0
            run.started[-1].wait(timeout=20)
            serve()
            await posted(f"{home}/{order + 10}", 201)
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(b"POST /orders/4?waits=true HTTP/1.1\r\nHost: shop\r\n\r\n")
            began = tmp_path / "began"
            await eventually(began.exists, within=20, what="the handler is in the middle")
        (tmp_path / "go").touch()
        expected = [(one,) for one in (1, 2, 4, 12, 13)]

        async def all_there() -> bool:
            return run_sql(url, "select id from orders order by id") == expected

        await eventually(all_there, within=20, what=f"the order is there:\n{run.output()}")
        async with offpath.App(url, auto_start=False) as app:
            assert await app.jobs.count(task="receipt") == len(expected)
            given = {one.input async for one in app.jobs.each()}
        assert given == {f'{{"order":{one}}}' for (one,) in expected}
    finally:
        run.destroy()
