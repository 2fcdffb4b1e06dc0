"""The engine's own sweeps, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable

from offpath.config import Settings
from offpath.jobs.worker.maintenance import PRUNE_BATCH, RESCUE_BATCH
from offpath.model.redrive import Redrive
from offpath.store.protocol import Store
from offpath.sweeps.prune import Prune
from offpath.sweeps.redrive import RedriveDead
from offpath.sweeps.registry import Sweep, SweepInfo
from offpath.sweeps.rescue import Rescue

OWN = ("rescue", "prune", "redrive")
"""Rescue first: what it gives back is run soonest. None of them may be registered by users."""


def own_sweeps(
    store: Callable[[], Store], settings: Settings, redrive: Redrive | None
) -> tuple[Sweep, ...]:
    """Rescue, prune and redrive as sweeps.

    They are set-based transitions of the store and safe beside themselves, so every worker may run
    them. The jobs worker has loops of its own for them, since it must rescue and prune also where
    there is no app; ``run_once`` and the command line run these.
    """
    rescue = Rescue(store, max_deliveries=settings.max_deliveries, keep_dead=settings.keep_dead)
    batch = 100 if redrive is None else redrive.batch
    return (
        _own("rescue", rescue, every=0.75, limit=RESCUE_BATCH),
        _own("prune", Prune(store), every=60.0, limit=PRUNE_BATCH),
        _own("redrive", RedriveDead(store, redrive), every=5.0, limit=batch),
    )


def _own(name: str, target: object, *, every: float, limit: int) -> Sweep:
    info = SweepInfo(name=name, every=every, limit=limit, shared=True, own=True, by_rows=False)
    return Sweep(info=info, target=target, driven=False)
