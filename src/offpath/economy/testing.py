"""The ports of an economy, in memory: a payment provider that misbehaves as it is told to, a
directory, a feed, an anchor and a signer.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from enum import Enum, auto

from msgspec import Struct

from offpath.economy.ledger.ports import ProviderStatus
from offpath.economy.ledger.reconciliation import Pulled, ReconcileRecord, Window
from offpath.errors import Conflict
from offpath.model.ledger.money import Money
from offpath.model.ledger.records import Checkpoint
from offpath.runtime.seats import ProcessEnd

CallBack = Callable[[str, str], Awaitable[object]]
"""Told of the key and the reference of a payout that a provider took."""


class Mode(Enum):
    """The ways in which a :class:`FakeProvider` treats a payout."""

    ACCEPT = auto()
    REFUSE = auto()
    """An error, as of a server that is down; nothing is taken."""
    TIME_OUT = auto()
    """It is taken, and the answer gets lost."""
    HANG = auto()
    """It is taken, and no answer comes until :meth:`FakeProvider.heal`."""
    KILL = auto()
    """It is taken, and the process that asked ends: :class:`Killed`."""
    CALL_BACK = auto()
    """It is taken, and the callback is over before the call returns."""


class Killed(ProcessEnd):
    """Stands for the end of the process: no error boundary may catch it."""


class Payment(Struct, frozen=True, kw_only=True):
    """A payout that a provider took."""

    ref: str
    user: str
    amount: Money


class FakeProvider:
    """A payment provider: ``Economy(app, provider=FakeProvider())``.

    It holds what a real one must: it pays once per key, and a key with another user or amount
    raises ``Conflict``. ``script`` says what becomes of the next calls; after them it accepts.
    """

    def __init__(self, *, probe: bool = True, find: bool = True) -> None:
        self.accepted: dict[str, Payment] = {}
        """The payouts that were taken, by key: each once, however often it was asked for."""
        self.calls: list[str] = []
        """The keys of all submissions, in order, the failed ones included."""
        self.probes: list[str] = []
        """The references whose status was asked for."""
        self.callback: CallBack | None = None
        self.status: Callable[[str], Awaitable[ProviderStatus]] | None = (
            self._status if probe else None
        )
        self.find: Callable[[str], Awaitable[str | None]] | None = self._find if find else None
        self._script: deque[Mode] = deque()
        self._by_user: dict[str, Mode] = {}
        self._statuses: dict[str, ProviderStatus | Exception] = {}
        self._all: ProviderStatus | Exception = ProviderStatus.UNKNOWN
        self._gate = asyncio.Event()

    def script(self, *modes: Mode) -> None:
        """The modes of the next calls, one after the other."""
        self._script.extend(modes)

    def always(self, mode: Mode, *users: str) -> None:
        """The mode of every call for these users, until :meth:`heal`."""
        self._by_user.update(dict.fromkeys(users, mode))

    def heal(self) -> None:
        """Forget what was scripted, and let calls that hang go on."""
        self._script.clear()
        self._by_user.clear()
        self._gate.set()
        self._gate = asyncio.Event()

    def reports(self, status: ProviderStatus | Exception, *refs: str) -> None:
        """The answers about these payouts when they are asked for; without any, of all others."""
        if refs:
            self._statuses.update(dict.fromkeys(refs, status))
        else:
            self._all = status

    async def submit(self, key: str, user: str, amount: Money) -> str:
        """Take a payout, once per key."""
        self.calls.append(key)
        mode = self._mode(user)
        await asyncio.sleep(0)  # as a real one would: others come in between
        if mode is Mode.REFUSE:
            raise ConnectionError("500, as asked for by a test")
        ref = self._taken(key, user, amount)
        match mode:
            case Mode.TIME_OUT:
                raise TimeoutError("the answer was lost, as asked for by a test")
            case Mode.HANG:
                await self._gate.wait()
            case Mode.KILL:
                raise Killed
            case Mode.CALL_BACK if self.callback is not None:
                await self.callback(key, ref)
            case _:
                pass
        return ref

    def _mode(self, user: str) -> Mode:
        if user in self._by_user:
            return self._by_user[user]
        return self._script.popleft() if self._script else Mode.ACCEPT

    def _taken(self, key: str, user: str, amount: Money) -> str:
        made = Payment(ref=f"ref_{key}", user=user, amount=amount)
        if self.accepted.setdefault(key, made) != made:
            raise Conflict(f"the key {key} was used for another user or amount")
        return made.ref

    async def _status(self, ref: str) -> ProviderStatus:
        self.probes.append(ref)
        said = self._statuses.get(ref, self._all)
        if isinstance(said, Exception):
            raise said
        return said

    async def _find(self, key: str) -> str | None:
        taken = self.accepted.get(key)
        return None if taken is None else taken.ref


class FakeDirectory:
    """A directory that clears everybody but those it is told not to: ``directory=...``."""

    def __init__(self, *refused: str) -> None:
        self.refused = set(refused)
        self.error: Exception | None = None
        """Raised by every call, when set."""
        self.asked: list[str] = []

    async def cleared(self, user: str) -> bool:
        """True if the user may be paid out."""
        self.asked.append(user)
        if self.error is not None:
            raise self.error
        return user not in self.refused


class FakeFeed:
    """A feed that gives what of its records is in the window; ``failing`` windows raise."""

    def __init__(
        self,
        processor: Iterable[ReconcileRecord] = (),
        ledger: Iterable[ReconcileRecord] = (),
    ) -> None:
        self.processor = list(processor)
        self.ledger = list(ledger)
        self.failing: dict[Window, Exception] = {}
        self.pulled: list[Window] = []

    async def pull(self, window: Window) -> Pulled:
        """Both sides of a window."""
        self.pulled.append(window)
        if (error := self.failing.get(window)) is not None:
            raise error
        return Pulled(processor=tuple(self.processor), ledger=tuple(self.ledger))


class MemoryAnchor:
    """Keeps checkpoints in this process: for tests, since nothing of it outlives a restart."""

    def __init__(self) -> None:
        self.checkpoints: list[Checkpoint] = []
        self.error: Exception | None = None
        """Raised by every call, when set."""

    async def publish(self, checkpoint: Checkpoint) -> None:
        """Keep a checkpoint, once."""
        if self.error is not None:
            raise self.error
        if all(kept.id != checkpoint.id for kept in self.checkpoints):
            self.checkpoints.append(checkpoint)

    async def latest(self) -> Checkpoint | None:
        """The last one that was published."""
        if self.error is not None:
            raise self.error
        return self.checkpoints[-1] if self.checkpoints else None


class TestSigner:
    """Signs without cryptography: whoever knows the ``kid`` can sign too. For tests only."""

    __test__ = False  # pytest: it is none

    def __init__(self, kid: str = "test", *prior: str) -> None:
        self.kid = kid
        self._kids = (kid, *prior)

    def sign(self, content: bytes) -> str:
        """The signature in hex."""
        return _seal(self.kid, content)

    def verify(self, content: bytes, signature: str) -> bool:
        """True if one of the keys made it. Raises ValueError when it is not hex."""
        given = bytes.fromhex(signature).hex()
        return any(hmac.compare_digest(_seal(kid, content), given) for kid in self._kids)


def _seal(kid: str, content: bytes) -> str:
    return hmac.new(kid.encode(), content, hashlib.sha256).hexdigest()
