"""The lock order of Postgres is what ``docs/architecture.md`` says, seen in real transactions.

The scenarios of the atomicity tests run on a real server, each with a list of the statements that
its call sends. The locks are read from the statements' texts.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections import defaultdict
from collections.abc import Callable
from typing import Any, cast

import pytest

from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.architecture import locks
from tests.conformance import (
    test_atomicity,
    test_atomicity_events,
    test_atomicity_ledger,
    test_atomicity_schedules,
    test_atomicity_workflows,
)
from tests.conformance.backends import Backend
from tests.conformance.bench import Scenario
from tests.conformance.builders import START

MODULES = (
    test_atomicity,
    test_atomicity_events,
    test_atomicity_ledger,
    test_atomicity_schedules,
    test_atomicity_workflows,
)
SCENARIOS: dict[str, Scenario] = {
    f"{module.__name__.rpartition('.')[2]}: {name}": scenario
    for module in MODULES
    for name, scenario in cast("Any", module).SCENARIOS.items()
}

Sent = dict[str, list[list[str]]]
"""The transactions of each method: the names of their statements."""


class Recorder:
    """Notes the method that runs, and the statements that the store sends meanwhile."""

    def __init__(self, store: Store) -> None:
        self.sent: dict[str, list[str]] = defaultdict(list)
        self._method: str | None = None
        for name, method in inspect.getmembers(store, inspect.iscoroutinefunction):
            if not name.startswith("_"):
                setattr(store, name, self._noting(name, method))
        cast("Any", store)._before_statement = self._note

    def _note(self, statement: str) -> None:
        if self._method is not None:
            self.sent[self._method].append(statement)

    def _noting(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        async def call(*args: Any, **kwargs: Any) -> Any:
            if self._method is not None:  # a method that another one calls
                return await method(*args, **kwargs)
            self._method = name
            try:
                return await method(*args, **kwargs)
            finally:
                self._method = None

        return call


async def _recorded(url: str) -> Sent:
    """The transactions of all scenarios, each on an empty store."""
    backend = Backend("postgres", url)
    found: Sent = defaultdict(list)
    for scenario in SCENARIOS.values():
        backend.sweep()
        clock = ManualClock(START)
        store = backend.store(clock)
        await store.open()
        try:
            call = await scenario(store, clock)
            recorder = Recorder(store)
            await call()
        finally:
            await store.close()
        for method, statements in recorder.sent.items():
            found[method] += locks.transactions(statements)
    return found


@pytest.fixture(scope="module")
def sent(migrated_postgres: str) -> Sent:
    """The transactions of every method of the store, recorded once."""
    return asyncio.run(_recorded(migrated_postgres))


@pytest.mark.timeout(300)
def test_every_transaction_takes_its_locks_in_the_written_order(sent: Sent) -> None:
    found = {
        method: faults
        for method, transactions in sent.items()
        for transaction in transactions
        if (faults := locks.disorder(transaction))
    }
    assert found == {}


def test_the_table_of_locks_is_what_the_statements_take(sent: Sent) -> None:
    table = locks.table(sent)
    assert locks.written() == table, f"the rows of the table are:\n{locks.printed(table)}"


def test_every_exception_of_the_order_is_used(sent: Sent) -> None:
    names = {name for all_of in sent.values() for one in all_of for name in one}
    assert {name for name, _ in locks.LATE} | set(locks.HELD) <= names
