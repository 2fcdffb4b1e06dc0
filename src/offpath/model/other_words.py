"""Words of other libraries, each with the word that offpath has for the same thing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

OPTIONS: Final[Mapping[str, str]] = {
    "countdown": "delay",
    "delay_ms": "delay",
    "schedule_in": "delay",
    "eta": "run_at",
    "scheduled_at": "run_at",
    "schedule_at": "run_at",
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
}
"""Methods of their tasks → how the same is written here."""
