-- Of a failed attempt: its start, and the worker that ran it.

alter table offpath.failure
    add column started_at timestamptz,
    add column worker text,
    add constraint failure_run_readable check (
        started_at is null
        or started_at >= '0001-01-01 00:00:00+00' and started_at < '10000-01-01 00:00:00+00'
    );
