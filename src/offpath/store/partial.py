"""The base of a backend that offers some profiles of the contract: what it lacks is refused.

The error names the feature, the backend, and the backends that have it. Nothing is written before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ParamSpec, Protocol, TypeVar

from offpath.errors import CapabilityMissing
from offpath.model.effects import Effects
from offpath.model.job import NewJob
from offpath.model.lease import Order
from offpath.model.message import Box
from offpath.model.route import RouterSpec
from offpath.model.settlement import Outcome, Waiting
from offpath.store.absence import missing, none_of, refused, refused_at_once
from offpath.store.actions import WithoutActions
from offpath.store.browse import WithoutLists
from offpath.store.capabilities import Capabilities, Profile
from offpath.store.derived import DerivedStore
from offpath.store.events import WithoutLog, WithoutMessages
from offpath.store.flow import WithoutFlow
from offpath.store.health import WithoutDeclarations, WithoutFindings, WithoutHealth
from offpath.store.ledger import WithoutLedger
from offpath.store.protocol import Store
from offpath.store.runs import WithoutRuns
from offpath.store.schedules import WithoutSchedules
from offpath.store.stats import WithoutStats
from offpath.store.workflows import WithoutWorkflows

P = ParamSpec("P")
T = TypeVar("T")


def require(capabilities: Capabilities, profile: Profile) -> None:
    """Raise ``CapabilityMissing`` for what a backend does not offer."""
    if profile not in capabilities.profiles:
        raise missing(capabilities, profile)


def refuse_definition(capabilities: Capabilities, what: str, profile: Profile) -> None:
    """Raise ``CapabilityMissing`` where ``what`` is defined and needs what a backend lacks."""
    if profile not in capabilities.profiles:
        error = missing(capabilities, profile)
        named = CapabilityMissing(f"{what}: {error}")
        named.profile = error.profile
        raise named


def refuse_absent(capabilities: Capabilities, effects: Effects) -> None:
    """Raise ``CapabilityMissing`` where effects need what a backend does not offer."""
    needed = (
        (Profile.WORKFLOWS, effects.gates),
        (Profile.MESSAGES, effects.messages),
        (Profile.LOG, effects.log),
        (Profile.LEDGER, effects.operations),
        (Profile.GROUPS, effects.contributions),
    )
    for profile, given in needed:
        if given:
            require(capabilities, profile)
    for job in effects.jobs:
        refuse_absent_job(capabilities, job)


def refuse_absent_job(capabilities: Capabilities, job: NewJob) -> None:
    """Raise ``CapabilityMissing`` where a new job needs what a backend does not offer."""
    needed = (
        (Profile.WORKFLOWS, job.gate),
        (Profile.LIMITS, job.limit),
        (Profile.UNIQUE, job.unique),
        (Profile.MESSAGES, job.announce),
    )
    for profile, given in needed:
        if given:
            require(capabilities, profile)


def refuse_outcome(capabilities: Capabilities, outcome: Outcome) -> None:
    """Raise ``CapabilityMissing`` where the end of an attempt needs what a backend lacks."""
    if isinstance(outcome, Waiting):
        require(capabilities, Profile.WORKFLOWS)


class TaskTemplate(Protocol):
    """A task, as far as a backend may lack what it needs."""

    name: str
    template: NewJob


def refuse_definitions(
    capabilities: Capabilities,
    tasks: Iterable[TaskTemplate],
    routers: Iterable[RouterSpec],
    economies: Sequence[object],
    schedules: Iterable[str] = (),
    streams: Iterable[tuple[Box, str]] = (),
) -> None:
    """Raise ``CapabilityMissing`` for what an app defines and its backend does not offer."""
    for task in tasks:
        refuse_task(capabilities, task.name, task.template)
    for router in routers:
        refuse_definition(capabilities, f"router {router.name!r}", Profile.LOG)
    if economies:
        refuse_definition(capabilities, "an economy", Profile.LEDGER)
    for name in schedules:
        refuse_definition(capabilities, f"schedule {name!r}", Profile.SCHEDULES)
    for box, name in streams:
        what = "outbox stream" if box is Box.OUT else "inbox source"
        refuse_definition(capabilities, f"{what} {name!r}", Profile.MESSAGES)


def refuse_orders(capabilities: Capabilities, orders: Iterable[Order]) -> None:
    """Raise ``CapabilityMissing`` where a worker asks for an order that a backend lacks."""
    for order in orders:
        if order is not Order.PRIORITY:
            refuse_definition(capabilities, f"dispatch={order.value!r}", Profile.DISPATCH)


def refuse_task(capabilities: Capabilities, task: str, job: NewJob) -> None:
    """Raise ``CapabilityMissing`` where jobs of a task need what a backend does not offer."""
    try:
        refuse_absent_job(capabilities, job)
    except CapabilityMissing as error:
        named = CapabilityMissing(f"task {task!r}: {error}")
        named.profile = error.profile
        raise named from None


class PartialStore(
    WithoutMessages,
    WithoutLog,
    WithoutFlow,
    WithoutWorkflows,
    WithoutSchedules,
    WithoutLedger,
    WithoutLists,
    WithoutStats,
    WithoutRuns,
    WithoutActions,
    WithoutHealth,
    WithoutFindings,
    WithoutDeclarations,
    DerivedStore,
):
    """A store without the profiles that this refuses. What it has, a class that extends it adds.

    What would write something of an absent profile raises. A read or a pass over it finds nothing,
    since nothing of it can be there.
    """

    commit_within = refused(Profile.WITHIN, Store.commit_within)
    commit_within_blocking = refused_at_once(Profile.WITHIN, Store.commit_within_blocking)
    get_within = refused(Profile.WITHIN, Store.get_within)
    get_within_blocking = refused_at_once(Profile.WITHIN, Store.get_within_blocking)
    route_within = refused(Profile.WITHIN, Store.route_within)
    route_within_blocking = refused_at_once(Profile.WITHIN, Store.route_within_blocking)
    ask_worker = refused(Profile.OPERATING, Store.ask_worker)
    answer_worker = refused(Profile.OPERATING, Store.answer_worker)
    worker_desk = none_of(Store.worker_desk, lambda: None)
