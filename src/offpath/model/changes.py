"""Changes that were not asked for by the job's own worker: operators' calls, sweeps, gates."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from offpath.model.job import ChangedJob, Enqueued

__all__ = ["ChangedJob", "Pruned", "with_deaths"]


def with_deaths(answers: Sequence[Enqueued], died: Sequence[ChangedJob]) -> list[Enqueued]:
    """The answers for new jobs, each with its own death, if it died as it was made. Deaths of jobs
    that were there before go with the first of those.
    """
    if not died:
        return list(answers)
    told = list(answers)
    places = {each.job_id: place for place, each in enumerate(answers) if each.created}
    new = [places[each.id] for each in died if each.id in places]
    first = min(new, default=0)
    for each in died:
        place = places.get(each.id, first)
        told[place] = replace(told[place], along=(*told[place].along, each))
    return told


class Pruned(Struct, frozen=True, kw_only=True):
    """The numbers that a prune removed."""

    jobs: int = 0
    messages: int = 0

    @property
    def total(self) -> int:
        """Both together."""
        return self.jobs + self.messages
