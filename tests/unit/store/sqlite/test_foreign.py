"""Commits of other connections: seen soon after the log is written, and told without a flood."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from collections import Counter
from pathlib import Path

import pytest

from offpath.store.hints import Hint
from offpath.store.sqlite import SqliteStore, foreign_commits, writer
from offpath.store.sqlite.foreign_commits import ForeignCommits
from offpath.store.sqlite.log_events import LogEvents
from tests.conformance.builders import enqueue, new_job
from tests.integration.polling import eventually

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells")


# -- word of writes --------------------------------------------------------------------------------


@linux
async def test_a_write_is_told_and_nothing_more_behind_the_end(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"")
    told: list[bool] = []

    def changed() -> bool:
        told.append(len(told) % 2 == 0)
        return told[-1]

    events = LogEvents(log, changed)
    assert events.start()
    assert events.start()  # again: nothing more
    log.write_bytes(b"one")
    await eventually(lambda: len(told) == 1, within=10)
    log.write_bytes(b"two")
    await eventually(lambda: len(told) >= 2, within=10)
    events.stop()
    events.stop()
    before = len(told)
    log.write_bytes(b"three")
    await asyncio.sleep(0)
    assert len(told) == before


async def test_a_file_that_is_not_there_gives_no_word(tmp_path: Path) -> None:
    events = LogEvents(tmp_path / "none", lambda: True)
    assert not events.start()
    events.stop()


async def test_a_system_without_word_gives_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    (tmp_path / "log").write_bytes(b"")
    assert not LogEvents(tmp_path / "log", lambda: True).start()


# -- commits ---------------------------------------------------------------------------------------


@linux
async def test_a_commit_of_another_process_is_heard_without_a_poll(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "POLL", 3600.0)
    store, other = SqliteStore(tmp_path / "work.db"), SqliteStore(tmp_path / "work.db")
    await store.open()
    await other.open()
    await enqueue(store, new_job())
    heard: Counter[Hint] = Counter()
    stop = store.listen(lambda hint: heard.update([hint]))
    await enqueue(other, new_job())
    await eventually(lambda: all(heard[hint] for hint in Hint), within=10)
    stop()
    await store.close()
    await other.close()


@linux
async def test_a_commit_by_plain_sql_is_heard_without_a_poll(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "POLL", 3600.0)
    store = SqliteStore(tmp_path / "work.db")
    await store.open()
    await enqueue(store, new_job())
    heard: Counter[Hint] = Counter()
    stop = store.listen(lambda hint: heard.update([hint]))
    other = sqlite3.connect(tmp_path / "work.db", isolation_level=None)
    other.execute("update offpath_job set priority = 7")
    await eventually(lambda: heard[Hint.WORK] > 0, within=10)
    other.close()
    stop()
    await store.close()


async def test_where_no_word_is_given_commits_are_found_by_looking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LogEvents, "start", lambda _self: False)
    store, other = SqliteStore(tmp_path / "work.db"), SqliteStore(tmp_path / "work.db")
    await store.open()
    await other.open()
    heard: Counter[Hint] = Counter()
    stop = store.listen(lambda hint: heard.update([hint]))
    await enqueue(other, new_job())
    await eventually(lambda: heard[Hint.WORK] > 0, within=10)
    stop()
    await store.close()
    await other.close()


# -- hints -----------------------------------------------------------------------------------------


async def test_the_first_commit_is_told_at_once_and_those_behind_it_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(foreign_commits, "PAUSE", 3600.0)
    heard: Counter[Hint] = Counter()
    commits = ForeignCommits(lambda hint: heard.update([hint]))
    commits.seen()
    assert heard == Counter(Hint)
    for _ in range(10):
        commits.seen()
    assert heard == Counter(Hint)
    await eventually(lambda: heard[Hint.WORK] == 2, within=10)
    await asyncio.sleep(0)
    assert heard == Counter(Hint) + Counter([Hint.WORK])
    commits.stop()
    commits.seen()
    assert heard == Counter(Hint) + Counter(Hint) + Counter([Hint.WORK])
    commits.stop()
