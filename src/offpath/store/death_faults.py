"""The faults of deaths, as every backend keeps them beside the dead job."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from offpath.model.fault import fault_key
from offpath.model.settlement import Dead, Settlement


class DeathFault(Struct, frozen=True):
    """The fault of the attempt that a job died of."""

    id: str
    key: str


def deaths(settlements: Iterable[Settlement]) -> list[DeathFault]:
    """The faults of those settlements that end their job as dead by a failure."""
    return [
        DeathFault(one.job.id, fault_key(one.outcome.failure.type, one.outcome.failure.message))
        for one in settlements
        if isinstance(one.outcome, Dead) and one.outcome.failure is not None
    ]
