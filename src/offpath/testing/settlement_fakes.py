"""The two ports of a settlement run, in memory: whom to credit, and who credits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Generic, TypeVar

from offpath.errors import Conflict, StoreUnavailable
from offpath.model.settlement_period import Period
from offpath.model.settlement_run import AlreadyCredited, CreditAnswer, Credited

T = TypeVar("T")


class FakeCredits:
    """A port that keeps credits in memory and fails for whom it is told to: ``credit=fake``.

    It holds what a real one must: a key is used once, also by two runs at once, and a used key
    with another user or amount raises ``Conflict``.
    """

    def __init__(self) -> None:
        self.credits: dict[str, tuple[str, int]] = {}
        """User and amount by key, in the order in which they were credited."""
        self.calls: list[str] = []
        """The keys that were asked for, in order, the failed ones included."""
        self._failing: dict[str, Exception] = {}
        self._losing: set[str] = set()
        self._hanging: dict[str, asyncio.Event] = {}

    @property
    def balances(self) -> Mapping[str, int]:
        """The credits of each user, in minor units."""
        sums: dict[str, int] = {}
        for user, amount in self.credits.values():
            sums[user] = sums.get(user, 0) + amount
        return sums

    def fail(self, *users: str, error: Exception | None = None) -> None:
        """Let every credit of these users fail with nothing done, until :meth:`heal`."""
        fault = error or StoreUnavailable("a fault asked for by a test")
        self._failing.update(dict.fromkeys(users, fault))

    def lose_answer(self, *users: str) -> None:
        """Let these users be credited and the call fail all the same, as when a line is cut."""
        self._losing.update(users)

    def hang(self, *users: str) -> None:
        """Let credits of these users wait, with nothing done, until :meth:`heal`."""
        self._hanging.update((user, asyncio.Event()) for user in users)

    def heal(self) -> None:
        """Forget all faults and let hanging calls go on."""
        gates = self._hanging.values()
        self._failing, self._losing, self._hanging = {}, set(), {}
        for gate in gates:
            gate.set()

    async def __call__(self, user: str, amount: int, key: str, /) -> CreditAnswer:
        """Credit once per key."""
        self.calls.append(key)
        await asyncio.sleep(0)  # as a real one would: others come in between
        if (gate := self._hanging.get(user)) is not None:
            await gate.wait()
        if (error := self._failing.get(user)) is not None:
            raise error
        answer = self._record(user, amount, key)
        if user in self._losing:
            raise StoreUnavailable("the answer was lost, as asked for by a test")
        return answer

    def _record(self, user: str, amount: int, key: str) -> CreditAnswer:
        before = self.credits.get(key)
        if before is None:
            self.credits[key] = (user, amount)
            return Credited(id=key)
        if before != (user, amount):
            raise Conflict(f"the key {key} was used for another user or amount")
        return AlreadyCredited(id=key)


class FakeRecords(Generic[T]):
    """Records from a list: ``records=FakeRecords([...])``."""

    def __init__(self, records: Iterable[T] = (), *, error_after: int | None = None) -> None:
        self.records = list(records)
        self.error_after = error_after
        """Raise ``StoreUnavailable`` after so many records; None for never."""
        self.periods: list[Period] = []
        """The periods that were asked for."""

    async def __call__(self, period: Period) -> AsyncIterator[T]:
        """Give the records one by one."""
        self.periods.append(period)
        for record in self.records[: self.error_after]:
            await asyncio.sleep(0)
            yield record
        if self.error_after is not None:
            raise StoreUnavailable("a fault asked for by a test")
