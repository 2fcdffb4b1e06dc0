"""Celery's app on an app of ours."""

# ruff: noqa: ANN401 - arguments are of any type

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from offpath.app import App
from offpath.contrib.celery.app_face import current, has_current, set_current
from offpath.contrib.celery.canvas import Canvas, Signature, check_options
from offpath.contrib.celery.catalogue import APP_METHODS, APP_OPTIONS, BEAT_OPTIONS
from offpath.contrib.celery.configuration import Configuration
from offpath.contrib.celery.exceptions import NotInShim, refuse
from offpath.contrib.celery.handler import errback_handler, native_handler
from offpath.contrib.celery.placement import ERRBACK, Wiring, scheduled_job
from offpath.contrib.celery.results import AsyncResult
from offpath.contrib.celery.schedules import terms_of
from offpath.contrib.celery.signals import TaskSignal
from offpath.contrib.celery.tasks import CeleryTask
from offpath.contrib.celery.waits import TaskTerms, task_terms
from offpath.errors import UnknownTask
from offpath.jobs.values.classification import ABORT
from offpath.model.limit_options import Limit

if TYPE_CHECKING:
    from offpath.jobs.blocking.views import BlockingHandle
    from offpath.jobs.define.task import Sending
    from offpath.model.job import JobRecord

_CHUNK: Final = 500


class Celery:
    """Celery's app: its tasks are tasks of the app of ours that it is given.

    ``offpath`` is that app, or a URL of a database. Raises ``NotInShim`` for arguments of Celery's
    that have no counterpart.
    """

    def __init__(
        self, main: str | None = None, *, offpath: App | str | None = None, **options: Any
    ) -> None:
        for name in options:
            refuse(APP_OPTIONS.get(name), f"Celery({name}=)")
        if offpath is None:
            raise NotInShim('Celery(): offpath="postgresql://..." or an offpath.App is the broker')
        self.main = main
        self.offpath = App(offpath, auto_start=False) if isinstance(offpath, str) else offpath
        """The app of ours: workers are given it, and native tasks are defined on it."""
        self.conf = Configuration()
        self.tasks: dict[str, CeleryTask] = {}
        self.on_after_configure = TaskSignal("on_after_configure")
        self.on_after_finalize = TaskSignal("on_after_finalize")
        self._errback()
        for kind, function in (("celery.starmap", _starmap), ("celery.map", _map)):
            self._add(CeleryTask(function, TaskTerms(bind=True), kind, lambda: self))
        for shared in _SHARED:
            self._add(shared)
        set_current(self)

    def _errback(self) -> None:
        if ERRBACK not in self.offpath.tasks:
            self.offpath.task(name=ERRBACK)(errback_handler(self))

    @property
    def functions(self) -> Mapping[str, CeleryTask]:
        """The tasks by their names."""
        return self.tasks

    def task(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """Make a task: ``@app.task`` or ``@app.task(bind=True, max_retries=5)``.

        Raises ``NotInShim``, ``DuplicateTask``.
        """
        if function is None:
            return lambda given: self.task(given, **options)
        made = _made(function, options, self.main, lambda: self)
        self._add(made)
        return made

    def _add(self, task: CeleryTask) -> None:
        terms = task.terms
        settings: dict[str, Any] = {
            "name": task.name,
            "retry": terms.max_retries + 1,
            "timeout": terms.time_limit,
            "limit": None if terms.rate is None else Limit(rate=terms.rate),
            # the shim decides, and says so by RetryAfter and Abort: what is left are time limits
            "on_failure": lambda _error, _info: ABORT,
        }
        given = {name: value for name, value in settings.items() if value is not None}
        self.offpath.task(**given)(native_handler(self, task))
        self.tasks[task.name] = task

    # -- sending -----------------------------------------------------------------------------------

    def send_task(
        self,
        name: str,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> AsyncResult:
        """Enqueue by name. Of a task that is not defined here arguments are given by name only."""
        check_options(options)
        return Signature(name, self, args, kwargs).apply_async(**options)  # type: ignore[no-any-return]

    def signature(
        self,
        name: str,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Signature:
        """A call of a task by its name, not sent."""
        immutable = bool(options.pop("immutable", False))
        return Signature(name, self, args, kwargs, immutable=immutable, options=options)

    def send_canvas(
        self, one: Canvas, args: tuple[Any, ...], kwargs: dict[str, Any], options: dict[str, Any]
    ) -> Any:
        """Enqueue a canvas in one commit; in an atomic block of Django's in its transaction."""
        wiring = Wiring(self)
        placed = wiring.place(one, args, kwargs, options)
        self.offpath.blocking.enqueue(wiring.sent, within=_transaction())
        return placed.result

    def defaults_of(self, name: str) -> dict[str, Any]:
        """The options of a task's jobs, before those of the call."""
        conf, task = self.conf, self.tasks.get(name)
        found: dict[str, Any] = {
            "queue": conf.queue_of(name) or conf.get("task_default_queue"),
            "priority": conf.get("task_default_priority"),
            "time_limit": conf.get("task_time_limit"),
        }
        if task is not None:
            own = ("queue", "priority", "expires", "time_limit")
            found |= {
                each: value for each in own if (value := getattr(task.terms, each)) is not None
            }
        return {each: value for each, value in found.items() if value is not None}

    def native_task(self, name: str, args: Sequence[Any]) -> Sending[..., Any, Any]:
        """The task of ours behind a name. Raises ``NotInShim``."""
        if name in self.offpath.tasks:
            return self.offpath.tasks[name]
        if args:
            raise NotInShim(f"{name} is not defined here: give its arguments by name, kwargs={{}}")
        return self.offpath.by_name(name, registered=False)

    # -- results -----------------------------------------------------------------------------------

    def AsyncResult(self, task_id: str) -> AsyncResult:  # noqa: N802 - Celery's name
        """The result of a job."""
        return AsyncResult(task_id, self)

    def handle(self, job: str) -> BlockingHandle[Any, Any]:
        """The handle of a job of any task."""
        return self.offpath.blocking.handle(self.offpath.tasks[ERRBACK].handle(job))

    def record(self, job: str) -> JobRecord:
        """Everything that is known of a job. Raises ``JobNotFound``."""
        return self.offpath.blocking.jobs.get(job)

    def records(self, jobs: Sequence[str]) -> list[JobRecord]:
        """Jobs in the order of their ids. Raises ``JobNotFound`` where one is not there."""
        found: dict[str, JobRecord] = {}
        for at in range(0, len(jobs), _CHUNK):
            part = jobs[at : at + _CHUNK]
            rows = self.offpath.blocking.run(lambda part=part: self.offpath.store().get(part))  # type: ignore[misc]
            found |= {one.id: one for one in rows}
        return [found[one] if one in found else self.record(one) for one in jobs]

    # -- the beat and the settings -----------------------------------------------------------------

    def config_from_object(self, source: object, namespace: str | None = None) -> None:
        """Read settings. Raises ``NotInShim`` for one that has no counterpart."""
        self.conf.read(source, namespace)

    def add_periodic_task(
        self,
        schedule: object,
        signature: Signature,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        name: str | None = None,
        **options: Any,
    ) -> None:
        """Add an entry to the beat, which :meth:`import_beat` declares."""
        whole = signature.clone(args, kwargs)
        self.conf.beat_schedule[name or signature.task] = {
            "task": signature.task,
            "schedule": schedule,
            "args": whole.args,
            "kwargs": whole.kwargs,
            "options": {**whole.options, **options},
        }

    def import_beat(self) -> None:
        """Declare the entries of ``conf.beat_schedule`` as schedules of ours.

        Call it where all tasks are defined. Raises ``NotInShim``, ``UnknownTask``.
        """
        for signal in (self.on_after_configure, self.on_after_finalize):
            signal.send(self, source=self.conf)
        zone = str(self.conf.get("timezone", "UTC"))
        for name, entry in self.conf.beat_schedule.items():
            for key in entry:
                refuse(BEAT_OPTIONS.get(key), f"beat entry {name!r}: {key}")
            if entry["task"] not in self.tasks:
                raise UnknownTask(f"beat entry {name!r}: no task is named {entry['task']!r}")
            job = scheduled_job(
                self, entry["task"], entry.get("args", ()), entry.get("kwargs", {}),
                entry.get("options", {}),
            )  # fmt: skip
            terms: Any = terms_of(entry["schedule"], zone)
            self.offpath.schedule(name, job, **terms)

    def set_current(self) -> None:
        """Have shared tasks belong to it."""
        set_current(self)

    set_default = set_current

    def __getattr__(self, name: str) -> Any:
        """Refuse what Celery's apps have beside, by the word that is here."""
        if name in APP_METHODS:
            refuse(APP_METHODS[name], f"app.{name}")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


_SHARED: Final[list[CeleryTask]] = []
"""Tasks of ``shared_task``: each app of the process has them, made before or after."""


def shared_task(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a task of every Celery app of the process. Raises ``NotInShim``."""
    if function is None:
        return lambda given: shared_task(given, **options)
    main = current().main if has_current() else None
    made = _made(function, options, main, current)
    _SHARED.append(made)
    if has_current():
        current()._add(made)  # noqa: SLF001 - the other half of a shared task
    return made


def _made(
    function: Callable[..., Any],
    options: Mapping[str, Any],
    main: str | None,
    app: Callable[[], Celery],
) -> CeleryTask:
    terms = task_terms(options)
    module = function.__module__
    if module == "__main__" and main:
        module = main
    return CeleryTask(function, terms, terms.name or f"{module}.{function.__name__}", app)


def _starmap(self: CeleryTask, task: str, it: list[list[Any]]) -> list[Any]:
    return [self.app.functions[task](*one) for one in it]


def _map(self: CeleryTask, task: str, it: list[Any]) -> list[Any]:
    return _starmap(self, task, [[one] for one in it])


def _transaction() -> object:
    """The connection of an atomic block of Django's that is open in this thread."""
    module, conf = sys.modules.get("django.db"), sys.modules.get("django.conf")
    if module is None or conf is None or not conf.settings.configured:
        return None  # a library may have imported it in a program that has no Django project
    for one in module.connections.all(initialized_only=True):
        if one.alias == "default" and one.in_atomic_block:
            return one
    return None
