-- The same rules for jobs in a third of the text. The server reads the text of all rules of a table anew for
-- each statement that writes a row of it, which was half of its work for a lone job.
--
-- Not valid at first: whoever writes is not held up by a look at all rows, which the next step takes.

-- The rules for what few jobs have.
create function offpath.rarely_readable(
    unique_key text, unique_states jsonb, tags jsonb, deadline_in double precision,
    gated_delay double precision
) returns boolean
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    return coalesce(octet_length(unique_key) <= 4000, true)
        and coalesce(jsonb_typeof(unique_states) = 'array', true)
        and coalesce(jsonb_typeof(tags) = 'array', true)
        and coalesce(not jsonb_path_exists(tags, '$[*] ? (@.type() != "string")'), true)
        and coalesce(deadline_in between 0 and 1e11, true)
        and coalesce(gated_delay between -1e11 and 1e11, true);
end
$$;

alter table offpath.job
    drop constraint job_state,
    drop constraint job_holder,
    drop constraint job_finished,
    drop constraint job_counters,
    drop constraint job_readable,
    -- A running job has a worker, one that has ended has a time at which it did, and no other has either.
    add constraint job_state check (
        state = any (
            case
                when finished_at is null then
                    case
                        when worker is null then '{blocked,scheduled,ready}'::text[]
                        else '{running}'
                    end
                when worker is null then '{succeeded,dead,cancelled}'
                else '{}'
            end
        )
    ) not valid,
    add constraint job_counters check (
        attempt <> 0
        and '[0,4611686018427387904)'::int8range
            @> all (array[attempt, deliveries, losses, redrives])
    ) not valid,
    -- (The least and the greatest of several pass nulls over.)
    add constraint job_readable check (
        least(
            enqueued_at, run_at, deadline, started_at, finished_at, expires_at, unique_until, wait_since,
            wait_until, blocked_until, admitted_at
        ) >= '0001-01-01 00:00:00+00'
        and greatest(
            enqueued_at, run_at, deadline, started_at, finished_at, expires_at, unique_until, wait_since,
            wait_until, blocked_until, admitted_at
        ) < '10000-01-01 00:00:00+00'
        and greatest(octet_length(queue), octet_length(task)) <= 1000
        and jsonb_typeof(dependents) in ('array', 'object')
        and (
            num_nonnulls(unique_key, unique_states, tags, deadline_in, gated_delay) = 0
            or offpath.rarely_readable(unique_key, unique_states, tags, deadline_in, gated_delay)
        )
    ) not valid;
