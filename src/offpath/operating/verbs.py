"""Verbs: the table of what an operator may do, each with its right, its target and its steps.

A verb that is not in this table does not exist: not for the pages, the JSON API or its schema.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from offpath.errors import InvalidArgument
from offpath.model.amendment import Amendment
from offpath.model.job import JobState
from offpath.model.lease import WorkerRequest
from offpath.model.message import MessageState
from offpath.operating import event_steps, flow_steps, job_steps, worker_steps
from offpath.operating.event_steps import ReplayOptions, ResolveOptions, SwitchOptions
from offpath.operating.flow_steps import AcceptOptions, PauseOptions
from offpath.operating.job_steps import RedriveOptions, SignalOptions
from offpath.operating.rights import Can
from offpath.operating.steps import Step
from offpath.operating.targets import (
    GroupsTarget,
    IdsTarget,
    IdTarget,
    JobsTarget,
    LettersTarget,
    MessagesTarget,
    NamedTarget,
    RouteTarget,
    SettlementTarget,
    SignalTarget,
    TaskTarget,
)
from offpath.operating.worker_steps import EnqueueOptions, SweepOptions
from offpath.runtime.wings import WINGS


class NoOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """The options of a verb that has none."""


class Verb(Struct, frozen=True, kw_only=True):
    """One thing that an operator may do."""

    name: str
    words: str
    """The words of its button."""
    done: str
    """The change of its rows, in words."""
    right: Can
    target: type[Struct]
    step: Step
    options: type[Struct] = NoOptions
    states: frozenset[str] = frozenset()
    """The states of the rows that it changes, where it is about rows."""
    final: bool = False
    """True if what it removes cannot be brought back."""
    typed: Callable[[Any], str] | None = None
    """The text that confirms it, by its target, where it is about money."""


def _on_jobs(
    name: str,
    words: str,
    done: str,
    states: frozenset[JobState],
    change: job_steps.Change,
    *,
    options: type[Struct] = NoOptions,
    final: bool = False,
) -> Verb:
    return Verb(
        name=name,
        words=words,
        done=done,
        right=Can.ACT,
        target=JobsTarget,
        options=options,
        states=frozenset(one.value for one in states),
        step=job_steps.step_of(states, change),
        final=final,
    )


def _on_messages(
    name: str,
    words: str,
    done: str,
    states: frozenset[MessageState],
    change: event_steps.MessageChange,
    *,
    final: bool = False,
) -> Verb:
    return Verb(
        name=name,
        words=words,
        done=done,
        right=Can.ACT,
        target=MessagesTarget,
        states=frozenset(one.value for one in states),
        step=event_steps.message_step(states, change),
        final=final,
    )


def _on_named(
    name: str, words: str, done: str, step: Step, options: type[Struct] = NoOptions
) -> Verb:
    return Verb(
        name=name,
        words=words,
        done=done,
        right=Can.OPERATE,
        target=NamedTarget,
        options=options,
        step=step,
        final=name == "schedule.delete",
    )


def _on_worker(name: str, words: str, request: WorkerRequest) -> Verb:
    return Verb(
        name=name,
        words=words,
        done="asked",
        right=Can.OPERATE,
        target=IdTarget,
        step=worker_steps.ask_worker(request),
    )


_TABLE: Final = (
    _on_jobs("job.cancel", "Cancel", "cancelled", job_steps.CANCELLABLE, job_steps.cancel),
    _on_jobs(
        "job.redrive",
        "Redrive",
        "redriven",
        job_steps.REDRIVABLE,
        job_steps.redrive,
        options=RedriveOptions,
    ),
    _on_jobs("job.run_now", "Run now", "due now", job_steps.QUEUED, job_steps.run_now),
    _on_jobs(
        "job.amend",
        "Change",
        "changed",
        job_steps.WAITING,
        job_steps.amend,
        options=Amendment,
    ),
    _on_jobs(
        "job.delete", "Discard", "discarded", job_steps.DELETABLE, job_steps.delete, final=True
    ),
    Verb(
        name="job.signal",
        words="Signal",
        done="told",
        right=Can.ACT,
        target=SignalTarget,
        options=SignalOptions,
        step=job_steps.signal,
    ),
    Verb(
        name="group.cancel",
        words="Cancel the group",
        done="cancelled",
        right=Can.ACT,
        target=GroupsTarget,
        step=job_steps.cancel_group,
    ),
    _on_named("queue.pause", "Pause", "paused", flow_steps.pause_queue, PauseOptions),
    _on_named("queue.resume", "Resume", "resumed", flow_steps.resume_queue),
    _on_named("limit.pause", "Pause", "paused", flow_steps.pause_limit, PauseOptions),
    _on_named("limit.resume", "Resume", "resumed", flow_steps.resume_limit),
    _on_named("schedule.pause", "Pause", "paused", flow_steps.pause_schedule),
    _on_named("schedule.resume", "Resume", "resumed", flow_steps.resume_schedule),
    _on_named("schedule.trigger", "Run now", "triggered", flow_steps.trigger_schedule),
    _on_named("schedule.delete", "Delete", "deleted", flow_steps.delete_schedule),
    Verb(
        name="finding.accept",
        words="Accept",
        done="accepted",
        right=Can.OPERATE,
        target=IdTarget,
        options=AcceptOptions,
        step=flow_steps.accept_finding,
    ),
    _on_messages(
        "message.redrive", "Redrive", "redriven", event_steps.DEAD, event_steps.revive
    ),
    _on_messages(
        "message.replay", "Send again", "sent again", event_steps.DELIVERED, event_steps.revive
    ),
    _on_messages(
        "message.discard",
        "Discard",
        "discarded",
        event_steps.DEAD,
        event_steps.remove,
        final=True,
    ),
    _on_named("endpoint.pause", "Pause", "paused", event_steps.pause_endpoint),
    _on_named("endpoint.resume", "Resume", "resumed", event_steps.resume_endpoint),
    _on_named(
        "endpoint.replay", "Send again", "sent again", event_steps.replay_endpoint, ReplayOptions
    ),
    _on_named("router.open", "Open", "opened", event_steps.open_router),
    _on_named("router.close", "Close", "closed", event_steps.close_router),
    Verb(
        name="route.switch",
        words="Switch",
        done="switched",
        right=Can.OPERATE,
        target=RouteTarget,
        options=SwitchOptions,
        step=event_steps.switch_route,
    ),
    Verb(
        name="letter.redrive",
        words="Redrive",
        done="delivered",
        right=Can.ACT,
        target=LettersTarget,
        step=worker_steps.redrive_letters,
    ),
    _on_named("router.verify", "Verify", "hold", worker_steps.verify_router),
    _on_named("sweep.run", "Run now", "moved", worker_steps.run_sweep, SweepOptions),
    Verb(
        name="settlement.run",
        words="Run a period",
        done="credited",
        right=Can.MONEY,
        target=SettlementTarget,
        step=worker_steps.run_settlement,
        typed=lambda target: f"{target.kind} {target.period}",
    ),
    Verb(
        name="signal.drop",
        words="Drop",
        done="dropped",
        right=Can.ACT,
        target=IdsTarget,
        step=worker_steps.drop_signals,
        final=True,
    ),
    Verb(
        name="job.enqueue",
        words="New job",
        done="enqueued",
        right=Can.ENQUEUE,
        target=TaskTarget,
        options=EnqueueOptions,
        step=worker_steps.enqueue,
    ),
    _on_worker("worker.quiet", "Quiet", WorkerRequest.QUIET),
    _on_worker("worker.resume", "Resume", WorkerRequest.RESUME),
    _on_worker("worker.stop", "Stop", WorkerRequest.STOP),
    _on_worker("worker.dump", "Dump", WorkerRequest.DUMP),
    Verb(
        name="letter.resolve",
        words="Resolve",
        done="resolved",
        right=Can.ACT,
        target=LettersTarget,
        options=ResolveOptions,
        step=event_steps.resolve_letters,
    ),
)  # fmt: skip


class VerbTable(Mapping[str, Verb]):
    """The verbs by name: those of the engine, and those that wings of this process have added."""

    def __init__(self, own: Iterable[Verb]) -> None:
        self._known = {one.name: one for one in own}
        self._taken: set[str] = set()

    def __getitem__(self, name: str) -> Verb:
        return self._all()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def _all(self) -> dict[str, Verb]:
        """The verbs. A wing is asked once, when somebody looks after it was made."""
        for wing in WINGS:
            if wing.name not in self._taken:
                self._taken.add(wing.name)
                for one in wing.verbs():
                    self._known.setdefault(one.name, one)
        return self._known


VERBS: Final = VerbTable(_TABLE)


def verb_of(name: str) -> Verb:
    """The verb of a name. Raises ``InvalidArgument`` naming those there are."""
    if name not in VERBS:
        raise InvalidArgument(f"there is no verb {name[:60]!r}; there are {', '.join(VERBS)}")
    return VERBS[name]
