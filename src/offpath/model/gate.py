"""Gates: jobs that wait for others. The store counts, the rules here say what the counts mean."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from offpath.errors import GateError, InvalidArgument


class Counting(StrEnum):
    """The ends of the watched jobs that a gate counts."""

    SUCCEEDED = "succeeded"
    SETTLED = "settled"
    """Succeeded, dead or cancelled."""


class When(Struct, frozen=True, kw_only=True):
    """A condition over the watched jobs. ``need`` None means all of them."""

    need: int | None = None
    of: Counting = Counting.SUCCEEDED
    descendants: bool = False
    """All that the watched jobs led to is waited for, too."""

    def needed(self, total: int) -> int:
        """The number of ``total`` watched jobs that must have ended so.

        Raises ``InvalidArgument`` for a condition that can never hold.
        """
        need = total if self.need is None else self.need
        if not 0 <= need <= total:
            raise InvalidArgument(f"a gate on {total} jobs cannot wait for {need} of them")
        return need


class GateState(StrEnum):
    """The state of a gate. Every state but the first is for good."""

    OPEN = "open"
    """It waits."""
    FIRED = "fired"
    """Its jobs were released."""
    UNSATISFIABLE = "unsatisfiable"
    """Too many of the watched jobs had failed: its jobs died with that reason."""
    TIMED_OUT = "timed_out"
    """Its time was over: its jobs died with reason ``gate_timeout``."""


class NewGate(Struct, frozen=True, kw_only=True):
    """A gate to make. The jobs that it holds name it in ``NewJob.gate``."""

    id: str
    """A UUID; derived where the gate is part of a plan, so that a repeat changes nothing."""
    on: tuple[str, ...]
    """Ids of the watched jobs, each once."""
    need: int
    of: Counting = Counting.SUCCEEDED
    timeout: float | None = None
    """Seconds from the store's now until it gives up. Without it every watched job must exist."""
    descendants: bool = False
    """Jobs that a watched one queues with its success are watched from then on, and so on."""


class GateRecord(Struct, frozen=True, kw_only=True):
    """A gate as the store has it."""

    id: str
    state: GateState
    on: tuple[str, ...]
    need: int
    of: Counting
    succeeded: int
    failed: int
    deadline: datetime | None = None
    """The time when it gives up; None: it waits as long as the jobs that it watches."""
    unreadable: str | None = None
    """The columns of its row that cannot be read, with their content; the fields have neutral
    values instead.
    """


def verdict(*, need: int, of: Counting, total: int, succeeded: int, failed: int) -> GateState:
    """The meaning of a gate's counts: open, fired or unsatisfiable."""
    met = succeeded if of is Counting.SUCCEEDED else succeeded + failed
    if met >= need:
        return GateState.FIRED
    if of is Counting.SUCCEEDED and total - failed < need:
        return GateState.UNSATISFIABLE
    return GateState.OPEN


def require_ends(gates: Sequence[NewGate], held: Mapping[str, str]) -> None:
    """Raise ``GateError`` when gates wait for each other in a circle. ``held`` is job to gate."""
    from graphlib import CycleError, TopologicalSorter

    behind = {gate.id: {held[job] for job in gate.on if job in held} for gate in gates}
    try:
        TopologicalSorter(behind).prepare()
    except CycleError as error:
        raise GateError(
            f"gate {error.args[1][0]} waits for a job that waits for the gate itself, by way of "
            "other gates: none of them would ever fire"
        ) from None


def holders(jobs: Iterable[tuple[str, str | None]]) -> dict[str, str]:
    """Job to the gate that holds it, of jobs that are sent together.

    Raises ``GateError`` for a job that is there twice, in different places.
    """
    known: dict[str, str | None] = {}
    for job, gate in jobs:
        if known.setdefault(job, gate) != gate:
            raise GateError(
                f"job {job} is sent twice, held by a gate and otherwise: a job waits at one gate, "
                "and is listed there only. To wait for more, give that gate a longer `on`"
            )
    return {job: gate for job, gate in known.items() if gate is not None}
