"""Every metric that the engine makes, in one table. Times are seconds."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

DEFAULT_BOUNDS: tuple[float, ...] = (
    *(1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000),
)
"""Upper bounds of a summary's buckets when its metric names none; above the last is one more."""

TIME_BOUNDS: tuple[float, ...] = (
    *(bound / 1_000 for bound in DEFAULT_BOUNDS),
    *(300.0, 1_800.0, 7_200.0, 86_400.0),
)
"""A millisecond to a day: queued jobs may wait long."""

COUNT_BOUNDS = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 25.0, 50.0, 100.0)


class MetricKind(StrEnum):
    """The kinds of metrics."""

    COUNTER = "counter"
    """Only goes up."""
    GAUGE = "gauge"
    """Goes up and down."""
    SUMMARY = "summary"
    """Count, total, least and greatest of what was observed, and quantiles by buckets."""


class Metric(Struct, frozen=True):
    """One row of the catalogue. A metric has a series for each combination of its labels."""

    name: str
    kind: MetricKind
    labels: tuple[str, ...]
    help: str
    bounds: tuple[float, ...] = ()


_JOB = ("task", "queue")
_TASK = ("task",)
"""For histograms, each of which is some twenty series."""
_MESSAGE = ("box", "stream")
_TURN = ("loop", "outcome")


def _counter(name: str, help_text: str, labels: tuple[str, ...] = _JOB) -> Metric:
    return Metric(f"offpath_{name}_total", MetricKind.COUNTER, labels, help_text)


def _gauge(name: str, help_text: str, labels: tuple[str, ...] = _JOB) -> Metric:
    return Metric(f"offpath_{name}", MetricKind.GAUGE, labels, help_text)


def _time(name: str, help_text: str, labels: tuple[str, ...] = _TASK) -> Metric:
    name = f"offpath_{name}_seconds"
    return Metric(name, MetricKind.SUMMARY, labels, help_text, TIME_BOUNDS)


ROWS = (
    _counter("jobs_queued", "Jobs enqueued."),
    _counter("jobs_started", "Attempts started."),
    _counter("jobs_succeeded", "Jobs that succeeded."),
    _counter("jobs_failed", "Attempts that failed."),
    _counter("jobs_retried", "Failed attempts that will be repeated."),
    _counter("jobs_snoozed", "Attempts that asked to run again later."),
    _counter("jobs_released", "Attempts given back: by a stopping worker, or not wanted by one."),
    _counter("jobs_rescued", "Jobs taken back from a worker that was lost."),
    _counter("jobs_expired", "Jobs whose deadline passed."),
    _counter("jobs_cancelled", "Jobs cancelled."),
    _counter("jobs_dead", "Jobs that died, for any reason."),
    _counter("jobs_redriven", "Dead or cancelled jobs put back."),
    _counter("jobs_deleted", "Ended jobs deleted, and those that retention removed."),
    _counter("jobs_timed_out", "Attempts that ran longer than their timeout."),
    _counter("jobs_lease_lost", "Attempts whose lease was lost before they were settled."),
    _counter("jobs_unsettleable", "Ends that could not be stored."),
    _counter(
        "unreadable_rows",
        "Rows that were handed out and cannot be read: jobs and messages that become dead letters.",
        labels=("table",),
    ),
    _counter(
        "job_moves",
        "Jobs that went from one state to another; none before it is made and after it is gone.",
        (*_JOB, "left", "entered"),
    ),
    _counter("jobs_admitted", "Limited jobs that a pass of admission let in.", ()),
    _counter("groups_done", "Groups whose last job ended.", ()),
    _gauge("jobs_active", "Jobs in this worker's hand: waiting for a slot or running."),
    _gauge("jobs_pending", "Jobs in this worker's hand that wait for a slot."),
    _gauge("jobs_running", "Jobs whose handler runs in this worker."),
    _gauge("jobs_peak_active", "The most jobs that this worker has had in hand."),
    _gauge("jobs_last_queued_timestamp_seconds", "When a job was last enqueued (Unix time)."),
    _gauge("jobs_last_started_timestamp_seconds", "When an attempt last started (Unix time)."),
    _gauge("jobs_last_succeeded_timestamp_seconds", "When a job last succeeded (Unix time)."),
    _gauge("jobs_last_failed_timestamp_seconds", "When an attempt last failed (Unix time)."),
    _gauge("jobs_ready", "Due jobs, as last counted."),
    _gauge("jobs_ready_oldest_seconds", "How long the oldest due job has waited."),
    _gauge("jobs_held", "Jobs that wait for room under a limit, as last counted.", ()),
    _time("job_wait", "From due to started."),
    _time("queue_wait", "From due to started, by queue.", ("queue",)),
    _time("job_total", "From enqueued to ended."),
    _time("job_success", "Run time of attempts that succeeded."),
    _time("job_error", "Run time of attempts that failed."),
    _time("job_snooze", "How long snoozed attempts asked to wait."),
    Metric(
        "offpath_job_attempts",
        MetricKind.SUMMARY,
        _TASK,
        "Attempts that ended jobs had.",
        COUNT_BOUNDS,
    ),
    _counter("messages", "Messages, by what became of them.", (*_MESSAGE, "outcome")),
    _counter(
        "message_moves",
        "Messages that went from one state to another; none before writing and after deleting.",
        (*_MESSAGE, "left", "entered"),
    ),
    _counter("log_appended", "Events given to the log, repeats included.", ("domain",)),
    _counter("router_attempts", "What routers decided.", ("router", "status")),
    _counter("router_passed", "Events that a router passed.", ("router",)),
    _gauge("router_lag_seconds", "Age of a router's oldest unrouted event.", ("router",)),
    _gauge("router_open", "1 while a router's gate and the master's are open.", ("router",)),
    _time("store_operation", "Duration of store operations.", ("backend", "operation")),
    _counter("store_errors", "Store operations that failed.", ("backend", "operation", "error")),
    _counter("loop_iterations", "Turns of the engine's loops, by how they went.", _TURN),
    _counter("loop_errors", "Turns of the engine's loops that failed.", ("loop",)),
    _counter("loop_restarts", "Loops that died and were started again.", ("loop",)),
    _gauge("loop_healthy", "1 while a loop makes progress.", ("loop",)),
    _gauge("loop_consecutive_failures", "Turns in a row that went badly.", ("loop",)),
    _gauge("loop_last_success_age_seconds", "Since a loop last succeeded, or began.", ("loop",)),
    _gauge("loop_last_success_timestamp_seconds", "When a loop last succeeded.", ("loop",)),
    _gauge("loop_window_seconds", "How old a loop's last success may be.", ("loop",)),
    _time("loop_iteration", "Duration of a loop's turn.", ("loop",)),
    _gauge("waiting_oldest_seconds", "How long the oldest of a kind has waited.", ("what",)),
    _gauge("findings", "Findings that stand and nobody has accepted.", ("kind",)),
    _counter("swallowed_errors", "Errors that the engine survived.", ("phase",)),
    _counter("settlement_runs", "Settlement runs, by how they ended.", ("kind", "outcome")),
    _counter("settlement_attempted", "Eligible records that runs came to.", ("kind",)),
    _counter("settlement_credited", "Records credited by runs.", ("kind",)),
    _counter("settlement_skipped", "Records that had been credited before.", ("kind",)),
    _counter("settlement_failed", "Records whose credit failed.", ("kind",)),
    _gauge(
        "settlement_consecutive_failures",
        "Degraded or failed runs since the last clean one.",
        ("kind",),
    ),
    _gauge(
        "settlement_last_success_timestamp_seconds",
        "When a run last ended clean (Unix time).",
        ("kind",),
    ),
    _counter("ledger_operations", "Operations of the ledger, by outcome.", ("outcome",)),
    _counter("sweep_passes", "Passes of sweeps, by how they went.", ("sweep", "outcome")),
    _counter("sweep_rows", "Rows that sweeps looked at, by bucket.", ("sweep", "bucket")),
    _time("sweep_pass", "Duration of a sweep's pass.", ("sweep",)),
    _counter(
        "economy_submit", "Operations of an economy, by outcome.", ("kind", "status", "reason")
    ),
    _time("economy_submit", "From an operation's submission to its outcome.", ("kind",)),
    _counter("economy_runs", "Runs of an economy's sweeps, by how many failed.", ("failed",)),
    _time("economy_payout_age", "How long due payouts have been as they are.", ("state",)),
    _counter("economy_payouts_dead", "Payouts given up, their reserve given back.", ("reason",)),
    _counter("economy_payout_findings", "Payouts that are not as they should be.", ("finding",)),
    _gauge("economy_treasury_minor", "Where the platform stands, in minor units.", ("what",)),
    _counter("economy_breaches", "Looks at the treasury that found something missing.", ()),
    _counter("economy_verifications", "Verifications of the last checkpoint.", ("outcome",)),
    _counter("economy_anchorings", "Checkpoints published outside, or not.", ("outcome",)),
    _time("economy_seal", "Duration of a seal.", ("outcome",)),
    _gauge("economy_relay_backlog", "Events of the economy's stream that are due.", ()),
    _time("economy_relay_age", "How long the oldest of them has waited.", ()),
    _gauge("economy_discrepancies", "Discrepancies of the window compared last.", ()),
    _counter("economy_promos", "Promotional grants that expired.", ("outcome",)),
    _counter("economy_webhook_duplicates", "Reports of providers that were kept before.", ()),
    _counter("economy_ratelimit_degraded", "Requests let through: the limiter failed.", ()),
    _gauge("worker_slots", "Jobs that this worker may run at once.", ()),
    _gauge("worker_up", "1 while this process runs a worker.", ()),
)

MOVES = frozenset({"offpath_job_moves_total", "offpath_message_moves_total"})
"""Counters whose sums say how many rows there are: they outlive the names that they were of."""
LIVE = frozenset(
    {
        *("offpath_jobs_active", "offpath_jobs_pending", "offpath_jobs_running"),
        *("offpath_jobs_ready", "offpath_router_lag_seconds", "offpath_router_open"),
    }
)
"""Gauges that say that something is there as long as they are not zero."""

CATALOGUE: dict[str, Metric] = {row.name: row for row in ROWS}
"""The table by name. The engine makes no metric that is not in it."""
