-- What operators ask of workers, the last answer of each, and the fault that a job died of.

alter table offpath.worker
    -- Requests that it has not answered, the oldest first.
    add column asked jsonb,
    add column answer jsonb,
    add column answered_at timestamptz,
    add constraint worker_asked_readable check (
        (asked is null or jsonb_typeof(asked) = 'array')
        and (answer is null or jsonb_typeof(answer) = 'object')
        and (
            answered_at is null
            or answered_at >= '0001-01-01 00:00:00+00' and answered_at < '10000-01-01 00:00:00+00'
        )
    );

-- Gates that wait, which people look at: the others stay with their jobs.
create index job_gate_open on offpath.job_gate (id) where state = 'open';

-- Null for deaths that no attempt brought about, and for those from before.
alter table offpath.job add column error_key text;
