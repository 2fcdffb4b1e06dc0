"""Effects: what is committed together."""

from __future__ import annotations

from msgspec import Struct

from offpath.model.job import NewJob
from offpath.model.new import NewLogEvent, NewMessage


class Effects(Struct, frozen=True, kw_only=True):
    """What comes into being in one commit; postings join here with the ledger."""

    jobs: tuple[NewJob, ...] = ()
    messages: tuple[NewMessage, ...] = ()
    log: tuple[NewLogEvent, ...] = ()

    def __bool__(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.jobs or self.messages or self.log)


NOTHING = Effects()
