"""Every error that offpath raises, as one tree; each class has a stable ``code``.

::

    OffpathError
    ├── InvalidArgument (ValueError)      a value given to the API cannot be used
    │   ├── InvalidInput                  job input that does not fit the task's signature
    │   ├── TooLarge                      an input or payload over the configured limit
    │   ├── GateError                     a gate that can never fire, or on jobs that nobody knows
    │   ├── PlanError                     a plan that was not returned, or cannot be carried out
    │   ├── ResultError                   a result, of a task or a step, that cannot be recorded
    │   ├── SignalError                   a signal's payload that is not what the wait asked for
    │   ├── StepError                     a step's name that was used twice in one attempt
    │   └── WrongConnection               `within=` was given something this app cannot join
    ├── ConfigurationError                settings, environment or project file are wrong
    │   └── MissingExtra (ImportError)    an optional dependency is not installed
    ├── TaskError                         a task is defined wrongly
    │   ├── DuplicateTask                 two tasks with one name
    │   ├── UnknownTask (LookupError)     no task of this name is registered here
    │   └── UnsupportedType (TypeError)   a signature uses a type that cannot be serialised
    ├── Conflict                          the store already holds something else
    │   ├── UniqueConflict                the unique key is taken and the policy refuses
    │   └── IdConflict                    the job id is taken by another job
    ├── StoreError                        the store could not do it
    │   ├── StoreUnavailable              unreachable or cut: retry later; the outcome is unknown
    │   ├── StoreBusy                     locked by somebody else for too long: retry later
    │   ├── StoreRejected                 the store refused a value: repeating it cannot help
    │   ├── CapabilityMissing             this backend cannot do that
    │   └── SchemaError                   the schema does not fit this version
    │       ├── SchemaMissing             never migrated
    │       ├── SchemaOutdated            older than this version needs
    │       ├── SchemaTooNew              newer than this version knows
    │       └── SchemaChanged             an applied migration differs from ours
    ├── LeaseLost                         somebody else may hold this job now: nothing was written
    ├── NotFound (LookupError)            what was named is not there (any more)
    │   ├── JobNotFound
    │   ├── MessageNotFound               of outbox or inbox
    │   ├── ScheduleNotFound
    │   ├── EndpointNotFound
    │   ├── RouterNotFound
    │   └── LetterNotFound                a router's dead letter
    ├── JobEnded                          a job awaited for its result ended without one
    │   ├── JobDead                       it died: error and reason inside
    │   └── JobCancelled                  it was cancelled
    ├── OutputMismatch                    a batch handler's outputs do not match its inputs
    ├── GroupFailed                       members of an awaited group died or were cancelled
    ├── WaitTimeout (TimeoutError)        the wait ended before the job did
    ├── WaitRefused                       a handler may not wait for a job that cannot begin before
    ├── SignalTimeout (TimeoutError)      no signal came in the time that a handler gave it
    ├── PassFailed                        all that one bounded pass looked at failed
    │   ├── RelayFailed                   no event of the pass was delivered
    │   └── DrainFailed                   no message of the pass was applied
    ├── SettlementFailed                  a settlement run credited nobody, or did not end
    ├── AppClosed                         the app was closed, or not opened, for this call
    └── ControlFlow                       raised by handlers, on purpose
        ├── Snooze                        run me again later; this attempt does not count
        │   └── CoolDown                  ... and start nothing of my limit key until then
        └── Abort                         dead now; no retry
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta

    from offpath.model.job import DeadReason, Failure, JobRecord
    from offpath.model.settlement_counts import SettlementCounts
    from offpath.model.tally import Tally


class OffpathError(Exception):
    """Root of everything that offpath raises.

    ``retryable`` tells whether the same call may succeed later without a change.
    """

    code: ClassVar[str] = "offpath"
    retryable: ClassVar[bool] = False


class InvalidArgument(OffpathError, ValueError):
    """A value given to the API cannot be used; the message says what to give instead."""

    code = "invalid_argument"


class InvalidInput(InvalidArgument):
    """Job input does not fit the task's signature; the message has the path of the value."""

    code = "invalid_input"


class TooLarge(InvalidArgument):
    """An input or payload is over the configured limit (both are named, in bytes)."""

    code = "too_large"


class GateError(InvalidArgument):
    """A gate that can never fire, that is given wrongly, or that watches a job that is not stored.
    From a handler it ends the job as dead at once, like :class:`PlanError`.
    """

    code = "gate_error"


class PlanError(InvalidArgument):
    """A handler made a plan and did not return it, or one that cannot be carried out.
    The job is dead at once: a retry cannot help.
    """

    code = "plan_error"


class ResultError(InvalidArgument):
    """The result of a task or a step is not as annotated, cannot be encoded, or is over
    ``max_result_bytes``. It ends the job as dead at once: a retry would do its work again in vain.
    """

    code = "result_error"


class SignalError(InvalidArgument):
    """The payload of a signal that a wait took is not of the type that the wait asked for.

    Not caught by the handler, it ends the job as dead at once with reason ``bad_input``. The
    payload is kept with the job: redriven, it is read again, as the task then reads it, and a
    signal that came since is taken where it still does not fit.
    """

    code = "signal_error"


class StepError(InvalidArgument):
    """Two steps of one attempt have the same name. It ends the job as dead at once."""

    code = "step_error"


class WrongConnection(InvalidArgument):
    """``within=`` was given a connection that this app cannot join."""

    code = "wrong_connection"


class ConfigurationError(OffpathError):
    """Settings, environment or project file are wrong."""

    code = "configuration"


class MissingExtra(ConfigurationError, ImportError):
    """An optional dependency is not installed; the message has the exact command."""

    code = "missing_extra"


class OutputMismatch(OffpathError):
    """A batch handler did not return one output per input; the message has both numbers.

    Nobody can tell which output is whose, so each job of the batch fails by its own retry policy.
    """

    code = "output_mismatch"


class TaskError(OffpathError):
    """A task is defined wrongly."""

    code = "task"


class DuplicateTask(TaskError):
    """Two tasks of one app have the same name."""

    code = "duplicate_task"


class UnknownTask(TaskError, LookupError):
    """No task of this name is registered in this app."""

    code = "unknown_task"


class UnsupportedType(TaskError, TypeError):
    """A task's signature uses a type that cannot be serialised; the message has the remedy."""

    code = "unsupported_type"


class Conflict(OffpathError):
    """The store already holds something else under this identity."""

    code = "conflict"


class UniqueConflict(Conflict):
    """The unique key is taken: by a job with another payload, or the policy refuses to attach.
    ``key`` is the unique key, ``holder`` the id of the job that has it.
    """

    code = "unique_conflict"

    def __init__(self, message: str, *, key: str, holder: str) -> None:
        super().__init__(message)
        self.key = key
        self.holder = holder


class IdConflict(Conflict):
    """The job id is already used by a job with another task or input."""

    code = "id_conflict"


class StoreError(OffpathError):
    """The store could not do what was asked."""

    code = "store"


class StoreUnavailable(StoreError):
    """The store cannot be reached or the connection was cut. The outcome of a write is *unknown*;
    repeating it with the same ids changes nothing twice.
    """

    code = "store_unavailable"
    retryable = True
    told = False  # whether the store itself has logged that it is away


class StoreBusy(StoreError):
    """The store stayed locked by somebody else for too long. Nothing was written; retry later."""

    code = "store_busy"
    retryable = True


class StoreRejected(StoreError):
    """The store refused a value (a constraint or a type): repeating the same write cannot help."""

    code = "store_rejected"


class CapabilityMissing(StoreError):
    """This backend does not offer what was asked; the message names one that does."""

    code = "capability_missing"


class SchemaError(StoreError):
    """The schema in the store does not fit this version of offpath."""

    code = "schema"


class SchemaMissing(SchemaError):
    """The store was never migrated: run ``offpath migrate`` or open with ``migrate=True``."""

    code = "schema_missing"


class SchemaOutdated(SchemaError):
    """The schema is older than this version needs: run ``offpath migrate``."""

    code = "schema_outdated"


class SchemaTooNew(SchemaError):
    """The schema is newer than this version knows: upgrade offpath."""

    code = "schema_too_new"


class SchemaChanged(SchemaError):
    """A migration recorded as applied has another checksum than the one shipped."""

    code = "schema_changed"


class LeaseLost(OffpathError):
    """The lease is no longer ours; nothing was written."""

    code = "lease_lost"


class NotFound(OffpathError, LookupError):
    """What was named is not in the store: it never was, or is not there any more."""

    code = "not_found"


class JobNotFound(NotFound):
    """No job of this id is in the store: it never was, or its retention has passed."""

    code = "job_not_found"


class MessageNotFound(NotFound):
    """There is no message with this id; it may have been deleted after its retention."""

    code = "message_not_found"


class ScheduleNotFound(NotFound):
    """There is no schedule of this name."""

    code = "schedule_not_found"


class EndpointNotFound(NotFound):
    """There is no webhook endpoint of this name."""

    code = "endpoint_not_found"


class RouterNotFound(NotFound):
    """There is no router of this name, in the app or in the store."""

    code = "router_not_found"


class LetterNotFound(NotFound):
    """The router has no unresolved dead letter of this id."""

    code = "letter_not_found"


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
        """The group's value all the same, decoded; None when nobody contributed any."""
        self.members = tuple(members)
        """Members that are dead or cancelled: at most 100 of them."""


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


class AppClosed(OffpathError):
    """The app is closed, or the call needs an open one."""

    code = "app_closed"


class ControlFlow(OffpathError):
    """Raised by handlers on purpose; never an accident."""

    code = "control_flow"


class Snooze(ControlFlow):
    """Raise in a handler: run this job again later. The attempt does not count.
    Give ``delay`` (seconds or timedelta from now) or ``until`` (an aware datetime); ``until`` wins.
    May be raised any number of times.
    """

    code = "snooze"

    def __init__(
        self,
        delay: float | timedelta = 0.0,
        *,
        until: datetime | None = None,
        reason: str = "snoozed",
    ) -> None:
        super().__init__(reason)
        self.delay = delay
        self.until = until
        self.reason = reason


class CoolDown(Snooze):
    """Raise in a handler whose service said "too many requests": run this job again after
    ``delay`` seconds (its ``Retry-After``), and start no job of the same limit key before that, on
    any worker. The attempt does not count. Without a limit it is a plain :class:`Snooze`.
    """

    code = "cool_down"

    def __init__(self, delay: float | timedelta, *, reason: str = "cool_down") -> None:
        super().__init__(delay, reason=reason)


class Abort(ControlFlow):
    """Raise in a handler: dead now, whatever the retry policy. ``__cause__`` is kept."""

    code = "abort"

    def __init__(self, reason: str = "aborted") -> None:
        super().__init__(reason)
        self.reason = reason
