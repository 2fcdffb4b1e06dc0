"""Errors that tell how a job, a group, a wait or a pass ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from offpath.errors.refusals import OffpathError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offpath.model.job import DeadReason, Failure, JobRecord
    from offpath.model.settlement_counts import SettlementCounts
    from offpath.model.tally import Tally


class JobEnded(OffpathError):
    """A job whose result was awaited ended without one. ``id`` is the job's."""

    code = "job_ended"

    def __init__(self, message: str, *, id: str) -> None:  # noqa: A002 - the field's word
        super().__init__(message)
        self.id = id


class JobDead(JobEnded):
    """The job died. ``reason`` says how, ``failure`` has the last error's type, text and trace."""

    code = "job_dead"

    def __init__(
        self,
        message: str,
        *,
        id: str,  # noqa: A002 - the field's word
        reason: DeadReason,
        failure: Failure | None,
    ) -> None:
        super().__init__(message, id=id)
        self.reason = reason
        self.failure = failure


class JobCancelled(JobEnded):
    """The job was cancelled."""

    code = "job_cancelled"


class WaitTimeout(OffpathError, TimeoutError):
    """The wait was over before the job ended, which goes on; ``record`` is how it stood then."""

    code = "wait_timeout"
    record: Any = None


class WaitRefused(OffpathError):
    """A handler may not wait for this job: the job could not begin before the wait has ended."""

    code = "wait_refused"


class SignalTimeout(OffpathError, TimeoutError):
    """No signal came within the time that ``ctx.wait_for`` was given."""

    code = "signal_timeout"


class GroupFailed(OffpathError):
    """A group is done, and members of it died or were cancelled."""

    code = "group_failed"

    def __init__(
        self,
        message: str,
        *,
        id: str,  # noqa: A002 - the field's word
        value: Any = None,  # noqa: ANN401 - any value that the codec gives
        members: Sequence[JobRecord] = (),
    ) -> None:
        super().__init__(message)
        self.id = id
        """The group's id."""
        self.value = value
        """The group's value all the same, decoded; None when nobody contributed any. It comes from
        the jobs that did not fail: where the job died that was to give the whole, it is a part's.
        """
        self.members = tuple(members)
        """Members that are dead or cancelled: at most 100 of them. Those that failed by themselves
        come first, then those that were cancelled, then those that died at a gate on others."""


class PassFailed(OffpathError):
    """Everything that one bounded pass looked at failed. What became of it is recorded.

    ``tally`` has the rows by their outcome.
    """

    code = "pass_failed"
    retryable = True

    def __init__(self, message: str, *, tally: Tally) -> None:
        super().__init__(message)
        self.tally = tally


class RelayFailed(PassFailed):
    """No event of a relay's pass was delivered."""

    code = "relay_failed"


class DrainFailed(PassFailed):
    """No message of a pass over the inbox was applied."""

    code = "drain_failed"


class SettlementFailed(OffpathError):
    """A settlement run whose every eligible credit failed, or that could not come to its end.

    ``summary`` has the counts and the records that failed. Running it again credits what is
    missing and nothing twice.
    """

    code = "settlement_failed"
    retryable = True

    def __init__(self, message: str, *, summary: SettlementCounts) -> None:
        super().__init__(message)
        self.summary = summary
