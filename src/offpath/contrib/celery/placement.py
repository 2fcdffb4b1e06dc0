"""A canvas as jobs and gates, which are sent in one commit."""

# ruff: noqa: ANN401 - arguments are of any type

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, cast
from zoneinfo import ZoneInfo

from offpath.contrib.celery.canvas import Canvas, Signature, callbacks, chain, chord, group
from offpath.contrib.celery.exceptions import NotInShim
from offpath.contrib.celery.results import AsyncResult, GroupResult
from offpath.contrib.celery.running_call import JobNote, current_request, noted
from offpath.contrib.celery.signals import before_task_publish
from offpath.contrib.celery.values import revived, stored
from offpath.jobs.values.gates import Gate, all_settled, gate

if TYPE_CHECKING:
    from offpath.contrib.celery.app_face import AppFace
    from offpath.jobs.values.job import Job

_OWN: Final = {"link", "link_error"}
ERRBACK: Final = "offpath.celery.errback"
"""The task that looks how a job ended, and calls its errback if it failed."""


@dataclass(frozen=True, slots=True)
class Placed:
    """The jobs whose results a canvas gives: one, or those of a group."""

    ids: tuple[str, ...]
    many: bool
    result: AsyncResult | GroupResult


@dataclass(slots=True)
class Wiring:
    """Turns one canvas into what is sent."""

    app: AppFace
    sent: list[Job[Any, Any] | Gate[Any]] = field(default_factory=list)
    root: str | None = None

    def place(
        self,
        one: Canvas,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        options: Mapping[str, Any],
        after: Placed | None = None,
    ) -> Placed:
        """Add a canvas that follows ``after``."""
        options = {**one.options, **options}
        match one:
            case Signature():
                return self._signature(one, args, kwargs, options, after)
            case chain():
                return self._chain(one, args, kwargs, options, after)
            case group():
                return self._group(one, args, kwargs, options, after)
            case chord():
                return self._chord(one, args, kwargs, options, after)
        raise NotInShim(f"{type(one).__name__} cannot be sent")

    def _chain(
        self, one: chain, args: Any, kwargs: Any, options: Mapping[str, Any], after: Placed | None
    ) -> Placed:
        errbacks = {"link_error": callbacks(options, "link_error")}
        own = {name: value for name, value in options.items() if name not in _OWN}
        placed = after
        for at, link in enumerate(one.tasks):
            last = at == len(one.tasks) - 1
            # Celery sends a chain by its first task: the others have options of their own
            more = {**(own if at == 0 else {}), **errbacks}
            if last and "link" in options:
                more["link"] = options["link"]
            given, named = (args, kwargs) if at == 0 else ((), {})
            found = self.place(link, given, named, {**more, **_merged(link, more)}, placed)
            found.result.parent = None if placed is None else placed.result
            placed = found
        return cast("Placed", placed)  # a chain has a link

    def _group(
        self, one: group, args: Any, kwargs: Any, options: Mapping[str, Any], after: Placed | None
    ) -> Placed:
        if options.get("task_id"):
            raise NotInShim("group(...).apply_async(task_id=): natively each job has its id")
        members = [self.place(each, args, kwargs, {**each.options, **options}, after)
                   for each in one.tasks]  # fmt: skip
        if any(member.many for member in members):
            raise NotInShim("a group at the end of a member of a group: natively a plan")
        results = [each.result for each in members if isinstance(each.result, AsyncResult)]
        ids = tuple(each.ids[0] for each in members)
        return Placed(ids, True, GroupResult(self.app, results))

    def _chord(
        self, one: chord, args: Any, kwargs: Any, options: Mapping[str, Any], after: Placed | None
    ) -> Placed:
        header = self._group(one.header, args, kwargs, one.header.options, after)
        body = self.place(one.whole_body(), (), {}, options, header)
        body.result.parent = header.result
        return body

    def _signature(
        self,
        one: Signature,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        options: Mapping[str, Any],
        after: Placed | None,
    ) -> Placed:
        whole = one.clone(args, kwargs)
        take = None if after is None or one.immutable else ("list" if after.many else "one")
        # a place for the result: the signature is checked when the job is made
        positional = whole.args if take is None else (None, *whole.args)
        job = self._job(one.task, positional, whole.kwargs, options, take)
        self.sent.append(job if after is None else gate(on=after.ids, queue=[job]))
        for errback in callbacks(options, "link_error"):
            self.sent.append(gate(on=[job], queue=[self._errback(errback)], when=all_settled))
        return Placed((job.id,), False, AsyncResult(job.id, self.app))

    def _errback(self, one: Canvas) -> Job[Any, Any]:
        if not isinstance(one, Signature):
            raise NotInShim("link_error takes a signature of one task")
        return self.app.offpath.tasks[ERRBACK].job(stored(one.as_dict()))

    def _job(
        self,
        name: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        options: Mapping[str, Any],
        take: str | None,
    ) -> Job[Any, Any]:
        options = {**self.app.defaults_of(name), **options}
        headers = dict(options.get("headers") or {})
        before_task_publish.send(
            name, body=(args, kwargs, {}), headers=headers, exchange="",
            routing_key=options.get("queue") or "default", properties={},
        )  # fmt: skip
        native = self._native(options)
        native["headers"] = noted(self._note(options, take), headers)
        task = self.app.native_task(name, args).options(**native)
        job = task.job(*stored(args), **stored(kwargs))
        self.root = self.root or job.id
        return job

    def _note(self, options: Mapping[str, Any], take: str | None) -> JobNote:
        caller = current_request()
        links = callbacks(options, "link")
        if not all(isinstance(each, Signature) for each in links):
            raise NotInShim("link takes signatures of one task; for more use a chain")
        return JobNote(
            root=caller.root_id or self.root,
            parent=caller.id,
            take=take,
            link=tuple(stored(each.as_dict()) for each in links if isinstance(each, Signature)),
            expires=self._expiry(options.get("expires")),
        )

    def _native(self, options: Mapping[str, Any]) -> dict[str, Any]:
        named = {"queue": "queue", "priority": "priority", "task_id": "id", "time_limit": "timeout"}
        given: dict[str, Any] = {
            here: options[there] for there, here in named.items() if options.get(there) is not None
        }
        if options.get("eta") is not None:
            given["run_at"] = self._aware(options["eta"])
        elif options.get("countdown") is not None:
            given["delay"] = options["countdown"]
        return given

    def _aware(self, moment: datetime) -> datetime:
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=ZoneInfo(str(self.app.conf.get("timezone") or "UTC")))
        return moment.astimezone(UTC)

    def _expiry(self, given: float | datetime | None) -> datetime | None:
        if given is None or isinstance(given, datetime):
            return None if given is None else self._aware(given)
        return self.app.offpath.clock.now() + timedelta(seconds=given)


def _merged(link: Canvas, more: Mapping[str, Any]) -> dict[str, Any]:
    """Callbacks of a link of a chain, and those of the whole chain."""
    return {
        name: [*callbacks(link.options, name), *callbacks(more, name)]
        for name in _OWN
        if link.options.get(name) or more.get(name)
    }


def callback_job(app: AppFace, given: Any, arguments: Sequence[Any]) -> Job[Any, Any]:
    """The job of a signature that was stored as JSON, with arguments in front of its own."""
    read = revived(given)
    one = Signature(
        read["task"], app, read["args"], read["kwargs"],
        immutable=read["immutable"], options=read["options"],
    )  # fmt: skip
    wiring = Wiring(app)
    wiring.place(one, tuple(arguments), {}, {})
    (job,) = wiring.sent
    return cast("Job[Any, Any]", job)  # a gate is made of callbacks only, and it has none


def scheduled_job(
    app: AppFace, name: str, args: Any, kwargs: Any, options: Mapping[str, Any]
) -> Job[Any, Any]:
    """The job that a schedule copies. Raises ``NotInShim`` for options that it cannot have."""
    own = {**app.defaults_of(name), **options}
    if unknown := own.keys() - {"queue", "priority", "expires", "time_limit"}:
        raise NotInShim(f"a beat entry's options: {', '.join(sorted(unknown))}; natively schedules")
    names = {"queue": "queue", "priority": "priority"}
    names |= {"expires": "deadline", "time_limit": "timeout"}
    given = {names[there]: value for there, value in own.items() if value is not None}
    args, kwargs = stored(tuple(args)), stored(dict(kwargs))
    return app.native_task(name, args).options(**given).job(*args, **kwargs)
