"""``@app.sweep``: how an app is told about sweeps."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

from offpath.sweeps.registry import (
    CLAIM_TIMEOUT,
    EVERY,
    LIMIT,
    ROW_TIMEOUT,
    Sweep,
    SweepRegistry,
    made,
    sweep_info,
)

B = TypeVar("B")


class SweepVerbs:
    """The verbs of an app for sweeps."""

    sweeps: SweepRegistry
    """The sweeps, the engine's own first, in the order in which they run."""

    def _sweep_added(self, name: str) -> None:
        raise NotImplementedError

    def sweep(
        self,
        name: str,
        *,
        every: float | timedelta = EVERY,
        limit: int = LIMIT,
        row_timeout: float | timedelta = ROW_TIMEOUT,
        claim_timeout: float | timedelta = CLAIM_TIMEOUT,
        shared: bool = False,
    ) -> Callable[[B], B]:
        """Register a sweep: ``@app.sweep("stale_carts", every=60)`` on a class or an instance.

        It has ``async claim(ctx, now, limit)``, which gives up to ``limit`` due rows with their
        due times pushed, and ``async advance(ctx, row, now)``, which takes one row further and
        returns the name of its bucket. A row that raises, or takes longer than ``row_timeout``
        seconds, stops none of the others. Sync methods run in threads. Workers, also those that
        run already, make a pass at least every ``every`` seconds: one worker of the fleet at a
        time, or all with ``shared``. A claim may take ``claim_timeout`` seconds.

        Raises ``InvalidArgument``.
        """

        def register(given: B) -> B:
            target = made(name, given)
            info = sweep_info(
                name,
                target,
                every=every,
                limit=limit,
                row_timeout=row_timeout,
                claim_timeout=claim_timeout,
                shared=shared,
            )
            self.sweeps.add(Sweep(info=info, target=target))
            self._sweep_added(name)
            return given

        return register
