-- Jobs of one unique key that come into its scope in one statement: one of them takes it.

-- Whether a job that comes into a public state may have its unique key. Volatile, so that it sees
-- what the statement that asks has written so far: else each of several jobs would be answered as if
-- it were alone, and the index would refuse them all.
create or replace function offpath.may_hold(
    job uuid, key text, scope jsonb, until timestamptz, state text, now timestamptz
) returns boolean
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
    select scope @> to_jsonb(state)
        and (until is null or until > now)
        and not exists (
            select from offpath.job o where o.unique_key = key and o.unique_held and o.id <> job
        )
$$;

-- Whether a job has its unique key when it begins to run; null: it must wait, since it would have
-- the key, and a job that has not ended has it now. (Stable, so that all parts of a lease agree. Two
-- leases that agree at the same moment meet at the index, and one of them is made again.)
create function offpath.run_key(
    key text, held boolean, scope jsonb, until timestamptz, now timestamptz
) returns boolean
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select case
        when not scope @> '"running"' then false
        when held then true
        when until <= now then false
        else case (
            select o.finished_at is null
            from offpath.job o
            where o.unique_key = key and o.unique_held
        ) when true then null when false then false else true end
    end
$$;
