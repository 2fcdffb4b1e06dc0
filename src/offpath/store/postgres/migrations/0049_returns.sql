-- An action on all jobs that matched as it was asked for leaves alone those that ended and came back since. Of those that
-- came back before this step it is not known.

alter table offpath.job add column redriven_at timestamptz;

alter table offpath.job
    drop constraint job_readable,
    -- (The least and the greatest of several pass nulls over.)
    add constraint job_readable check (
        least(
            enqueued_at, run_at, deadline, started_at, finished_at, expires_at, unique_until, wait_since,
            wait_until, blocked_until, admitted_at, redriven_at
        ) >= '0001-01-01 00:00:00+00'
        and greatest(
            enqueued_at, run_at, deadline, started_at, finished_at, expires_at, unique_until, wait_since,
            wait_until, blocked_until, admitted_at, redriven_at
        ) < '10000-01-01 00:00:00+00'
        and greatest(octet_length(queue), octet_length(task)) <= 1000
        and jsonb_typeof(dependents) in ('array', 'object')
        and (
            num_nonnulls(unique_key, unique_states, tags, deadline_in, gated_delay) = 0
            or offpath.rarely_readable(unique_key, unique_states, tags, deadline_in, gated_delay)
        )
    ) not valid;
