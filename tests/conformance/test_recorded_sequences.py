"""Sequences of calls in which the random comparison of the stores has found a fault, or would.

A state machine of hypothesis takes no fixed example. So the calls of a failing run are recorded
here and made anew on the same machine, which compares both stores behind each of them. Each
sequence comes with its fault, which is put into the oracle: one that goes unseen shows nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import pytest
from msgspec.structs import replace

from offpath.model.job import DeadReason, JobState, UniqueClaim, UniquePolicy
from offpath.model.settlement import Dead, Snoozed, Succeeded
from offpath.runtime.clock import ManualClock
from offpath.store.memory import MemoryStore, enqueue, jobs
from offpath.store.memory.indexes import Suspects
from offpath.store.memory.tables import Tables
from offpath.store.rows import jobs as records
from tests.conformance.backends import Backend
from tests.conformance.builders import failure
from tests.conformance.model_place import Place
from tests.conformance.test_model_based import Machine

Call = tuple[str, dict[str, Any]]
Patch = pytest.MonkeyPatch


class Recorded(NamedTuple):
    """A sequence, and the fault that it finds."""

    calls: tuple[Call, ...]
    fault: Callable[[Patch], None]


def _job(key: str = "k", *, work: str = "1", **claim: Any) -> dict[str, Any]:
    claim.setdefault("states", (JobState.QUEUED, JobState.RUNNING))
    claim.setdefault("policy", UniquePolicy.REPLACE)
    return {"task": "a", "input": work, "delay": 0.0, "unique": UniqueClaim(key=key, **claim)}


def _plain(count: int) -> list[dict[str, Any]]:
    fields = {"task": "a", "input": "1", "queue": "q", "priority": 0, "delay": 0.0}
    return [dict(fields) for _ in range(count)]


def _lease(worker: str = "w1") -> Call:
    return "lease_much", {"worker": worker}


def _gone(worker: str) -> tuple[Call, Call]:
    return ("deregister", {"worker": worker}), ("rescue", {"max_deliveries": 3, "keep": None})


def _there(worker: str) -> Call:
    return "register", {"worker": worker, "lease_seconds": 60.0}


def _unique(*drawn: dict[str, Any]) -> Call:
    return "enqueue_unique", {"drawn": list(drawn)}


# -- the faults ------------------------------------------------------------------------------------


def _keeps_the_reason(patch: Patch) -> None:
    whole = records.rewritten
    patch.setattr(
        enqueue,
        "rewritten",
        lambda holder, job, now: replace(whole(holder, job, now), reason=holder.reason),
    )


def _knows_no_key_of_the_call(patch: Patch) -> None:
    whole = enqueue.NewJobs._holder_of

    def blind(self: Any, job: Any, unique: Any) -> Any:
        known, self._keys = self._keys, {}
        found = whole(self, job, unique)
        self._keys = known
        return found

    patch.setattr(enqueue.NewJobs, "_holder_of", blind)


def _lets_any_delivery_end(patch: Patch) -> None:
    def unfenced(self: Tables, job: Any) -> Any:
        record = self.jobs.get(job.id)
        return record if record is not None and record.state is JobState.RUNNING else None

    patch.setattr(Tables, "held_by", unfenced)


def _hands_out_beside_the_holder(patch: Patch) -> None:
    patch.setattr(Tables, "awaits_key", lambda _self, _job, _now: False)


def _redrives_beside_the_holder(patch: Patch) -> None:
    patch.setattr(jobs, "key_is_taken", lambda _tables, _now, _job, _state: False)


def _clears_no_suspect(patch: Patch) -> None:
    patch.setattr(Suspects, "clear", lambda _self, _crash, _jobs: None)


def _renews_no_claim(patch: Patch) -> None:
    whole = MemoryStore.claim

    async def once(self: Any, key: str, holder: str, *, ttl: Any, renew: bool = False) -> bool:
        del renew
        return await whole(self, key, holder, ttl=ttl)

    patch.setattr(MemoryStore, "claim", once)


_DEAD: Final = Dead(reason=DeadReason.ABORTED, failure=failure(at=None))
SEQUENCES: Final = {
    # found on Postgres, by seed 11
    "what put a job off is forgotten when another replaces it": Recorded(
        (
            _unique(_job()),
            _lease(),
            ("settle_all", {"drawn": [Snoozed(delay=10.0, reason="limit")], "keep": None}),
            _unique(_job(work="2")),
        ),
        _keeps_the_reason,
    ),
    "one key several times in a call": Recorded(
        (_unique(_job(), _job(policy=UniquePolicy.ATTACH), _job("l")),), _knows_no_key_of_the_call
    ),
    "an end of a delivery that was lost": Recorded(
        (
            ("enqueue_many", {"drawn": _plain(1)}),
            _lease(),
            *_gone("w1"),
            _there("w1"),
            _lease(),
            ("settle", {"ends": [(1, Succeeded(), [], None)]}),
        ),
        _lets_any_delivery_end,
    ),
    "two jobs of a key that is held while they run": Recorded(
        (
            _unique(_job(states=(JobState.RUNNING,))),
            _unique(_job(states=(JobState.RUNNING,), work="2")),
            _lease(),
        ),
        _hands_out_beside_the_holder,
    ),
    "a redrive of a job whose key has another holder": Recorded(
        (
            _unique(_job()),
            _lease(),
            ("settle_all", {"drawn": [_DEAD], "keep": None}),
            _unique(_job()),
            ("redrive", {"chosen": [1], "delay": 0.0}),
        ),
        _redrives_beside_the_holder,
    ),
    "suspects that were not in the half that crashed again": Recorded(
        (
            ("enqueue_many", {"drawn": _plain(4)}),
            _lease(),
            *_gone("w1"),
            _there("w2"),
            _lease("w2"),
            *_gone("w2"),
            _there("w3"),
            ("lease_apart", {"worker": "w3", "limit": 6, "begun": True}),
            *_gone("w3"),
            _there("w1"),
            ("lease_apart", {"worker": "w1", "limit": 6, "begun": True}),
            _there("w2"),
            ("lease_apart", {"worker": "w2", "limit": 6, "begun": True}),
            _there("w3"),
            ("lease_apart", {"worker": "w3", "limit": 6, "begun": True}),
        ),
        _clears_no_suspect,
    ),
    "a claim that its holder renews": Recorded(
        (
            ("claim", {"key": "a", "holder": "w1", "ttl": 10.0, "renew": False}),
            ("pass_time", {"seconds": 0.25}),
            ("claim", {"key": "a", "holder": "w1", "ttl": 20.0, "renew": True}),
            ("pass_time", {"seconds": 10.0}),
            ("claim", {"key": "a", "holder": "w2", "ttl": 10.0, "renew": False}),
        ),
        _renews_no_claim,
    ),
}


@contextmanager
def _machine(backend: Backend, clock: ManualClock) -> Iterator[Machine]:
    place = Place(backend, clock)
    with asyncio.Runner() as runner:
        try:
            yield Machine(runner, clock, place)
        finally:
            runner.run(place.close())


def _replay(machine: Machine, recorded: Recorded) -> None:
    machine.start(drawn=[])
    for name, given in recorded.calls:
        getattr(machine, name)(**given)
        machine.the_same_is_kept()
        machine.the_oracle_is_sound()


@pytest.mark.parametrize("name", SEQUENCES)
def test_both_stores_answer_a_recorded_sequence_alike(
    backend: Backend, clock: ManualClock, name: str
) -> None:
    with _machine(backend, clock) as machine:
        _replay(machine, SEQUENCES[name])
        machine.teardown()


@pytest.mark.parametrize("name", SEQUENCES)
def test_a_recorded_sequence_sees_its_fault(
    backend: Backend, clock: ManualClock, monkeypatch: Patch, name: str
) -> None:
    if backend.name == "memory":
        pytest.skip("the fault would be in both")
    SEQUENCES[name].fault(monkeypatch)
    with _machine(backend, clock) as machine, pytest.raises(AssertionError):
        _replay(machine, SEQUENCES[name])
