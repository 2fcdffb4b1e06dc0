"""A payment provider that all processes of a campaign share: a file that outlives each of them.

It pays once per key, as a real one must, and counts how often it was asked. What becomes of a
payout is a function of its key, so that nobody has to remember it.
"""

from __future__ import annotations

import os
import random
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from offpath.economy import Money, ProviderStatus

_SCHEMA = """
pragma journal_mode = wal;
create table if not exists call (key text not null);
create table if not exists taken (key text not null primary key, user text, amount text);
create table if not exists conflict (key text not null, user text, amount text);
"""


class Taken(NamedTuple):
    """A payout that the provider took."""

    key: str
    user: str
    amount: str


def fails(key: str) -> bool:
    """True if a payout that was taken cannot be paid after all; every other one is."""
    return sha256(key.encode()).digest()[0] % 4 == 0


def ref_of(key: str) -> str:
    """The provider's reference."""
    return f"ref_{key}"


class SharedProvider:
    """The provider as one process sees it. Its methods block, so they run in threads.

    ``chaos``: how likely it is that a call is refused, or that its answer is lost after the payout
    was taken; a tenth of the lost ones kill the process that asked.
    """

    def __init__(self, path: Path, *, chaos: float = 0.0, seed: int = 0) -> None:
        self._path = path
        self._chaos = chaos
        self._random = random.Random(seed)
        with self._opened() as file:
            file.executescript(_SCHEMA)

    def submit(self, key: str, user: str, amount: Money) -> str:
        """Take a payout, once per key."""
        chance = self._random.random()
        if chance < self._chaos / 4:
            self._count(key)
            raise ConnectionError("500, and nothing was taken")
        with self._opened() as file:
            file.execute("insert into call values (?)", (key,))
            given = (key, user, str(amount))
            file.execute("insert into taken values (?, ?, ?) on conflict do nothing", given)
            if file.execute("select * from taken where key = ?", (key,)).fetchone() != given:
                file.execute("insert into conflict values (?, ?, ?)", given)
        if chance < self._chaos:
            if chance > 0.9 * self._chaos:
                os.kill(os.getpid(), signal.SIGKILL)
            raise TimeoutError("it was taken, and the answer got lost")
        return ref_of(key)

    def find(self, key: str) -> str | None:
        """The reference of what was taken under a key."""
        with self._opened() as file:
            found = file.execute("select key from taken where key = ?", (key,)).fetchone()
        return None if found is None else ref_of(key)

    def status(self, ref: str) -> ProviderStatus:
        """The fate of a payout."""
        failed = fails(ref.removeprefix("ref_"))
        return ProviderStatus.FAILED if failed else ProviderStatus.PENDING

    # -- for who looks at it --------------------------------------------------------------------

    def taken(self) -> list[Taken]:
        """The payouts that were taken, each once."""
        with self._opened() as file:
            return [Taken(*row) for row in file.execute("select * from taken order by rowid")]

    def calls(self) -> list[str]:
        """The keys of all calls."""
        with self._opened() as file:
            return [key for (key,) in file.execute("select key from call")]

    def conflicts(self) -> list[Taken]:
        """Calls that asked for something else under a key that was used."""
        with self._opened() as file:
            return [Taken(*row) for row in file.execute("select * from conflict")]

    def _count(self, key: str) -> None:
        with self._opened() as file:
            file.execute("insert into call values (?)", (key,))

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self._path, timeout=30)) as file:
            file.execute("pragma synchronous = off")
            with file:
                yield file
