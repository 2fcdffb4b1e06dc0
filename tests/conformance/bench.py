"""Makes the n-th statement of a call fail, and compares what the store holds before and after."""

from __future__ import annotations

import itertools
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from offpath.errors import StoreUnavailable
from offpath.model.announce import STREAM
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.conformance.backends import Backend
from tests.conformance.builders import START

Call = Callable[[], Awaitable[Any]]
Scenario = Callable[[Store, ManualClock], Awaitable[Call]]
Check = Callable[[Store], Awaitable[None]]
Content = dict[str, list[str]]

_MOST = 200
"""No transition has more statements; it would mean that the counting is broken."""
_PLACES = {"position", "start"}
"""Columns that hold positions."""
_POSITION = re.compile(r'(?<="position":)\s*\d+')


@dataclass(slots=True)
class Fuse:
    """Fails before the ``at``-th statement and notes what it saw."""

    at: int
    seen: list[str] = field(default_factory=list)
    blown: bool = False

    def __call__(self, statement: str) -> None:
        if self.blown:
            return
        self.seen.append(statement)
        if len(self.seen) == self.at:
            self.blown = True
            raise StoreUnavailable(f"cut before {statement}")


class Bench:
    """Sets a scenario up on an empty store, as often as it is asked to."""

    def __init__(self, backend: Backend, clock: ManualClock, folder: Path) -> None:
        self.clock = clock
        self._backend = backend
        self._folder = folder
        self._numbers = itertools.count()
        self._store: Store | None = None

    @property
    def store(self) -> Store:
        """The store of the last set-up."""
        assert self._store is not None
        return self._store

    async def set_up(self, scenario: Scenario) -> Call:
        """The call to make, on a store that holds only what the scenario made."""
        await self.close()
        self._backend = self._backend.emptied(self._folder / str(next(self._numbers)))
        self.clock.set(START)
        self._store = self._backend.store(self.clock)
        await self._store.open()
        return await scenario(self._store, self.clock)

    def content(self) -> Content:
        """Every row, without what may differ from run to run: how long the gaps between positions
        are, the ids of announcements and of notes about limits, whose turn to be admitted is next.
        """
        tables = self._backend.rows()
        _without_turns(tables)
        _without_gaps(tables)
        # each of these has a sequence of its own, which need not keep step with the others'
        alone = [name for name in tables if name.endswith(("message", "signal", "step"))]
        others = {name: rows for name, rows in tables.items() if name not in alone}
        settled = _settled(others)
        for name in alone:
            settled |= _settled({name: tables[name]})
        return settled

    async def cut(self, call: Call, fuse: Fuse) -> bool:
        """Make the call with the fuse in; whether it raised."""
        hooked = cast("Any", self._store)
        hooked._before_statement = fuse
        try:
            await call()
        except StoreUnavailable:
            return True
        finally:
            hooked._before_statement = None
        return False

    async def close(self) -> None:
        """Close the last set-up's store."""
        if self._store is not None:
            await self._store.close()


def _without_turns(tables: dict[str, list[dict[str, Any]]]) -> None:
    """Notes about limits by their ranks, and keys without the moment of their last turn; rows of
    the ledger by the ranks of their numbers.
    """
    for name, rows in tables.items():
        for number in {"seq", "n"} & set(rows[0] if "ledger_" in name and rows else ()):
            for rank, row in enumerate(sorted(rows, key=lambda row: int(row[number]))):
                row[number] = rank
        if name.endswith("limit_nudge"):
            for rank, note in enumerate(sorted(rows, key=lambda row: int(row["id"]))):
                note["id"] = rank
        if name.endswith("limit_key"):
            for key in rows:
                key.pop("turn_at", None)


def _without_gaps(tables: dict[str, list[dict[str, Any]]]) -> None:
    """A ledger's rows without the numbers of their commits, of which a rollback uses some up."""
    for name, rows in tables.items():
        if "ledger_" in name:
            for row in rows:
                row.pop("seq", None)
                row.pop("n", None)


def _settled(tables: dict[str, list[dict[str, Any]]]) -> Content:
    """Rows of tables whose positions are of one sequence, which are replaced by their ranks."""
    positions = {
        row[name] for rows in tables.values() for row in rows for name in _PLACES & set(row)
    }
    ranks = {position: rank for rank, position in enumerate(sorted(positions | {0}))}
    return {
        table: sorted(repr(_ranked(row, ranks)) for row in rows) for table, rows in tables.items()
    }


def _ranked(row: dict[str, Any], ranks: dict[int, int]) -> dict[str, Any]:
    row = dict(row)
    if row.get("stream") == STREAM:
        row["id"] = "of its own"
    for name, value in row.items():
        if name in _PLACES:
            row[name] = ranks[value]
        elif isinstance(value, str):
            row[name] = _POSITION.sub(lambda found: str(ranks[int(found.group())]), value)
    return row


async def cut_everywhere(
    bench: Bench, scenario: Scenario, *, piecewise: Check | None = None
) -> None:
    """Fail if a cut before any statement leaves anything but *before* or *after*.

    With ``piecewise``, parts may be committed apart; it checks that each part is whole.
    """
    call = await bench.set_up(scenario)
    before = bench.content()
    await call()
    after = bench.content()
    assert after != before

    call = await bench.set_up(scenario)
    assert bench.content() == before
    cuts = 0
    for place in range(1, _MOST):
        fuse = Fuse(place)
        raised = await bench.cut(call, fuse)
        if not fuse.blown:
            break
        cuts += 1
        if bench.content() == before:
            assert raised, f"{fuse.seen}: nothing was written, and nobody was told"
            continue
        # Only the answer was lost, or the store repeated it by itself.
        assert piecewise or not raised or "commit" in fuse.seen[:-1], fuse.seen
        if piecewise is not None:
            await piecewise(bench.store)
            await call()
        assert bench.content() == after, fuse.seen
        call = await bench.set_up(scenario)
    assert 1 <= cuts < _MOST - 1
    assert bench.content() == after


async def repeat(bench: Bench, scenario: Scenario) -> None:
    """Fail if making the call again changes anything."""
    call = await bench.set_up(scenario)
    await call()
    after = bench.content()
    for _ in range(2):
        await call()
        assert bench.content() == after
