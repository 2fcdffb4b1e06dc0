"""Notices to other processes: the first at once, those behind it together, and none in the way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection

import psycopg
import pytest

from offpath.store.hints import Hint
from offpath.store.postgres.announcements import Announcer
from offpath.store.postgres.notice_connection import NoticeConnection
from offpath.store.wakes.port import NotSent

from .conftest import Ask, until

_NOTIFIERS = """
    select count(*) from pg_stat_activity
    where datname = current_database() and starts_with(query, 'notify')
"""
_CUT = """
    select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and starts_with(query, 'notify')
"""


class Line(NoticeConnection):
    """A connection that keeps what is sent, and can be busy or cut."""

    def __init__(self) -> None:
        super().__init__("", "offpath", lambda _pid: None)
        self.sent: list[list[Hint]] = []
        self.there = True
        self.busy = False
        self.cut = False
        self.used = asyncio.Event()

    @property
    def ready(self) -> bool:
        """True if it is connected."""
        return self.there

    async def connect(self) -> None:
        """Connect, unless it is cut."""
        self.used.set()
        if self.cut:
            raise NotSent("cut")
        self.there = True

    def send(self, hints: Collection[Hint]) -> bool:
        """Keep them."""
        self.used.set()
        if self.cut:
            self.there = False
            raise NotSent("cut")
        if not self.busy:
            self.sent.append(list(hints))
        return not self.busy

    async def tried(self) -> None:
        """Until it is used once more."""
        self.used.clear()
        async with asyncio.timeout(10):
            await self.used.wait()


async def test_the_first_notice_is_sent_before_the_caller_goes_on() -> None:
    line = Line()
    announcer = Announcer(line)
    announcer.announce(Hint.WORK)
    assert line.sent == [[Hint.WORK]]
    await announcer.close()


async def test_notices_of_the_pause_are_sent_together_when_it_is_over() -> None:
    line = Line()
    announcer = Announcer(line)
    for hint in (Hint.WORK, Hint.WORK, Hint.ENDED, Hint.CANCEL, Hint.ENDED):
        announcer.announce(hint)
    assert line.sent == [[Hint.WORK]]
    await line.tried()
    assert line.sent == [[Hint.WORK], [Hint.CANCEL, Hint.ENDED, Hint.WORK]]
    await announcer.close()


async def test_a_notice_that_meets_a_busy_line_is_sent_again() -> None:
    line = Line()
    announcer = Announcer(line)
    line.busy = True
    announcer.announce(Hint.WORK)
    await line.tried()
    assert line.sent == []
    line.busy = False
    await line.tried()
    assert line.sent == [[Hint.WORK]]
    await announcer.close()


async def test_what_a_lost_line_did_not_take_is_forgotten_and_the_next_notice_connects() -> None:
    line = Line()
    announcer = Announcer(line)
    line.cut = True
    announcer.announce(Hint.WORK)
    announcer.announce(Hint.ENDED)
    await line.tried()  # it cannot connect
    await asyncio.sleep(0)
    line.cut = False
    announcer.announce(Hint.CANCEL)
    await announcer.close()
    assert line.sent == [[Hint.CANCEL]]


async def test_a_store_that_is_closed_has_said_everything() -> None:
    line = Line()
    announcer = Announcer(line)
    announcer.announce(Hint.WORK)
    announcer.announce(Hint.ENDED)
    await announcer.close()
    assert line.sent == [[Hint.WORK], [Hint.ENDED]]


# -- over a real server ----------------------------------------------------------------------------


@pytest.fixture
async def listener(url: str) -> AsyncIterator[psycopg.AsyncConnection]:
    """Somebody who listens."""
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        await connection.execute("listen offpath_work")
        await connection.execute("listen offpath_ended")
        yield connection


async def _heard(listener: psycopg.AsyncConnection, count: int) -> list[str]:
    return [one.channel async for one in listener.notifies(timeout=10, stop_after=count)]


async def test_hints_reach_who_listens(url: str, listener: psycopg.AsyncConnection) -> None:
    pids: list[int] = []
    line = NoticeConnection(url, "offpath", pids.append)
    await line.connect()
    assert line.send([Hint.ENDED, Hint.WORK])
    await line.close()
    assert await _heard(listener, 2) == ["offpath_ended", "offpath_work"]
    assert len(pids) == 1


async def test_a_line_that_was_cut_is_noticed_and_made_anew(
    url: str, ask: Ask, listener: psycopg.AsyncConnection
) -> None:
    line = NoticeConnection(url, "offpath", lambda _pid: None)
    await line.connect()
    assert line.send([Hint.WORK])
    await until(lambda: ask(_NOTIFIERS) == [(1,)])
    ask(_CUT)
    await until(lambda: ask(_NOTIFIERS) == [(0,)])
    with pytest.raises(NotSent):
        for _ in range(1_000):  # the server's last word may still be on its way
            line.send([Hint.WORK])
            await asyncio.sleep(0)
    assert not line.ready
    await line.connect()
    assert line.send([Hint.ENDED])
    await line.close()
    assert "offpath_ended" in await _heard(listener, 2)


async def test_a_notice_that_finds_its_line_cut_goes_out_over_a_new_one(
    url: str, ask: Ask, listener: psycopg.AsyncConnection
) -> None:
    announcer = Announcer(NoticeConnection(url, "offpath", lambda _pid: None))
    announcer.announce(Hint.WORK)
    assert await _heard(listener, 1) == ["offpath_work"]
    ask(_CUT)
    await until(lambda: ask(_NOTIFIERS) == [(0,)])
    announcer.announce(Hint.ENDED)
    assert await _heard(listener, 1) == ["offpath_ended"]
    await announcer.close()


async def test_a_server_that_does_not_answer_is_given_up(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = NoticeConnection(url, "offpath", lambda _pid: None)
    await line.connect()
    monkeypatch.setattr(NoticeConnection, "_answered", lambda *_: False)
    assert not line.send([Hint.WORK])
    monkeypatch.setattr("offpath.store.postgres.notice_connection.ANSWERS_IN", -1.0)
    with pytest.raises(NotSent, match="no answer"):
        line.send([Hint.WORK])
    assert not line.ready
    await line.close()


async def test_no_server_is_an_error_that_the_announcer_keeps_to_itself(
    unused_tcp_port: int,
) -> None:
    line = NoticeConnection(
        f"postgresql://127.0.0.1:{unused_tcp_port}/none", "offpath", lambda _pid: None
    )
    with pytest.raises(NotSent):
        await line.connect()
    with pytest.raises(NotSent, match="not connected"):
        line.send([Hint.WORK])
    announcer = Announcer(line)
    announcer.announce(Hint.WORK)
    await announcer.close()
