"""The ports of an economy that tests are given."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

import offpath.testing
from offpath.economy import Pulled, Window
from offpath.economy.ledger.reconciliation import ReconcileRecord, RecordKind
from offpath.economy.testing import FakeDirectory, FakeFeed, MemoryAnchor, TestSigner
from offpath.model.ledger.money import usd
from offpath.model.ledger.records import Checkpoint

T0 = datetime(2026, 1, 1, tzinfo=UTC)
WINDOW = Window(since=T0, until=T0 + timedelta(days=1))


def test_tests_without_an_economy_do_not_load_them() -> None:
    script = "import sys, offpath.testing; print('offpath.economy' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False"]


def test_who_looks_for_them_in_their_former_place_is_told_the_new_one() -> None:
    with pytest.raises(ImportError, match=r"FakeProvider is in offpath\.economy\.testing"):
        _ = offpath.testing.FakeProvider


def test_each_name_is_there_and_no_other() -> None:
    for name in offpath.testing.__all__:
        assert getattr(offpath.testing, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        _ = offpath.testing.Nonsense


async def test_a_directory_clears_all_but_those_it_is_told_of() -> None:
    directory = FakeDirectory("bad")
    assert await directory.cleared("good")
    assert not await directory.cleared("bad")
    directory.error = ConnectionError("down")
    with pytest.raises(ConnectionError):
        await directory.cleared("good")
    assert directory.asked == ["good", "bad", "good"]


async def test_a_feed_gives_its_records_or_fails_for_a_window() -> None:
    record = ReconcileRecord(kind=RecordKind.BUY, key="a", amount=usd(1), ref="r", at=T0)
    feed = FakeFeed([record], [])
    assert await feed.pull(WINDOW) == Pulled(processor=(record,), ledger=())
    feed.failing[WINDOW] = ConnectionError("down")
    with pytest.raises(ConnectionError):
        await feed.pull(WINDOW)
    assert feed.pulled == [WINDOW, WINDOW]


async def test_an_anchor_keeps_each_checkpoint_once() -> None:
    anchor = MemoryAnchor()
    assert await anchor.latest() is None
    first = Checkpoint(id="c1", root="00", signature="00", count=1, at=1, v=3)
    second = Checkpoint(id="c2", root="00", signature="00", count=1, at=2, v=3)
    for one in (first, second, first):
        await anchor.publish(one)
    assert anchor.checkpoints == [first, second]
    assert await anchor.latest() == second


def test_a_signer_knows_its_own_keys_only() -> None:
    old, new, other = TestSigner("old"), TestSigner("new", "old"), TestSigner("other")
    signature = old.sign(b"x")
    assert old.verify(b"x", signature)
    assert new.verify(b"x", signature)
    assert not new.verify(b"y", signature)
    assert not other.verify(b"x", signature)
    with pytest.raises(ValueError, match="hex"):
        old.verify(b"x", "zzz")
