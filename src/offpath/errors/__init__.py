"""Every error that offpath raises, as one tree; each class has a stable ``code``.

::

    OffpathError
    ├── InvalidArgument (ValueError)      a value given to the API cannot be used
    │   ├── InvalidInput                  job input that does not fit the task's signature
    │   ├── TooLarge                      an input or payload over the configured limit
    │   ├── GateError                     a gate that can never fire, or on jobs that nobody knows
    │   ├── GroupValueError               a group's value that cannot be folded or read
    │   ├── PlanError                     a plan that was not returned, or cannot be carried out
    │   ├── ResultError                   a result, of a task or a step, that cannot be recorded
    │   ├── SignalError                   a signal's payload that is not what the wait asked for
    │   ├── SignalsFull                   a target with too many unread signals
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
    │   ├── IdConflict                    the id is taken by another job, or another action
    │   └── Unconfirmed                   more would be removed for good than was confirmed
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
        ├── RetryAfter                    failed; run me again after this time, which counts
        └── Abort                         dead now; no retry
"""

from offpath.errors.control import (
    Abort,
    ControlFlow,
    CoolDown,
    RetryAfter,
    Snooze,
)
from offpath.errors.ends import (
    DrainFailed,
    GroupFailed,
    JobCancelled,
    JobDead,
    JobEnded,
    PassFailed,
    RelayFailed,
    SettlementFailed,
    SignalTimeout,
    WaitRefused,
    WaitTimeout,
)
from offpath.errors.extras import MissingExtra
from offpath.errors.refusals import (
    AppClosed,
    ConfigurationError,
    EndpointNotFound,
    InvalidArgument,
    InvalidInput,
    JobNotFound,
    LetterNotFound,
    MessageNotFound,
    NotFound,
    OffpathError,
    RouterNotFound,
    ScheduleNotFound,
    TooLarge,
    WrongConnection,
)
from offpath.errors.store import (
    CapabilityMissing,
    Conflict,
    IdConflict,
    LeaseLost,
    SchemaChanged,
    SchemaError,
    SchemaMissing,
    SchemaOutdated,
    SchemaTooNew,
    StoreBusy,
    StoreError,
    StoreRejected,
    StoreUnavailable,
    Unconfirmed,
    UniqueConflict,
)
from offpath.errors.tasks import (
    DuplicateTask,
    GateError,
    GroupValueError,
    OutputMismatch,
    PlanError,
    ResultError,
    SignalError,
    SignalsFull,
    StepError,
    TaskError,
    UnknownTask,
    UnsupportedType,
)

__all__ = [
    "Abort",
    "AppClosed",
    "CapabilityMissing",
    "ConfigurationError",
    "Conflict",
    "ControlFlow",
    "CoolDown",
    "DrainFailed",
    "DuplicateTask",
    "EndpointNotFound",
    "GateError",
    "GroupFailed",
    "GroupValueError",
    "IdConflict",
    "InvalidArgument",
    "InvalidInput",
    "JobCancelled",
    "JobDead",
    "JobEnded",
    "JobNotFound",
    "LeaseLost",
    "LetterNotFound",
    "MessageNotFound",
    "MissingExtra",
    "NotFound",
    "OffpathError",
    "OutputMismatch",
    "PassFailed",
    "PlanError",
    "RelayFailed",
    "ResultError",
    "RetryAfter",
    "RouterNotFound",
    "ScheduleNotFound",
    "SchemaChanged",
    "SchemaError",
    "SchemaMissing",
    "SchemaOutdated",
    "SchemaTooNew",
    "SettlementFailed",
    "SignalError",
    "SignalTimeout",
    "SignalsFull",
    "Snooze",
    "StepError",
    "StoreBusy",
    "StoreError",
    "StoreRejected",
    "StoreUnavailable",
    "TaskError",
    "TooLarge",
    "Unconfirmed",
    "UniqueConflict",
    "UnknownTask",
    "UnsupportedType",
    "WaitRefused",
    "WaitTimeout",
    "WrongConnection",
]
