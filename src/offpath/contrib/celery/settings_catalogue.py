"""Celery's settings, each with its counterpart here."""

from __future__ import annotations

from typing import Final

from offpath.contrib.celery.catalogue import Counterpart, Meaning, Words

_SAME, _CHANGED, _ABSENT = Meaning.SAME, Meaning.CHANGED, Meaning.ABSENT
_GONE = "not needed: the database is the broker"
_LOST = "not needed: each job is run at least once, and its end is recorded once"
_JSON = "JSON: pass an id, or teach the codec a type: JsonCodec(types=...)"
_NAME = "a queue is a name: queue=; there are no exchanges and no bindings"
_RESULT = "not needed: results are in the database of the jobs"
_BEAT = "each worker fires schedules: there is no beat"
_EVENT = "on_event=, offpath status, the dashboard"

_ROWS: Final = (
    ("accept_content", _SAME, "not needed: JSON only"),
    ("beat_cron_starting_deadline", _ABSENT, 'app.schedule(missed="one", grace=seconds)'),
    ("beat_max_loop_interval", _SAME, _BEAT),
    ("beat_schedule", _SAME, "app.schedule(...), by app.import_beat()"),
    ("beat_schedule_filename", _SAME, _BEAT),
    ("beat_scheduler", _ABSENT, "app.schedules: created and changed at run time"),
    ("beat_sync_every", _SAME, _BEAT),
    ("broker_connection_max_retries", _SAME, _GONE),
    ("broker_connection_retry", _SAME, _GONE),
    ("broker_connection_retry_on_startup", _SAME, _GONE),
    ("broker_connection_timeout", _SAME, _GONE),
    ("broker_heartbeat", _SAME, _GONE),
    ("broker_pool_limit", _SAME, _GONE),
    ("broker_transport_options", _CHANGED, "no visibility timeout: a lost worker's jobs run again"),
    ("broker_url", _SAME, "OFFPATH_URL: the database is the broker"),
    ("broker_use_ssl", _SAME, "sslmode= in the URL"),
    ("enable_utc", _CHANGED, "times are UTC always; a naive eta is read in `timezone`"),
    ("event_queue_expires", _SAME, _EVENT),
    ("imports", _ABSENT, "import the modules of tasks where the worker's app is"),
    ("include", _ABSENT, "import the modules of tasks where the worker's app is"),
    ("redis_backend_use_ssl", _SAME, _RESULT),
    ("result_accept_content", _SAME, "not needed: JSON only"),
    ("result_backend", _SAME, _RESULT),
    ("result_backend_transport_options", _SAME, _RESULT),
    ("result_cache_max", _SAME, _RESULT),
    ("result_chord_join_timeout", _SAME, "not needed: a gate waits, no worker does"),
    ("result_expires", _CHANGED, "keep_succeeded, and retention= of a task"),
    ("result_extended", _SAME, _RESULT),
    ("result_persistent", _SAME, _RESULT),
    ("result_serializer", _ABSENT, _JSON),
    ("security_certificate", _ABSENT, "rights of the database: docs/guides/roles.md"),
    ("security_key", _ABSENT, "rights of the database: docs/guides/roles.md"),
    ("task_acks_late", _SAME, _LOST),
    ("task_acks_on_failure_or_timeout", _SAME, _LOST),
    ("task_allow_error_cb_on_chord_header", _ABSENT, "link_error of the members"),
    ("task_always_eager", _ABSENT, "offpath.testing.swap_to_memory(app) and drain(app)"),
    ("task_annotations", _ABSENT, "options of each task, or defaults in App(...)"),
    ("task_compression", _ABSENT, _JSON),
    ("task_create_missing_queues", _SAME, "not needed: a queue is there when a job names it"),
    ("task_default_delivery_mode", _SAME, "not needed: a job that was enqueued is on the disk"),
    ("task_default_exchange", _ABSENT, _NAME),
    ("task_default_priority", _CHANGED, "App(priority=...): higher runs first"),
    ("task_default_queue", _SAME, "App(queue=...)"),
    ("task_default_rate_limit", _ABSENT, "App(limit=...) or limit= of a task"),
    ("task_default_routing_key", _ABSENT, _NAME),
    ("task_eager_propagates", _ABSENT, "offpath.testing.swap_to_memory(app) and drain(app)"),
    ("task_ignore_result", _SAME, "not needed: results are kept as keep_succeeded says"),
    ("task_inherit_parent_priority", _ABSENT, "priority= of each enqueue"),
    ("task_protocol", _SAME, _GONE),
    ("task_publish_retry", _SAME, "not needed: an enqueue is one commit"),
    ("task_publish_retry_policy", _SAME, "not needed: an enqueue is one commit"),
    ("task_queue_max_priority", _SAME, "not needed: priority is any whole number"),
    ("task_queues", _ABSENT, _NAME),
    ("task_reject_on_worker_lost", _SAME, _LOST),
    ("task_remote_tracebacks", _SAME, "not needed: the traceback is kept with the failure"),
    ("task_routes", _CHANGED, "queue= of each task; the shim takes names and patterns to queues"),
    ("task_send_sent_event", _SAME, _EVENT),
    ("task_serializer", _ABSENT, _JSON),
    ("task_soft_time_limit", _ABSENT, "timeout= and ctx.cancelled"),
    ("task_store_eager_result", _ABSENT, "offpath.testing.swap_to_memory(app)"),
    ("task_store_errors_even_if_ignored", _SAME, "not needed: failures are always kept"),
    ("task_time_limit", _CHANGED, "App(timeout=...): a thread is told by ctx.cancelled"),
    ("task_track_started", _SAME, _LOST),
    ("timezone", _SAME, "zone= of a schedule"),
    ("visibility_timeout", _CHANGED, "no visibility timeout: a lost worker's jobs run again"),
    ("worker_autoscaler", _ABSENT, "start more workers: the slots of one are fixed"),
    ("worker_cancel_long_running_tasks_on_connection_loss", _SAME, _LOST),
    ("worker_concurrency", _SAME, "offpath worker --concurrency"),
    ("worker_deduplicate_successful_tasks", _SAME, _LOST),
    ("worker_disable_rate_limits", _ABSENT, "limit=False"),
    ("worker_enable_remote_control", _SAME, "offpath jobs, queues, limits, workers"),
    ("worker_hijack_root_logger", _SAME, "offpath worker --log-format"),
    ("worker_log_format", _SAME, "offpath worker --log-format"),
    ("worker_lost_wait", _SAME, _LOST),
    ("worker_max_memory_per_child", _ABSENT, "restart workers; their jobs are given back"),
    ("worker_max_tasks_per_child", _ABSENT, "restart workers; their jobs are given back"),
    ("worker_pool", _ABSENT, "async handlers, threads (--concurrency) and --processes"),
    ("worker_pool_restarts", _SAME, _LOST),
    ("worker_prefetch_multiplier", _SAME, "not needed: what a worker cannot start is not held"),
    ("worker_proc_alive_timeout", _SAME, _LOST),
    ("worker_redirect_stdouts", _SAME, "offpath worker --log-format"),
    ("worker_redirect_stdouts_level", _SAME, "offpath worker --log-level"),
    ("worker_send_task_events", _SAME, _EVENT),
    ("worker_state_db", _SAME, "not needed: a cancelled job is in the database"),
    ("worker_task_log_format", _SAME, "offpath worker --log-format"),
)

SETTINGS: Final[Words] = {name: Counterpart(meaning, text) for name, meaning, text in _ROWS}
"""Settings by their names since Celery 4."""

_OLD: Final = {
    "CELERY_IGNORE_RESULT": "task_ignore_result",
    "CELERYBEAT_SCHEDULE": "beat_schedule",
    "CELERYBEAT_SCHEDULER": "beat_scheduler",
    "CELERYD_CONCURRENCY": "worker_concurrency",
    "CELERYD_MAX_TASKS_PER_CHILD": "worker_max_tasks_per_child",
    "CELERYD_POOL": "worker_pool",
    "CELERYD_PREFETCH_MULTIPLIER": "worker_prefetch_multiplier",
    "CELERYD_TASK_SOFT_TIME_LIMIT": "task_soft_time_limit",
    "CELERYD_TASK_TIME_LIMIT": "task_time_limit",
    "CELERYD_HIJACK_ROOT_LOGGER": "worker_hijack_root_logger",
    "CELERY_ACKS_LATE": "task_acks_late",
    "CELERY_ALWAYS_EAGER": "task_always_eager",
    "CELERY_ANNOTATIONS": "task_annotations",
    "CELERY_CREATE_MISSING_QUEUES": "task_create_missing_queues",
    "CELERY_DEFAULT_EXCHANGE": "task_default_exchange",
    "CELERY_DEFAULT_QUEUE": "task_default_queue",
    "CELERY_DEFAULT_ROUTING_KEY": "task_default_routing_key",
    "CELERY_EAGER_PROPAGATES_EXCEPTIONS": "task_eager_propagates",
    "CELERY_QUEUES": "task_queues",
    "CELERY_ROUTES": "task_routes",
    "CELERY_SEND_TASK_SENT_EVENT": "task_send_sent_event",
    "CELERY_TASK_RESULT_EXPIRES": "result_expires",
    "CELERY_TRACK_STARTED": "task_track_started",
    "BROKER_URL": "broker_url",
    "BROKER_POOL_LIMIT": "broker_pool_limit",
    "BROKER_TRANSPORT_OPTIONS": "broker_transport_options",
}
"""ModuleNames from before Celery 4, without those that only got the prefix ``CELERY_``."""


def setting_of(name: str) -> str | None:
    """The setting that a name in a module of settings means; None where it is none of Celery's."""
    if name in _OLD:
        return _OLD[name]
    plain = name.removeprefix("CELERY_").lower()
    if name.startswith("CELERY_") and name.isupper():
        return plain
    return name if name in SETTINGS else None
