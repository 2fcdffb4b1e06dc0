"""The seam counts what became of the ledger's operations, and passes each call on."""

from __future__ import annotations

import inspect

import pytest

from offpath.errors import StoreUnavailable
from offpath.model.effects import Effects
from offpath.model.ledger.decision import Declined, LedgerOp
from offpath.model.ledger.faults import Overdraft
from offpath.runtime.clock import ManualClock
from offpath.runtime.metrics import Metrics
from offpath.store.ledger import LedgerStore
from offpath.store.memory import MemoryStore
from offpath.store.seam import observed_store
from offpath.store.telemetry.meter import StoreMeter
from offpath.testing.faults import FlakyStore
from tests.conformance.ledger_builders import ANN, balance, op, plain


class Rig:
    """An instrumented store over one that fails on demand."""

    def __init__(self) -> None:
        clock = ManualClock()
        self.metrics = Metrics()
        self.flaky = FlakyStore(MemoryStore(clock))
        self.store = observed_store(self.flaky, clock, StoreMeter(self.metrics, "memory"))

    def outcomes(self) -> dict[str, float]:
        """The number of operations of each outcome."""
        found = self.metrics.list("offpath_ledger_operations_total")
        return {dict(one.labels)["outcome"]: one.value for one in found}

    def timed(self) -> set[str]:
        """The store's operations that were timed."""
        found = self.metrics.list("offpath_store_operation_seconds")
        return {dict(one.labels)["operation"] for one in found}


@pytest.fixture
def rig() -> Rig:
    return Rig()


def declined() -> LedgerOp:
    def decide(_: object) -> None:
        raise Declined("NO")

    return op(decide)


async def test_operations_are_counted_by_what_became_of_them(rig: Rig) -> None:
    again = plain(5)
    await rig.store.post([plain(500), again, again, plain(-9000), declined()])
    assert rig.outcomes() == {"committed": 2, "duplicate": 1, "failed": 1, "declined": 1}


async def test_operations_of_effects_count_when_they_are_committed(rig: Rig) -> None:
    await rig.store.commit(Effects(operations=(plain(500), plain(-100))))
    with pytest.raises(Overdraft):
        await rig.store.commit(Effects(operations=(plain(-401),)))
    assert rig.outcomes() == {"committed": 2}
    assert await balance(rig.store, ANN) == 400


async def test_an_answer_that_was_lost_is_not_counted_and_a_repeat_changes_nothing(
    rig: Rig,
) -> None:
    rig.flaky.lose_answer("post")
    operation = plain(500)
    with pytest.raises(StoreUnavailable):
        await rig.store.post([operation])
    assert rig.outcomes() == {}
    (decided,) = await rig.store.post([operation])
    assert decided.duplicate
    assert await balance(rig.store, ANN) == 500


async def test_a_snapshot_can_fail_where_it_begins(rig: Rig) -> None:
    rig.flaky.fail("ledger_snapshot")
    with pytest.raises(StoreUnavailable):
        async with rig.store.ledger_snapshot():
            pass
    async with rig.store.ledger_snapshot() as reads:
        assert await reads.ledger_accounts() == []
    assert rig.flaky.calls == ["ledger_snapshot"] * 2
    with pytest.raises(ZeroDivisionError):
        async with rig.store.ledger_snapshot():
            raise ZeroDivisionError


async def test_every_read_is_passed_on_and_timed(rig: Rig) -> None:
    await rig.store.post([plain(500)])
    await rig.store.ledger_accounts()
    await rig.store.ledger_debts()
    await rig.store.ledger_links(ANN)
    await rig.store.ledger_walk()
    await rig.store.ledger_since(ANN, 0)
    await rig.store.ledger_tails([(ANN, 0, 1)])
    await rig.store.ledger_postings()
    await rig.store.ledger_sides("sale")
    await rig.store.ledger_bare()
    await rig.store.ledger_last()
    await rig.store.ledger_key("k")
    await rig.store.ledger_totals()
    await rig.store.ledger_sums()
    await rig.store.ledger_counts()
    await rig.store.ledger_checkpoints()
    await rig.store.ledger_leaves()
    await rig.store.ledger_moved()
    await rig.store.ledger_trims()
    await rig.store.ledger_standings(0)
    await rig.store.ledger_retired()
    await rig.store.keep_postings(1, [])
    await rig.store.trim_postings(limit=1)
    await rig.store.lease_sides("payout", limit=1, hold=1.0)
    await rig.store.prune_ledger(attempts_before=0, keys_before=0, limit=1)
    every = {name for name, _ in inspect.getmembers(LedgerStore, inspect.isfunction)}
    names = {name for name in every if not name.startswith("_")}
    assert rig.timed() == names - {"ledger_snapshot", "save_checkpoint", "begin_trim"}
