"""The base of a backend that offers some profiles of the contract: what it lacks is refused.

The error names the feature, the backend, and the backends that have it. Nothing is written before.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import wraps
from typing import Any, Concatenate, NoReturn, ParamSpec, Protocol, TypeVar, cast

from offpath.errors import CapabilityMissing
from offpath.model.effects import Effects
from offpath.model.job import NewJob
from offpath.model.lease import Order
from offpath.model.limit import Admitted
from offpath.model.message import Box
from offpath.model.route import RouterSpec
from offpath.model.settlement import Outcome, Waiting
from offpath.store.capabilities import Capabilities, Profile
from offpath.store.derived import DerivedStore
from offpath.store.offered import FEATURES, offering
from offpath.store.protocol import Store

P = ParamSpec("P")
T = TypeVar("T")


def missing(capabilities: Capabilities, profile: Profile) -> CapabilityMissing:
    """The error for what a backend does not offer."""
    *others, last = offering(profile)
    error = CapabilityMissing(
        f"{capabilities.name} does not offer {FEATURES[profile]}: "
        f"use a store that does ({', '.join(others)} or {last})"
    )
    error.profile = profile.value
    return error


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


def refused(
    profile: Profile, method: Callable[Concatenate[Any, P], T]
) -> Callable[Concatenate[Any, P], T]:
    """A method of a profile that the store has not."""

    @wraps(method)
    async def refuse(self: PartialStore, *_: object, **__: object) -> NoReturn:
        raise missing(self.capabilities, profile)

    # it has the shape of the protocol's own method
    return cast("Callable[Concatenate[Any, P], T]", refuse)


def none_of(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]], answer: Callable[[], T]
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """A read or a pass over what the store cannot have: there is none. The server is not asked."""

    @wraps(method)
    async def nothing(self: PartialStore, *_: object, **__: object) -> T:  # noqa: ARG001
        return answer()

    return cast("Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]", nothing)


def refused_at_once(
    profile: Profile, method: Callable[Concatenate[Any, P], T]
) -> Callable[Concatenate[Any, P], T]:
    """A method of a profile that the store has not, which nobody awaits."""

    @wraps(method)
    def refuse(self: PartialStore, *_: object, **__: object) -> NoReturn:
        raise missing(self.capabilities, profile)

    return cast("Callable[Concatenate[Any, P], T]", refuse)


class PartialStore(DerivedStore):
    """A store without the profiles that this refuses. What it has, a class that extends it adds.

    What would write something of an absent profile raises. A read or a pass over it finds nothing,
    since nothing of it can be there.
    """

    declarations = none_of(Store.declarations, list)
    findings = none_of(Store.findings, list)
    end_finding = none_of(Store.end_finding, lambda: False)
    accept_finding = none_of(Store.accept_finding, lambda: None)

    # -- limits ----------------------------------------------------------------------------

    admit = none_of(Store.admit, lambda: Admitted(jobs=0))
    limits = none_of(Store.limits, list)
    count_held = none_of(Store.count_held, lambda: 0)
    close_limit = refused(Profile.LIMITS, Store.close_limit)
    open_limit = refused(Profile.LIMITS, Store.open_limit)
    limit_holders = none_of(Store.limit_holders, list)

    # -- pauses ----------------------------------------------------------------------------

    pause_queue = refused(Profile.PAUSES, Store.pause_queue)
    resume_queue = refused(Profile.PAUSES, Store.resume_queue)

    # -- groups ----------------------------------------------------------------------------

    groups = refused(Profile.GROUPS, Store.groups)
    cancel_groups = refused(Profile.GROUPS, Store.cancel_groups)
    close_groups = none_of(Store.close_groups, list)

    # -- workflows -------------------------------------------------------------------------

    gates = none_of(Store.gates, list)
    watched = none_of(Store.watched, list)
    put_step = refused(Profile.WORKFLOWS, Store.put_step)
    steps = refused(Profile.WORKFLOWS, Store.steps)
    send_signal = refused(Profile.WORKFLOWS, Store.send_signal)
    take_signal = refused(Profile.WORKFLOWS, Store.take_signal)
    put_undo = refused(Profile.WORKFLOWS, Store.put_undo)
    undoing = none_of(Store.undoing, list)
    compensate = refused(Profile.WORKFLOWS, Store.compensate)

    # -- schedules -------------------------------------------------------------------------

    put_schedule = refused(Profile.SCHEDULES, Store.put_schedule)
    schedules = none_of(Store.schedules, list)
    due_schedules = none_of(Store.due_schedules, lambda: ([], None))
    pause_schedule = refused(Profile.SCHEDULES, Store.pause_schedule)
    delete_schedule = refused(Profile.SCHEDULES, Store.delete_schedule)
    fire = refused(Profile.SCHEDULES, Store.fire)
    trigger_schedule = refused(Profile.SCHEDULES, Store.trigger_schedule)
    occurrences = refused(Profile.SCHEDULES, Store.occurrences)
    prune_occurrences = none_of(Store.prune_occurrences, lambda: 0)

    # -- messages --------------------------------------------------------------------------

    lease_messages = refused(Profile.MESSAGES, Store.lease_messages)
    settle_messages = refused(Profile.MESSAGES, Store.settle_messages)
    find_messages = refused(Profile.MESSAGES, Store.find_messages)
    revive_messages = refused(Profile.MESSAGES, Store.revive_messages)
    delete_messages = refused(Profile.MESSAGES, Store.delete_messages)
    message_backlog = none_of(Store.message_backlog, list)
    put_endpoint = refused(Profile.MESSAGES, Store.put_endpoint)
    endpoints = none_of(Store.endpoints, list)
    set_endpoint = refused(Profile.MESSAGES, Store.set_endpoint)
    note_endpoint = refused(Profile.MESSAGES, Store.note_endpoint)
    delete_endpoint = refused(Profile.MESSAGES, Store.delete_endpoint)
    put_posts = none_of(Store.put_posts, lambda: None)
    posts = none_of(Store.posts, list)

    # -- log -------------------------------------------------------------------------------

    declare_router = refused(Profile.LOG, Store.declare_router)
    routers = none_of(Store.routers, list)
    set_gate = refused(Profile.LOG, Store.set_gate)
    set_route = refused(Profile.LOG, Store.set_route)
    lease_cursor = refused(Profile.LOG, Store.lease_cursor)
    read_log = refused(Profile.LOG, Store.read_log)
    advance = refused(Profile.LOG, Store.advance)
    release_cursor = refused(Profile.LOG, Store.release_cursor)
    move_cursor = refused(Profile.LOG, Store.move_cursor)
    attempts = refused(Profile.LOG, Store.attempts)
    attempted = refused(Profile.LOG, Store.attempted)
    table_columns = refused(Profile.LOG, Store.table_columns)
    read_table = refused(Profile.LOG, Store.read_table)
    letters = refused(Profile.LOG, Store.letters)
    record_replay = refused(Profile.LOG, Store.record_replay)
    redoable = refused(Profile.LOG, Store.redoable)
    find_events = refused(Profile.LOG, Store.find_events)
    record_redo = refused(Profile.LOG, Store.record_redo)
    resolve_letter = refused(Profile.LOG, Store.resolve_letter)
    router_facts = refused(Profile.LOG, Store.router_facts)
    read_events = refused(Profile.LOG, Store.read_events)
    trim_log = none_of(Store.trim_log, lambda: 0)
    router_lags = none_of(Store.router_lags, list)

    # -- the ledger ------------------------------------------------------------------------

    post = refused(Profile.LEDGER, Store.post)
    lease_sides = refused(Profile.LEDGER, Store.lease_sides)
    save_checkpoint = refused(Profile.LEDGER, Store.save_checkpoint)
    prune_ledger = refused(Profile.LEDGER, Store.prune_ledger)
    ledger_snapshot = refused_at_once(Profile.LEDGER, Store.ledger_snapshot)
    ledger_accounts = refused(Profile.LEDGER, Store.ledger_accounts)
    ledger_debts = refused(Profile.LEDGER, Store.ledger_debts)
    ledger_links = refused(Profile.LEDGER, Store.ledger_links)
    ledger_walk = refused(Profile.LEDGER, Store.ledger_walk)
    ledger_since = refused(Profile.LEDGER, Store.ledger_since)
    ledger_tails = refused(Profile.LEDGER, Store.ledger_tails)
    ledger_postings = refused(Profile.LEDGER, Store.ledger_postings)
    ledger_sides = refused(Profile.LEDGER, Store.ledger_sides)
    ledger_bare = refused(Profile.LEDGER, Store.ledger_bare)
    ledger_key = refused(Profile.LEDGER, Store.ledger_key)
    ledger_totals = refused(Profile.LEDGER, Store.ledger_totals)
    ledger_last = refused(Profile.LEDGER, Store.ledger_last)
    ledger_sums = refused(Profile.LEDGER, Store.ledger_sums)
    ledger_counts = refused(Profile.LEDGER, Store.ledger_counts)
    ledger_checkpoints = refused(Profile.LEDGER, Store.ledger_checkpoints)
    ledger_leaves = refused(Profile.LEDGER, Store.ledger_leaves)
    ledger_moved = refused(Profile.LEDGER, Store.ledger_moved)

    # -- the caller's transaction ----------------------------------------------------------

    commit_within = refused(Profile.WITHIN, Store.commit_within)
    commit_within_blocking = refused_at_once(Profile.WITHIN, Store.commit_within_blocking)
    get_within = refused(Profile.WITHIN, Store.get_within)
    get_within_blocking = refused_at_once(Profile.WITHIN, Store.get_within_blocking)
    route_within = refused(Profile.WITHIN, Store.route_within)
    route_within_blocking = refused_at_once(Profile.WITHIN, Store.route_within_blocking)

    # -- the dashboard ---------------------------------------------------------------------

    browse = refused(Profile.OPERATING, Store.browse)
    look_at_messages = refused(Profile.OPERATING, Store.look_at_messages)
    ask_worker = refused(Profile.OPERATING, Store.ask_worker)
    answer_worker = refused(Profile.OPERATING, Store.answer_worker)
    worker_desk = none_of(Store.worker_desk, lambda: None)
    has_late_action = none_of(Store.has_late_action, lambda: False)
    graph = refused(Profile.OPERATING, Store.graph)
    browse_groups = refused(Profile.OPERATING, Store.browse_groups)
    open_gates = none_of(Store.open_gates, list)
    pending_signals = none_of(Store.pending_signals, list)
    drop_signals = refused(Profile.OPERATING, Store.drop_signals)
    next_due = refused(Profile.OPERATING, Store.next_due)
    newest_events = none_of(Store.newest_events, list)

    put_stats = none_of(Store.put_stats, lambda: None)
    stats = none_of(Store.stats, list)
    fold_stats = none_of(Store.fold_stats, lambda: False)
    prune_stats = none_of(Store.prune_stats, lambda: 0)
    put_run = none_of(Store.put_run, lambda: None)
    runs = none_of(Store.runs, list)

    put_action = refused(Profile.OPERATING, Store.put_action)
    step_action = refused(Profile.OPERATING, Store.step_action)
    take_action = none_of(Store.take_action, lambda: None)
    stop_action = refused(Profile.OPERATING, Store.stop_action)
    actions = none_of(Store.actions, list)
    prune_actions = none_of(Store.prune_actions, lambda: 0)
