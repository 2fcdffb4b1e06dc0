"""Trims that were cut off: they can be ended without their archive, and tell when they moved."""

from __future__ import annotations

from pathlib import Path

import pytest

from offpath.economy.ledger import removal
from offpath.economy.ledger.archive_files import verify_archives, write_archive
from offpath.errors import InvalidArgument
from offpath.model.ledger.faults import Archived
from offpath.model.ledger.trims import Trim
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.conformance.test_ledger_trim import (
    HOUR,
    SIGNER,
    KilledError,
    archives,
    everything_holds,
    trimmed,
)

__all__ = ["archives"]

pytestmark = pytest.mark.needs("ledger")


async def test_a_lost_archive_is_written_anew_while_nothing_was_removed(
    store: Store,
    clock: ManualClock,
    archives: list[Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await trimmed(store, clock, archives[0])
    with monkeypatch.context() as patched:
        patched.setattr(removal, "_stepped", _killed)
        with pytest.raises(KilledError):
            await trimmed(store, clock, archives[1])
    archives[1].unlink()
    with pytest.raises(InvalidArgument, match="nothing yet: write the archive anew"):
        await trimmed(store, clock, archives[1], lost=True)

    anew = tmp_path / "anew.gz"
    await write_archive(store, anew, SIGNER, after=archives[0])
    assert (await trimmed(store, clock, anew)).finished
    await everything_holds(store)
    assert verify_archives([archives[0], anew, archives[2]], SIGNER)[1] is not None


async def _killed(_store: Store) -> Trim:
    raise KilledError


async def test_a_trim_whose_archive_is_lost_is_finished_by_what_it_has_signed(
    store: Store, clock: ManualClock, archives: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InvalidArgument, match=r"no trim of 0\.gz is under way"):
        await trimmed(store, clock, archives[0], lost=True)

    async def one_step(_store: Store) -> Trim:
        await store.trim_postings(limit=2)
        raise KilledError

    with monkeypatch.context() as patched:
        patched.setattr(removal, "_stepped", one_step)
        with pytest.raises(KilledError):
            await trimmed(store, clock, archives[0])
    with pytest.raises(InvalidArgument, match="is there: the trim goes on by it"):
        await trimmed(store, clock, archives[0], lost=True)
    with pytest.raises(InvalidArgument, match=r"no trim of 1\.gz is under way"):
        await trimmed(store, clock, archives[1], lost=True)
    archives[0].unlink()
    with pytest.raises(Archived, match="no posting before"):  # it cannot be written anew any more
        await write_archive(store, archives[0], SIGNER)
    assert (await trimmed(store, clock, archives[0], lost=True)).finished
    await everything_holds(store)
    assert (await trimmed(store, clock, archives[1])).finished


async def test_a_trim_tells_when_it_last_moved(
    store: Store, clock: ManualClock, archives: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(removal, "_stepped", _killed)
        with pytest.raises(KilledError):
            await trimmed(store, clock, archives[0])
    (begun,) = await store.ledger_trims()
    assert begun.moved is None
    clock.advance(3_600)
    await store.trim_postings(limit=1)
    (moved,) = await store.ledger_trims()
    assert (moved.at, moved.moved) == (begun.at, begun.at + HOUR)
