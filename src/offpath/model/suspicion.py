"""Suspicion: which jobs run apart from all others, after their workers died too often.

A job that kills its worker takes along whatever else the worker holds. So a job whose next loss
could be its last is a *suspect*: it is handed out with none but suspects of the same crash, at most
half of them, and only to a worker that runs nothing else. Each further crash halves the set that it
met, and what was not in that set is cleared: among sixty jobs the one that kills is found in about
six crashes. A job dies of its losses only when it ran alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from offpath.model.lease import LeaseRequest

CLEARED: Final = ""
"""The crash of suspects that were not in the half that crashed again: they run in one set."""
PATIENT: Final = 10
"""The factor of losses that are allowed where the worker fell out of touch and its process was not
seen to end: a machine that goes away says little of the jobs on it.
"""
MOST_READ: Final = 500
"""Suspects that a lease looks at."""


class Suspect(NamedTuple):
    """A ready job that may only run apart."""

    id: str
    task: str
    queue: str


class Lost(NamedTuple):
    """A job whose worker is gone, as the rules see it."""

    losses: int
    """The losses before this one."""
    begun: bool
    """True if it may have run: one that was only reserved has lost nothing."""
    alone: bool
    """True if its worker held nothing else as it began."""
    out_of_touch: bool
    """True if the lease ran out of a worker whose death could have been seen, and was not."""


class LossVerdict(NamedTuple):
    """The meaning of a loss."""

    losses: int
    dead: bool
    suspect: bool
    """True if it belongs to the suspects of this crash from now on."""


def judged(lost: Lost, max_deliveries: int) -> LossVerdict:
    """The fate of a job that was lost. With one delivery allowed, none is handed out again."""
    if not lost.begun:
        return LossVerdict(lost.losses, dead=False, suspect=False)
    once = max_deliveries == 1
    most = max_deliveries * (PATIENT if lost.out_of_touch and not once else 1)
    losses = lost.losses + 1
    dead = losses >= most and (lost.alone or once)
    return LossVerdict(losses, dead=dead, suspect=not dead and losses >= most - 1)


def most_together(crash: str, left: int) -> int:
    """The number of suspects of one crash that may run together; ``left`` have not ended.

    Where the first half has ended well, the other one holds who did it, and is halved unseen.
    """
    return MOST_READ if crash == CLEARED else max((left + 1) // 2, 1)


def chosen(suspects: Iterable[Suspect], request: LeaseRequest, most: int) -> list[str]:
    """The suspects that run together: in their order, as far as tasks and queues have room."""
    tasks, queues = dict(request.tasks), dict(request.queue_rooms)
    most = min(most, request.limit)
    taken = list[str]()
    for each in suspects:
        if len(taken) >= most:
            break
        if tasks.get(each.task, 0) > 0 and queues.get(each.queue, 1) > 0:
            _use(tasks, each.task)
            _use(queues, each.queue)
            taken.append(each.id)
    return taken


def _use(rooms: dict[str, int], name: str) -> None:
    if name in rooms:
        rooms[name] -= 1


def ready_for(request: LeaseRequest, paused: Mapping[str, object], each: Suspect) -> bool:
    """True if a lease may have this suspect at all."""
    return (
        request.tasks.get(each.task, 0) > 0
        and (not request.queues or each.queue in request.queues)
        and request.queue_rooms.get(each.queue, 1) > 0
        and each.queue not in paused
        and each.id not in request.declined
    )
