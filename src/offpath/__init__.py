"""Durable background work on the database you already run."""

import importlib
import typing

from offpath.app import App
from offpath.errors import (
    Abort,
    AppClosed,
    CapabilityMissing,
    ConfigurationError,
    Conflict,
    ControlFlow,
    CoolDown,
    DrainFailed,
    DuplicateTask,
    EndpointNotFound,
    GateError,
    GroupFailed,
    IdConflict,
    InvalidArgument,
    InvalidInput,
    JobCancelled,
    JobDead,
    JobEnded,
    JobNotFound,
    LeaseLost,
    LetterNotFound,
    MessageNotFound,
    MissingExtra,
    NotFound,
    OffpathError,
    OutputMismatch,
    PassFailed,
    PlanError,
    RelayFailed,
    ResultError,
    RouterNotFound,
    ScheduleNotFound,
    SchemaChanged,
    SchemaError,
    SchemaMissing,
    SchemaOutdated,
    SchemaTooNew,
    SettlementFailed,
    SignalError,
    SignalTimeout,
    Snooze,
    StepError,
    StoreBusy,
    StoreError,
    StoreRejected,
    StoreUnavailable,
    TaskError,
    TooLarge,
    UniqueConflict,
    UnknownTask,
    UnsupportedType,
    WaitRefused,
    WaitTimeout,
    WrongConnection,
)
from offpath.events.dispatcher import BatchDispatcher, Dispatcher, Event, Undeliverable
from offpath.events.inbox import Accepted, Duplicate, InboxContext, InboxMessage, Rejected
from offpath.health.settlement import paged
from offpath.jobs.blocking.client import BlockingClient, BlockingHandle
from offpath.jobs.client.batch import Batch
from offpath.jobs.define.batch_task import BatchTask
from offpath.jobs.define.task import Task
from offpath.jobs.handler.batch_context import BatchContext, BatchItem
from offpath.jobs.handler.context import Context
from offpath.jobs.retry import RetryState, retry, set_retry_defaults
from offpath.jobs.values.classification import ABORT, RETRY, FailureInfo
from offpath.jobs.values.gates import (
    Gate,
    all_settled,
    all_succeeded,
    any_succeeded,
    at_least,
    gate,
)
from offpath.jobs.values.group_codecs import GroupValueError
from offpath.jobs.values.handle import Handle
from offpath.jobs.values.job import Job
from offpath.jobs.values.plan import Plan
from offpath.model.event import EventKind, JobEvent
from offpath.model.gate import When
from offpath.model.group import GroupPolicy
from offpath.model.job import (
    Count,
    DeadReason,
    Failure,
    JobRecord,
    JobState,
    Page,
    Progress,
    UniquePolicy,
)
from offpath.model.limiting import Limit, Rate
from offpath.model.message import MessageRecord, MessageState
from offpath.model.options import Options, Unique
from offpath.model.redrive import Redrive
from offpath.model.retry import Backoff, BackoffKind, RetryOptions, RetryPolicy
from offpath.model.settlement_counts import SettlementOutcome
from offpath.model.settlement_period import Period
from offpath.model.settlement_rates import Cashback, Lossback, PlayerActivity, Rebate, Share
from offpath.model.settlement_run import (
    AlreadyCredited,
    Credited,
    SettlementStatus,
    SettlementSummary,
)
from offpath.model.tally import SweepResult, SweepRun, Tally, Verdict
from offpath.model.wait import SignalsFull
from offpath.runtime.codec import Codec, JsonCodec

if typing.TYPE_CHECKING:
    from offpath.events.delivering import Outbox, RoutedEvent
    from offpath.events.door import Incoming
    from offpath.events.router import Router
    from offpath.events.running import RouterRun
    from offpath.events.source import SourceEvent
    from offpath.events.webhook.guard import Forbidden
    from offpath.events.webhook.signing import BadSignature, Verifier, new_key_pair, new_secret
    from offpath.jobs.client.group_events import Group
    from offpath.jobs.values.offers import BackedUp, Offer, WorkerLoad
    from offpath.jobs.worker.app_worker import AppWorker as Worker
    from offpath.jobs.worker.backpressure import AdaptiveDelay
    from offpath.model.route import LogEvent
    from offpath.sweeps.context import SweepContext

__all__ = [
    "ABORT",
    "RETRY",
    "Abort",
    "Accepted",
    "AdaptiveDelay",
    "AlreadyCredited",
    "App",
    "AppClosed",
    "BackedUp",
    "Backoff",
    "BackoffKind",
    "BadSignature",
    "Batch",
    "BatchContext",
    "BatchDispatcher",
    "BatchItem",
    "BatchTask",
    "BlockingClient",
    "BlockingHandle",
    "CapabilityMissing",
    "Cashback",
    "Codec",
    "ConfigurationError",
    "Conflict",
    "Context",
    "ControlFlow",
    "CoolDown",
    "Count",
    "Credited",
    "DeadReason",
    "Dispatcher",
    "DrainFailed",
    "Duplicate",
    "DuplicateTask",
    "EndpointNotFound",
    "Event",
    "EventKind",
    "Failure",
    "FailureInfo",
    "Forbidden",
    "Gate",
    "GateError",
    "Group",
    "GroupFailed",
    "GroupPolicy",
    "GroupValueError",
    "Handle",
    "IdConflict",
    "InboxContext",
    "InboxMessage",
    "Incoming",
    "InvalidArgument",
    "InvalidInput",
    "Job",
    "JobCancelled",
    "JobDead",
    "JobEnded",
    "JobEvent",
    "JobNotFound",
    "JobRecord",
    "JobState",
    "JsonCodec",
    "LeaseLost",
    "LetterNotFound",
    "Limit",
    "LogEvent",
    "Lossback",
    "MessageNotFound",
    "MessageRecord",
    "MessageState",
    "MissingExtra",
    "NotFound",
    "Offer",
    "OffpathError",
    "Options",
    "Outbox",
    "OutputMismatch",
    "Page",
    "PassFailed",
    "Period",
    "Plan",
    "PlanError",
    "PlayerActivity",
    "Progress",
    "Rate",
    "Rebate",
    "Redrive",
    "Rejected",
    "RelayFailed",
    "ResultError",
    "RetryOptions",
    "RetryPolicy",
    "RetryState",
    "RoutedEvent",
    "Router",
    "RouterNotFound",
    "RouterRun",
    "ScheduleNotFound",
    "SchemaChanged",
    "SchemaError",
    "SchemaMissing",
    "SchemaOutdated",
    "SchemaTooNew",
    "SettlementFailed",
    "SettlementOutcome",
    "SettlementStatus",
    "SettlementSummary",
    "Share",
    "SignalError",
    "SignalTimeout",
    "SignalsFull",
    "Snooze",
    "SourceEvent",
    "StepError",
    "StoreBusy",
    "StoreError",
    "StoreRejected",
    "StoreUnavailable",
    "SweepContext",
    "SweepResult",
    "SweepRun",
    "Tally",
    "Task",
    "TaskError",
    "TooLarge",
    "Undeliverable",
    "Unique",
    "UniqueConflict",
    "UniquePolicy",
    "UnknownTask",
    "UnsupportedType",
    "Verdict",
    "Verifier",
    "WaitRefused",
    "WaitTimeout",
    "When",
    "Worker",
    "WorkerLoad",
    "WrongConnection",
    "all_settled",
    "all_succeeded",
    "any_succeeded",
    "at_least",
    "gate",
    "new_key_pair",
    "new_secret",
    "paged",
    "retry",
    "set_retry_defaults",
]

_LAZY = {
    "AdaptiveDelay": "offpath.jobs.worker.backpressure",
    "BackedUp": "offpath.jobs.values.offers",
    "BadSignature": "offpath.events.webhook.signing",
    "Forbidden": "offpath.events.webhook.guard",
    "Group": "offpath.jobs.client.group_events",
    "Incoming": "offpath.events.door",
    "LogEvent": "offpath.model.route",
    "Offer": "offpath.jobs.values.offers",
    "Outbox": "offpath.events.delivering",
    "RoutedEvent": "offpath.events.delivering",
    "Router": "offpath.events.router",
    "RouterRun": "offpath.events.running",
    "SourceEvent": "offpath.events.source",
    "SweepContext": "offpath.sweeps.context",
    "Verifier": "offpath.events.webhook.signing",
    "Worker": "offpath.jobs.worker.app_worker",
    "WorkerLoad": "offpath.jobs.values.offers",
    "new_key_pair": "offpath.events.webhook.signing",
    "new_secret": "offpath.events.webhook.signing",
}
"""Names of routers, webhooks and workers, and others that not every process uses, and where they
are: loaded when they are first asked for."""

_NAMED = {"Worker": "AppWorker"}
"""What has another name where it is."""


if not typing.TYPE_CHECKING:  # so that a name that is not there is an error to type checkers

    def __getattr__(name: str) -> object:
        if name not in _LAZY:
            msg = f"module {__name__!r} has no attribute {name!r}"
            raise AttributeError(msg, name=name, obj=None)
        value = getattr(importlib.import_module(_LAZY[name]), _NAMED.get(name, name))
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
