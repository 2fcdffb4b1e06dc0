"""A store that fails on demand: before a call, after it, or by never answering."""

from __future__ import annotations

import asyncio
import inspect
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING, Any

from offpath.errors import InvalidArgument, StoreUnavailable
from offpath.store.protocol import Store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from offpath.store.ledger import LedgerReads
    from offpath.store.memory import MemoryStore as _Shape
else:
    # A wrapper has the shape of a whole store; what it does is found at run time, by name.
    _Shape = object

ANY = "*"
"""Stands for every operation."""


class _FaultKind(Enum):
    FAIL = auto()
    LOSE = auto()
    HANG = auto()


@dataclass(slots=True, eq=False)
class _Fault:
    kind: _FaultKind
    operation: str
    skip: int
    left: int
    error: Exception
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    def strikes(self, operation: str) -> bool:
        """True if this call is one of those meant; counts it."""
        if self.operation not in {operation, ANY} or not self.left:
            return False
        if self.skip:
            self.skip -= 1
            return False
        self.left -= 1
        return True


class FlakyStore(_Shape):
    """A store that does what another one does, but for the faults that were asked for.

    ``App(store=FlakyStore(MemoryStore()))``; :func:`offpath.testing.swap_to_memory` gives one.
    Faults are given by the name of a method of :class:`offpath.store.protocol.Store`: ``commit``
    stores new jobs, ``lease`` hands them out, ``settle`` records ends. Which call fails is counted
    from the moment when the fault is asked for.
    """

    calls: list[str]
    """The operations that were called, in order, the ones that failed included."""

    def __init__(self, inner: Store) -> None:
        self._wrapped = inner
        self._faults: list[_Fault] = []
        self.calls = []

    def fail(
        self,
        operation: str = ANY,
        *,
        call: int = 1,
        times: int = 1,
        error: Exception | None = None,
    ) -> None:
        """Let the ``call``-th call (and the next, ``times`` in all) fail with nothing done.

        It raises ``error``, by default ``StoreUnavailable``.
        """
        self._add(_FaultKind.FAIL, operation, call, times, error)

    def lose_answer(
        self,
        operation: str = ANY,
        *,
        call: int = 1,
        times: int = 1,
        error: Exception | None = None,
    ) -> None:
        """Let the ``call``-th call be carried out and then fail, as when a connection is cut
        between a commit and its answer. By default it raises ``StoreUnavailable``.
        """
        self._add(_FaultKind.LOSE, operation, call, times, error)

    def hang(self, operation: str = ANY, *, call: int = 1, times: int = 1) -> None:
        """Let the ``call``-th call wait, with nothing done, until :meth:`heal`; then it is
        carried out.
        """
        self._add(_FaultKind.HANG, operation, call, times, None)

    def heal(self) -> None:
        """Forget all faults and let hanging calls go on."""
        faults, self._faults = self._faults, []
        for fault in faults:
            fault.gate.set()

    def _add(
        self, kind: _FaultKind, operation: str, call: int, times: int, error: Exception | None
    ) -> None:
        if operation != ANY and not callable(getattr(Store, operation, None)):
            raise InvalidArgument(f"a store has no operation {operation!r}; for example: commit")
        if call < 1 or times < 1:
            raise InvalidArgument("`call` and `times` count from 1")
        fault = StoreUnavailable(f"a fault asked for by a test: {kind.name.lower()} {operation}")
        self._faults.append(_Fault(kind, operation, call - 1, times, error or fault))

    # Every other attribute is the store's own. Calls that only subscribe or describe cannot fail.

    def __getattribute__(self, name: str) -> Any:  # noqa: ANN401 - whatever the store has
        if name.startswith("_") or name in _OWN:
            return object.__getattribute__(self, name)
        if name == "ledger_snapshot":
            return self._snapshot
        attribute = getattr(self._wrapped, name)
        if inspect.iscoroutinefunction(attribute):
            return partial(self._call, name, attribute)
        if name in _BLOCKING:
            return partial(self._call_blocking, name, attribute)
        return attribute

    async def _call(
        self,
        name: str,
        attribute: Callable[..., Any],
        *args: Any,  # noqa: ANN401 - the operation's own
        **kwargs: Any,  # noqa: ANN401 - as above
    ) -> Any:  # noqa: ANN401 - as above
        fault = self._struck(name)
        if fault is None:
            return await attribute(*args, **kwargs)
        if fault.kind is _FaultKind.HANG:
            await fault.gate.wait()
            return await attribute(*args, **kwargs)
        if fault.kind is _FaultKind.LOSE:
            await attribute(*args, **kwargs)
        raise fault.error

    @asynccontextmanager
    async def _snapshot(self) -> AsyncIterator[LedgerReads]:
        """Fails where it begins; what is read within is the store's own."""
        async with AsyncExitStack() as stack:
            begin = partial(stack.enter_async_context, self._wrapped.ledger_snapshot())
            yield await self._call("ledger_snapshot", begin)

    def _call_blocking(
        self,
        name: str,
        attribute: Callable[..., Any],
        *args: Any,  # noqa: ANN401 - the operation's own
        **kwargs: Any,  # noqa: ANN401 - as above
    ) -> Any:  # noqa: ANN401 - as above
        fault = self._struck(name)
        if (
            fault is None or fault.kind is _FaultKind.HANG
        ):  # a hang here would stop the whole thread
            return attribute(*args, **kwargs)
        if fault.kind is _FaultKind.LOSE:
            attribute(*args, **kwargs)
        raise fault.error

    def _struck(self, name: str) -> _Fault | None:
        self.calls.append(name)
        struck = [fault for fault in self._faults if fault.strikes(name)]
        return struck[0] if struck else None


_BLOCKING = frozenset(
    {"commit_within_blocking", "get_within_blocking", "route_within_blocking", "vouch", "cut_off"}
)
_OWN = frozenset({"calls", "fail", "hang", "heal", "lose_answer"})
