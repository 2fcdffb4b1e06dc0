"""Words of other libraries, each with the word that offpath has for the same thing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NoReturn

OPTIONS: Final[Mapping[str, str]] = {
    "countdown": "delay",
    "delay_ms": "delay",
    "schedule_in": "delay",
    "eta": "run_at",
    "scheduled_at": "run_at",
    "schedule_at": "run_at",
    "at": "run_at",
    "when": "run_at",
    "max_retries": "retry",
    "max_attempts": "retry",
    "retries": "retry",
    "autoretry_for": "retry",
    "retry_backoff": "retry",
    "expires": "deadline",
    "time_limit": "timeout",
    "soft_time_limit": "timeout",
    "queue_name": "queue",
    "task_id": "id",
    "job_id": "id",
    "lock": "unique",
    "queueing_lock": "unique",
    "unique_for": "unique",
    "rate_limit": "limit",
    "result_ttl": "retention",
    "ttl": "retention",
}
"""Options of Celery, Dramatiq, RQ, Procrastinate and Taskiq → the option here."""

_OURS: Final = {
    *OPTIONS.values(),
    "fair_key",
    "group_policy",
    "headers",
    "priority",
    "tags",
    "within",
}
"""Options of a job that are looked for among the arguments of its function."""

VERBS: Final[Mapping[str, str]] = {
    "delay": "await task.enqueue(...)",
    "apply_async": "await task.options(...).enqueue(...)",
    "send": "await task.enqueue(...)",
    "send_with_options": "await task.options(...).enqueue(...)",
    "kiq": "await task.enqueue(...)",
    "defer": "await task.enqueue(...)",
    "defer_async": "await task.enqueue(...)",
    "configure": "task.options(...)",
    "s": "task.job(...)",
    "si": "task.job(...)",
    "signature": "task.job(...)",
    "retry": "raise Snooze(...), or let the error pass: the retry policy decides",
    "apply": "task(...) for the plain call, or offpath.testing.perform(app, job)",
    "call": "task(...)",
    "call_local": "task(...)",
    "map": "await app.enqueue([task.job(...) for ...])",
    "starmap": "await app.enqueue([task.job(...) for ...])",
    "chunks": "await app.enqueue([task.job(...) for ...]), or a batch task",
    "message": "task.job(...)",
    "perform_async": "await task.enqueue(...)",
    "request": "a first parameter annotated offpath.Context",
    "delay_on_commit": "await task.options(within=connection).enqueue(...)",
    "schedule": "app.schedule(name, task.job(...), cron=...)",
}
"""Methods of their tasks → how the same is written here."""

OF_APP: Final[Mapping[str, str]] = {
    "send_task": "await app.enqueue_by_name(name, ...)",
    "defer": "await app.enqueue_by_name(name, ...)",
    "signature": "app.by_name(name)",
    "configure_task": "app.by_name(name)",
    "AsyncResult": "await app.jobs.get(id)",
    "conf": "App(...) with its keywords, or [tool.offpath] in pyproject.toml",
    "config_from_object": "App(...) with its keywords, or [tool.offpath] in pyproject.toml",
    "autodiscover_tasks": "import the modules that define the tasks",
    "import_paths": "import the modules that define the tasks",
    "control": "app.queues, app.limits, await app.workers()",
    "add_periodic_task": "app.schedule(name, task.job(...), cron=...)",
    "on_after_configure": "app.schedule(name, task.job(...), cron=...)",
    "beat_schedule": "app.schedule(name, task.job(...), cron=...)",
    "periodic": "app.schedule(name, task.job(...), cron=...)",
    "cron": "app.schedule(name, task.job(...), cron=...)",
    "actor": "@app.task",
    "entrypoint": "@app.task",
    "job": "@app.task",
    "worker_main": "await app.worker().run(), or the command offpath worker",
    "run_worker_async": "await app.worker().run(), or the command offpath worker",
    "run_worker": "the command offpath worker",
    "start": "await app.worker().run(), or the command offpath worker",
    "run": "await app.worker().run(), or the command offpath worker",
    "queue": "@app.task(queue=...), or task.options(queue=...)",
    "prune": "workers prune by themselves; by hand: offpath prune",
    "migrate": "the command offpath migrate",
}
"""Attributes of their apps → how the same is written here."""

OF_HANDLE: Final[Mapping[str, str]] = {
    "get": "await handle.result()",
    "wait": "await handle.result()",
    "wait_result": "await handle.result()",
    "join": "await handle.group()",
    "ready": "(await handle.status()).state",
    "is_ready": "(await handle.status()).state",
    "state": "(await handle.status()).state",
    "successful": "(await handle.status()).state",
    "failed": "(await handle.status()).state",
    "traceback": "(await handle.status()).failures",
    "revoke": "await handle.cancel()",
    "abort": "await handle.cancel()",
    "forget": "task.options(retention=...)",
    "children": "await handle.group()",
}
"""Attributes of their results → how the same is written here."""

OF_PACKAGE: Final[Mapping[str, str]] = {
    "Celery": "offpath.App",
    "Broker": "offpath.App",
    "shared_task": "@app.task",
    "task": "@app.task",
    "actor": "@app.task",
    "cron": "app.schedule(name, task.job(...), cron=...)",
    "crontab": "app.schedule(name, task.job(...), cron=...)",
    "chain": "return ctx.queue(next.job(...)) from the handler",
    "group": "await app.enqueue([task.job(...), ...])",
    "chord": "offpath.gate(on=[...], queue=[...])",
    "Retry": "offpath.Snooze, or let the error pass",
    "Reject": "offpath.Abort",
    "Ignore": "offpath.Abort",
    "Queue": "@app.task(queue=...)",
    "AsyncResult": "task.handle(id)",
}
"""Names of their packages → how the same is written here."""


def missing(owner: object, kind: str, name: str, words: Mapping[str, str]) -> AttributeError:
    """The error of an attribute that is not there, with what to write where others have it."""
    ours = words.get(name)
    hint = "" if ours is None else f"; write `{ours}`"
    return AttributeError(f"{kind} has no attribute {name!r}{hint}", name=name, obj=owner)


def refusing(words: Mapping[str, str]) -> Callable[[object, str], NoReturn]:
    """Make the ``__getattr__`` of a class that refuses what it has not, with what to write."""

    def get(self: object, name: str) -> NoReturn:
        raise missing(self, f"{type(self).__name__!r} object", name, words)

    return get


def option_hint(name: str) -> str:
    """The hint for an argument that a function has not, where it is an option of jobs."""
    name = OPTIONS.get(name, name)
    if name not in _OURS:
        return ""
    return f"; {name} is an option: write task.options({name}=...).enqueue(...)"
