"""Effects: what is committed together."""

from __future__ import annotations

from msgspec import Struct

from offpath.model.job import NewJob


class Effects(Struct, frozen=True, kw_only=True):
    """Jobs to enqueue, in one commit; events and postings join here with their features."""

    jobs: tuple[NewJob, ...] = ()

    def __bool__(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.jobs)


NOTHING = Effects()
