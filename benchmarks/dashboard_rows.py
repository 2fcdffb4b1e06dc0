"""The rows of a large store, as years of work leave them, for the benchmark of the dashboard."""

from __future__ import annotations

from typing import Any

import msgspec
import psycopg

from offpath.model.stats import KEPT, QueueLevel, StatSpan, pair, sums, written


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    """The rows to fill it with."""

    ended: int
    queued: int
    dead: int
    messages: int
    members: int


_ID = "('0190' || lpad(to_hex(n), 8, '0') || '70008000000000000000')::uuid"
_JOB = "enqueued_at, run_at, queue, task, input, fingerprint, options"
_AGO = ", now() - interval '30 days' + n * interval '0.1 second', 'queue'"
_LATER = ", now() + interval '1 day' + n * interval '0.1 second', 'queue'"
_COMMON = (
    f"now() - interval '30 days' + n * interval '0.1 second'{_AGO} || n % 20, "
    "'task' || n % 50, '{\"n\": ' || n || '}', '', '{}'"
)


def fill(url: str, sizes: Sizes) -> None:
    """Rows as years of work leave them, written past the triggers, then analysed."""
    first_dead, first_queued = sizes.ended, sizes.ended + sizes.dead
    first_member = first_queued + sizes.queued
    ended = f"finished_at, expires_at, {_JOB}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("set session_replication_role = replica")
        connection.execute(
            f"insert into offpath.job (id, state, finished_at, expires_at, {_JOB}) "
            f"select {_ID}, case when n % 20 = 0 then 'cancelled' else 'succeeded' end, "
            f"now() - interval '1 day', now() + interval '6 days', {_COMMON} "
            f"from generate_series(0, {sizes.ended - 1}) n"
        )
        connection.execute(
            f"insert into offpath.job (id, state, reason, error_key, attempt, {ended}) "
            f"select {_ID}, 'dead', 'exhausted', 'SMTPError' || n % 7 || ': Connection <…>', 5, "
            f"now() - interval '1 hour', now() + interval '29 days', {_COMMON} "
            f"from generate_series({first_dead}, {first_queued - 1}) n"
        )
        connection.execute(
            "insert into offpath.failure (job, delivery, attempt, at, kind, type, message) "
            f"select {_ID}, 5, 5, now() - interval '1 hour', 'error', 'SMTPError' || n % 7, "
            "'Connection ' || n || ' unexpectedly closed by host ' || n % 3 "
            f"from generate_series({first_dead}, {first_queued - 1}) n"
        )
        connection.execute(
            f"insert into offpath.job (id, state, {_JOB}) select {_ID}, 'ready', {_COMMON} "
            f"from generate_series({first_queued}, {first_member - 1}) n where n % 10 <> 0"
        )
        later = _COMMON.replace(_AGO, _LATER)
        connection.execute(
            f"insert into offpath.job (id, state, {_JOB}) select {_ID}, 'scheduled', {later} "
            f"from generate_series({first_queued}, {first_member - 1}) n where n % 10 = 0"
        )
        connection.execute(
            f"insert into offpath.job (id, state, finished_at, grouped, group_id, parent, {_JOB}) "
            f"select {_ID}, 'succeeded', now(), true, nullif(r.id, {_ID}::text), "
            f"nullif(r.id, {_ID}::text), {_COMMON} "
            f"from generate_series({first_member}, {first_member + sizes.members - 1}) n, "
            f"(select ('0190' || lpad(to_hex({first_member}), 8, '0') || "
            "'70008000000000000000')::uuid::text as id) r"
        )
        connection.execute(
            "insert into offpath.message (id, created_at, due_at, finished_at, box, stream, state, "
            f"topic, payload) select {_ID}::text, now(), now(), now(), 'out', 'stream' || n % 5, "
            "'done', 'order.paid', '{}' "
            f"from generate_series(0, {sizes.messages - 1}) n"
        )
        connection.execute(
            "insert into offpath.job_group (id, open) "
            f"select ('0190' || lpad(to_hex({first_member}), 8, '0') || "
            "'70008000000000000000')::uuid::text, 0"
        )
        _fill_stats(connection)
        connection.execute("vacuum analyze")


def _fill_stats(connection: psycopg.Connection[Any]) -> None:
    """Write as many rows as are kept: each step from where the shorter one ends."""
    body = written(
        StatSpan(
            jobs={
                what: {pair(f"queue{n % 20}", f"task{n}"): 90 + n for n in range(50)}
                for what in ("started", "succeeded", "failed")
            },
            wait={f"task{n}": {str(bound): 9 for bound in range(3, 9)} for n in range(50)},
            queue_wait={f"queue{n}": {str(bound): 9 for bound in range(3, 9)} for n in range(20)},
            run={f"task{n}": {str(bound): 9 for bound in range(3, 9)} for n in range(50)},
            levels={f"queue{n}": QueueLevel(looks=1, ready=900, running=9) for n in range(20)},
            workers=(1, 8),
        )
    )
    younger = 0
    for step, seconds in KEPT.items():
        connection.execute(
            "insert into offpath.stat (step, at, source, body, sums) select %s, at, '', %s, %s "
            "from generate_series((extract(epoch from now())::bigint - %s) / %s * %s, "
            "(extract(epoch from now())::bigint - %s) / %s * %s - %s, %s) at",
            (step, body, sums(body), seconds, step, step, younger, step, step, step, step),
        )
        younger = seconds
