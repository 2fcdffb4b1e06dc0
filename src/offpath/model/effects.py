"""Effects: what is committed together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from offpath.model.gate import NewGate
from offpath.model.group import Contribution
from offpath.model.job import NewJob
from offpath.model.new import NewLogEvent, NewMessage

if TYPE_CHECKING:
    # Effects are never decoded, so nobody asks for this type; `import offpath` loads no ledger.
    from offpath.model.ledger.decision import LedgerOp  # noqa: TC004 - see above


class Effects(Struct, frozen=True, kw_only=True):
    """The rows that come into being in one commit."""

    jobs: tuple[NewJob, ...] = ()
    messages: tuple[NewMessage, ...] = ()
    log: tuple[NewLogEvent, ...] = ()
    gates: tuple[NewGate, ...] = ()
    contributions: tuple[Contribution, ...] = ()
    """To the value of the settled job's group; refused outside of a settlement."""
    operations: tuple[LedgerOp, ...] = ()
    """Of the ledger: postings, or what an economy decides."""

    def __bool__(self) -> bool:
        """True if there is anything to do."""
        return bool(
            self.jobs
            or self.messages
            or self.log
            or self.gates
            or self.contributions
            or self.operations
        )

    @property
    def stirs_messages(self) -> bool:
        """True if a message or an event of the log comes of them, or may: announced jobs have
        become messages too, and an operation may write some.
        """
        written = self.messages or self.log or self.operations
        return bool(written) or any(job.announce for job in self.jobs)


NOTHING = Effects()
