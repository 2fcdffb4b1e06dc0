"""The seam's table has every method of the store, and each line of it passes the call on."""

from __future__ import annotations

import inspect
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from offpath.errors import StoreUnavailable
from offpath.model.amendment import Amendment
from offpath.model.effects import Effects
from offpath.runtime.clock import ManualClock
from offpath.runtime.metrics import Metrics
from offpath.store.memory import MemoryStore
from offpath.store.protocol import Store
from offpath.store.seam import ObservedStore, observed_store
from offpath.store.telemetry.meter import StoreMeter
from offpath.testing.faults import FlakyStore
from tests.conformance.builders import new_job

if TYPE_CHECKING:
    from collections.abc import Callable

METHODS = [
    name for name, _ in inspect.getmembers(Store, inspect.isfunction) if not name.startswith("_")
]
UNTIMED = {"cut_off", "ledger_snapshot", "listen", "migration_script", "vouch"}
WITHOUT_A_LOOP = {"commit_within_blocking", "route_within_blocking"}
"""Methods that any thread may call. They are timed and told of where observers live."""


class Recorder:
    """A store that keeps how it was called, and answers with what a test can recognise."""

    def __init__(self, answer: Callable[[str], Any] = "the answer of {}".format) -> None:
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        self.answer = answer

    def __getattr__(self, name: str) -> Any:
        def blocking(*args: Any, **kwargs: Any) -> Any:
            self.calls.append((name, args, kwargs))
            return self.answer(name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            return blocking(*args, **kwargs)

        return blocking if name in UNTIMED | WITHOUT_A_LOOP else call


class Rig:
    """The seam around a recorder."""

    def __init__(self, inner: Any) -> None:
        self.metrics = Metrics()
        self.clock = ManualClock()
        self.store = observed_store(inner, self.clock, StoreMeter(self.metrics, "memory"))

    def timed(self) -> dict[str, float]:
        """The number of calls that were timed, by operation."""
        found = self.metrics.list("offpath_store_operation_seconds")
        return {dict(one.labels)["operation"]: one.value for one in found}


@pytest.mark.parametrize("name", METHODS)
def test_each_method_of_the_protocol_is_observed(name: str) -> None:
    assert name in vars(ObservedStore)
    wanted, there = (inspect.signature(getattr(each, name)) for each in (Store, ObservedStore))
    assert list(there.parameters.values()) == list(wanted.parameters.values())


def test_the_table_has_nothing_that_the_protocol_has_not() -> None:
    public = {name for name in vars(ObservedStore) if not name.startswith("_")}
    assert public == {*METHODS, "capabilities"}


def is_quiet(name: str) -> bool:
    """True when the table says that there is nothing to tell of it."""
    kept = inspect.getclosurevars(vars(ObservedStore)[name]).nonlocals
    return "of_answer" in kept and kept["of_answer"] is None and kept["of_call"] is None


async def test_a_method_with_nothing_to_tell_passes_its_call_on_and_is_timed() -> None:
    names = [name for name in METHODS if is_quiet(name)]
    assert len(names) > 60
    for name in names:
        inner = Recorder()
        rig = Rig(inner)
        answer = await getattr(rig.store, name)("a", 2, key="word")
        assert answer == f"the answer of {name}"
        assert inner.calls == [(name, ("a", 2), {"key": "word"})]
        assert rig.timed() == {name: 1}


@pytest.mark.parametrize("name", sorted(UNTIMED - {"ledger_snapshot"}))
def test_a_method_that_only_subscribes_or_describes_is_not_timed(name: str) -> None:
    inner = Recorder()
    rig = Rig(inner)
    assert getattr(rig.store, name)("a", key="word") == f"the answer of {name}"
    assert inner.calls == [(name, ("a",), {"key": "word"})]
    assert rig.timed() == {}


@pytest.mark.parametrize(
    ("name", "arguments", "keywords", "answer"),
    [
        ("commit_within_blocking", ("a connection", Effects()), {}, []),
        ("route_within_blocking", ("a connection", "iu", 0), {"limit": 1, "decide": None}, None),
    ],
)
def test_a_write_without_a_loop_is_passed_on_and_timed(
    name: str, arguments: tuple[Any, ...], keywords: dict[str, Any], answer: list[Any] | None
) -> None:
    inner = Recorder(lambda _: answer)
    rig = Rig(inner)
    assert getattr(rig.store, name)(*arguments, **keywords) is answer
    assert inner.calls == [(name, arguments, keywords)]
    assert rig.timed() == {name: 1}


async def test_an_error_is_timed_counted_and_raised() -> None:
    rig = Rig(FlakyStore(MemoryStore(ManualClock())))
    rig.store._inner.fail("ping")  # type: ignore[attr-defined]
    with pytest.raises(StoreUnavailable):
        await rig.store.ping()
    labels = {"backend": "memory", "operation": "ping", "error": "StoreUnavailable"}
    assert rig.metrics.counter("offpath_store_errors_total", **labels).value == 1
    assert rig.timed() == {"ping": 1}


async def test_a_job_in_another_queue_has_left_the_one_and_entered_the_other() -> None:
    inner = MemoryStore()
    rig = Rig(inner)
    job = new_job(queue="fast")
    await rig.store.commit(Effects(jobs=(job,)))
    await rig.store.amend([job.id], Amendment(priority=3))
    await rig.store.amend([job.id], Amendment(queue="slow"))
    left = Counter[str]()
    for one in rig.metrics.list("offpath_job_moves_total"):
        queue, states = one.labels["queue"], (one.labels["entered"], one.labels["left"])
        left[queue] += int(one.value) * ((states[0] == "queued") - (states[1] == "queued"))
    assert left == {"fast": 0, "slow": 1}
    (queued,) = rig.metrics.list("offpath_jobs_queued_total")
    assert (queued.labels["queue"], queued.value) == ("fast", 1)
