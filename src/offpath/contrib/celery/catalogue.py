"""Celery's words, each with its counterpart here. The scanner tells it, and the shim obeys it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Meaning(StrEnum):
    """The fate of a word of Celery's under the shim."""

    SAME = "as_is"
    """It works as it is."""
    CHANGED = "changed"
    """It works, and means something else."""
    ABSENT = "unsupported"
    """It is refused: the text says what to do instead."""


@dataclass(frozen=True, slots=True)
class Counterpart:
    """The word of ours for a word of Celery's."""

    meaning: Meaning
    text: str
    """The word here, and what differs."""


Words = Mapping[str, Counterpart]


def _same(text: str) -> Counterpart:
    return Counterpart(Meaning.SAME, text)


def _changed(text: str) -> Counterpart:
    return Counterpart(Meaning.CHANGED, text)


def _absent(text: str) -> Counterpart:
    return Counterpart(Meaning.ABSENT, text)


_NOTHING = _same("not needed: each job is run at least once, and its end is recorded once")
_KEPT = _same("not needed: results are kept as retention= and keep_succeeded say")
_JSON = _absent("JSON: pass an id, or teach the codec a type: JsonCodec(types=...)")
_NAME = _absent("a queue is a name: queue=; there are no exchanges and no bindings")
_WAIT = _same("retry=: natively Backoff.exponential(base=, cap=, jitter=), or Backoff.custom")
_HOOK = _absent("on_failure= for errors, an extension for the rest (offpath.extensions)")
_SOFT = _absent("timeout= and ctx.cancelled: no error can be raised in the thread of a handler")
_LIMIT = _changed("timeout=: a thread is told by ctx.cancelled, and holds its slot till it returns")
_RANK = _changed("priority=: higher runs first; Celery on Redis runs lower numbers first")
_LATE = _changed("deadline= natively; the shim refuses a start after it, as Celery does")
_ARGUMENTS = _absent("a retry has the same arguments: enqueue another job, or use a step")
_TOLD = _absent("on_event=, or an extension's `moved` (offpath.extensions)")

TASK_OPTIONS: Final[Words] = {
    "name": _same("@app.task(name=...)"),
    "bind": _same("natively a first parameter that is annotated with offpath.Context"),
    "max_retries": _same("retry=: attempts are max_retries + 1"),
    "default_retry_delay": _same("retry=Backoff.constant(seconds)"),
    "autoretry_for": _same("natively every error is retried; on_failure= names those that are not"),
    "dont_autoretry_for": _same("natively on_failure= answers offpath.ABORT for them"),
    "retry_kwargs": _same("retry=Backoff.constant(seconds, attempts=...)"),
    "retry_backoff": _WAIT,
    "retry_backoff_max": _WAIT,
    "retry_jitter": _WAIT,
    "time_limit": _LIMIT,
    "soft_time_limit": _SOFT,
    "acks_late": _NOTHING,
    "acks_on_failure_or_timeout": _NOTHING,
    "reject_on_worker_lost": _NOTHING,
    "track_started": _NOTHING,
    "send_events": _NOTHING,
    "throws": _NOTHING,
    "trail": _NOTHING,
    "ignore_result": _KEPT,
    "store_errors_even_if_ignored": _KEPT,
    "rate_limit": _changed("limit=Limit(rate=Rate(n, per=s)): over the fleet, not for each worker"),
    "queue": _same("queue="),
    "priority": _RANK,
    "expires": _LATE,
    "serializer": _JSON,
    "compression": _JSON,
    "exchange": _NAME,
    "routing_key": _NAME,
    "typing": _absent("leave it out: arguments are checked against the signature"),
    "pydantic": _absent("annotate the parameters of a native task: models are read by their type"),
    "base": _absent("around= for code around handlers, app.resource for what they share"),
    "backend": _absent("leave it out: results are in the database of the jobs"),
    "on_failure": _HOOK,
    "on_success": _HOOK,
    "on_retry": _HOOK,
    "after_return": _HOOK,
    "before_start": _HOOK,
}
"""Options of ``@app.task`` and ``@shared_task``."""

CALL_OPTIONS: Final[Words] = {
    "args": _same("arguments of task.enqueue(...)"),
    "kwargs": _same("arguments of task.enqueue(...)"),
    "countdown": _same("task.options(delay=seconds)"),
    "eta": _same("task.options(run_at=datetime)"),
    "expires": _LATE,
    "queue": _same("task.options(queue=...)"),
    "priority": _RANK,
    "task_id": _changed("task.options(id=...): it must be a UUID; a repeat makes no new job"),
    "headers": _same("task.options(headers=...), read as ctx.headers; values are texts"),
    "link": _same("natively ctx.enqueue(...) in the handler, or a plan's .next(...)"),
    "link_error": _same("a gate: offpath.gate(on=[job], queue=[...], when=all_settled)"),
    "retry": _NOTHING,
    "retry_policy": _NOTHING,
    "ignore_result": _KEPT,
    "add_to_parent": _NOTHING,
    "time_limit": _LIMIT,
    "soft_time_limit": _SOFT,
    "serializer": _JSON,
    "compression": _JSON,
    "exchange": _NAME,
    "routing_key": _NAME,
    "connection": _absent("within= puts the job into a transaction of your database"),
    "producer": _absent("app.enqueue([...]) writes many jobs in one commit"),
    "publisher": _absent("app.enqueue([...]) writes many jobs in one commit"),
    "shadow": _absent("tags= to find it by"),
}
"""Options of ``apply_async``, ``signature.set`` and the ``options`` of a beat entry."""

RETRY_OPTIONS: Final[Words] = {
    "exc": _same("raise RetryAfter(...) from error"),
    "countdown": _same("raise offpath.errors.RetryAfter(seconds)"),
    "eta": _same("raise offpath.errors.RetryAfter(seconds)"),
    "max_retries": _same("RetryAfter(seconds, attempts=max_retries + 1)"),
    "throw": _absent("leave it out: a retry always ends the attempt"),
    "args": _ARGUMENTS,
    "kwargs": _absent(
        "a retry has the same arguments: enqueue another job, or keep a step's value"
    ),
}
"""Arguments of ``self.retry``."""

TASK_METHODS: Final[Words] = {
    "delay": _same("await task.enqueue(...), in blocking code app.blocking.enqueue(task.job(...))"),
    "apply_async": _same("await task.options(...).enqueue(...)"),
    "delay_on_commit": _same("within=: the job is a row of the transaction"),
    "apply_async_on_commit": _same("within=: the job is a row of the transaction"),
    "s": _same("task.job(...)"),
    "si": _same("task.job(...)"),
    "signature": _same("task.job(...)"),
    "subtask": _same("task.job(...)"),
    "retry": _same("raise offpath.errors.RetryAfter(...), or let the error pass"),
    "starmap": _changed("one job for each list of arguments, in one commit"),
    "map": _changed("one job for each argument, in one commit"),
    "chunks": _changed("one job for each list of arguments, in one commit"),
    "AsyncResult": _same("task.handle(id)"),
    "apply": _absent("call the function: task(...); as a whole attempt: offpath.testing.drain"),
    "replace": _absent("return ctx.queue(...) from a native handler"),
    "add_to_chord": _absent("return ctx.queue(...) from a native handler"),
    "update_state": _absent("ctx.progress(done, total, note)"),
    "send_event": _absent("ctx.publish(topic, payload)"),
}
"""Methods of tasks."""

APP_METHODS: Final[Words] = {
    "task": _same("@app.task"),
    "send_task": _changed("app.enqueue_by_name(...): a task that is not defined here takes kwargs"),
    "signature": _same("task.job(...)"),
    "add_periodic_task": _same("app.schedule(name, task.job(...), cron= or every=)"),
    "config_from_object": _changed("App(...) and OFFPATH_... settings: see each setting"),
    "autodiscover_tasks": _absent("import the modules of tasks where the worker's app is"),
    "set_current": _same("not needed natively: a task belongs to its app"),
    "set_default": _same("not needed natively: a task belongs to its app"),
    "register_task": _absent("@app.task on a function; around= and app.resource for the class"),
    "control": _absent("offpath jobs cancel, queues pause, workers, or the same on the app"),
    "events": _absent("on_event=, offpath status, the dashboard"),
    "worker_main": _absent("offpath worker module:app"),
    "start": _absent("offpath worker module:app"),
    "Worker": _absent("app.worker()"),
    "Beat": _absent("each worker fires schedules: there is no beat"),
    "amqp": _NAME,
    "connection": _absent("the database is the broker: app.enqueue"),
    "connection_or_acquire": _absent("the database is the broker: app.enqueue"),
    "steps": _absent("app.resource, or an extension (offpath.extensions)"),
    "user_options": _absent("settings of the worker: offpath worker --help"),
    "gen_task_name": _absent("@app.task(name=...)"),
    "Task": _absent("around= for code around handlers, app.resource for what they share"),
}
"""Methods and parts of a Celery app."""

APP_OPTIONS: Final[Words] = {
    "main": _same("not needed natively: tasks are named by themselves"),
    "broker": _absent('offpath="postgresql://...": the database is the broker'),
    "backend": _absent("leave it out: results are in the database of the jobs"),
    "include": _absent("import the modules of tasks where the worker's app is"),
    "config_source": _absent("app.conf.update(...), or settings of offpath"),
    "set_as_current": _same("not needed natively: a task belongs to its app"),
    "namespace": _absent("app.conf.update(...), or settings of offpath"),
    "task_cls": _absent("around= for code around handlers, app.resource for what they share"),
}
"""Arguments of ``Celery(...)``."""

RESULT_METHODS: Final[Words] = {
    "get": _changed("await handle.result(timeout=...); refused in a handler, as in Celery"),
    "wait": _changed("await handle.result(timeout=...); refused in a handler, as in Celery"),
    "revoke": _changed("handle.cancel(): what runs is told by ctx.cancelled, and not killed"),
    "forget": _changed("app.jobs.delete(id), of an ended job"),
    "children": _absent("app.jobs.find(parent=id)"),
    "collect": _absent("await handle.group()"),
    "iterdeps": _absent("app.groups.members(id)"),
    "graph": _absent("app.groups.members(id)"),
    "get_leaf": _absent("await handle.group()"),
    "then": _absent("link=, or a plan's .next(...)"),
    "save": _absent("keep the ids"),
    "restore": _absent("keep the ids"),
}
"""Methods of results. Those that are not here work as they are."""

CANVAS: Final[Words] = {
    "chain": _same("natively a plan: ctx.queue(a).next(b)"),
    "group": _same("natively app.enqueue([a, b]), in a handler ctx.queue(a, b)"),
    "chord": _changed("a gate: a failed member makes the body dead (unsatisfiable) at once"),
    "signature": _same("task.job(...)"),
    "subtask": _same("task.job(...)"),
    "maybe_signature": _absent("task.job(...)"),
    "chunks": _changed("one job for each list of arguments, in one commit"),
    "xmap": _changed("one job for each argument, in one commit"),
    "xstarmap": _changed("one job for each list of arguments, in one commit"),
    "|": _same("natively a plan: ctx.queue(a).next(b)"),
}
"""Functions of ``celery.canvas``."""

SIGNALS: Final[Words] = {
    "task_prerun": _same("natively around=, or an extension's `running`"),
    "task_postrun": _same("natively around=, or an extension's `running`"),
    "task_success": _same("natively an extension's `ended`"),
    "task_failure": _same("natively an extension's `ended`"),
    "task_retry": _same("natively an extension's `ended`"),
    "before_task_publish": _same("natively headers=; it may add to headers"),
    "after_task_publish": _TOLD,
    "task_received": _TOLD,
    "task_revoked": _TOLD,
    "task_unknown": _absent("offpath doctor tells of tasks that no worker knows"),
    "task_rejected": _absent("jobs that cannot be read are dead letters: offpath dead list"),
    "task_internal_error": _absent("on_error="),
    "worker_init": _absent("an extension's `opened`"),
    "worker_ready": _absent("an extension's `opened`, or offpath health"),
    "worker_process_init": _absent("app.resource: opened once a process, at its first use"),
    "worker_process_shutdown": _absent("app.resource: closed when the worker stops"),
    "worker_shutdown": _absent("an extension's `closed`"),
    "worker_shutting_down": _absent("an extension's `closed`"),
    "worker_before_create_process": _absent("app.resource: opened once a process"),
    "heartbeat_sent": _absent("offpath health"),
    "celeryd_init": _absent("settings of the worker: offpath worker --help"),
    "celeryd_after_setup": _absent("settings of the worker: offpath worker --help"),
    "setup_logging": _absent("offpath worker --log-format, --log-level, or logging of your own"),
    "after_setup_logger": _absent("offpath worker --log-format, --log-level"),
    "after_setup_task_logger": _absent("offpath worker --log-format, --log-level"),
    "beat_init": _absent("each worker fires schedules: there is no beat"),
    "beat_embedded_init": _absent("each worker fires schedules: there is no beat"),
    "import_modules": _absent("import the modules of tasks where the worker's app is"),
    "user_preload_options": _absent("settings of the worker: offpath worker --help"),
    "eventlet_pool_started": _absent("async handlers: one worker runs hundreds of them"),
}
"""Signals of ``celery.signals``."""

MODULES: Final[Words] = {
    "celery.bootsteps": _absent("app.resource, or an extension (offpath.extensions)"),
    "celery.events": _absent("on_event=, offpath status, the dashboard"),
    "celery.worker": _absent("app.worker()"),
    "celery.beat": _absent("app.schedules: schedules can be created and changed while workers run"),
    "celery.concurrency": _absent("offpath worker --concurrency, --processes"),
    "celery.backends": _absent("results are in the database of the jobs"),
    "celery.loaders": _absent("import the modules of tasks where the worker's app is"),
    "celery.contrib": _absent("offpath.testing: swap_to_memory, drain"),
    "celery.task": _absent("@app.task; celery.task has gone from Celery, too"),
    "celery.decorators": _absent("@app.task; celery.decorators has gone from Celery, too"),
    "celery.app.control": _absent("offpath jobs cancel, queues pause, workers"),
    "celery.bin": _absent("the command line: offpath --help"),
    "celery.security": _absent("rights of the database: docs/guides/roles.md"),
    "celery.states": _absent("texts: PENDING, STARTED, RETRY, SUCCESS, FAILURE, REVOKED"),
    "kombu": _NAME,
    "billiard": _absent("offpath worker --processes; a handler may start processes of its own"),
    "flower": _absent("offpath dashboard"),
    "celery_once": _absent("unique="),
    "celery_singleton": _absent("unique="),
    "django_celery_beat": _absent("app.schedules: created and changed while workers run"),
    "django_celery_results": _absent("results are in the database of the jobs: app.jobs.find"),
    "celery_progress": _absent("ctx.progress and handle.progress()"),
    "celery_batches": _absent("@app.batch_task"),
    "celery_redbeat": _absent("app.schedules: schedules can be created and changed at run time"),
    "redbeat": _absent("app.schedules: schedules can be created and changed at run time"),
}
"""Modules, the most specific first; of ``celery`` those that the shim has not."""

IMPORTS: Final[Words] = {
    "Celery": _same("offpath.App(url)"),
    "shared_task": _same("@app.task: natively a task belongs to its app"),
    "Task": _absent("around= for code around handlers, app.resource for what they share"),
    "current_task": _same("natively ctx, the handler's context"),
    "current_app": _same("natively the app that you import"),
    "crontab": _same('cron="..."'),
    "schedule": _same("every=seconds"),
    "solar": _absent("when=function, with a function of yours: @app.next_time"),
    "AsyncResult": _same("task.handle(id)"),
    "GroupResult": _same("a list of handles"),
    "ResultSet": _absent("a list of handles: asyncio.gather(*handles)"),
    "allow_join_result": _absent("a plan, ctx.queue(...).next(...): no waiting in a handler"),
    "get_task_logger": _same("ctx.logger, or logging.getLogger"),
    "Retry": _same("offpath.errors.RetryAfter"),
    "MaxRetriesExceededError": _same("natively the last error is recorded; the job is dead"),
    "TimeoutError": _same("offpath.WaitTimeout"),
    "TaskRevokedError": _same("offpath.JobCancelled"),
    "SoftTimeLimitExceeded": _changed("raised in async tasks, where they wait; in no other"),
    "TimeLimitExceeded": _same("the failure's kind is `timeout`"),
    "Ignore": _absent("return: a job that has nothing to do has succeeded"),
    "Reject": _absent("raise offpath.Abort, or offpath.Snooze to have it run again"),
    "ImproperlyConfigured": _absent("offpath.errors.ConfigurationError"),
    "NotRegistered": _absent("offpath.UnknownTask"),
    "WorkerLostError": _absent("the reason of a dead job is `worker_lost`"),
    "uuid": _same("app.new_id()"),
}
"""ModuleNames that are imported from modules of ``celery`` which the shim has."""

BEAT_OPTIONS: Final[Words] = {
    "task": _same("task.job(...)"),
    "schedule": _same("cron=, every= or when="),
    "args": _same("task.job(...)"),
    "kwargs": _same("task.job(...)"),
    "options": _same("task.options(...).job(...)"),
    "relative": _absent("every=, anchor=: the first occurrence"),
}
"""Keys of a beat entry."""

BOTH_DAYS: Final = _absent(
    "two schedules, or when=function: a cron expression with both days fires on either of them, "
    "Celery's crontab on both at once"
)
"""A crontab that restricts the day of the month and the day of the week."""
EITHER: Final = {"day_of_month", "day_of_week"}
DELIVERY: Final = _changed(
    "offpath.App(url): a job whose worker is lost runs again (Celery: with acks_late only)"
)
"""A Celery app."""
