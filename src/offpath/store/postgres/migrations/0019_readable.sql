-- Times as whole microseconds since 1970, for whatever a row holds.

-- Of a time that no worker can read (infinity, before the year 1, after 9999) it is the largest number
-- there is, or the smallest, so that one such row does not end the statement that reads it with others.
create function offpath.micros(at timestamptz) returns bigint
language sql stable parallel safe
return case
    when at is null then null
    when at >= '0001-01-01 00:00:00+00'::timestamptz and at < '10000-01-01 00:00:00+00'::timestamptz
        then (extract(epoch from at) * 1000000)::bigint
    when at >= '10000-01-01 00:00:00+00'::timestamptz then 9223372036854775807
    else -9223372036854775807
end;

-- JSON that somebody may have written by hand; null where it is none.
create function offpath.read_json(document text) returns jsonb
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    return document::jsonb;
exception when others then
    return null;
end
$$;

-- As before, and never null: what a row holds that has a key and no scope keeps no lease from going on.
create or replace function offpath.may_hold(
    job uuid, key text, scope jsonb, until timestamptz, state text, now timestamptz
) returns boolean
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
    select coalesce(scope @> to_jsonb(state), false)
        and (until is null or until > now)
        and not exists (
            select from offpath.job o where o.unique_key = key and o.unique_held and o.id <> job
        )
$$;

-- As before; a key without a scope is never had by who runs.
create or replace function offpath.run_key(
    key text, held boolean, scope jsonb, until timestamptz, now timestamptz
) returns boolean
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select case
        when scope is null or not scope @> '"running"' then false
        when held then true
        when until <= now then false
        else case (
            select o.finished_at is null
            from offpath.job o
            where o.unique_key = key and o.unique_held
        ) when true then null when false then false else true end
    end
$$;
