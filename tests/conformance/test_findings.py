"""Findings stay until they are over or accepted, and say since when."""

from __future__ import annotations

from datetime import timedelta

from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.conformance.builders import START
from tests.conformance.conftest import MakeStore

NAME = "ledger.mismatch"


async def test_a_finding_says_since_when(store: Store, clock: ManualClock) -> None:
    first = await store.record_finding(NAME, "ann is cut", new_id="f1")
    assert (first.id, first.since, first.hinders) == ("f1", START, True)
    clock.advance(60)
    again = await store.record_finding(NAME, "ann and bob are cut", new_id="f2")
    assert (again.id, again.since) == ("f1", START)
    assert again.seen_at == START + timedelta(seconds=60)
    assert await store.findings() == [again]
    assert again.text == "ann and bob are cut"


async def test_findings_of_several_names_stand_beside_each_other(store: Store) -> None:
    await store.record_finding("b", "1", new_id="f1")
    await store.record_finding("a", "2", new_id="f2")
    assert [one.name for one in await store.findings()] == ["a", "b"]
    assert await store.end_finding("b")
    assert not await store.end_finding("b")
    assert [one.name for one in await store.findings()] == ["a"]


async def test_what_was_over_and_comes_again_is_a_new_finding(
    store: Store, clock: ManualClock
) -> None:
    await store.record_finding(NAME, "ann", new_id="f1")
    await store.end_finding(NAME)
    clock.advance(5)
    found = await store.record_finding(NAME, "ann", new_id="f2")
    assert (found.id, found.since) == ("f2", START + timedelta(seconds=5))


async def test_an_accepted_finding_stands_and_hinders_nothing(
    store: Store, clock: ManualClock
) -> None:
    await store.record_finding(NAME, "ann", new_id="f1")
    clock.advance(5)
    accepted = await store.accept_finding("f1", "restored from the backup")
    assert accepted is not None
    assert accepted.accepted_at == START + timedelta(seconds=5)
    assert not accepted.hinders
    clock.advance(5)
    assert await store.accept_finding("f1", "another reason") == accepted
    seen = await store.record_finding(NAME, "ann", new_id="f2")
    assert (seen.id, seen.hinders, seen.reason) == ("f1", False, "restored from the backup")
    assert await store.findings() == [seen]


async def test_what_was_accepted_covers_no_other_text(store: Store) -> None:
    await store.record_finding(NAME, "ann", new_id="f1")
    await store.accept_finding("f1", "known")
    found = await store.record_finding(NAME, "bob", new_id="f2")
    assert (found.id, found.hinders, found.reason) == ("f2", True, None)
    assert await store.findings() == [found]
    assert await store.accept_finding("f1", "again") is None


async def test_what_ended_is_not_accepted_any_more(store: Store) -> None:
    await store.record_finding(NAME, "ann", new_id="f1")
    await store.accept_finding("f1", "known")
    assert await store.end_finding(NAME)
    assert await store.findings() == []
    assert await store.accept_finding("f1", "again") is None
    found = await store.record_finding(NAME, "ann", new_id="f2")
    assert found.hinders  # the same once more is not what was accepted


async def test_every_process_sees_it(store: Store, make_store: MakeStore) -> None:
    if not store.capabilities.shared:
        return
    other = await make_store()
    found = await store.record_finding(NAME, "ann", new_id="f1")
    assert await other.findings() == [found]
