"""The part of the store that keeps how sweeps and settlement runs went.

The rules of the store's protocol hold here too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from offpath.store.absence import none_of

if TYPE_CHECKING:
    from offpath.model.run import RunKind, RunRecord


class RunStore(Protocol):
    """Runs."""

    async def put_run(self, run: RunRecord) -> None:
        """Keep a run; one of its id stays as it is. Of each name the newest 50 by id are kept."""
        ...

    async def runs(
        self,
        *,
        kind: RunKind | None = None,
        name: str | None = None,
        limit: int = 50,
        after: str | None = None,
    ) -> list[RunRecord]:
        """Runs by id, the newest first, below the id ``after``; of one kind and of one name where
        these are given.
        """
        ...


class WithoutRuns:
    """A store that keeps no passes of sweeps."""

    put_run = none_of(RunStore.put_run, lambda: None)
    runs = none_of(RunStore.runs, list)
